/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP server of extender and webhook, with a thread per connection, because an answer may wait for the API server.
 * server_refresh loads a changed certificate; connections under way keep the old one. Callers may have to show one,
 * too.
 *
 * Threads: the handler is called on many at once.
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct server;

enum {
        SERVER_BODY = 64 << 20, /* a filter call with 5,000 whole nodes has some 30 MB */
        SERVER_CONNECTIONS = 256,
        SERVER_CONNECTIONS_EACH =
                128, /* of one address, so that nobody alone crowds out the API server or the scheduler */
        SERVER_HEAD_SEC = 10,
        SERVER_BODY_SEC = 30,
        SERVER_REST_SEC = 120,
        SERVER_ANSWER_SEC = 60, /* for the client to take it */
};

#define SERVER_LIFE                                                                                                    \
        (30 * 86400 * NSEC_PER_SEC) /* of a certificate that it makes, unless said; renewed after two thirds */

/* The body of 403. */
#define SERVER_UNKNOWN_CALLER                                                                                          \
        "{\"error\":\"show the certificate that callers have (docs/kubernetes.md, Certificates)\"}\n"

struct server_call {
        const char *method, *path; /* without the query; borrowed */
        const char *body;          /* ends with a NUL that is not counted */
        size_t size;
        bool is_known; /* the caller showed a certificate of `callers_file`, or none is wanted */
};

struct server_answer {
        unsigned int status; /* 0 is 200 */
        const char *type;    /* static; NULL is application/json */
        char *body;          /* from malloc; the server frees it */
        size_t size;
};

struct server_settings {
        const char *listen;               /* "127.0.0.1:12345", "[::]:443", ":443"; port 0: any. Or "unix:/path" */
        const char *cert_file, *key_file; /* PEM; NULL both: no TLS */
        const char *host;                 /* then they are an authority, which makes certificates for it; or NULL */
        nsec life;                        /* of such a certificate */
        const char *callers_file; /* PEM: authorities of the callers' certificates; without one of them a call other
                                   * than GET is refused before its body is read, and GET is not is_known. NULL: who
                                   * calls is not asked */
        const char *caller;       /* the common name that such a certificate must have; NULL: any */
        size_t bodies; /* limit of all calls together, as text and as values, which net/http/guard.h divides */
        void (*handle)(void *context, const struct server_call *call, struct server_answer *answer);
        void *context;
};

/* 0; -errno with err. *ret_port: where it listens (0 for a unix socket). */
int server_new(const struct server_settings *settings, struct server **ret, unsigned int *ret_port, struct err *err);
struct server *server_free(struct server *server); /* waits for calls under way */

/* Loads the certificate again if its files have changed, or makes the next one. 1: loaded; 0: unchanged; -errno: the
 * old one stays. For each period of server_wait: what the last one replaced ends then. */
int server_refresh(struct server *server, struct err *err);

/* Until SIGINT or SIGTERM, which server_block_signals must have blocked before any thread started; calls `each` every
 * `period`. */
void server_block_signals(void);
void server_wait(void (*each)(void *context), void *context, nsec period);

/* Sets the answer. text: copied; a failure to copy is a 500. */
void server_say(struct server_answer *answer, unsigned int status, const char *type, const char *text);
