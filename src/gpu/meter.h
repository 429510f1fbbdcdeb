/*
 * The meter: the device's own records of every context switch, from an event buffer that the device
 * client is bound to (docs/rm-abi.md 6).
 *
 * A record says: context `id` came on, or went off, at that nanosecond. The id is the cid that the driver
 * gave the group's first channel; whose it is, the caller knows from the control blocks. A context that is
 * alone stays on without records, also when it is idle: residency is exact, busyness is not in it.
 *
 * Threads: one at a time per meter. Blocks: meter_read without flush does not make a driver call but
 * to return room to the driver; with flush it waits for the driver's locks.
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

/* client is borrowed and outlives the meter. 0; -errno; -ENOTSUP: the driver refuses (reason in docs/time.md). */
int meter_open(struct gpu_client *client, struct meter **ret);
struct meter *meter_close(struct meter *meter); /* NULL is fine */

/* Up to n_room records since the last call, oldest first. flush: the driver is asked to hand over what
 * the device has written so far. *ret_lost counts records that were dropped before these. The number of
 * records; -errno. */
int meter_read(struct meter *meter, bool flush, struct meter_record *records, size_t n_room, uint64_t *ret_lost);
