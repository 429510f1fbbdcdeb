/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP server of libmicrohttpd over a listening socket: its limits and its guard, and calls whose body has a bound
 * and is complete before they are answered.
 *
 *      struct own_call { struct http_server_call http; ... };
 *      const struct http_server server = { .call_size = sizeof(struct own_call), .answer = on_call, ... };
 *      struct MHD_Daemon *daemon = http_server_start(&server, fd, NULL);
 *      ...
 *      return http_response_send(call->connection, http_response(body, size), 200, NULL);
 *
 * Threads: `flags` decide on which threads the functions are called.
 */
#pragma once

#include "base/buffer.h"
#include "net/http/guard.h"

#include <microhttpd.h>

struct http_server_call {
        struct MHD_Connection *connection;
        struct buffer body;
        size_t reserved;      /* bytes that the guard counts for it */
        unsigned int refused; /* 413: the body is too large; 429, 503: see http_guard_reserve, or no memory; 0: it is
                               * whole */
        bool takes_its_time;  /* `answer` says so: the call was suspended, or its answer has no end */
};

struct http_server {
        unsigned int flags;                 /* MHD_USE_... */
        unsigned int connections, idle_sec; /* the most at once; a connection that rests longer is closed */
        struct http_guard *guard;           /* the caller's; of this socket, and of no other */
        size_t body_most;                   /* bytes */
        size_t call_size;                   /* of the caller's call, which begins with a struct http_server_call */
        void *context;

        /* Whether a user at a Unix socket may have as many connections as it likes. NULL: nobody. */
        bool (*uid_is_trusted)(void *context, uid_t uid);

        /* A call has begun, zeroed; NULL: nothing to do. `end` may be the next. */
        void (*begin)(void *context, struct http_server_call *call);
        /* The body is complete or was refused; called again after a suspension. HEAD comes as GET. */
        enum MHD_Result (*answer)(void *context, struct http_server_call *call, const char *method, const char *path);
        void (*end)(void *context, struct http_server_call *call); /* frees what is the caller's own */
};

/* Takes the socket over, also on failure: NULL. The server is the caller's and must not change before MHD_stop_daemon.
 * more: further options, ended by MHD_OPTION_END. */
struct MHD_Daemon *http_server_start(const struct http_server *server, int fd, const struct MHD_OptionItem *more);

/* Counts what a call will take beyond its body, until it ends. As http_guard_reserve. */
unsigned int http_server_reserve(struct http_server_call *call, size_t more);

/* A response that no cache keeps; takes the body, from malloc, also on failure: NULL. */
struct MHD_Response *http_response(char *body, size_t size);

/* type: NULL is application/json. 429 and 503 say when to try again. Takes the response; NULL of it fails. */
enum MHD_Result http_response_send(struct MHD_Connection *connection, struct MHD_Response *response,
                                   unsigned int status, const char *type);
