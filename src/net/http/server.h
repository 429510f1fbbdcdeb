/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP server of libmicrohttpd over a listening socket: its limits, and calls whose body has a bound and is complete
 * before they are answered.
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

#include <microhttpd.h>

struct http_server_call {
        struct MHD_Connection *connection;
        struct buffer body;
        unsigned int refused; /* 413: the body is too large; 503: no memory, or what `reserve` says; 0: it is whole */
};

struct http_server {
        unsigned int flags;                      /* MHD_USE_... */
        unsigned int connections, idle_sec;      /* the most at once; a connection that rests longer is closed */
        unsigned int connections_each;           /* of one address; 0: any */
        size_t body_most;                        /* bytes */
        size_t call_size;                        /* of the caller's call, which begins with a struct http_server_call */
        MHD_NotifyConnectionCallback connection; /* NULL: nobody wants to know */
        void *context;

        /* A call has begun, zeroed; NULL: nothing to do. `end` may be the next. */
        void (*begin)(void *context, struct http_server_call *call);
        /* The body is about to take `more` bytes more. 0; or the status that the call is refused with. NULL: always
         * 0. */
        unsigned int (*reserve)(void *context, struct http_server_call *call, size_t more);
        /* The body is complete or was refused; called again after a suspension. HEAD comes as GET. */
        enum MHD_Result (*answer)(void *context, struct http_server_call *call, const char *method, const char *path);
        void (*end)(void *context, struct http_server_call *call); /* frees what is the caller's own */
};

/* Takes the socket over, also on failure: NULL. The server is the caller's and must not change before MHD_stop_daemon.
 * more: further options, ended by MHD_OPTION_END. */
struct MHD_Daemon *http_server_start(const struct http_server *server, int fd, const struct MHD_OptionItem *more);

/* A response that no cache keeps; takes the body, from malloc, also on failure: NULL. */
struct MHD_Response *http_response(char *body, size_t size);

/* type: NULL is application/json. Takes the response; NULL of it fails. */
enum MHD_Result http_response_send(struct MHD_Connection *connection, struct MHD_Response *response,
                                   unsigned int status, const char *type);
