/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of wire.h, for the gate's `sim` backend and for libsublet-sim.so.
 *
 * Nothing is kept between calls: each round trip has a socketpair of its own, so there is nothing
 * to make anew after a fork, to mix up in a signal handler, or for a host to close by accident.
 * Threads: any. Async-signal-safe, but for sim_layout. errno survives.
 */
#pragma once

#include "rm/call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The directory that SUBLET_SIM names, or NULL. */
const char *sim_directory(void);

/* Opens a node: "nvidiactl", "nvidia0", "nvidia-uvm". O_CLOEXEC and O_NONBLOCK count. A descriptor,
 * or -errno: -ENOENT: no such node; -ENODEV: the machine has ended. */
int sim_open(const char *directory, const char *node, int flags);

/* Which simulated node is behind fd, by its peer's address; RM_NODE_OTHER if none or if the peer is
 * not the server of `directory`. *ret_minor of a device node; may be NULL. directory NULL: of any
 * machine, without checking the peer's process: for a process that inspects its own descriptors. */
enum rm_node sim_node(const char *directory, int fd, uint32_t *ret_minor);

/* As ioctl(2) on the node: follows the block's pointers in the caller's memory, as the driver would.
 * layout: of the simulated release. 0 or more, or -errno. */
int sim_ioctl(int fd, const struct rm_layout *layout, uint32_t request, void *block);

/* As mmap(2) and munmap(2) of a node. The address, or -errno; *ret_is_uvm: a UVM range, for whose
 * munmap sim_munmap must be called beside the system call. */
intptr_t sim_mmap(int fd, void *address, size_t length, int prot, int flags, int64_t offset, bool *ret_is_uvm);
int sim_munmap(int fd, void *address, size_t length);

/*
 * One message and its answer; for the above and for doorbells. buffers: block, then segments; they
 * are sent, and overwritten by what the answer holds. named: a descriptor that the call names, or -1.
 * ret_answer NULL: one-way, returns when the message is queued. ret_fd: the descriptor that came with
 * the answer, or -1; may be NULL. Blocks until the server answers or ends.
 * 0 (see ret_answer->result); -EPIPE: the machine has ended; -EFAULT; -EMSGSIZE.
 */
struct sim_buffer {
        void *data;
        uint32_t size;
};
struct sim_request;
struct sim_answer;
int sim_transact(int fd, const struct sim_request *request, const struct sim_buffer *buffers, size_t n_buffers,
                 int named, struct sim_answer *ret_answer, int *ret_fd);

/* The layout of the release that the machine simulates. 0; -errno; RM_E_VERSION. */
int sim_layout(const char *directory, struct rm_layout *ret);
