/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP over libcurl, on TCP, TLS and Unix sockets: one call that is waited for (http_call), or many at once in one
 * thread (http_pool).
 *
 * Proxies and environment are never used, only http and https are spoken, and redirections are not followed.
 *
 * Threads: a client and a pool belong to one.
 */
#pragma once

#include "base/buffer.h"
#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct http_client;
struct http_pool;
struct http_pool_call;

enum {
        HTTP_URL = 1024,
        HTTP_MOST = 16 << 20,
};

struct http_answer {
        int code; /* 0: HTTP answered; or a negative errno, and `why`. -ECONNREFUSED, -EACCES (Unix socket), -ETIMEDOUT;
                             * -ECONNRESET: the server left; -EMSGSIZE; what `take` returned; -EIO */
        long status;        /* of HTTP; 0: none came */
        struct buffer body; /* without what `take` was given; see http_text */
        const char *why;    /* static; what libcurl says of it */
        bool is_stopped;    /* code is what `take` returned, or the body's bound */
        bool is_anew;       /* a new connection was made: another server may have answered than before */
        nsec retry_after;   /* 0: the server did not say */
        nsec began;
};

struct http_request {
        const char *method;            /* NULL: GET */
        const char *base, *path;       /* base: "HOST:PORT", "unix:/PATH", "http://...", "https://..." */
        const char *body, *type;       /* type NULL: application/json; body NULL: none */
        const char *accept;            /* NULL: anything */
        const char *token, *ca;        /* a bearer token; the file of authorities, NULL: the system's */
        const char *certificate, *key; /* files of the caller's own certificate and its key; NULL: it has none */
        const char *at;      /* where to connect instead of the base's host: "HOST:PORT", "unix:/PATH"; NULL: there */
        bool trusts_all;     /* any certificate will do */
        nsec limit, connect; /* of all of it, and of connecting; 0: none */
        nsec silence;        /* it fails after so long without a byte, in whole seconds; 0: never */
        size_t most;         /* bytes of the answer, or of one of its lines; 0: HTTP_MOST */
        const atomic_bool *cuts[2]; /* the call ends within a second once one is true; NULL: never */

        /* The body of a 200 as it arrives, instead of in the answer; what is not 0 ends the call. is_lines: whole
         * lines, without their end and without empty ones; else pieces that break anywhere. */
        int (*take)(void *context, char *data, size_t size);
        bool is_lines;

        void (*done)(void *context, const struct http_answer *answer); /* of http_pool_start */
        void *context;
};

/* The answer's body; never NULL. */
static inline const char *http_text(const struct http_answer *answer)
{
        return answer->body.text ? answer->body.text : "";
}

/* The server answered, with a success. */
static inline bool http_is_good(const struct http_answer *answer)
{
        return answer->code == 0 && answer->status >= 200 && answer->status < 300;
}

int http_client_new(struct http_client **ret); /* nothing is connected yet. 0; -ENOMEM */
struct http_client *http_client_free(struct http_client *client);

/* Returns answer.code; the answer's body is the caller's in any case (buffer_done). */
int http_call(struct http_client *client, const struct http_request *request, struct http_answer *ret);

int http_pool_new(struct http_pool **ret);
struct http_pool *http_pool_free(struct http_pool *pool); /* cancels all calls; NULL is fine */

/* `done` is called once, from http_pool_wait, and the call is gone then; the answer's body ends with it. From `done`
 * and `take` any call may be started or cancelled but the one they are of. The request is copied. *ret may be NULL. 0;
 * -ENOMEM; -ENAMETOOLONG. */
int http_pool_start(struct http_pool *pool, const struct http_request *request, struct http_pool_call **ret);
void http_pool_cancel(struct http_pool *pool, struct http_pool_call *call); /* without `done`; NULL is fine */

/* Waits for answers, for fd to be readable, or until `until` (clock_now); calls `done` of ended calls. 0; -EIO. */
int http_pool_wait(struct http_pool *pool, int fd, nsec until);
