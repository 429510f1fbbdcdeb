/*
 * gRPC without gRPC: as much of it as kubelet and a device plugin speak. HTTP/2 is nghttp2's; unary calls and server streams over
 * unix sockets, nothing compressed.
 *
 *  G1  nothing blocks: what a peer does not read waits, and no more of it than one message per call;
 *  G2  every call is answered: an unknown method, a body that is no message, one that is too large have their own status;
 *  G3  a peer can take GRPC_CONNECTIONS connections, GRPC_CALLS calls on each and GRPC_BODIES_MAX bytes there, and no more;
 *  G4  a stream's message is made when it can be sent: a reader that is slow gets the latest one, not all.
 *
 * Before 1.26 kubelet's :authority is the path of the socket, which HTTP does not allow: the checks of nghttp2 are off
 * (nghttp2_option_set_no_http_messaging), and what matters is looked at here.
 *
 * Threads: one, that of the loop.
 */
#pragma once

#include "base/loop.h"

#include <stddef.h>
#include <stdint.h>

struct err;

enum {
        GRPC_MESSAGE_MAX = 4 << 20, /* what Go's gRPC takes, so kubelet too */
        GRPC_BODIES_MAX = 8 << 20,
        GRPC_CONNECTIONS = 32,
        GRPC_CALLS = 128,
        GRPC_SECONDS = 10, /* of a question of ours */
};

enum grpc_status {
        GRPC_OK = 0,
        GRPC_UNKNOWN = 2,
        GRPC_INVALID_ARGUMENT = 3,
        GRPC_DEADLINE_EXCEEDED = 4,
        GRPC_NOT_FOUND = 5,
        GRPC_RESOURCE_EXHAUSTED = 8,
        GRPC_FAILED_PRECONDITION = 9,
        GRPC_UNIMPLEMENTED = 12,
        GRPC_INTERNAL = 13,
        GRPC_UNAVAILABLE = 14,
};

/* A message without its prefix. Owned by who has it; grpc_message_done. */
struct grpc_message {
        uint8_t *data;
        size_t size;
};

void grpc_message_done(struct grpc_message *message);

struct grpc_method {
        const char *path; /* "/v1beta1.DevicePlugin/Allocate" */
        bool is_stream;   /* asked again for each message */
        /* 0 and *ret; -errno, and err says why: it becomes grpc-status and grpc-message. */
        int (*call)(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err);
};

struct grpc_server;

/* Listens at `path` (mode 0600); what lies there is removed. methods and context: borrowed. 0; -errno with err. */
int grpc_server_new(struct loop *loop, const char *path, const struct grpc_method *methods, size_t n_methods,
                    void *context, struct grpc_server **ret, struct err *err);
struct grpc_server *grpc_server_free(struct grpc_server *server); /* ends its calls, and removes its socket */

/* Every open stream gets a new message. */
void grpc_server_push(struct grpc_server *server);
size_t grpc_server_streams(const struct grpc_server *server);

struct grpc_ask;

/*
 * One unary question to whoever listens at `socket`. done comes once, from the loop, with a grpc_status and what was said; the ask may be freed
 * there, and the text with it. The answer itself is not kept. 0; -errno with err: nobody listens, and done does not come.
 */
int grpc_ask_new(struct loop *loop, const char *socket, const char *path, const struct grpc_message *request,
                 void (*done)(void *context, int status, const char *text), void *context, struct grpc_ask **ret,
                 struct err *err);
struct grpc_ask *grpc_ask_free(struct grpc_ask *ask);
