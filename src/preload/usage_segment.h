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
 * Where the lease is a mount (page.h), the region is an ordinary file of a tmpfs; it has no seals then, and a program
 * that truncates it is ended by its next look (SIGBUS).
 *
 * The tenant can write to the region: it is a guard against accidents, not against an enemy, like all that
 * runs inside (docs/preload.md). The quotas are not in it: they are on a page that it can only read.
 *
 * Threads: all functions from any, but region_join and region_leave. Signal handlers: region_take and
 * region_drop make no allocation and take no lock.
 */
#pragma once

#include "base/text.h"
#include "preload/lease_descriptor.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
        REGION_SLOTS = 1024, /* processes of a tenant at a time */
        REGION_DEVICES = 32,
        REGION_HOST = REGION_DEVICES, /* host memory counts as one more device */
        REGION_KINDS,

        REGION_OK = 0,
        REGION_E_FULL,     /* would exceed the quota; nothing was taken */
        REGION_E_SLOTS,    /* too many processes */
        REGION_E_ATTACHED, /* the tenancy has a gate: what is counted here is counted twice */
};

struct region_slot {
        _Atomic bytes held[REGION_KINDS];
        _Atomic int32_t process; /* as it sees itself; for people */
        uint32_t padding;
};

struct region {
        char magic[8];
        uint32_t version, size;
        uint64_t tenancy;                         /* the page's */
        _Atomic uint32_t is_attached;             /* a gate decides for this tenancy: nobody may decide here any more */
        _Atomic int32_t attach_error;             /* why the latest attempt was none; errno, or 0 */
        _Atomic uint64_t n_refused[REGION_KINDS]; /* for people, as the two that follow */
        _Atomic bytes peak[REGION_KINDS];
        _Atomic bytes largest_refused[REGION_KINDS];
        _Atomic uint32_t sms, sms_of; /* the SM partition that was made last, and of how many; 0: none */
        struct region_slot slots[REGION_SLOTS];
};

/* A process's place in it. */
struct region_seat {
        struct region *region;
        struct region_slot *slot;
        int fd; /* of our own file description: it carries the lock */
};

/* By who starts the tenant: a new one, sealed, for the page of that tenancy. *ret_fd; 0; -errno. */
int region_new(uint64_t tenancy, int *ret_fd);

/* The same in an empty file. 0; -errno. */
int region_write(int fd, uint64_t tenancy);

/* Maps what a descriptor holds and takes a slot. -EPROTO: it is no region, a damaged one, or another tenancy's;
 * REGION_E_SLOTS; REGION_E_ATTACHED. The descriptor stays the caller's. */
int region_join(int fd, enum page_place place, uint64_t tenancy, struct region_seat *ret);

/* In the child of a fork: a slot of its own; the parent's stays the parent's. As region_join. */
int region_join_again(struct region_seat *seat);

void region_leave(struct region_seat *seat); /* gives back what the slot holds */

int region_take(struct region_seat *seat, unsigned int kind, bytes size, bytes quota);
int region_try(struct region_seat *seat, unsigned int kind, bytes size, bytes quota); /* a refusal is not counted */
void region_drop(struct region_seat *seat, unsigned int kind, bytes size);

bytes region_held(const struct region *region, unsigned int kind); /* by all processes */

void region_settle(struct region_seat *seat); /* what dead processes held goes back now */

/* ---- region_look.c: for who looks on from outside, and maps nothing that a tenant could take away under it ---- */

struct region_books {
        size_t n_processes; /* that have a slot */
        bytes held[REGION_KINDS], peak[REGION_KINDS], largest_refused[REGION_KINDS];
        uint64_t n_refused[REGION_KINDS];
        bool is_attached;
        unsigned int sms, sms_of; /* the SM partition; 0: none was made */
        int attach_error;
};

/* What living processes have written: figures for people, and only as true as the tenant is honest. -EPROTO; -ETIME: it has
 * so many locks that the look would take long; -errno. */
int region_look(int fd, enum page_place place, uint64_t tenancy, struct region_books *ret);

/* Whether a gate decides from here on. 0; -errno. */
int region_mark(int fd, bool is_attached);

/* region.c: whether a file can be one, by all but its content; and whether its first bytes are that tenancy's. */
bool region_is_file(int fd, enum page_place place);
bool region_is_of(const struct region *region, uint64_t tenancy);
