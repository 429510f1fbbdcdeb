/*
 * A client of the API server: a token that is read anew, a CA, JSON, and streams of lines.
 *
 * Threads: an api belongs to one; the settings may be shared. Nothing is asked before the first call.
 */
#pragma once

#include "base/clock.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct api;
struct err;

#define API_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

struct api_settings {
        const char *server;     /* "https://10.96.0.1:443"; borrowed, as all of this is */
        const char *token_file; /* NULL: none. Read anew every minute, and after a 401: tokens are rotated */
        const char *ca_file;    /* NULL: the system's */
        /* What is under way is given up within a second once one of these is true; NULL: never. */
        const atomic_bool *is_ending, *is_cut;
};

enum {
        API_SECONDS = 4, /* of a call, waits included: less than an election's margin (elect.h) */
        API_ANSWER = 64 << 20,
        API_LINE = 16 << 20,
};

enum {
        API_URL = 128,
};

/* Inside a pod the API server and the account are where they always are: fills in what of `settings` is not said; `url` must live as
 * long as they do. 0; -EINVAL with err: outside of a pod, and nothing was said. */
int api_find(struct api_settings *settings, char url[static API_URL], struct err *err);

int api_new(const struct api_settings *settings, struct api **ret);
struct api *api_free(struct api *api);
void api_freep(struct api **api);

void api_bound(struct api *api, size_t most); /* of an answer; API_ANSWER at first. What is larger: -EMSGSIZE */

/*
 * One call. type: of the body; NULL is application/json. A 429 is repeated when the server says, a 401 once with the
 * token of now. *ret_status: HTTP's; *ret: what was answered, NULL if that is not JSON; the caller's.
 *
 * 0: there is an answer, whatever its status; or what went wrong with nothing answered (-ETIMEDOUT, -ECONNREFUSED, -EIO):
 * whether the call was carried out is then not known.
 */
int api_call(struct api *api, const char *method, const char *path, const char *type, const json_t *body,
             long *ret_status, json_t **ret, struct err *err);

/* The lines of an answer as they come, for at most `limit`; `take` returns 0, or what ends it. status as above; 0 at
 * the stream's end. */
int api_stream(struct api *api, const char *path, nsec limit, int (*take)(void *context, char *line, size_t size),
               void *context, long *ret_status, struct err *err);
