/*
 * A shim: the process that is one tenant's gate, from its command's start until its last process is
 * gone. It never depends on the daemon that started it: its clients belong to it (gate/gate.h: one gate, one
 * process), so nobody can take its place, and a daemon may die, be replaced and come back unnoticed.
 *
 * The internal verb `sublet shim --dir DIR` finds at fixed numbers:
 */
#pragma once

#include "wire/messages.h"

struct err;

enum {
        SHIM_FD_LISTENER = 3, /* of the tenant's filter */
        SHIM_FD_DAEMON,       /* SEQPACKET; the daemon has the other end */
        SHIM_FD_RUN,          /* the socket on which `sublet run` asked; may be absent */
        SHIM_FD_LEASE,        /* its message_lease as JSON, to be read to its end */
        SHIM_FD_INIT,         /* a pidfd of the container's first process; may be absent */
        SHIM_N_FDS,
};

struct shim_start {
        const struct message_lease *lease;
        const char *dir;           /* where keeper.sock is, or will be after the daemon's death */
        int listener, daemon, run; /* borrowed; run: -1 if nobody waits for reports */
        int init;                  /* borrowed; -1: the tenant is no container */
};

/*
 * Starts a shim: this program anew, in a session of its own, with stderr and the environment of the
 * caller and no other descriptor. Its first message on the other end of `daemon` is hello with the control block;
 * if it cannot start it ends, and that end hangs up. Where shims have a home (shim_home.h) it is asked, and the shim
 * is its child; else the caller's, to be waited for (SIGCHLD). Blocks for a fork. 0; -errno.
 */
int shim_spawn(const struct shim_start *start, pid_t *ret_process, struct err *err);

/* Whether a descriptor of ours is a filter's listener: a user may send any, and a shim would wait for ever for its
 * end. */
bool shim_is_listener(int fd);
