/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared usage segment: what the processes of a tenant hold together, where no supervisor keeps a ledger.
 *
 * A memfd that all of them map, with a slot for each process and in it what that process holds on each device. There is
 * no lock that a dead process could keep, and no sum that it could leave wrong:
 *      R1  a process adds to its own slot only; what the tenant holds is the sum of all slots, computed anew each time;
 *      R2  a process adds first and sums then; if the sum exceeds the quota it takes back what it added. Of two that
 *          add at the same time the later one sees both, so the sum of what is kept never exceeds the quota. Both may
 *          be refused at first, so a refused process tries a few times before it gives up;
 *      R3  a slot belongs to the process with the write lock on its byte of the file (an open file description lock):
 *          the kernel drops the lock when the process is gone, at whatever instruction and in whatever pid namespace.
 *          The descriptor has a high number, so at exit the driver's descriptors are closed before it. A fork inherits
 *          both: what the parent holds stays charged as long as a child can keep it;
 *      R4  a slot without a lock is a dead process's; a process that needs room locks it, empties it and unlocks it.
 *
 * With a mounted lease (lease_descriptor.h) the segment is an ordinary file of a tmpfs. It has no seals then, and a
 * program that truncates it is ended by its next access (SIGBUS).
 *
 * The tenant can write to the segment: like all that runs inside, it guards against accidents, not against an enemy
 * (docs/preload.md). The quotas are not in it; they are in the lease descriptor, which the tenant can only read.
 *
 * Threads: any, except usage_segment_join and usage_segment_leave. Signal handlers: usage_segment_take and
 * usage_segment_drop allocate nothing and take no lock.
 */
#pragma once

#include "base/text.h"
#include "preload/lease_descriptor.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
        USAGE_SEGMENT_SLOTS = 1024, /* processes of a tenant at one time */
        USAGE_SEGMENT_DEVICES = 32,
        USAGE_SEGMENT_HOST = USAGE_SEGMENT_DEVICES, /* host memory counts as one more device */
        USAGE_SEGMENT_KINDS,

        USAGE_SEGMENT_OK = 0,
        USAGE_SEGMENT_E_FULL,     /* the quota would be exceeded; nothing was taken */
        USAGE_SEGMENT_E_SLOTS,    /* too many processes */
        USAGE_SEGMENT_E_ATTACHED, /* the tenancy has a gate, which counts what would be counted here */
};

struct usage_segment_slot {
        _Atomic bytes held[USAGE_SEGMENT_KINDS];
        _Atomic int32_t process; /* its pid in its own namespace; for people */
        uint32_t padding;
};

struct usage_segment {
        char magic[8];
        uint32_t version, size;
        uint64_t tenancy;             /* the lease descriptor's */
        _Atomic uint32_t is_attached; /* a gate decides for this tenancy, and no process may decide here */
        _Atomic int32_t attach_error; /* errno of the latest attempt to attach; 0: none failed */
        _Atomic uint64_t n_refused[USAGE_SEGMENT_KINDS]; /* this and the next two are for people */
        _Atomic bytes peak[USAGE_SEGMENT_KINDS];
        _Atomic bytes largest_refused[USAGE_SEGMENT_KINDS];
        _Atomic uint32_t sms, sms_of; /* the latest SM partition, and of how many; 0: none */
        struct usage_segment_slot slots[USAGE_SEGMENT_SLOTS];
};

/* A process's mapping of the segment, and its slot. */
struct usage_segment_handle {
        struct usage_segment *segment;
        struct usage_segment_slot *slot;
        int fd; /* of a file description of its own, which carries the lock */
};

/* A new, sealed segment for that tenancy: *ret_fd, the caller's. 0; -errno. */
int usage_segment_new(uint64_t tenancy, int *ret_fd);

/* Writes the same to an empty file. 0; -errno. */
int usage_segment_write(int fd, uint64_t tenancy);

/* Maps the segment and takes a slot; fd stays the caller's. USAGE_SEGMENT_OK; USAGE_SEGMENT_E_SLOTS;
 * USAGE_SEGMENT_E_ATTACHED; -EPROTO: no segment, a damaged one, or another tenancy's; -errno. */
int usage_segment_join(int fd, enum lease_descriptor_source source, uint64_t tenancy, struct usage_segment_handle *ret);

void usage_segment_leave(struct usage_segment_handle *handle); /* gives back what the slot holds */

int usage_segment_take(struct usage_segment_handle *handle, unsigned int kind, bytes size, bytes quota);
int usage_segment_try(struct usage_segment_handle *handle, unsigned int kind, bytes size,
                      bytes quota); /* a refusal is not counted */
void usage_segment_drop(struct usage_segment_handle *handle, unsigned int kind, bytes size);

bytes usage_segment_held(const struct usage_segment *segment, unsigned int kind); /* by all processes */

void usage_segment_reclaim(struct usage_segment_handle *handle); /* returns what dead processes held */

/* ---- usage_segment_scan.c: for the daemon and sublet run, outside the tenant ---- */

struct usage_segment_totals {
        size_t n_processes; /* with a slot */
        bytes held[USAGE_SEGMENT_KINDS], peak[USAGE_SEGMENT_KINDS], largest_refused[USAGE_SEGMENT_KINDS];
        uint64_t n_refused[USAGE_SEGMENT_KINDS];
        bool is_attached;
        unsigned int sms, sms_of; /* the SM partition; 0: none was made */
        int attach_error;
};

/* Sums what living processes have written: figures for people, as true as the tenant is honest. 0; -EPROTO; -ETIME: the
 * file has so many locks that the scan would take long; -errno. */
int usage_segment_scan(int fd, enum lease_descriptor_source source, uint64_t tenancy, struct usage_segment_totals *ret);

/* Sets whether a gate decides from here on. 0; -errno. */
int usage_segment_set_attached(int fd, bool is_attached);

/* Whether a file can be a segment, by all but its content; and whether its header is that tenancy's. */
bool usage_segment_is_file(int fd, enum lease_descriptor_source source);
bool usage_segment_has_tenancy(const struct usage_segment *segment, uint64_t tenancy);
