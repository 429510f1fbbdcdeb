/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/listeners.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/gate.h"
#include "daemon/connection.h"
#include "daemon/containers/agent.h"
#include "daemon/containers/pending.h"
#include "net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>

static struct listening_socket {
        const char *name;
        mode_t mode;
        int type;
        enum connection_kind kind; /* of its connections, unless it is the agent's */
        bool is_agents;
        bool is_groups; /* for members of settings.group, if there is one; attach.sock is for who has a lease already */
        struct loop_source source;
} listening_sockets[] = {
        { .name = "tenant.sock",
          .mode = 0666,
          .is_groups = true,
          .type = SOCK_SEQPACKET,
          .kind = CONNECTION_TENANT,
          .source.fd = -1 },
        { .name = "attach.sock", .mode = 0666, .type = SOCK_SEQPACKET, .kind = CONNECTION_ATTACH, .source.fd = -1 },
        { .name = "keeper.sock", .mode = 0600, .type = SOCK_SEQPACKET, .kind = CONNECTION_SHIM, .source.fd = -1 },
        { .name = "seccomp.sock", .mode = 0600, .type = SOCK_STREAM, .is_agents = true, .source.fd = -1 },
};

static void on_accept(struct loop_source *source, uint32_t events)
{
        const struct listening_socket *listening_socket =
                (const struct listening_socket *)((const char *)source - offsetof(struct listening_socket, source));
        _cleanup_(closep) int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct daemon *daemon = source->context;
        struct ucred peer = { 0 };

        (void)events;
        /* A connection that cannot be accepted would wake us without end: not before the next tick. */
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
                loop_drop(daemon->loop, source);
        if (fd < 0 || socket_peer(fd, &peer) < 0)
                return;
        if (listening_socket->is_agents) {
                if (daemon_is_master(daemon, peer.uid))
                        agent_accept(daemon, TAKE_FD(fd), &peer);
        } else if (connections_accept(daemon, listening_socket->kind, peer.uid))
                connection_new(daemon, listening_socket->kind, TAKE_FD(fd), &peer);
}

void listeners_tick(struct daemon *daemon)
{
        nsec now = clock_now();

        agent_tick(daemon, now);
        pending_tick(daemon);
        connections_tick(daemon, now);
        for (size_t i = 0; i < ARRAY_SIZE(listening_sockets); i++)
                if (!listening_sockets[i].source.is_added && listening_sockets[i].source.fd >= 0)
                        (void)loop_add(daemon->loop, &listening_sockets[i].source, EPOLLIN);
}

static int listening_socket_open(struct daemon *daemon, struct listening_socket *listening_socket, struct err *err)
{
        int type = listening_socket->type | SOCK_NONBLOCK;
        char path[SOCKET_PATH];
        int r;

        if (snprintf(path, sizeof(path), "%s/%s", daemon->settings.dir, listening_socket->name) >= (int)sizeof(path))
                return err_set(err, -ENAMETOOLONG, "listening on %s/%s", daemon->settings.dir, listening_socket->name);
        r = listening_socket->is_groups ? socket_listen_group(type, daemon->settings.group, path) :
                                          socket_listen(type, listening_socket->mode, "%s", path);

        listening_socket->source = (struct loop_source){ .fd = r, .ready = on_accept, .context = daemon };
        if (r >= 0)
                r = loop_add(daemon->loop, &listening_socket->source, EPOLLIN);
        return r < 0 ? err_set(err, r, "listening on %s/%s", daemon->settings.dir, listening_socket->name) : 0;
}

int listeners_open(struct daemon *daemon, struct err *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(listening_sockets); i++) {
                int r = listening_socket_open(daemon, &listening_sockets[i], err);

                if (r < 0)
                        return r;
        }
        return 0;
}

void listeners_close(struct daemon *daemon)
{
        char path[128];

        connections_drop(daemon);
        agent_close(daemon);
        pending_close(daemon);
        for (size_t i = 0; i < ARRAY_SIZE(listening_sockets); i++) {
                loop_drop(daemon->loop, &listening_sockets[i].source);
                closep(&listening_sockets[i].source.fd);
                (void)snprintf(path, sizeof(path), "%s/%s", daemon->settings.dir, listening_sockets[i].name);
                (void)unlink(path);
        }
}
