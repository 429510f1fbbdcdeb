/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program gives the real device by doorbell and mapped memory, as SIM_OP_GPU messages on an
 * nvidiactl connection. The block is one struct sim_gpu; there are no segments.
 *
 * Work. A channel is a queue: its launches run in the order in which they were sent, one after the
 * other; its group shares the device with other groups by timeslices. A launch is one-way, as a
 * doorbell is: no answer, no round trip. An error (no such channel, lost device) sticks to the channel,
 * and its next FENCE returns it.
 *
 *      sim_gpu_send(ctl, &(struct sim_gpu){ .op = SIM_GPU_LAUNCH, .client = c, .object = channel,
 *                                           .duration = 770000, .value = ++last,
 *                                           .semaphore = pool, .semaphore_offset = 16 * n });
 *      sim_gpu_wait(ctl, c, channel, last, SIM_FOREVER, NULL);
 *
 * Fences. `value` grows along a channel; the channel has reached v when every launch with a value
 * up to v is done. A semaphore is 16 bytes in memory of the same client (class 0x3e or
 * 0x40): when the launch is done the device writes { u64 value, u64 nanoseconds of CLOCK_MONOTONIC
 * } there, so that polling and event times are plain reads of mapped memory, as on the real device.
 * A launch of duration 0 is a fence, an event record or a marker: it takes no time on the device
 * but waits for its turn.
 *
 * Meetings. A launch with n_meeting waits on its device for the launches of n_meeting - 1 other channels under the
 * same name, and ends with them, `duration` after all of them were on together: the k-th launch of a channel under a
 * name is a member of the k-th meeting of that name.
 *
 * Memory. The bytes of a memory object are a sparse memfd that lives as long as the memory: every
 * holder (dups, imports, other processes) gets the same one. When the last reference goes, its pages
 * are freed even where they are still mapped, and read as zeros.
 *
 * Touches. What a launch does to bytes, the program's processor does, whenever it comes to it. Engines cannot tell
 * when, so it says so: in one page per client. Somebody else's copy engine that is to read memory of a client whose
 * channels are off waits until nobody touches it, and says that the bytes are away; until channels of the client are
 * enabled again nobody touches them. So a launch is either before such a copy or after the contents are back, as on the
 * device.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum sim_gpu_op {
        SIM_GPU_LAUNCH = 1, /* object: a channel, or a group (its first channel). One-way */
        SIM_GPU_FENCE,      /* object: a channel. Answered when `value` is reached or `timeout` is over */
        SIM_GPU_BACKING,    /* object: memory. Answered with its memfd; argument[1]: its size */
        SIM_GPU_TOUCH,      /* Answered with the memfd of the client's struct sim_touch */
};

#define SIM_FOREVER UINT64_MAX

struct sim_gpu {
        uint32_t op;
        uint32_t client; /* as in an ioctl: must belong to this connection */
        uint32_t object;
        uint32_t after_client;  /* LAUNCH: with after_channel, starts only when that channel has */
        uint32_t after_channel; /* reached after_value (cuStreamWaitEvent); 0: none. Of any client */
        uint32_t semaphore;     /* LAUNCH: handle of a memory object, 0: none */
        uint64_t after_value;
        uint64_t semaphore_offset;
        uint64_t duration; /* LAUNCH: ns that it needs on a device of its own */
        uint64_t value;
        uint64_t meeting;             /* LAUNCH: the name of what it waits for, any number */
        uint32_t n_meeting, reserved; /* how many wait for each other; 0: none */
        uint64_t timeout;             /* FENCE: ns; 0 polls, SIM_FOREVER waits */
};

struct sim_touch {
        atomic_uint touching; /* the program's: threads that touch bytes of the client's memory */
        atomic_uint is_away;  /* the machine's */
};

/*
 * The client's side (doorbell.c).
 *
 * sim_gpu_send: a launch. 0; -EPIPE: the machine has ended.
 * sim_gpu_wait: ret_reached: the highest value that the channel has reached, may be NULL.
 *      0; -ETIMEDOUT: not yet; -ENOENT: no such channel; -EIO: the channel was stopped by an error
 *      (an Xid); -ENODEV: the device is lost; -EPIPE.
 * sim_gpu_backing: a descriptor of the memory's bytes, the caller's; or -ENOENT, -EPIPE.
 * sim_gpu_touch: of the client's page, the same.
 * Threads: any. All but sim_gpu_send block for a round trip.
 */
int sim_gpu_send(int ctl, const struct sim_gpu *launch);
int sim_gpu_wait(int ctl, uint32_t client, uint32_t channel, uint64_t value, uint64_t timeout, uint64_t *ret_reached);
int sim_gpu_backing(int ctl, uint32_t client, uint32_t memory, uint64_t *ret_size);
int sim_gpu_touch(int ctl, uint32_t client);
