/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's video memory, as an amount: fragmentation is not simulated.
 *
 * Two kinds of holders. RM memory is taken and given back, or refused. An *evictable* (a managed range)
 * takes what is free or what older evictables had, and loses it again to RM memory: its pages move to
 * host memory. Invariant: used == what was taken and not given back + what all evictables hold <= size.
 * Pure. Source: docs/rm-abi.md 2.3, 8.3.
 */
#pragma once

#include "base/text.h"

#include <stdbool.h>

struct heap_evictable {
        struct heap_evictable *next;
        bytes held;
};

struct heap {
        bytes size, used;
        struct heap_evictable *evictables; /* the newest first */
};

enum {
        HEAP_OK,
        HEAP_E_FULL, /* nothing was taken or evicted */
};

/* What an allocation with these attributes becomes: *ret_size is what the driver reports (a multiple
 * of the page size), *ret_taken what it takes of the heap (of 64 KiB, or of the huge page size).
 * HEAP_OK; HEAP_E_FULL: larger than an address can be. */
int heap_round(bytes size, uint32_t attr, uint32_t attr2, bytes *ret_size, bytes *ret_taken);

int heap_take(struct heap *heap, bytes size); /* HEAP_OK; HEAP_E_FULL */
void heap_give(struct heap *heap, bytes size);

/* Up to `wanted` bytes for an evictable that is not in the heap. */
void heap_take_evictable(struct heap *heap, struct heap_evictable *evictables, bytes wanted);
void heap_give_evictable(struct heap *heap, struct heap_evictable *evictables);

bytes heap_free(const struct heap *heap); /* as in memory info: evictables count as used */
