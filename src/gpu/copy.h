/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy engine of one device by plain driver calls, without libcuda: a client of our own, an address space that the
 * driver manages, a channel on a copy engine with its ring in host memory, and a room in host memory to copy to.
 *
 *      gpu_copy_new(&backend, device, &copy);          nothing is made yet
 *      gpu_copy_begin(copy, size);                     client and channel, and the room
 *      gpu_copy_take(copy, client, object, &piece);    a second handle of somebody's memory, mapped for the engine
 *      gpu_copy_ask(copy, true, &piece, host);         from the device to the room
 *      gpu_copy_wait(copy);
 *      gpu_copy_give(copy, &piece);
 *      gpu_copy_end(copy, true);                       the channel goes, the room and what is in it stay
 *
 * Who takes a client's memory must be the process that made the client (docs/gpu.md §10). The room is anonymous memory
 * of this process in huge pages, registered with the driver: it is pinned, and counts as this process's. It is made
 * by pieces while copies go on, or ahead of need (gpu_copy_ready); nothing of it is ever another's.
 *
 * The driver's numbers are those of release 580 and of Hopper's classes, as measured; a chip with others is -ENOTSUP.
 * Threads: one at a time.
 */
#pragma once

#include "gpu/backend.h"

#include "base/text.h"

struct gpu_copy;

struct gpu_copy_piece {
        uint32_t handle; /* ours */
        uint64_t at;     /* where the engine sees it */
        bytes size;      /* the caller's */
};

int gpu_copy_new(const struct gpu_backend *backend, unsigned int device, struct gpu_copy **ret); /* -ENOMEM */
struct gpu_copy *gpu_copy_free(struct gpu_copy *copy); /* NULL is fine; returns NULL */

/* -ENOMEM: the host has not so much to give; -ENOTSUP: no engine takes a channel of ours; -errno. What was begun is
 * ended by gpu_copy_end. */
int gpu_copy_begin(struct gpu_copy *copy, bytes size);

/* piece->size is given. -EIO: the driver refuses. */
int gpu_copy_take(struct gpu_copy *copy, uint32_t client, uint32_t object, struct gpu_copy_piece *piece);
/* -errno: the driver keeps the second handle, and with it the memory if all others are freed. */
int gpu_copy_give(struct gpu_copy *copy, const struct gpu_copy_piece *piece);

/* Asks for a copy of the piece to `host` (an offset in the room), or back. Waits while the ring is full. -EIO: the
 * engine has stopped. */
int gpu_copy_ask(struct gpu_copy *copy, bool is_out, const struct gpu_copy_piece *piece, bytes host);

/* For all copies that were asked for. -EIO: the engine has stopped. */
int gpu_copy_wait(struct gpu_copy *copy);

/* Makes a room of so much, ahead of need, and waits for it; one that is larger stays so. As gpu_copy_begin, but without
 * an engine. */
int gpu_copy_ready(struct gpu_copy *copy, bytes size);
bytes gpu_copy_room(const struct gpu_copy *copy); /* that is ready */

/* Whether the host has so much to give beside what rooms have, and what is left to others; 0 or -ENOMEM. */
int gpu_copy_spare(bytes size);

/* The room is at most of that size from here on: what is behind goes back to the host. Between begin and end: never. */
void gpu_copy_shrink(struct gpu_copy *copy, bytes size);

/* The driver has refused to free something of ours. That ends with a gpu_copy_end that keeps no room. */
bool gpu_copy_is_leaking(const struct gpu_copy *copy);

/* is_kept: the room stays, and may be used by the next gpu_copy_begin. Else nothing is left of it. */
void gpu_copy_end(struct gpu_copy *copy, bool is_kept);
