/* SPDX-License-Identifier: Apache-2.0 */
/* Memory objects, and where they are mapped. See memory.h. */
#include "sim/cuda/memory/memory.h"

#include "base/cleanup.h"
#include "rm/numbers.h"
#include "sim/cuda/driver/addresses.h"
#include "sim/client/doorbell.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
        POOLS_SIZE = 2 << 20,
        CLASS_FABRIC = 0xf8,
        FABRIC_PAGE = 512 << 20,
};

static struct spans mappings;
static struct memory *memories; /* of memory_video */

uint64_t round_up(uint64_t size, uint64_t to)
{
        return size > UINT64_MAX - to ? UINT64_MAX / to * to : (size + to - 1) / to * to;
}

/* ---- objects ------------------------------------------------------------------------------- */

static uint32_t device_handle(const struct device *device)
{
        return start_handle(&device->start, NULL, OBJECT_DEVICE);
}

static struct memory *memory_make(struct device *device, enum memory_kind kind, uint32_t handle, uint64_t size)
{
        struct memory *memory = calloc(1, sizeof(*memory));

        if (!memory)
                return NULL;
        *memory = (struct memory){
                .device = device,
                .kind = kind,
                .handle = handle,
                .parent = device_handle(device),
                .size = size,
                .n_refs = 1,
        };
        return memory;
}

/* Recorded: over every memory of 512 MiB and more where a fabric is up. A size between two pages was not recorded. */
static uint32_t fabric_over(struct memory *memory)
{
        struct nv *nv = &library.nv;
        uint8_t params[48] = { 0 };
        uint32_t handle, status;

        if (!memory->device->start.has_fabric || memory->size < FABRIC_PAGE || memory->size % FABRIC_PAGE)
                return RM_STATUS_OK;
        handle = nv_handle_take(nv);
        if (!handle)
                return RM_STATUS_NO_MEMORY;
        rm_put64(params, sizeof(params), 0, FABRIC_PAGE);
        rm_put64(params, sizeof(params), 8, memory->size);
        rm_put64(params, sizeof(params), 16, FABRIC_PAGE);
        rm_put32(params, sizeof(params), 40, memory->handle);
        status = nv_alloc(nv, -1, start_handle(&memory->device->start, NULL, OBJECT_SUBDEVICE), handle, CLASS_FABRIC,
                          params);
        if (status == RM_STATUS_OK)
                memory->fabric = handle;
        else
                nv_handle_give(nv, handle);
        return status;
}

static void fabric_end(struct memory *memory)
{
        if (!memory->fabric)
                return;
        (void)nv_free(&library.nv, start_handle(&memory->device->start, NULL, OBJECT_SUBDEVICE), memory->fabric);
        nv_handle_give(&library.nv, memory->fabric);
        memory->fabric = 0;
}

CUresult memory_video(struct device *device, uint64_t size, uint32_t attr, struct memory **ret)
{
        struct nv *nv = &library.nv;
        struct nv_memory wanted = nv_video_memory(nv, size, attr);
        uint32_t handle = nv_handle_take(nv), status;
        CUresult r;

        if (!handle)
                return CUDA_ERROR_OUT_OF_MEMORY;
        status = nv_memory_alloc(nv, device_handle(device), handle, &wanted);
        if (status != RM_STATUS_OK) {
                nv_handle_give(nv, handle);
                return result_of(status);
        }
        r = memory_adopt(device, handle, device_handle(device), wanted.size, ret);
        if (r == CUDA_SUCCESS) {
                (*ret)->attr = attr;
                (*ret)->next = memories;
                memories = *ret;
                r = result_of(fabric_over(*ret));
                if (r != CUDA_SUCCESS)
                        *ret = memory_unref(*ret);
        }
        return r;
}

