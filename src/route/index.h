/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which replicas have which beginning of a prompt in their cache: block hash -> set of replicas, in shared memory.
 *
 *      slots    an open-addressing table with two bits per replica in each slot: "has it", and "was used since"
 *      rings    for each replica the hashes put in for it, in that order, as many as its cache holds blocks. A hash
 *               that was used since stays for another round of the ring; else its bit is cleared. So a replica's part
 *               of the index ages as its cache does, and is never larger.
 *
 * The index guesses: an engine evicts as it likes. A wrong bit costs one worse choice, so nothing here locks:
 *      X1  every word is an atomic of its own. A process that is killed at any instruction leaves a word changed or
 *          not, and at worst a bit without a ring entry, which the next reuse of its slot clears;
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

/* Bytes for a table of n_slots (a power of two) and rings of at most n_blocks for each replica. */
size_t index_size(size_t n_slots, size_t n_blocks);

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

/* How many blocks the replica's cache holds; at most what index_init was given. A smaller ring forgets at once. */
void index_resize(struct index *index, unsigned int replica, size_t n_blocks);

/* The replica's cache is empty (restarted, removed): clears the bits of `budget` entries of its ring. True: all are
 * cleared. */
bool index_sweep(struct index *index, unsigned int replica, size_t budget);

/* Blocks that the replica has, by its ring. */
size_t index_count(const struct index *index, unsigned int replica);
