/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the server and the client of grpc.h: a session on a socket, and bodies that become messages. */
#pragma once

#include "kube/plugin/grpc.h"
#include "net/socket.h"

#include <nghttp2/nghttp2.h>
#include <stdbool.h>

/* An nghttp2 session on a socket. */
struct channel {
        struct loop *loop;
        struct loop_source source; /* its fd is owned */
        nghttp2_session *session;
        uint32_t events;
        bool is_over;                          /* set by a callback: to be closed */
        void (*over)(struct channel *channel); /* called last; may free the channel */
};

/* Takes fd and session, which was made with the channel as user data. events: EPOLLIN, and EPOLLOUT if there is
 * something to send, which the loop then does. 0; -errno: nothing was taken. */
int channel_init(struct channel *channel, struct loop *loop, int fd, nghttp2_session *session, uint32_t events);
void channel_done(struct channel *channel);

/* Sends what is pending. false: the channel is closed, perhaps freed. */
bool channel_pump(struct channel *channel);

/* The callbacks that every session needs. */
int channel_callbacks(nghttp2_session_callbacks **ret);

/* The received part of a body: a prefix of five bytes, then the message. */
struct grpc_body {
        uint8_t *data;
        size_t size, room;
};

enum {
        GRPC_PREFIX = 5,
};

void grpc_body_done(struct grpc_body *body);
int grpc_body_add(struct grpc_body *body, const uint8_t *data, size_t size); /* 0; -EMSGSIZE; -ENOMEM */

/* The one message in a complete body, borrowed from it. GRPC_OK; else the status to answer with. */
enum grpc_status grpc_body_message(const struct grpc_body *body, struct grpc_message *ret);

/* Prefix and message. 0; -EMSGSIZE; -ENOMEM. */
int grpc_body_frame(const struct grpc_message *message, struct grpc_body *ret);

/* Percent-encodes a text for a header; cut off where `to` is full. */
void grpc_text_quote(const char *text, char *to, size_t room);

enum grpc_status grpc_status_of(int code); /* of a negative errno */

#define GRPC_HEADER(key, text)                                                                                         \
        {                                                                                                              \
                (uint8_t *)(uintptr_t)(key), (uint8_t *)(uintptr_t)(text), strlen(key), strlen(text),                  \
                        NGHTTP2_NV_FLAG_NONE                                                                           \
        }

/* ---- a server: its connections and calls, which grpc_server.c and grpc_calls.c share ---- */

enum {
        HEADER_MAX = 128,
};

struct call {
        struct call *next;
        struct connection *connection;
        const struct grpc_method *method;
        int32_t stream;
        char path[HEADER_MAX];
        bool is_post, is_grpc;
        bool is_stream; /* being answered with message after message */
        bool is_stale;  /* there is a newer message than the one in `out` */
        int refused;    /* -errno: the rest of its body is dropped; 0 */
        struct grpc_body in, out;
        size_t n_out; /* sent of `out` */
};

struct connection {
        struct channel channel; /* first: nghttp2's user data is the channel */
        struct connection *next;
        struct grpc_server *server;
        struct call *calls;
        size_t n_calls, n_bodies; /* bytes */
};

struct grpc_server {
        struct loop *loop;
        struct loop_source listener;
        char path[SOCKET_PATH];
        const struct grpc_method *methods;
        size_t n_methods;
        void *context;
        struct connection *connections;
        size_t n_connections;
};

/* The body is complete: answers, as the peer's windows allow. 0; an error of nghttp2. */
int call_answer(struct call *call);
