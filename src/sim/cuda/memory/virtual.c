/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: memory without an address, addresses without memory, and the two put
 * together. Recorded: cuMemCreate is a class 0x40; mapping and access are one UVM 73 and UVM 33 at
 * the address, sent by cuMemSetAccess; reserving and mapping make no call; unmapping is one UVM 34,
 * releasing the last handle FREE.
 */
#include "sim/cuda/memory/virtual.h"

#include "base/cleanup.h"
#include "sim/cuda/driver/addresses.h"
#include "sim/cuda/context/stream.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
        GRANULE = 2 << 20,
};

/* A CUmemGenericAllocationHandle. */
struct generic {
        struct generic *next;
        struct memory *memory;
        CUmemAllocationProp property;
        unsigned int n_refs; /* the program's, and one per map */
};

/* A cuMemMap: the allocation, and the handle that it holds. */
struct virtual_mapping {
        struct virtual_mapping *next;
        struct allocation *allocation;
        struct generic *generic;
        uint64_t offset;
};

static struct generic *generics;
static struct virtual_mapping *virtual_mappings;
static struct spans reservations;
static uint64_t next_address = 0x302000000;

static struct generic *generic_find(CUmemGenericAllocationHandle handle)
{
        for (struct generic *g = generics; g; g = g->next)
                if ((uintptr_t)g == handle)
                        return g;
        return NULL;
}

static void generic_unref(struct generic *generic)
{
        if (--generic->n_refs > 0)
                return;
        LIST_REMOVE(&generics, generic);
        (void)memory_unref(generic->memory);
        free(generic);
}

