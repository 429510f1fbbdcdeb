/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies, texts and status codes of gRPC. Pure. */
#include "kube/plugin/grpc_inside.h"

#include <errno.h>
#include <protobuf-c/protobuf-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        ROOM_FIRST = 256,
};

void grpc_message_done(struct grpc_message *message)
{
        free(message->data);
        *message = (struct grpc_message){ 0 };
}

int grpc_message_pack(const struct ProtobufCMessage *message, struct grpc_message *ret)
{
        struct grpc_message packed = { .size = protobuf_c_message_get_packed_size(message) };

        packed.data = malloc(packed.size ? packed.size : 1);
        if (!packed.data)
                return -ENOMEM;
        (void)protobuf_c_message_pack(message, packed.data);
        *ret = packed;
        return 0;
}

void grpc_body_done(struct grpc_body *body)
{
        free(body->data);
        *body = (struct grpc_body){ 0 };
}

int grpc_body_add(struct grpc_body *body, const uint8_t *data, size_t size)
{
        size_t room = body->room ? body->room : ROOM_FIRST;
        uint8_t *grown;

        if (size == 0)
                return 0;
        if (size > GRPC_MESSAGE_MAX + GRPC_PREFIX - body->size)
                return -EMSGSIZE;
        while (room < body->size + size)
                room *= 2;
        if (room != body->room) {
                grown = realloc(body->data, room);
                if (!grown)
                        return -ENOMEM;
                body->data = grown;
                body->room = room;
        }
        memcpy(body->data + body->size, data, size);
        body->size += size;
        return 0;
}

enum grpc_status grpc_body_message(const struct grpc_body *body, struct grpc_message *ret)
{
        size_t size;

        if (body->size < GRPC_PREFIX)
                return GRPC_INTERNAL;
        if (body->data[0] != 0) /* compressed, which was never negotiated */
                return GRPC_UNIMPLEMENTED;
        size = (size_t)body->data[1] << 24 | (size_t)body->data[2] << 16 | (size_t)body->data[3] << 8 | body->data[4];
        if (size != body->size - GRPC_PREFIX)
                return GRPC_INTERNAL;
        *ret = (struct grpc_message){ body->data + GRPC_PREFIX, size };
        return GRPC_OK;
}

int grpc_body_frame(const struct grpc_message *message, struct grpc_body *ret)
{
        struct grpc_body body = { .size = message->size + GRPC_PREFIX, .room = message->size + GRPC_PREFIX };

        if (message->size > GRPC_MESSAGE_MAX)
                return -EMSGSIZE;
        body.data = malloc(body.room);
        if (!body.data)
                return -ENOMEM;
        body.data[0] = 0;
        for (unsigned int i = 0; i < 4; i++)
                body.data[1 + i] = (uint8_t)(message->size >> (24 - 8 * i));
        if (message->size)
                memcpy(body.data + GRPC_PREFIX, message->data, message->size);
        *ret = body;
        return 0;
}

void grpc_text_quote(const char *text, char *to, size_t room)
{
        size_t n = 0;

        for (; *text && n + 4 <= room; text++) {
                bool is_plain = *text >= ' ' && *text <= '~' && *text != '%';

                n += (size_t)snprintf(to + n, room - n, is_plain ? "%c" : "%%%02X", (unsigned char)*text);
        }
        to[n] = '\0';
}

enum grpc_status grpc_status_of(int code)
{
        switch (code) {
        case -EINVAL:
                return GRPC_INVALID_ARGUMENT;
        case -ENOENT:
                return GRPC_NOT_FOUND;
        case -EBUSY:
                return GRPC_FAILED_PRECONDITION;
        case -ENOMEM:
        case -EMSGSIZE:
                return GRPC_RESOURCE_EXHAUSTED;
        case -EAGAIN:
                return GRPC_UNAVAILABLE;
        default:
                return GRPC_INTERNAL;
        }
}
