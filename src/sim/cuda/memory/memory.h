/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: objects of the driver, where they are mapped, and what the program was given.
 *
 *      struct memory      one object of the driver (class 0x40, 0x3e, 0x71, or a managed range)
 *      struct mapping     a stretch of addresses of the device that means bytes of a memory
 *      struct allocation  what a program got from one call, and frees with one
 *
 * Small allocations share a memory, large ones of a pool have several: hence the two kinds of
 * stretches. Addresses are the same for all devices and for the host (unified addressing).
 * Everything here is under the library's lock.
 */
#pragma once

#include "sim/cuda/state.h"

#include <stddef.h>

enum memory_kind {
        MEMORY_VIDEO,   /* its bytes are fetched from the simulator on first touch */
        MEMORY_HOST,    /* the driver's pages, mapped by the library */
        MEMORY_PINNED,  /* pages of the program or of the library */
        MEMORY_MANAGED, /* a mapping of nvidia-uvm */
};

struct memory {
        struct device *device;
        enum memory_kind kind;
        uint32_t handle, parent; /* 0: managed */
        uint32_t fabric;         /* its addresses in the fabric; 0: none */
        uint64_t size;
        void *bytes;     /* our view; NULL: not yet */
        uint64_t linear; /* MEMORY_HOST: the driver's name for our mapping */
        unsigned int n_refs;
        struct memory *next; /* of those that memory_video made */
        uint32_t attr;       /* of those */
        uint64_t registered; /* with GPUDirect, at this address; 0: not */
};

/* How the driver distinguishes kinds of video memory (docs/rm-abi.md 2.2); recorded. */
enum {
        ATTR_LINEAR = 0x18000000,  /* cuMemAlloc */
        ATTR_ARRAY = 0x18020004,   /* arrays */
        ATTR_CHUNKED = 0x38000000, /* cuMemCreate and pools: pages anywhere */
};

CUresult memory_video(struct device *device, uint64_t size, uint32_t attr, struct memory **ret);
CUresult memory_pinned(struct device *device, void *pages, uint64_t size, uint32_t flags, struct memory **ret);
CUresult memory_adopt(struct device *device, uint32_t handle, uint32_t parent, uint64_t size, struct memory **ret);
CUresult memory_managed(struct device *device, void *bytes, uint64_t size, struct memory **ret);
CUresult memory_of_pools(struct device *device, uint64_t base); /* of the stream-ordered allocator */
struct memory *memory_unref(struct memory *memory);             /* NULL; the last one frees the object */
uint8_t *memory_bytes(struct memory *memory);                   /* NULL: the simulator has ended */

/* For a checkpoint: all that memory_video made; one leaves the device, and comes back under its handle. Its mappings
 * leave before and come back after it. */
struct memory *memories_first(void);
void memory_leave(struct memory *memory);
CUresult memory_return(struct memory *memory);

/* ---- stretches of addresses ---------------------------------------------------------------- */

struct span {
        uint64_t base, size;
};

/* Spans that do not overlap, in order of their addresses. */
struct spans {
        struct span **span;
        size_t n, room;
};

int spans_put(struct spans *spans, struct span *span); /* -EEXIST: overlaps; -ENOMEM */
void spans_take(struct spans *spans, const struct span *span);
struct span *spans_find(const struct spans *spans, uint64_t address); /* that holds the address; NULL */

struct mapping {
        struct span span; /* first */
        struct memory *memory;
        uint64_t offset;
        uint32_t handle;         /* the number that libcuda spends on a mapping; 0: none */
        struct peer_view *views; /* of devices that reach it */
        bool is_for_peers;       /* whoever may reach its device's memory has it mapped */
        bool is_own;             /* the UVM range is this mapping's: UVM_FREE ends it; else UVM_UNMAP_EXTERNAL */
};

/* Maps `size` bytes of memory at base, in the device's address space; takes a reference. */
CUresult mapping_new(struct memory *memory, uint64_t base, uint64_t size, uint64_t offset, bool is_own,
                     struct mapping **ret);
struct mapping *mapping_free(struct mapping *mapping); /* NULL */
struct mapping *mapping_end(struct mapping *mapping);  /* NULL; releases its addresses, too */
void mapping_leave(struct mapping *mapping);           /* the addresses stay its own */
CUresult mapping_return(struct mapping *mapping);

