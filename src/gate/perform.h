/* SPDX-License-Identifier: Apache-2.0 */
/* The driver call and its reply. */
#pragma once

#include "gate/request.h"

/* The call itself. 0 or more, or -errno; then request_status says what the driver answered. */
int perform(struct request *request);
uint32_t request_status(const struct request *request);

/* perform, and whether the driver did it. */
bool request_is_done(const struct request *request, int r);

/*
 * Writes block and parameters back, and what stands besides; and yields `value` for the system call. A negative one is
 * yielded as it is. The last step of a handler: the call is not under way any more (T1 in move/move.h), since the
 * tenant's memory may not come.
 */
int reply(struct request *request, int value);

/* Answers with a result in the block, without a driver call. */
int answer(struct request *request, uint32_t status);

/*
 * The locks of the clients or spaces that the call is about, so that the ledger's order is the driver's; of one key, if
 * both are the same. They are dropped before the tenant is answered: its memory may be such that a copy waits for as
 * long as the tenant likes, and whoever settles the ledger must not wait with it. So no memory of the tenant is touched
 * while a lock is held.
 */
void request_lock(struct request *request, uint64_t key1, uint64_t key2);
void request_unlock(struct request *request); /* also if there is none */

/* A call of our own on the tenant's descriptor. */
void perform_free(struct request *request, uint32_t client, uint32_t handle);

/* Memory of the tenant into our own, before the call is made: it may wait as move_enter does. 0; -errno. */
int tenant_read(struct request *request, void *to, uint64_t from, size_t size);

/* Goes into the tenant's memory with the reply: GATE_POINTERS_MAX of a call at most, and not of one that `answer` ends.
 * `from` stays as it is until then (worker->nested). write_besides does so now, where a call is made in several: for
 * tenants whose memory does not move. 0; -errno. */
void reply_besides(struct request *request, uint64_t to, void *from, size_t size);
int write_besides(struct request *request);

/* A descriptor of the tenant as one of ours; _cleanup_(tenant_fd_put). fd: -EBADF, -EPERM if it cannot be had. */
struct tenant_fd {
        const struct gate *gate;
        int fd;
};
struct tenant_fd tenant_fd_get(const struct request *request, int theirs);
void tenant_fd_put(struct tenant_fd *fd);
