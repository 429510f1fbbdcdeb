/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the API server: bearer token, CA, JSON, and streams of lines.
 *
 * Threads: an api belongs to one; settings may be shared. Nothing connects before the first call.
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
        const char *token_file; /* NULL: none. Read again every minute and after a 401, for tokens are rotated */
        const char *ca_file;    /* NULL: the system's */
        /* A call is aborted within a second once one of these is true; NULL: never. */
        const atomic_bool *is_ending, *is_cut;
};

enum {
        API_SECONDS = 4,       /* of a call, waits included: below the margin of an election (elect.h) */
        API_LIST_SECONDS = 60, /* of a page of a list: the server's own limit */
        API_LIST_SILENCE = 15, /* and of that without a byte */
        API_ANSWER = 64 << 20,
        API_LINE = 16 << 20,
};

enum {
        API_URL = 128,
};

/* Completes `settings` from the environment of a pod. `url` must live as long as they do. 0; -EINVAL with err: no
 * server given, and not in a pod. */
int api_find(struct api_settings *settings, char url[static API_URL], struct err *err);

int api_new(const struct api_settings *settings, struct api **ret);
struct api *api_free(struct api *api);
void api_freep(struct api **api);

/* The calls that follow get pages of lists, of at most so many bytes; a larger one is -EMSGSIZE. A page of large
 * objects takes a busy server longer than a call may take whose answer somebody waits for. */
void api_lists(struct api *api, size_t most);

/*
 * One call. type: of the body; NULL: application/json. A 429 is retried when the server says so, a 401 once with the
 * token read again. *ret_status: HTTP's; *ret: the answer, the caller's; NULL if it is not JSON.
 *
 * 0: answered, whatever the status; -ETIMEDOUT, -ECONNREFUSED, -EIO: no answer, and whether the call was carried out is
 * not known.
 */
int api_call(struct api *api, const char *method, const char *path, const char *type, const json_t *body,
             long *ret_status, json_t **ret, struct err *err);

/* Hands each line of the answer to `take`, for at most `limit`, until it returns other than 0. Status as above. 0: the
 * stream ended. */
int api_stream(struct api *api, const char *path, nsec limit, int (*take)(void *context, char *line, size_t size),
               void *context, long *ret_status, struct err *err);
