/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may connect, and who gives way.
 *
 * A user has so many connections at tenant.sock, and as many at attach.sock; all users together have so many. At
 * attach.sock a user is no more than a number: every container's root is 0, and such a root is any user that it likes.
 * A bound that only refuses would let one container keep the programs of all others out by connections that say
 * nothing. So where a bound is reached,
 *
 *      Y1  the oldest connection without standing gives way: no lease is kept for it, it has shown no token, no
 *          container waits. An honest peer sends its first message at once, and has standing when that is heard;
 *      Y2  at a user's bound it is one of that user's: nobody loses one to a single user. At that of all it is the
 *          oldest of all, not of the user who has most: who may be any user would be many who have one each;
 *      Y3  if all have standing, the newcomer is refused. What gives it is bounded by what there is to lease.
 *
 * A round of the loop accepts one connection of a socket, and hears 64: so a newcomer is heard before as many others
 * have come as drive it out.
 */
#include "daemon/accept.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/rights.h"

enum {
        CONNECTIONS_MAX = 512,
        CONNECTIONS_SPARE = 128, /* of these, for root only: hooks, runtimes */
        CONNECTIONS_PER_USER = 64,
        ATTACHING_MAX = 256,
};

/* Root of the machine is trusted; root of a container is not. */
static bool is_trusted(enum connection_kind kind, uid_t uid)
{
        return uid == 0 && kind != CONNECTION_ATTACH;
}

/* kinds: a set of bits; sender: DESCRIPTORS_ALL is anybody. */
static bool is_of(const struct connection *connection, unsigned int kinds, uint64_t sender)
{
        return (kinds & 1U << connection->kind) &&
               (sender == DESCRIPTORS_ALL || sender == connection_sender(connection->kind, connection->peer.uid));
}

static unsigned int count(const struct daemon *daemon, unsigned int kinds, uint64_t sender)
{
        unsigned int n = 0;

        for (const struct connection *c = daemon->connections; c; c = c->next)
                n += is_of(c, kinds, sender);
        return n;
}

static bool has_standing(const struct connection *connection)
{
        return connection->tenant || connection->attaching || connection->is_hook ||
               connection->kind == CONNECTION_SHIM || is_trusted(connection->kind, connection->peer.uid);
}

static bool give_way(struct daemon *daemon, unsigned int kinds, uint64_t sender)
{
        struct connection *found = NULL;

        for (struct connection *c = daemon->connections; c; c = c->next) /* the newest first */
                if (is_of(c, kinds, sender) && !has_standing(c))
                        found = c;
        if (!found)
                return false;
        if (!rights_are_left(found->source.fd)) { /* at once: whoever comes without end would be late otherwise */
                loop_drop(daemon->loop, &found->source);
                closep(&found->source.fd);
        }
        connection_drop(found);
        return true;
}

bool connections_accept(struct daemon *daemon, enum connection_kind kind, uid_t uid)
{
        const unsigned int attach = 1U << CONNECTION_ATTACH, any = attach | 1U << CONNECTION_TENANT;
        uint64_t sender = connection_sender(kind, uid);

        if (kind == CONNECTION_SHIM)
                return uid == daemon->uid;
        if (is_trusted(kind, uid))
                return daemon->n_connections < CONNECTIONS_MAX;
        if (connection_is_late(kind, uid))
                return false;
        if (count(daemon, any, sender) >= CONNECTIONS_PER_USER && !give_way(daemon, any, sender))
                return false;
        if (kind == CONNECTION_ATTACH && count(daemon, attach, DESCRIPTORS_ALL) >= ATTACHING_MAX &&
            !give_way(daemon, attach, DESCRIPTORS_ALL))
                return false;
        return daemon->n_connections < CONNECTIONS_MAX - CONNECTIONS_SPARE || give_way(daemon, any, DESCRIPTORS_ALL);
}
