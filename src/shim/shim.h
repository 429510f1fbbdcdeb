/*
 * A keeper: the process that is one tenant's gate, from its command's start until its last process is
 * gone. It never depends on the daemon that started it: its clients belong to it (gate/gate.h: one gate, one
 * process), so nobody can take its place, and a daemon may die, be replaced and come back unnoticed.
 *
 * The internal verb `sublet keeper --dir DIR` finds at fixed numbers:
 */
#pragma once

#include "wire/messages.h"

struct err;

enum {
        KEEPER_FD_LISTENER = 3, /* of the tenant's filter */
        KEEPER_FD_DAEMON,       /* SEQPACKET; the daemon has the other end */
        KEEPER_FD_RUN,          /* the socket on which `sublet run` asked; may be absent */
        KEEPER_FD_LEASE,        /* its message_lease as JSON, to be read to its end */
        KEEPER_FD_INIT,         /* a pidfd of the container's first process; may be absent */
        KEEPER_N_FDS,
};

struct keeper_start {
        const struct message_lease *lease;
        const char *dir;           /* where keeper.sock is, or will be after the daemon's death */
        int listener, daemon, run; /* borrowed; run: -1 if nobody waits for reports */
        int init;                  /* borrowed; -1: the tenant is no container */
};

/*
 * Starts a keeper: this program anew, in a session of its own, with stderr and the environment of the
 * caller and no other descriptor. Its first message on the other end of `daemon` is hello with the board;
 * if it cannot start it ends, and that end hangs up. Where keepers have a home (keeper_home.h) it is asked, and the keeper
 * is its child; else the caller's, to be waited for (SIGCHLD). Blocks for a fork. 0; -errno.
 */
int keeper_spawn(const struct keeper_start *start, pid_t *ret_process, struct err *err);

/* Whether a descriptor of ours is a filter's listener: a user may send any, and a keeper would wait for ever for its
 * end. */
bool keeper_is_listener(int fd);
