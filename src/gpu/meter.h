/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meter: the device's own records of every context switch, from an event buffer bound to the device client
 * (docs/rm-abi.md 6).
 *
 * A record says that context `id` came onto the device, or left it, at that nanosecond. The id is the cid that the
 * driver gave to the first channel of the group; the caller knows its owner from the control blocks. A context that is
 * alone stays on without records, also while it is idle: residency is exact, busyness is not in it.
 *
 * Threads: one at a time per meter. Blocks: with flush, meter_read waits for the driver's locks; without it, it makes a
 * driver call only to read the device's clock.
 */
#pragma once

#include "gpu/control.h"

struct meter;

struct meter_record {
        nsec at;          /* on the clock of clock_now() */
        uint32_t context; /* cid of the group's first channel */
        uint32_t pid;     /* of the process that created the driver client; 0xffffffff: the kernel's */
        bool is_on;
};

/* `client` is borrowed and must outlive the meter. 0; -ENOTSUP: the driver refuses (docs/time.md says why); -errno. */
int meter_open(struct gpu_client *client, struct meter **ret);
struct meter *meter_close(struct meter *meter); /* NULL is fine */

/* Reads up to n_room records since the last call, oldest first. flush: the driver first fetches what the device has
 * written. *ret_lost counts records that were dropped before these. Returns the number of records; -errno. */
int meter_read(struct meter *meter, bool flush, struct meter_record *records, size_t n_room, uint64_t *ret_lost);
