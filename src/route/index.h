/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which replicas have which beginning of a prompt in their cache: block hash -> set of replicas, in shared memory.
 *
 *      slots    an open-addressing table with a bit per replica in each slot: "has it"
 *      order    for each replica a log of the slots that were used, and a table that says of each slot which of these
 *               uses was its last. What the cache has no room for is what was used longest ago, as in an engine: the
 *               log's end says what that is, once the uses that have a later one are skipped. A use soon after the last
 *               one of the same slot is left out of the log, so the order is that of use but for a sixteenth of it.
 *
 * The index guesses: an engine evicts as it likes. A wrong bit costs one worse choice, so nothing here locks:
 *      X1  every word is an atomic of its own. A process that is killed at any instruction leaves a word changed or
 *          not, and at worst a bit that no use is known of, which the next use of its slot mends;
 *      X2  no function waits for another process;
 *      X3  memory is never added; a full window gives up its slot with the fewest replicas.
 * The caller drops a replica from its masks: O(1). index_sweep clears the replica's bits, a few at a time; until it
 * returns true, the number must not be used for another replica.
 *
 * Threads and processes: any, at once.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        INDEX_REPLICAS = 64,
};

struct index;

/* Bytes for a table of n_slots (a power of two) and caches of at most n_blocks for each replica. */
size_t index_size(size_t n_slots, size_t n_blocks);

/* The most blocks of a cache for which `size` bytes are enough. */
size_t index_room(size_t n_slots, size_t size);

/* memory: index_size() bytes, zeroed, aligned to 64. The index is empty. */
struct index *index_init(void *memory, size_t n_slots, size_t n_blocks);

/*
 * For each replica of `mask`, how many blocks of the chain it has from the beginning without a gap, in ret[replica];
 * others are not written. Returns the replicas that have at least one.
 */
uint64_t index_match(const struct index *index, const uint64_t *chain, size_t n, uint64_t mask,
                     uint32_t ret[static INDEX_REPLICAS]);

/* Begins to fetch what index_match and index_put will read first, for who has something else to do meanwhile. */
void index_ahead(const struct index *index, const uint64_t *chain, size_t n);

/* The replica will have the blocks: they are put in, or marked as used. */
void index_put(struct index *index, unsigned int replica, const uint64_t *chain, size_t n);

/* How many blocks the replica's cache holds; at most what index_init was given. A smaller cache forgets at once. */
void index_resize(struct index *index, unsigned int replica, size_t n_blocks);

/* The replica's cache is empty (restarted, removed): clears `budget` of the places where it may have a block. True: all
 * are cleared. */
bool index_sweep(struct index *index, unsigned int replica, size_t budget);

/* Blocks that the replica has, by its order of use. */
size_t index_count(const struct index *index, unsigned int replica);