static CUresult generic_new(struct memory *memory, const CUmemAllocationProp *property, struct generic **ret)
{
        struct generic *generic = calloc(1, sizeof(*generic));

        if (!generic) {
                (void)memory_unref(memory);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        *generic = (struct generic){ generics, memory, *property, 1 };
        generics = generic;
        *ret = generic;
        return CUDA_SUCCESS;
}

static CUresult check_property(const CUmemAllocationProp *property, struct device **ret)
{
        if (!property || property->type != CU_MEM_ALLOCATION_TYPE_PINNED)
                return CUDA_ERROR_INVALID_VALUE;
        if (property->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
                return CUDA_ERROR_NOT_SUPPORTED;
        if ((int)property->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
                return CUDA_ERROR_NOT_SUPPORTED;
        *ret = device_of(property->location.id);
        return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* ---- addresses ----------------------------------------------------------------------------- */

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr hint,
                                     unsigned long long flags)
{
        LOCKED_LIBRARY;
        _cleanup_(freep) struct span *span = NULL;
        CUresult r = library_check();
        uint64_t base = 0;

        if (r != CUDA_SUCCESS)
                return r;
        if (!at || !size || size % GRANULE || flags || (alignment & (alignment - 1)))
                return CUDA_ERROR_INVALID_VALUE;
        span = calloc(1, sizeof(*span));
        if (!span)
                return CUDA_ERROR_OUT_OF_MEMORY;
        if (alignment <= GRANULE)
                base = addresses_reserve_at(hint ? hint : next_address, size);
        else
                base = addresses_reserve(size, alignment);
        if (!base)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *span = (struct span){ base, size };
        if (spans_put(&reservations, span) < 0) {
                addresses_release(base, size);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (base == next_address)
                next_address += size;
        *at = TAKE(span)->base;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr at, size_t size)
{
        LOCKED_LIBRARY;
        struct span *span;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        span = spans_find(&reservations, at);
        if (!span || span->base != at || span->size != size)
                return CUDA_ERROR_INVALID_VALUE;
        for (const struct virtual_mapping *p = virtual_mappings; p; p = p->next)
                if (p->allocation->span.base >= at && p->allocation->span.base < at + size)
                        return CUDA_ERROR_INVALID_VALUE; /* something is still mapped there */
        spans_take(&reservations, span);
        free(span);
        addresses_release(at, size);
        if (at < next_address && at >= 0x302000000)
                next_address = at;
        return CUDA_SUCCESS;
}

/* ---- memory -------------------------------------------------------------------------------- */

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *property,
                             unsigned long long flags)
{
        LOCKED_LIBRARY;
        struct generic *generic;
        struct device *device;
        struct memory *memory;
        CUresult r = library_check();

        if (r == CUDA_SUCCESS)
                r = check_property(property, &device);
        if (r != CUDA_SUCCESS)
                return r;
        if (!handle || !size || size % GRANULE || flags)
                return CUDA_ERROR_INVALID_VALUE;
        r = memory_video(device, size, ATTR_CHUNKED, &memory);
        if (r == CUDA_SUCCESS)
                r = generic_new(memory, property, &generic);
        if (r == CUDA_SUCCESS)
                *handle = (uintptr_t)generic;
        return r;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
        LOCKED_LIBRARY;
        struct generic *generic = generic_find(handle);
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!generic)
                return CUDA_ERROR_INVALID_VALUE;
        generic_unref(generic);
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *property,
                                               CUmemAllocationGranularity_flags option)
{
        LOCKED_LIBRARY;
        struct device *device;
        CUresult r = library_check();

        if (r == CUDA_SUCCESS)
                r = check_property(property, &device);
        if (r != CUDA_SUCCESS)
                return r;
        if (!granularity || (unsigned int)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
                return CUDA_ERROR_INVALID_VALUE;
        *granularity = GRANULE;
        return CUDA_SUCCESS;
}

/* ---- the two together ---------------------------------------------------------------------- */

static struct virtual_mapping *virtual_mapping_at(uint64_t address)
{
        for (struct virtual_mapping *p = virtual_mappings; p; p = p->next)
                if (address >= p->allocation->span.base &&
                    address - p->allocation->span.base < p->allocation->span.size)
                        return p;
        return NULL;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long flags)
{
        LOCKED_LIBRARY;
        struct generic *generic = generic_find(handle);
        _cleanup_(freep) struct virtual_mapping *virtual_mapping = NULL;
        const struct span *span;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        span = spans_find(&reservations, at);
        if (!generic || !size || flags || !span || size > span->base + span->size - at || at % GRANULE ||
            size % GRANULE || offset % GRANULE || offset > generic->memory->size ||
            size > generic->memory->size - offset)
                return CUDA_ERROR_INVALID_VALUE;
        virtual_mapping = calloc(1, sizeof(*virtual_mapping));
        if (!virtual_mapping)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = allocation_new(NULL, ALLOCATION_VIRTUAL, at, size, &virtual_mapping->allocation);
        if (r != CUDA_SUCCESS)
                return CUDA_ERROR_INVALID_VALUE; /* mapped already */
        generic->n_refs++;
        virtual_mapping->generic = generic;
        virtual_mapping->offset = offset;
        virtual_mapping->next = virtual_mappings;
        virtual_mappings = TAKE(virtual_mapping);
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr at, size_t size)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();
        uint64_t end = at + size;

        if (r != CUDA_SUCCESS)
                return r;
        for (uint64_t where = at; where < end;) {
                const struct virtual_mapping *p = virtual_mapping_at(where);

                if (!p || p->allocation->span.base != where || p->allocation->span.size > end - where)
                        return CUDA_ERROR_INVALID_VALUE; /* not exactly whole maps */
                where += p->allocation->span.size;
        }
        for (struct virtual_mapping **link = &virtual_mappings; *link;) {
                struct virtual_mapping *p = *link;

                if (p->allocation->span.base < at || p->allocation->span.base >= end) {
                        link = &p->next;
                        continue;
                }
                *link = p->next;
                (void)mapping_free(p->allocation->mapping);
                (void)allocation_free(p->allocation);
                generic_unref(p->generic);
                free(p);
        }
        return CUDA_SUCCESS;
}

static CUresult set_access(struct virtual_mapping *p, struct device *device, CUmemAccess_flags flags)
{
        struct allocation *a = p->allocation;
        CUresult r = CUDA_SUCCESS;

        if (device != p->generic->memory->device)
                return a->mapping && flags != CU_MEM_ACCESS_FLAGS_PROT_NONE ? peer_see(a->mapping, device) : r;
        if (flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
                a->mapping = mapping_free(a->mapping);
        else if (!a->mapping)
                r = mapping_new(p->generic->memory, a->span.base, a->span.size, p->offset, true, &a->mapping);
        return r;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr at, size_t size, const CUmemAccessDesc *access, size_t n)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();
        uint64_t end = at + size;

        if (r != CUDA_SUCCESS)
                return r;
        if (!access || !n || !size)
                return CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < n; i++)
                if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !device_of(access[i].location.id))
                        return CUDA_ERROR_INVALID_DEVICE;
        for (uint64_t where = at; where < end && r == CUDA_SUCCESS;) {
                struct virtual_mapping *p = virtual_mapping_at(where);

                if (!p)
                        return CUDA_ERROR_INVALID_VALUE;
                for (int own = 1; own >= 0; own--) /* the memory's own device first: the others' views hang on it */
                        for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
                                struct device *device = device_of(access[i].location.id);

                                if ((device == p->generic->memory->device) == own)
                                        r = set_access(p, device, access[i].flags);
                        }
                where = p->allocation->span.base + p->allocation->span.size;
        }
        return r;
}

/* ---- between processes --------------------------------------------------------------------- */

CUresult CUDAAPI cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType type, unsigned long long flags)
{
        LOCKED_LIBRARY;
        const struct generic *generic = generic_find(handle);
        CUresult r = library_check();
        int fd;

        if (r != CUDA_SUCCESS)
                return r;
        if (!shareable || !generic || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
            generic->property.requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
                return CUDA_ERROR_INVALID_VALUE;
        r = share_memory(generic->memory, &fd);
        if (r == CUDA_SUCCESS)
                memcpy(shareable, &fd, sizeof(fd));
        return r;
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                                CUmemAllocationHandleType type)
{
        LOCKED_LIBRARY;
        CUmemAllocationProp property = {
                .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
        };
        struct generic *generic;
        struct memory *memory;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
                return CUDA_ERROR_INVALID_VALUE;
        r = share_memory_import(context->device, (int)(intptr_t)shareable, &memory);
        if (r != CUDA_SUCCESS)
                return r;
        property.location.id = (int)(context->device - library.device);
        r = generic_new(memory, &property, &generic);
        if (r == CUDA_SUCCESS)
                *handle = (uintptr_t)generic;
        return r;
}
