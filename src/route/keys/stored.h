/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that are made in the background and fetched later, and batches: what was taken for each from its key's
 * tokens. Who fetches it with a word of its usage takes its entry and settles it, so it is paid once; a batch is put
 * back with what was paid, since its usage grows. There are so many entries; the oldest ones are forgotten, and their
 * answers stay paid as they were.
 *
 * Lies in shared memory; all zero is valid. Threads and processes: any, at any time; killed inside, an entry is lost.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        STORED_SLOTS = 4096,
        STORED_NEAR = 8, /* slots that one id may lie in */
};

/* What is stored of an answer. */
struct stored {
        uint64_t key, reserved, per_minute;
};

struct stored_slot {
        _Atomic uint64_t id;    /* hash, which is odd; 0: free; STORED_BUSY: being written */
        _Atomic uint64_t order; /* when it came */
        struct stored what;
};

struct stored_table {
        _Atomic uint64_t order;
        struct stored_slot at[STORED_SLOTS];
};

void stored_put(struct stored_table *table, uint64_t id, const struct stored *what); /* the id is an odd number */

bool stored_take(struct stored_table *table, uint64_t id, struct stored *ret); /* false: there is none, any more */
