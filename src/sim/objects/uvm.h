/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of UVM's spaces, shared by uvm.c (calls) and ranges.c. */
#pragma once

#include "sim/server/machine.h"

enum {
        HOST_PAGE = 4096,
};

enum range_kind {
        RANGE_EXTERNAL,
        RANGE_POOL,
        RANGE_PLAIN,
        RANGE_MANAGED,
};

struct mapping {
        struct mapping *next;
        uint64_t base, length;
        struct memory *memory; /* NULL: sparse */
        struct gpu *gpu;       /* which has its page tables; NULL: none */
        bytes tables;
};

/* A channel that was registered: its group stays. */
struct retained {
        struct retained *next;
        uint32_t client, channel;
        struct group *group;
};

/* What a program sees where a memory was mapped as a whole: its file, for the next one there (mem_adopt). */
struct kept_file {
        struct kept_file *next;
        uint64_t base, length;
        int fd;
};

struct range {
        struct range *next;
        enum range_kind kind;
        uint64_t base, length;
        struct mapping *mappings;        /* external */
        struct heap_evictable evictable; /* managed */
        struct gpu *gpu;                 /* that holds the evictable part; NULL: none */
        uint8_t *is_on; /* of each chunk from `made_at` on: it has been moved to a device; NULL: none has */
        uint64_t made_at;
        int fd;                 /* bytes of a pool or managed range; -1: not mapped yet */
        struct kept_file *kept; /* external */
        pid_t mapper;           /* the process that mapped a managed range */
};

struct space {
        struct range *ranges; /* the lowest first */
        struct retained *retained;
        struct gpu *gpu;   /* the first that was registered: managed memory goes there */
        pid_t pid;         /* the only process that may map; 0: any */
        struct map groups; /* range groups, by their number */
};

bool is_inside(uint64_t base, uint64_t length, uint64_t outer, uint64_t outer_length);

struct range *range_at(const struct space *space, uint64_t base, uint64_t length); /* NULL: none */
uint32_t range_new(struct space *space, enum range_kind kind, uint64_t base, uint64_t length, struct range **ret);

/* What of the range has an address of [base, base + length) goes to the device, or (NULL) to the host; of a range what
 * another device had goes to the host. */
void range_move(struct range *range, uint64_t base, uint64_t length, struct gpu *gpu);
void range_fit(struct range *range); /* it has become smaller */
void range_unmap(struct range *range, uint64_t base, uint64_t length,
                 const struct gpu *gpu); /* what is mapped wholly inside, on one device or (NULL) on all */

/* The memory is mapped there as a whole: it takes the file over of what was before it. */
void range_adopt(struct range *range, const struct mapping *mapping);
void range_free(struct space *space, struct range *range);

/* What it points to goes. */
void retained_drop(struct retained **at);

/* managed.c: each a call's status. */
uint32_t managed_migrate(struct machine *machine, const struct request *request, struct space *space);
uint32_t managed_prefer(struct machine *machine, const struct request *request, struct space *space);
