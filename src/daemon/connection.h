/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that belongs to no tenant yet.
 *
 *      tenant.sock  `sublet run` sends "lease" and gets "granted" or "refused"; after "listener" the socket is the
 *                   shim's. If it hangs up before, the lease is withdrawn. A hook sends "container"; what it is granted
 *                   is kept for the container (containers/pending.h). A tenant without a shim comes back with "return".
 *      keeper.sock  a shim comes back: its first message is "hello", and the socket is the tenant's.
 *      attach.sock  a program hands itself over (containers/attach.h); mounted into containers, so it takes nothing
 *                   else.
 *
 * Thread: the loop. Peers are hostile: a connection has little memory, 10 s for its first message and a minute
 * in all, whatever it sends, and is dropped on an error.
 */
#pragma once

#include "daemon/containers/pending.h"
#include "daemon/state/daemon.h"

#include <sys/socket.h>

enum connection_kind {
        CONNECTION_TENANT,
        CONNECTION_ATTACH,
        CONNECTION_SHIM,
};

/* For accept.c and connection.c. */
struct connection {
        struct connection *next;
        struct daemon *daemon;
        struct loop_source source; /* owns its descriptor */
        struct pending_asker asker;
        struct ucred peer;
        enum connection_kind kind;
        uint64_t attaching;    /* at attach.sock: the tenancy that a process of it hands over */
        struct tenant *tenant; /* admitted, not started */
        bool is_waiting;       /* admitted; answered when the device is ready for it */
        bool has_spoken;       /* one message came, whole: a packet is a message */
        bool is_hook;          /* its container waits for an allocation: --patience is added to the limit */
        nsec since;
};

/* Takes the socket over. */
void connection_new(struct daemon *daemon, enum connection_kind kind, int socket, const struct ucred *peer);

void connections_tick(struct daemon *daemon, nsec now); /* answers who waits, drops who takes too long */
void connections_drop(struct daemon *daemon);           /* all */

/* As whose its descriptors are dropped (base/descriptors.h). */
uint64_t connection_sender(enum connection_kind kind, uid_t uid);

/* So many of them do not close that nothing more is taken. */
bool connection_is_late(enum connection_kind kind, uid_t uid);

/* With what was granted and not started. */
void connection_drop(struct connection *connection);
