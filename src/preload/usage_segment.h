/*
 * The region: what the processes of a tenant hold together, where no supervisor keeps the books.
 *
 * A memfd that all of them map: a slot for each process, and in it what that process holds on each device.
 * There is no lock that a dead process could hold, and no sum that one could leave wrong:
 *      R1  a process adds to its own slot only; what the tenant holds is the sum of the slots, taken anew each
 *          time;
 *      R2  it adds first and sums then; if the sum is over, it takes back what it added. Of two that add at the same
 *          time the later one sees both, so the sum of what is kept is never over;
 *      R3  a slot belongs to who holds the write lock on its byte of the file (an open file description lock): the
 *          kernel drops it when the process is gone, at whatever instruction, in whatever pid namespace. The
 *          descriptor has a high number, so at exit the driver's are closed before it. A fork inherits both: what
 *          the parent holds stays charged as long as a child can keep it;
 *      R4  a slot without a lock is a dead process's: whoever needs room locks it, empties it, unlocks it.
 * Two that together would be over may refuse each other; they look again a few times before they say so.
 *
 * Where the lease is a mount (page.h), the usage segment is an ordinary file of a tmpfs; it has no seals then, and a program
 * that truncates it is ended by its next look (SIGBUS).
 *
 * The tenant can write to the usage segment: it is a guard against accidents, not against an enemy, like all that
 * runs inside (docs/preload.md). The quotas are not in it: they are on a page that it can only read.
 *
 * Threads: all functions from any, but usage_segment_join and usage_segment_leave. Signal handlers: usage_segment_take and
 * usage_segment_drop make no allocation and take no lock.
 */
#pragma once

#include "base/text.h"
#include "preload/lease_descriptor.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
        USAGE_SEGMENT_SLOTS = 1024, /* processes of a tenant at a time */
        USAGE_SEGMENT_DEVICES = 32,
        USAGE_SEGMENT_HOST = USAGE_SEGMENT_DEVICES, /* host memory counts as one more device */
        USAGE_SEGMENT_KINDS,

        USAGE_SEGMENT_OK = 0,
        USAGE_SEGMENT_E_FULL,     /* would exceed the quota; nothing was taken */
        USAGE_SEGMENT_E_SLOTS,    /* too many processes */
        USAGE_SEGMENT_E_ATTACHED, /* the tenancy has a gate: what is counted here is counted twice */
};

struct usage_segment_slot {
        _Atomic bytes held[USAGE_SEGMENT_KINDS];
        _Atomic int32_t process; /* as it sees itself; for people */
        uint32_t padding;
};

struct usage_segment {
        char magic[8];
        uint32_t version, size;
        uint64_t tenancy;             /* the lease descriptor's */
        _Atomic uint32_t is_attached; /* a gate decides for this tenancy: nobody may decide here any more */
        _Atomic int32_t attach_error; /* why the latest attempt was none; errno, or 0 */
        _Atomic uint64_t n_refused[USAGE_SEGMENT_KINDS]; /* for people, as the two that follow */
        _Atomic bytes peak[USAGE_SEGMENT_KINDS];
        _Atomic bytes largest_refused[USAGE_SEGMENT_KINDS];
        _Atomic uint32_t sms, sms_of; /* the SM partition that was made last, and of how many; 0: none */
        struct usage_segment_slot slots[USAGE_SEGMENT_SLOTS];
};

/* A process's place in it. */
struct usage_segment_handle {
        struct usage_segment *segment;
        struct usage_segment_slot *slot;
        int fd; /* of our own file description: it carries the lock */
};

/* By who starts the tenant: a new one, sealed, for the lease descriptor of that tenancy. *ret_fd; 0; -errno. */
int usage_segment_new(uint64_t tenancy, int *ret_fd);

/* The same in an empty file. 0; -errno. */
int usage_segment_write(int fd, uint64_t tenancy);

/* Maps what a descriptor holds and takes a slot. -EPROTO: it is no region, a damaged one, or another tenancy's;
 * USAGE_SEGMENT_E_SLOTS; USAGE_SEGMENT_E_ATTACHED. The descriptor stays the caller's. */
int usage_segment_join(int fd, enum lease_descriptor_source source, uint64_t tenancy, struct usage_segment_handle *ret);

/* In the child of a fork: a slot of its own; the parent's stays the parent's. As usage_segment_join. */
int usage_segment_join_again(struct usage_segment_handle *handle);

void usage_segment_leave(struct usage_segment_handle *handle); /* gives back what the slot holds */

int usage_segment_take(struct usage_segment_handle *handle, unsigned int kind, bytes size, bytes quota);
int usage_segment_try(struct usage_segment_handle *handle, unsigned int kind, bytes size,
                      bytes quota); /* a refusal is not counted */
void usage_segment_drop(struct usage_segment_handle *handle, unsigned int kind, bytes size);

bytes usage_segment_held(const struct usage_segment *segment, unsigned int kind); /* by all processes */

void usage_segment_reclaim(struct usage_segment_handle *handle); /* what dead processes held goes back now */

/* ---- usage_segment_scan.c: for who looks on from outside, and maps nothing that a tenant could take away under it ---- */

struct usage_segment_totals {
        size_t n_processes; /* that have a slot */
        bytes held[USAGE_SEGMENT_KINDS], peak[USAGE_SEGMENT_KINDS], largest_refused[USAGE_SEGMENT_KINDS];
        uint64_t n_refused[USAGE_SEGMENT_KINDS];
        bool is_attached;
        unsigned int sms, sms_of; /* the SM partition; 0: none was made */
        int attach_error;
};

/* What living processes have written: figures for people, and only as true as the tenant is honest. -EPROTO; -ETIME: it has
 * so many locks that the look would take long; -errno. */
int usage_segment_scan(int fd, enum lease_descriptor_source source, uint64_t tenancy, struct usage_segment_totals *ret);

/* Whether a gate decides from here on. 0; -errno. */
int usage_segment_set_attached(int fd, bool is_attached);

/* region.c: whether a file can be one, by all but its content; and whether its first bytes are that tenancy's. */
bool usage_segment_is_file(int fd, enum lease_descriptor_source source);
bool usage_segment_has_tenancy(const struct usage_segment *segment, uint64_t tenancy);