/* Video memory of its own, mapped where there is room. */
CUresult mapping_video(struct device *device, uint64_t size, uint32_t attr, struct mapping **ret);

struct mapping *mapping_at(uint64_t address);
struct mapping *mapping_after(const struct mapping *last); /* all of them, from NULL on; NULL at the end */

/* peers.c: maps it on a device that is not its own; on all that may reach it, now and later; and no more. */
CUresult peer_see(struct mapping *mapping, struct device *device);
CUresult peers_see(struct mapping *mapping);
void peers_unsee(struct mapping *mapping);

/* The bytes behind an address of the device: at most *have of them in one piece. NULL: not mapped. */
uint8_t *bytes_at(uint64_t address, uint64_t *ret_have);

/* alloc.c: GPUDirect, as libcuda does for what cuMemAlloc gives: at memory->registered, or not any more. */
uint32_t p2p_register(const struct memory *memory);
void p2p_unregister(const struct memory *memory);

/* Are all of them mapped? */
bool bytes_are_mapped(uint64_t address, uint64_t size);

enum allocation_kind {
        ALLOCATION_DEVICE,
        ALLOCATION_MANAGED,
        ALLOCATION_HOST,
        ALLOCATION_REGISTERED,
        ALLOCATION_POOL,
        ALLOCATION_VIRTUAL, /* a cuMemMap */
        ALLOCATION_ARRAY,
        ALLOCATION_IPC,
};

struct allocation {
        struct span span; /* first */
        enum allocation_kind kind;
        CUcontext context;
        struct mapping *mapping;           /* of its own; NULL: shared or several */
        struct chunk *chunk;               /* of a small one */
        const struct allocator *allocator; /* of a large one that allocation_make made */
        struct CUmemPoolHandle_st *pool;
        uint32_t source_client, source_object; /* of an IPC import */
        unsigned int n_opened;
};

CUresult allocation_new(CUcontext context, enum allocation_kind kind, uint64_t base, uint64_t size,
                        struct allocation **ret);
struct allocation *allocation_free(struct allocation *allocation); /* the record only; NULL */
struct allocation *allocation_at(uint64_t address);                /* that holds it */
struct allocation *allocation_named(uint64_t base);                /* that begins there */

/* What is left when a context ends, but for what lives with the device. */
void allocations_end(CUcontext context);

/* ---- the allocators ------------------------------------------------------------------------ */

/*
 * Small allocations: pieces of 512 bytes of a chunk of 2 MiB, so that they cost no call into the
 * driver (measured on the real one: 1.9 us); a chunk that is empty is freed at once. Recorded for
 * device, pinned and managed memory: less than 2 MiB is small.
 */
struct chunks {
        struct chunk *first;
};

enum {
        CHUNK_SIZE = 2 << 20,
        CHUNK_PIECE = 512,
        CHUNK_LARGEST = CHUNK_SIZE - 1, /* above, an allocation has a memory of its own */
        CHUNK_PIECES = CHUNK_SIZE / CHUNK_PIECE,
};

/* How memory of one kind is made, for a chunk or for one large allocation, and how it ends. */
struct allocator {
        CUresult (*map)(CUcontext context, uint64_t size, struct mapping **ret);
        void (*unmap)(struct mapping *mapping);
};

struct chunk {
        struct chunk *next;
        struct chunks *chunks;
        struct mapping *mapping;
        const struct allocator *allocator;
        uint64_t used[CHUNK_PIECES / 64];
        uint32_t n_used;
};

CUresult chunk_take(CUcontext context, struct chunks *chunks, const struct allocator *allocator, uint64_t size,
                    struct chunk **ret, uint64_t *ret_base);
void chunk_give(struct chunk *chunk, uint64_t base, uint64_t size);

/* Takes `size` bytes, of a chunk or as memory of their own, of which the program gets `bytes`. */
CUresult allocation_make(CUcontext context, enum allocation_kind kind, struct chunks *chunks,
                         const struct allocator *allocator, uint64_t size, uint64_t bytes, struct allocation **ret);
void allocation_unmake(struct allocation *allocation, uint64_t size); /* gives them back; the record stays */

/* cuMemFree of any kind that it takes; also what pools and IPC end with. */
CUresult allocation_end(struct allocation *allocation);

uint64_t round_up(uint64_t size, uint64_t to); /* to: not 0; saturates */
