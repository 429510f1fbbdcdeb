/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/messages.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/rights.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static_assert((int)MESSAGE_FDS == (int)RIGHTS_MAX, "all descriptors of a message are received");

json_t *message_new(const char *type)
{
        return json_pack("{s:i, s:s}", "v", MESSAGE_VERSION, "type", type);
}

int message_send(int socket, json_t *body, const int *fds, size_t n_fds)
{
        _cleanup_(freep) char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        struct iovec data = { text, text ? strlen(text) : 0 };
        ssize_t n;

        json_decref(body);
        if (!text)
                return -ENOMEM;
        if (data.iov_len > MESSAGE_MAX || n_fds > MESSAGE_FDS)
                return -EMSGSIZE;
        n = rights_send(socket, &data, 1, fds, n_fds, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
                return MESSAGE_OK;
        if (n == -EAGAIN)
                return MESSAGE_E_NONE;
        return n == -EPIPE || n == -ECONNRESET || n == -ENOTCONN ? MESSAGE_E_CLOSED : (int)n;
}

int message_parse(const char *text, size_t size, json_t **ret)
{
        json_t *body = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);

        if (!json_is_object(body) || json_integer_value(json_object_get(body, "v")) < MESSAGE_VERSION ||
            !json_is_string(json_object_get(body, "type"))) {
                json_decref(body);
                return -EPROTO;
        }
        *ret = body;
        return 0;
}

static int receive_packet(int socket, char *text, struct message *message, size_t *ret_size)
{
        struct rights rights;
        ssize_t n = rights_receive(socket, &(struct iovec){ text, MESSAGE_MAX }, 1, MESSAGE_FDS, 0, message->sender,
                                   &rights);

        if (n == -EAGAIN)
                return MESSAGE_E_NONE;
        if (n < 0)
                return n == -ECONNRESET ? MESSAGE_E_CLOSED : (int)n;
        memcpy(message->fds, rights.fds, sizeof(message->fds)); /* also of an empty packet, which looks like the end */
        message->n_fds = rights.n;
        if (n == 0)
                return MESSAGE_E_CLOSED;
        *ret_size = (size_t)n;
        return rights.flags & (MSG_TRUNC | MSG_CTRUNC) ? -EPROTO : MESSAGE_OK;
}

int message_receive(int socket, struct message *ret)
{
        return message_receive_from(socket, DESCRIPTORS_OURS, ret);
}

int message_receive_from(int socket, uint64_t sender, struct message *ret)
{
        struct message message = { .fds = { -1, -1, -1, -1 }, .sender = sender };
        _cleanup_(freep) char *text = malloc(MESSAGE_MAX);
        size_t size = 0;
        int r;

        if (!text)
                return -ENOMEM;
        r = receive_packet(socket, text, &message, &size);
        if (r == MESSAGE_OK)
                r = message_parse(text, size, &message.body);
        if (r != MESSAGE_OK) {
                message_done(&message);
                return r;
        }
        *ret = message;
        return MESSAGE_OK;
}

void message_done(struct message *message)
{
        for (size_t i = 0; i < message->n_fds; i++)
                descriptors_drop(message->fds[i], message->sender);
        json_decref(message->body);
        *message = (struct message){ .fds = { -1, -1, -1, -1 } };
}

const char *message_type(const struct message *message)
{
        return message_text(message->body, "type", "");
}

int message_fd(const struct message *message, size_t i)
{
        return i < message->n_fds ? message->fds[i] : -1;
}

bool message_keep_fds(struct message *message, size_t n)
{
        bool has_more = message->n_fds > n;

        for (size_t i = n; i < message->n_fds; i++)
                descriptors_drop(TAKE_FD(message->fds[i]), message->sender);
        if (has_more)
                message->n_fds = n;
        return has_more;
}

bool message_has_fd(const struct message *message)
{
        for (size_t i = 0; i < message->n_fds; i++)
                if (message->fds[i] >= 0)
                        return true;
        return false;
}

int message_take_fd(struct message *message, size_t i)
{
        return i < message->n_fds ? TAKE_FD(message->fds[i]) : -1;
}

const char *message_text(const json_t *body, const char *name, const char *otherwise)
{
        const char *text = json_string_value(json_object_get(body, name));

        return text ? text : otherwise;
}

int64_t message_number(const json_t *body, const char *name, int64_t otherwise)
{
        const json_t *number = json_object_get(body, name);

        return json_is_integer(number) ? json_integer_value(number) : otherwise;
}

bool message_flag(const json_t *body, const char *name, bool otherwise)
{
        const json_t *flag = json_object_get(body, name);

        return json_is_boolean(flag) ? json_is_true(flag) : otherwise;
}
