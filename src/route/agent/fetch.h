/*
 * Many HTTP calls at once, in one thread: to replicas, the module, daemons, the Kubernetes API.
 *
 * `done` is called once, and the call is freed after it. `done` and `line` may start and cancel any calls but the
 * one they are called for.
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
        int code;         /* 0; -ECONNREFUSED; -ETIMEDOUT; -EIO */
        long status;      /* of HTTP; 0: none */
        const char *text; /* ends with NUL; for a stream of lines only of an error */
        size_t size;
        nsec began;
};

struct fetch_ask {
        const char *method, *base, *path; /* base: "HOST:PORT", "unix:/PATH", "http://...", "https://..." */
        const char *body;                 /* JSON; NULL: none */
        const char *token, *ca;           /* bearer token; file of authorities. NULL: none */
        nsec limit;                       /* 0: none */
        void (*line)(void *context, char *text, size_t size); /* called per line of a success; NULL: all in `done` */
        void (*done)(void *context, const struct fetch_answer *answer);
        void *context;
};

int fetch_new(struct fetch **ret);
struct fetch *fetch_free(struct fetch *fetch); /* cancels all; NULL is fine */

/* Everything but context is copied. ret_call may be NULL. 0; -ENOMEM; -EINVAL. */
int fetch_start(struct fetch *fetch, const struct fetch_ask *ask, struct fetch_call **ret_call);
void fetch_cancel(struct fetch *fetch, struct fetch_call *call); /* `done` is not called; NULL is fine */

/* Waits for answers, for fd to be readable, or until `until` (clock_now); then calls `done`. 0; -errno. */
int fetch_wait(struct fetch *fetch, int fd, nsec until);