/* An object that exists: of memory_video, a dup, an import. On failure it is freed. */
CUresult memory_adopt(struct device *device, uint32_t handle, uint32_t parent, uint64_t size, struct memory **ret)
{
        struct memory *memory = memory_make(device, MEMORY_VIDEO, handle, size);

        if (!memory) {
                (void)nv_free(&library.nv, parent, handle);
                nv_handle_give(&library.nv, handle);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        memory->parent = parent;
        *ret = memory;
        return CUDA_SUCCESS;
}

CUresult memory_pinned(struct device *device, void *pages, uint64_t size, uint32_t flags, struct memory **ret)
{
        struct nv *nv = &library.nv;
        uint32_t handle = nv_handle_take(nv), status;
        struct memory *memory;

        if (!handle)
                return CUDA_ERROR_OUT_OF_MEMORY;
        status = nv_memory_pin(nv, device->start.node[NODE_MAIN], device_handle(device), handle, flags, pages, size);
        if (status != RM_STATUS_OK) {
                nv_handle_give(nv, handle);
                return result_of(status);
        }
        memory = memory_make(device, MEMORY_PINNED, handle, size);
        if (!memory) {
                (void)nv_free(nv, device_handle(device), handle);
                nv_handle_give(nv, handle);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        memory->bytes = pages;
        *ret = memory;
        return CUDA_SUCCESS;
}

CUresult memory_managed(struct device *device, void *bytes, uint64_t size, struct memory **ret)
{
        struct memory *memory = memory_make(device, MEMORY_MANAGED, 0, size);

        if (!memory)
                return CUDA_ERROR_OUT_OF_MEMORY;
        memory->bytes = bytes;
        *ret = memory;
        return CUDA_SUCCESS;
}

/* Host memory of the stream-ordered allocator; recorded, once per process and device. */
CUresult memory_of_pools(struct device *device, uint64_t base)
{
        struct nv *nv = &library.nv;
        struct nv_memory memory = nv_host_memory(nv->client, POOLS_SIZE, 0x3a000000);
        uint32_t parent = start_handle(&device->start, NULL, OBJECT_DEVICE), object = nv_handle_take(nv), status;
        struct nv_mapping mapping = nv_mapping_at(parent, object, POOLS_SIZE, base);
        uint64_t linear;
        void *at;

        status = nv_memory_alloc(nv, parent, object, &memory);
        if (status != RM_STATUS_OK) {
                nv_handle_give(nv, object);
                return result_of(status);
        }
        status = nv_map(nv, &mapping, &at, &linear);
        if (status == RM_STATUS_OK)
                status = nv_uvm_create(nv, base, POOLS_SIZE);
        if (status == RM_STATUS_OK)
                status = nv_uvm_map(nv, device->start.uuid, base, POOLS_SIZE, 0, object);
        if (status != RM_STATUS_OK) {
                (void)nv_free(nv, parent, object);
                nv_handle_give(nv, object);
                return result_of(status);
        }
        (void)nv_handle_take(nv); /* what a mapping costs */
        device->start.has_pool_memory = true;
        return CUDA_SUCCESS;
}

static struct memory *memory_ref(struct memory *memory)
{
        memory->n_refs++;
        return memory;
}

struct memory *memory_unref(struct memory *memory)
{
        if (!memory || --memory->n_refs > 0)
                return NULL;
        LIST_REMOVE(&memories, memory);
        if (memory->kind == MEMORY_VIDEO && memory->bytes)
                (void)munmap(memory->bytes, memory->size);
        if (memory->handle) {
                (void)nv_free(&library.nv, memory->parent, memory->handle);
                nv_handle_give(&library.nv, memory->handle);
        }
        fabric_end(memory);
        free(memory);
        return NULL;
}

struct memory *memories_first(void)
{
        return memories;
}

void memory_leave(struct memory *memory)
{
        if (memory->bytes)
                (void)munmap(memory->bytes, memory->size);
        memory->bytes = NULL;
        if (memory->registered)
                p2p_unregister(memory);
        (void)nv_free(&library.nv, memory->parent, memory->handle);
        fabric_end(memory);
}

CUresult memory_return(struct memory *memory)
{
        struct nv_memory wanted = nv_video_memory(&library.nv, memory->size, memory->attr);
        uint32_t status = nv_memory_alloc(&library.nv, memory->parent, memory->handle, &wanted);

        if (status != RM_STATUS_OK)
                return result_of(status);
        status = fabric_over(memory);
        if (status == RM_STATUS_OK && memory->registered)
                status = p2p_register(memory);
        if (status != RM_STATUS_OK)
                memory_leave(memory);
        return result_of(status);
}

uint8_t *memory_bytes(struct memory *memory)
{
        _cleanup_(closep) int fd = -1;
        uint64_t size = 0;
        void *at;

        if (memory->bytes)
                return memory->bytes;
        fd = sim_gpu_backing(library.nv.ctl, library.nv.client, memory->handle, &size);
        if (fd < 0 || size < memory->size)
                return NULL;
        at = mmap(NULL, memory->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (at == MAP_FAILED)
                return NULL;
        memory->bytes = at;
        return at;
}

/* ---- mappings ------------------------------------------------------------------------------ */

CUresult mapping_return(struct mapping *mapping)
{
        const struct memory *memory = mapping->memory;
        const struct nv *nv = &library.nv;
        uint64_t base = mapping->span.base, size = mapping->span.size;
        uint32_t status = RM_STATUS_OK;

        if (mapping->is_own)
                status = nv_uvm_create(nv, base, size);
        if (status != RM_STATUS_OK)
                return result_of(status);
        status = nv_uvm_map(nv, memory->device->start.uuid, base, size, mapping->offset, memory->handle);
        if (status != RM_STATUS_OK && mapping->is_own)
                (void)nv_uvm_free(nv, base, size);
        return result_of(status);
}

void mapping_leave(struct mapping *mapping)
{
        uint64_t base = mapping->span.base, size = mapping->span.size;

        if (mapping->is_own)
                (void)nv_uvm_free(&library.nv, base, size);
        else
                (void)nv_uvm_range_of(&library.nv, UVM_UNMAP_EXTERNAL, base, size, mapping->memory->device->start.uuid);
}

static void mapping_unmap(struct mapping *mapping)
{
        peers_unsee(mapping);
        if (!mapping->memory->handle)
                return; /* managed: ends with its munmap */
        mapping_leave(mapping);
        nv_handle_give(&library.nv, mapping->handle);
}

CUresult mapping_new(struct memory *memory, uint64_t base, uint64_t size, uint64_t offset, bool is_own,
                     struct mapping **ret)
{
        _cleanup_(freep) struct mapping *mapping = calloc(1, sizeof(*mapping));
        CUresult r = CUDA_SUCCESS;

        if (!mapping)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *mapping = (struct mapping){ .span = { base, size }, .memory = memory, .offset = offset, .is_own = is_own };
        if (spans_put(&mappings, &mapping->span) < 0)
                return CUDA_ERROR_OUT_OF_MEMORY;
        if (memory->handle) {
                mapping->handle = nv_handle_take(&library.nv);
                r = mapping_return(mapping);
        }
        if (r != CUDA_SUCCESS) {
                nv_handle_give(&library.nv, mapping->handle);
                spans_take(&mappings, &mapping->span);
                return r;
        }
        (void)memory_ref(memory);
        *ret = TAKE(mapping);
        return CUDA_SUCCESS;
}

struct mapping *mapping_free(struct mapping *mapping)
{
        if (!mapping)
                return NULL;
        spans_take(&mappings, &mapping->span);
        mapping_unmap(mapping);
        (void)memory_unref(mapping->memory);
        free(mapping);
        return NULL;
}

struct mapping *mapping_end(struct mapping *mapping)
{
        struct span span;

        if (!mapping)
                return NULL;
        span = mapping->span;
        (void)mapping_free(mapping);
        addresses_release(span.base, span.size);
        return NULL;
}

CUresult mapping_video(struct device *device, uint64_t size, uint32_t attr, struct mapping **ret)
{
        struct memory *memory;
        uint64_t base;
        CUresult r = memory_video(device, size, attr, &memory);

        if (r != CUDA_SUCCESS)
                return r;
        base = addresses_reserve(memory->size, ADDRESS_GRANULE);
        r = base ? mapping_new(memory, base, memory->size, 0, true, ret) : CUDA_ERROR_OUT_OF_MEMORY;
        if (r != CUDA_SUCCESS)
                addresses_release(base, memory->size);
        (void)memory_unref(memory); /* the mapping has its own reference */
        return r;
}

struct mapping *mapping_at(uint64_t address)
{
        return (struct mapping *)spans_find(&mappings, address);
}

struct mapping *mapping_after(const struct mapping *last)
{
        size_t i = 0;

        while (last && i < mappings.n && mappings.span[i] != &last->span)
                i++;
        i += last != NULL;
        return i < mappings.n ? (struct mapping *)mappings.span[i] : NULL;
}

uint8_t *bytes_at(uint64_t address, uint64_t *ret_have)
{
        struct mapping *mapping = mapping_at(address);
        uint64_t in;
        uint8_t *bytes;

        if (!mapping)
                return NULL;
        bytes = memory_bytes(mapping->memory);
        if (!bytes)
                return NULL;
        in = address - mapping->span.base;
        *ret_have = mapping->span.size - in;
        return bytes + mapping->offset + in;
}

bool bytes_are_mapped(uint64_t address, uint64_t size)
{
        uint64_t end = address + size;

        if (end < address)
                return false;
        while (address < end) {
                const struct mapping *mapping = mapping_at(address);

                if (!mapping)
                        return false;
                address = mapping->span.base + mapping->span.size;
        }
        return true;
}
