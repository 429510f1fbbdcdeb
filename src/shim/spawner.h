/*
 * Where keepers live that are not the daemon's children: `sublet keepers`, a process that starts them when a daemon asks.
 * A container's runtime ends all that a container has started when its first process ends; with a home in a container of
 * its own, keepers stay while the daemon's container is replaced.
 *
 *  H1  It holds nothing: what comes with a request is closed when its keeper has it. A keeper needs its home only to be born.
 *  H2  Only its own user may ask.
 *  H3  After SIGTERM it starts no more, and ends when its last keeper has.
 */
#pragma once

#include "shim/shim.h"

enum {
        KEEPER_E_HOME = 1, /* there is no home: nobody is at DIR/keepers.sock */
};

/* Has the keeper started by the home at start->dir. Blocks, at most some seconds. *ret_process is nobody's child here.
 * 0; KEEPER_E_HOME; -errno: one that was started all the same comes to keeper.sock, as after a daemon's death. */
int keeper_home_ask(const struct keeper_start *start, pid_t *ret_process, struct err *err);

/* As keeper_spawn, a child of the caller's. */
int keeper_spawn_here(const struct keeper_start *start, pid_t *ret_process, struct err *err);

/* The body of a request as it is read. 0; -EPROTO. n_fds: how many descriptors came with it. */
struct keeper_request {
        struct message_lease lease;
        int numbers[MESSAGE_FDS]; /* of KEEPER_FD_x: which is what */
};
int keeper_request_parse(const json_t *body, size_t n_fds, struct keeper_request *ret);
