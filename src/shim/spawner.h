/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shim spawner, `sublet keepers`: a process that starts shims when a daemon asks. A container runtime ends all
 * processes of a container when the first one ends. With the spawner in a container of its own, shims outlive the
 * daemon's container.
 *
 *  H1  It holds nothing: the descriptors of a request are closed once the shim has them. A shim needs it only to start.
 *  H2  Only processes of its own user may ask.
 *  H3  After SIGTERM it starts no more shims, and ends with the last one.
 */
#pragma once

#include "shim/shim.h"

enum {
        SPAWNER_E_NONE = 1, /* no spawner is at DIR/keepers.sock */
};

/* Asks the spawner at start->dir to start the shim. Blocks for some seconds at most. *ret_process is no child of the
 * caller. 0; SPAWNER_E_NONE; -errno. A shim that starts in spite of an error connects to keeper.sock, as after a
 * daemon's death. */
int spawner_ask(const struct shim_start *start, pid_t *ret_process, struct err *err);

/* Like shim_spawn, as a child of the caller. */
int shim_spawn_here(const struct shim_start *start, pid_t *ret_process, struct err *err);

struct shim_request {
        struct message_lease lease;
        int numbers[MESSAGE_FDS]; /* SHIM_FD_x of each descriptor */
};

/* Reads the body of a request that came with n_fds descriptors. 0; -EPROTO. */
int shim_request_parse(const json_t *body, size_t n_fds, struct shim_request *ret);
