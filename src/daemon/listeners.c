/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/listeners.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/rights.h"
#include "gate/gate.h"
#include "daemon/accept.h"
#include "daemon/connection.h"
#include "daemon/containers/agent.h"
#include "daemon/containers/ghosts.h"
#include "daemon/containers/pending.h"
#include "daemon/state/events.h"
#include "net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>

enum {
        STUCK_SEC = 60,
};

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
        int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        enum connection_kind kind = listening_socket->kind;
        struct daemon *daemon = source->context;
        struct ucred peer = { 0 };

        (void)events;
        /* A connection that cannot be accepted would wake us without end: not before the next tick. */
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
                loop_drop(daemon->loop, source);
        if (fd < 0 || socket_peer(fd, &peer) < 0)
                descriptors_drop(fd, DESCRIPTORS_OURS);
        else if (listening_socket->is_agents && daemon_is_master(daemon, peer.uid))
                agent_accept(daemon, fd, &peer);
        else if (!listening_socket->is_agents && connections_accept(daemon, kind, peer.uid))
                connection_new(daemon, kind, fd, &peer);
        else if (!listening_socket->is_agents && !rights_are_left(fd))
                closep(&fd); /* at once: who has sent too much would let them pile up */
        else
                descriptors_drop(fd,
                                 kind == CONNECTION_ATTACH ? daemon_sender_inside(peer.uid) : daemon_sender(peer.uid));
}

/* Once until it is over, and once a minute at most. */
static void watch_stuck(struct daemon *daemon, nsec now)
{
        uint64_t sender = DESCRIPTORS_OURS;
        unsigned int n = descriptors_stuck(DESCRIPTORS_ALL, &sender);
        bool was_stuck = daemon->is_stuck;

        daemon->is_stuck = n;
        if (!n || was_stuck || (daemon->stuck_at && now - daemon->stuck_at < STUCK_SEC * NSEC_PER_SEC))
                return;
        daemon->stuck_at = now;
        event_emit(daemon, EVENT_DESCRIPTORS_STUCK, NULL, -1, "%u; user %u%s", n, daemon_sender_user(sender),
                   daemon_sender_is_inside(sender) ? ", at attach.sock" : "");
}

void listeners_tick(struct daemon *daemon)
{
        nsec now = clock_now();

        agent_tick(daemon, now);
        pending_tick(daemon, now);
        ghosts_tick(daemon);
        connections_tick(daemon, now);
        watch_stuck(daemon, now);
        for (size_t i = 0; i < ARRAY_SIZE(listening_sockets); i++)
                if (!listening_sockets[i].source.is_added && listening_sockets[i].source.fd >= 0)
                        (void)loop_add(daemon->loop, &listening_sockets[i].source, EPOLLIN);
}

static int listening_socket_open(struct daemon *daemon, struct listening_socket *listening_socket, struct err *err)
{
        int type = listening_socket->type | SOCK_NONBLOCK;
        char path[SOCKET_PATH];
        bool refuses;
        int r;

        if (snprintf(path, sizeof(path), "%s/%s", daemon->settings.dir, listening_socket->name) >= (int)sizeof(path))
                return err_set(err, -ENAMETOOLONG, "listening on %s/%s", daemon->settings.dir, listening_socket->name);
        if (listening_socket->kind == CONNECTION_ATTACH) /* until it has shown its token (containers/attach.c) */
                r = socket_listen_for_bytes(type, GROUP_ANY, path, &refuses);
        else if (listening_socket->is_groups)
                r = socket_listen_group(type, daemon->settings.group, path);
        else
                r = socket_listen(type, listening_socket->mode, "%s", path);

        listening_socket->source = (struct loop_source){ .fd = r, .ready = on_accept, .context = daemon };
        if (r >= 0)
                r = loop_add(daemon->loop, &listening_socket->source, EPOLLIN);
        if (r == -EPERM && listening_socket->is_groups && daemon->settings.group != GROUP_ANY)
                return err_say(err, r, "--group: only root can give sockets to a group that it is no member of");
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
