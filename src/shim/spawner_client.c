/* SPDX-License-Identifier: Apache-2.0 */
/* The requests to the shim spawner (spawner.h): "start" with descriptors, "start_mps"; the answer is "started" or
 * "failed". */
#include "shim/spawner.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

enum {
        ANSWER_SEC = 2, /* the daemon serves no one else meanwhile */
};

/* A connection; -ENOENT: nobody is there; -errno. */
static int reach(const char *dir, struct err *err)
{
        _cleanup_(closep) int fd = socket_connect(SOCK_SEQPACKET, ANSWER_SEC, "%s/keepers.sock", dir);
        struct ucred who;

        if (fd < 0)
                return fd == -ENOENT || fd == -ECONNREFUSED ?
                               -ENOENT :
                               err_set(err, fd, "reaching the shim spawner at %s/keepers.sock", dir);
        if (socket_peer(fd, &who) < 0 || who.uid != geteuid())
                return err_say(err, -EPERM, "%s/keepers.sock is another user's", dir);
        return TAKE_FD(fd);
}

static int send_start(int socket, const struct shim_start *spawner_start)
{
        const int from[] = { spawner_start->listener, spawner_start->daemon, spawner_start->run, spawner_start->init,
                             spawner_start->record },
                  numbers[] = { SHIM_FD_LISTENER, SHIM_FD_DAEMON, SHIM_FD_RUN, SHIM_FD_INIT, SHIM_FD_RECORD };
        json_t *body = message_new("start"), *list = json_array();
        int fds[ARRAY_SIZE(from)];
        size_t n = 0;

        for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
                if (from[i] < 0)
                        continue;
                fds[n++] = from[i];
                (void)json_array_append_new(list, json_integer(numbers[i]));
        }
        (void)json_object_set_new(body, "lease", message_lease_new(spawner_start->lease));
        (void)json_object_set_new(body, "numbers", list);
        return message_send(socket, body, fds, n);
}

static int spawner_receive(int socket, pid_t *ret_process, struct err *err)
{
        _cleanup_(message_done) struct message message = { 0 };
        int r = message_receive(socket, &message);
        int64_t process;

        if (r != MESSAGE_OK)
                return err_say(err, -ETIMEDOUT, "the shim spawner does not answer");
        process = message_number(message.body, "process", 0);
        if (strcmp(message_type(&message), "started") != 0 || process <= 0 || process > INT32_MAX)
                return err_say(err, -EIO, "the shim spawner: %.160s",
                               message_text(message.body, "text", "the answer makes no sense"));
        *ret_process = (pid_t)process;
        return 0;
}

int spawner_ask(const struct shim_start *spawner_start, pid_t *ret_process, struct err *err)
{
        int r = reach(spawner_start->dir, err);
        _cleanup_(closep) int fd = r;

        if (r < 0)
                return r == -ENOENT ? SPAWNER_E_NONE : r;
        r = send_start(fd, spawner_start);
        if (r != MESSAGE_OK)
                return err_say(err, r < 0 ? r : -EIO, "the shim spawner takes no request");
        return spawner_receive(fd, ret_process, err);
}

int spawner_ask_mps(const struct mps_at *at, bool quits, pid_t *ret_process, struct err *err)
{
        int r = reach(at->dir, err);
        _cleanup_(closep) int fd = r;
        json_t *body;

        if (r < 0)
                return r == -ENOENT ? SPAWNER_E_NONE : r;
        body = message_new("start_mps");
        (void)json_object_set_new(body, "device", json_integer(at->device));
        (void)json_object_set_new(body, "team", json_integer(at->team));
        (void)json_object_set_new(body, "uuid", json_string(at->uuid));
        (void)json_object_set_new(body, "contained", json_boolean(at->is_contained));
        (void)json_object_set_new(body, "quits", json_boolean(quits));
        r = message_send(fd, body, NULL, 0);
        if (r != MESSAGE_OK)
                return err_say(err, r < 0 ? r : -EIO, "the shim spawner takes no request");
        return spawner_receive(fd, ret_process, err);
}

int mps_request_parse(const json_t *body, struct mps_at *ret, bool *ret_quits)
{
        int64_t device = message_number(body, "device", -1), team = message_number(body, "team", -1);

        if (device < 0 || device >= LEASE_DEVICES_MAX || team < 0 || team > UINT32_MAX)
                return -EPROTO;
        ret->device = (unsigned int)device;
        ret->team = (uint32_t)team;
        ret->uuid = message_text(body, "uuid", "");
        ret->is_contained = message_flag(body, "contained", false);
        *ret_quits = message_flag(body, "quits", false);
        return 0;
}

int shim_request_parse(const json_t *body, size_t n_fds, struct shim_request *ret)
{
        const json_t *list = json_object_get(body, "numbers");
        struct shim_request request = { 0 };
        unsigned int seen = 0;

        if (json_array_size(list) != n_fds || n_fds > MESSAGE_FDS ||
            message_lease_parse(json_object_get(body, "lease"), &request.lease) < 0)
                return -EPROTO;
        for (size_t i = 0; i < n_fds; i++) {
                json_int_t number = json_integer_value(json_array_get(list, i));

                if (number < SHIM_FD_LISTENER || number >= SHIM_N_FDS || number == SHIM_FD_LEASE || seen & 1u << number)
                        return -EPROTO;
                seen |= 1u << number;
                request.numbers[i] = (int)number;
        }
        if (!(seen & 1u << SHIM_FD_DAEMON))
                return -EPROTO;
        *ret = request;
        return 0;
}
