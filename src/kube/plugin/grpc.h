/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of gRPC that kubelet and a device plugin use: unary calls and server streams over unix sockets,
 * uncompressed. nghttp2 does HTTP/2.
 *
 *  G1  Nothing blocks: what a peer does not read is kept, at most one message per call.
 *  G2  Every call is answered: an unknown method, a malformed body and one that is too large have their own status.
 *  G3  A peer gets at most GRPC_CONNECTIONS connections, GRPC_CALLS calls on each and GRPC_BODIES_MAX bytes there.
 *  G4  A stream's message is made when it can be sent: a slow reader gets the latest one, not all.
 *
 * Before 1.26 kubelet's :authority is the path of the socket, which HTTP does not allow. So the checks of nghttp2 are
 * off (nghttp2_option_set_no_http_messaging), and the necessary ones are made here.
 *
 * Threads: one, that of the loop.
 */
#pragma once

#include "base/loop.h"

#include <stddef.h>
#include <stdint.h>

struct err;

enum {
        GRPC_MESSAGE_MAX = 4 << 20, /* the limit of Go's gRPC, hence kubelet's */
        GRPC_BODIES_MAX = 8 << 20,
        GRPC_CONNECTIONS = 32,
        GRPC_CALLS = 128,
        GRPC_SECONDS = 10, /* of a call of ours */
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

/* A message without its prefix; freed by grpc_message_done. */
struct grpc_message {
        uint8_t *data;
        size_t size;
};

void grpc_message_done(struct grpc_message *message);

/* A message of protobuf-c, encoded. 0; -ENOMEM. */
struct ProtobufCMessage;
int grpc_message_pack(const struct ProtobufCMessage *message, struct grpc_message *ret);

struct grpc_method {
        const char *path; /* "/v1beta1.DevicePlugin/Allocate" */
        bool is_stream;   /* called again for each message */
        /* 0 and *ret; -errno with err, which become grpc-status and grpc-message. */
        int (*call)(void *context, const struct grpc_message *request, struct grpc_message *ret, struct err *err);
};

struct grpc_server;

/* Listens at `path` (mode 0600), replacing any file. methods and context are borrowed. 0; -errno with err. */
int grpc_server_new(struct loop *loop, const char *path, const struct grpc_method *methods, size_t n_methods,
                    void *context, struct grpc_server **ret, struct err *err);
struct grpc_server *grpc_server_free(struct grpc_server *server); /* ends its calls and removes its socket */

/* Every open stream gets a new message. */
void grpc_server_push(struct grpc_server *server);
size_t grpc_server_streams(const struct grpc_server *server);

struct grpc_call;

/*
 * A unary call to the server at `socket`. `done` is called once, from the loop, with a grpc_status and grpc-message; it
 * may free the call, and the text with it. The reply is discarded. 0; -errno with err: no server, and `done` is not
 * called.
 */
int grpc_call_new(struct loop *loop, const char *socket, const char *path, const struct grpc_message *request,
                  void (*done)(void *context, int status, const char *text), void *context, struct grpc_call **ret,
                  struct err *err);
struct grpc_call *grpc_call_free(struct grpc_call *call);
