/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shim spawner, `sublet keepers`: a process that starts shims when a daemon asks, and the control daemons of MPS. A
 * container runtime ends all processes of a container when the first one ends. With the spawner in a container of its
 * own, they outlive the daemon's container.
 *
 *  H1  It holds nothing: the descriptors of a request are closed once the shim has them. A shim needs it only to start.
 *  H2  Only processes of its own user may ask.
 *  H3  After SIGTERM it starts nothing more, and ends with the last shim. A control daemon of MPS does not hold it: the
 *      last client is a shim's tenant.
 */
#pragma once

#include "shim/mps_program.h"
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

/* mps_start_here by the spawner, if there is one: then *ret is no child of ours. Blocks for some seconds at most. */
int mps_start(const struct mps_at *at, bool quits, pid_t *ret, struct err *err);

/* Asks it for that. 0; SPAWNER_E_NONE; -errno. */
int spawner_ask_mps(const struct mps_at *at, bool quits, pid_t *ret_process, struct err *err);

struct shim_request {
        struct message_lease lease;
        int numbers[MESSAGE_FDS]; /* SHIM_FD_x of each descriptor */
};

/* Reads the body of a request that came with n_fds descriptors. 0; -EPROTO. */
int shim_request_parse(const json_t *body, size_t n_fds, struct shim_request *ret);

/* The same of a request for MPS. ret->uuid is borrowed from the body; dir and root are left alone. 0; -EPROTO. */
int mps_request_parse(const json_t *body, struct mps_at *ret, bool *ret_quits);
