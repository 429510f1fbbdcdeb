/*
 * Which replica has which beginning of a prompt in its cache: block hash -> set of replicas, in memory that
 * several processes share.
 *
 *      slots    an open-addressing table, a bit per replica in each slot: «has it», and «was asked for it since»
 *      rings    for each replica the hashes it was given, in that order, as many as its cache holds blocks. When a ring
 *               comes round to a hash that was asked for since, it stays for another round; else its bit goes. So a
 *               replica's part of the index ages as its cache does, and is never larger.
 *
 * The index guesses: an engine evicts as it likes. A wrong bit costs one worse choice, so nothing here locks:
 *      X1  every word is an atomic of its own; a process that is killed at any instruction leaves a word changed
 *          or not, and at worst a bit without a place in a ring, which the next round of the table's window frees;
 *      X2  no function waits for another process;
 *      X3  memory is given once and never grows; a full window gives up its slot with the fewest replicas.
 * A replica that goes is a mask less (the caller's): O(1). Its bits are taken out as its ring is swept, a little at a
 * time; until index_sweep says it is clean the number must not be given to another.
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

/* memory: index_size() bytes, zeroed, aligned to 64. Nothing is in it. */
struct index *index_init(void *memory, size_t n_slots, size_t n_blocks);

/*
 * For each replica of `mask` how many blocks of the chain it has from the beginning without a gap, in
 * ret[replica]; others are not written. Returns those that have at least one.
 */
uint64_t index_match(const struct index *index, const uint64_t *chain, size_t n, uint64_t mask,
                     uint32_t ret[static INDEX_REPLICAS]);

/* The replica will have the blocks: they are put in, or used anew. */
void index_put(struct index *index, unsigned int replica, const uint64_t *chain, size_t n);

/* How many blocks the replica's cache holds; at most what index_init was given. A smaller ring forgets at once. */
void index_resize(struct index *index, unsigned int replica, size_t n_blocks);

/* The replica's cache is empty (restarted, gone): looks at `budget` places of its ring, and takes its bits out.
 * True: all are. */
bool index_sweep(struct index *index, unsigned int replica, size_t budget);

/* Blocks that the replica has, by its ring. */
size_t index_count(const struct index *index, unsigned int replica);
