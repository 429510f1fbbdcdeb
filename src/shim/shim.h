/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shim: the process that is one tenant's gate, from its command's start until its last process has ended. It never
 * depends on the daemon that started it. Driver clients belong to the process that opened them (gate/gate.h: one gate,
 * one process), so no other process can take a shim's place; a daemon may die, be replaced and return unnoticed by the
 * tenant.
 *
 * The internal verb `sublet keeper --dir DIR` finds at fixed descriptor numbers:
 */
#pragma once

#include "wire/messages.h"

struct err;

enum {
        SHIM_FD_LISTENER = 3, /* of the tenant's filter */
        SHIM_FD_DAEMON,       /* SEQPACKET; the other end is the daemon's */
        SHIM_FD_RUN,          /* the socket of `sublet run`; may be absent */
        SHIM_FD_LEASE,        /* the tenant's message_lease as JSON, read to its end */
        SHIM_FD_INIT,         /* a pidfd of the container's first process; may be absent */
        SHIM_FD_RECORD,       /* the file of `sublet run --record`; may be absent */
        SHIM_N_FDS,
};

struct shim_start {
        const struct message_lease *lease;
        const char *dir;           /* where keeper.sock is, or a later daemon's will be */
        int listener, daemon, run; /* borrowed; run: -1 without `sublet run` */
        int init;                  /* borrowed; -1: the tenant is not a container */
        int record;                /* borrowed; -1: its calls are not recorded */
};

/*
 * Starts a shim: this program again, in a session of its own, with the caller's stderr and environment and no other
 * descriptor. Its first message on the other end of `daemon` is hello, with the control block; a shim that cannot start
 * ends, and that end hangs up. Where a shim spawner runs (spawner.h), it starts the shim as its child; otherwise the
 * shim is the caller's child, to be waited for (SIGCHLD). Blocks for a fork. 0; -errno.
 */
int shim_spawn(const struct shim_start *start, pid_t *ret_process, struct err *err);

/* Whether a descriptor is a filter's listener. A user may send any, and a shim would wait for ever for the end of
 * another. */
bool shim_is_listener(int fd);
