/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: a stretch of addresses made of slots of 32 MiB, which get memory when an allocation needs
 * it and lose it when the program has waited.
 *
 * Recorded: the stretch is one UVM range (73) of twice the device's heap, the memory of a slot is a
 * class 0x40 of 32 MiB and a UVM 33; all memory of an allocation is taken before any of it is
 * mapped; it goes back by UVM 66 and FREE. The first pool of a process takes 2 MiB of host memory
 * besides. Pools live with the device: they outlive contexts.
 */
#pragma once

#include "sim/cuda/context/stream.h"

enum {
        POOL_SLOT = 32 << 20,
};

enum block_state {
        BLOCK_LIVE,
        BLOCK_FREED,    /* when `freed` is reached */
        BLOCK_RESERVED, /* a graph's: addresses without memory */
};

/* A piece of the stretch that is in use, was freed, or is reserved. */
struct block {
        struct block *next; /* in order of addresses */
        uint64_t base, size;
        enum block_state state;
        struct mark freed;
        CUstream stream;       /* where it was freed: may reuse it at once; compared only */
        unsigned int n_graphs; /* that name it */
        unsigned int n_imported;
};

struct CUmemPoolHandle_st {
        CUmemoryPool next; /* in the library */
        struct device *device;
        CUmemPoolProps properties;
        uint64_t base, size;
        struct mapping **slot;
        size_t n_slots, n_backed;
        struct block *blocks;
        uint64_t used;
        int fd; /* exported, imported from; -1: neither */
        bool is_imported, is_graph, is_ended;
};

CUresult pool_new(struct device *device, const CUmemPoolProps *properties, CUmemoryPool *ret);
CUresult pool_of_device(struct device *device, CUmemoryPool *ret); /* its default one */
CUresult pool_of_graphs(struct device *device, CUmemoryPool *ret);

CUresult pool_take(CUmemoryPool pool, CUstream stream, uint64_t bytes, CUdeviceptr *ret);
void pool_give(struct allocation *allocation, struct mark freed);
void pool_give_in(struct allocation *allocation, CUstream stream);
void pool_trim(CUmemoryPool pool, uint64_t keep);

/* Memory for slots first .. last that have none. On failure nothing was taken. */
CUresult pool_back(CUmemoryPool pool, size_t first, size_t last);
struct block *pool_block(const struct CUmemPoolHandle_st *pool, uint64_t base);
CUresult pool_block_put(CUmemoryPool pool, uint64_t base, uint64_t size, enum block_state state, struct block **ret);

/* Addresses for a graph's allocation; a reference, and further ones. */
CUresult pool_reserve(CUmemoryPool pool, uint64_t bytes, uint64_t *ret);
void pool_reserved_ref(uint64_t base);
void pool_reserved_unref(uint64_t base);
CUresult pool_commit(uint64_t base, CUstream stream);
