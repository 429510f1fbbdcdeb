/* Shared by the server and the client of grpc.h: a session on a socket, and bodies that become messages. */
#pragma once

#include "kube/plugin/grpc.h"

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

/* Takes fd and session, which was made with the channel as user data. events: EPOLLIN, and EPOLLOUT if there is something to
 * send, which the loop then does. 0; -errno: nothing was taken. */
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
