/*
 * Where shims live that are not the daemon's children: `sublet keepers`, a process that starts them when a daemon asks.
 * A container's runtime ends all that a container has started when its first process ends; with a home in a container of
 * its own, shims stay while the daemon's container is replaced.
 *
 *  H1  It holds nothing: what comes with a request is closed when its shim has it. A shim needs its home only to be born.
 *  H2  Only its own user may ask.
 *  H3  After SIGTERM it starts no more, and ends when its last shim has.
 */
#pragma once

#include "shim/shim.h"

enum {
        SPAWNER_E_NONE = 1, /* there is no home: nobody is at DIR/keepers.sock */
};

/* Has the shim started by the home at start->dir. Blocks, at most some seconds. *ret_process is nobody's child here.
 * 0; SPAWNER_E_NONE; -errno: one that was started all the same comes to keeper.sock, as after a daemon's death. */
int spawner_ask(const struct shim_start *start, pid_t *ret_process, struct err *err);

/* As shim_spawn, a child of the caller's. */
int shim_spawn_here(const struct shim_start *start, pid_t *ret_process, struct err *err);

/* The body of a request as it is read. 0; -EPROTO. n_fds: how many descriptors came with it. */
struct shim_request {
        struct message_lease lease;
        int numbers[MESSAGE_FDS]; /* of SHIM_FD_x: which is what */
};
int shim_request_parse(const json_t *body, size_t n_fds, struct shim_request *ret);
