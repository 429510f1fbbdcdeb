/*
 * Many HTTP questions at once, in one thread: to replicas, the module, daemons, the Kubernetes API.
 *
 * A call is ours until it is done; `done` is told once, and the call is gone then. From `done` and `line` anything
 * may be started or cancelled, but not the call that is being told of.
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>

struct fetch;
struct fetch_call;

enum {
        FETCH_URL = 1024,
        FETCH_MAX = 16 << 20, /* of an answer, or of a line */
};

struct fetch_answer {
        int code;         /* 0; -ECONNREFUSED: nobody is there; -ETIMEDOUT; -EIO */
        long status;      /* of HTTP; 0: none came */
        const char *text; /* ends with NUL; of a stream of lines only if it is no success */
        size_t size;
        nsec began;
};

struct fetch_ask {
        const char *method, *base, *path; /* base: "HOST:PORT", "unix:/PATH", "http://...", "https://..." */
        const char *body;                 /* JSON; NULL: none */
        const char *token, *ca;           /* bearer token; file of authorities. NULL: none */
        nsec limit;                       /* 0: none */
        void (*line)(void *context, char *text, size_t size); /* a success comes line by line; NULL: whole, in `done` */
        void (*done)(void *context, const struct fetch_answer *answer);
        void *context;
};

int fetch_new(struct fetch **ret);
struct fetch *fetch_free(struct fetch *fetch); /* cancels all; NULL is fine */

/* Everything is copied but context. *ret_call may be NULL. 0; -ENOMEM; -EINVAL. */
int fetch_start(struct fetch *fetch, const struct fetch_ask *ask, struct fetch_call **ret_call);
void fetch_cancel(struct fetch *fetch, struct fetch_call *call); /* `done` is not told; NULL is fine */

/* Waits for answers, for fd to be readable, or until `until` (clock_now); then tells what is done. 0; -errno. */
int fetch_wait(struct fetch *fetch, int fd, nsec until);
