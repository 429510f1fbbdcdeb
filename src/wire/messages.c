/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/messages.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

json_t *message_new(const char *type)
{
        return json_pack("{s:i, s:s}", "v", MESSAGE_VERSION, "type", type);
}

int message_send(int socket, json_t *body, const int *fds, size_t n_fds)
{
        _cleanup_(freep) char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int) * MESSAGE_FDS)];
        } control = { 0 };
        struct iovec data = { text, text ? strlen(text) : 0 };
        struct msghdr packet = { .msg_iov = &data, .msg_iovlen = 1 };
        ssize_t n;

        json_decref(body);
        if (!text)
                return -ENOMEM;
        if (data.iov_len > MESSAGE_MAX || n_fds > MESSAGE_FDS)
                return -EMSGSIZE;
        if (n_fds) {
                packet.msg_control = &control;
                packet.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
                control.header.cmsg_level = SOL_SOCKET;
                control.header.cmsg_type = SCM_RIGHTS;
                control.header.cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
                memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * n_fds);
        }
        do
                n = sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n >= 0)
                return MESSAGE_OK;
        if (errno == EAGAIN)
                return MESSAGE_E_NONE;
        return errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN ? MESSAGE_E_CLOSED : -errno;
}

/* The kernel has closed descriptors beyond MESSAGE_FDS. */
static void take_fds(struct msghdr *packet, struct message *ret)
{
        for (struct cmsghdr *header = CMSG_FIRSTHDR(packet); header; header = CMSG_NXTHDR(packet, header)) {
                size_t n;

                if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
                        continue;
                n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < n && ret->n_fds < MESSAGE_FDS; i++)
                        memcpy(&ret->fds[ret->n_fds++], CMSG_DATA(header) + i * sizeof(int), sizeof(int));
        }
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
        char control[CMSG_SPACE(sizeof(int) * MESSAGE_FDS)] __attribute__((aligned(8)));
        struct iovec data = { text, MESSAGE_MAX };
        struct msghdr packet = {
                .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        ssize_t n;

        do
                n = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC);
        while (n < 0 && errno == EINTR);
        if (n < 0 && errno == EAGAIN)
                return MESSAGE_E_NONE;
        if (n < 0)
                return errno == ECONNRESET ? MESSAGE_E_CLOSED : -errno;
        take_fds(&packet, message); /* also of an empty packet, which looks like the end */
        if (n == 0)
                return MESSAGE_E_CLOSED;
        *ret_size = (size_t)n;
        return packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EPROTO : MESSAGE_OK;
}

int message_receive(int socket, struct message *ret)
{
        struct message message = { .fds = { -1, -1, -1, -1 } };
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
                closep(&message->fds[i]);
        json_decref(message->body);
        *message = (struct message){ .fds = { -1, -1, -1, -1 } };
}

const char *message_type(const struct message *message)
{
        return message_text(message->body, "type", "");
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
