/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of another process. Recorded: getting a handle is SHARE (0x35) of the memory with
 * everybody, opening is DUP (0x34) from the exporter's client, UVM 73 and UVM 33, at the exporter's
 * address; closing is UVM 34, FREE. The contents of the 64 bytes are the simulator's own.
 */
#include "sim/cuda/memory/memory.h"

#include "rm/numbers.h"
#include "sim/cuda/driver/addresses.h"

#include <string.h>
#include <unistd.h>

#define MAGIC 0x53425049u

struct ticket {
        uint32_t magic, pid, client, object;
        uint64_t base, memory_size; /* of the memory where the exporter has it */
        uint64_t offset;            /* of the allocation in it */
        uint8_t uuid[16];
};

_Static_assert(sizeof(struct ticket) <= sizeof(CUipcMemHandle), "a ticket must fit a handle");

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr at)
{
        LOCKED_LIBRARY;
        const struct allocation *allocation;
        const struct mapping *mapping;
        const struct memory *memory;
        struct ticket ticket;
        CUcontext context;
        CUresult r = context_enter(&context);
        uint32_t status;

        if (r != CUDA_SUCCESS)
                return r;
        allocation = allocation_at(at);
        mapping = mapping_at(at);
        if (!handle || !allocation || !mapping || allocation->kind != ALLOCATION_DEVICE)
                return CUDA_ERROR_INVALID_VALUE;
        memory = mapping->memory;
        library.has_shared = true;
        status = nv_share(&library.nv, memory->handle);
        if (status != RM_STATUS_OK)
                return result_of(status);

        ticket = (struct ticket){
                .magic = MAGIC,
                .pid = (uint32_t)getpid(),
                .client = library.nv.client,
                .object = memory->handle,
                .base = mapping->span.base,
                .memory_size = memory->size,
                .offset = allocation->span.base - mapping->span.base,
        };
        memcpy(ticket.uuid, memory->device->start.uuid, sizeof(ticket.uuid));
        memset(handle, 0, sizeof(*handle));
        memcpy(handle, &ticket, sizeof(ticket));
        return CUDA_SUCCESS;
}

static struct device *device_named(const uint8_t uuid[16])
{
        for (int i = 0; i < library.n_devices; i++)
                if (memcmp(library.device[i].start.uuid, uuid, 16) == 0)
                        return &library.device[i];
        return NULL;
}

static CUresult open_memory(struct device *device, const struct ticket *ticket, struct memory **ret)
{
        struct nv *nv = &library.nv;
        uint32_t handle = nv_handle_take(nv), parent = start_handle(&device->start, NULL, OBJECT_DEVICE);
        uint32_t status = nv_dup(nv, parent, handle, ticket->client, ticket->object);

        library.has_shared = true;
        if (status == RM_STATUS_OK)
                return memory_adopt(device, handle, parent, ticket->memory_size, ret);
        nv_handle_give(nv, handle);
        return status == RM_STATUS_NO_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
}

/* An import that is open already: libcuda returns the same address again. */
static struct allocation *find_open(const struct ticket *ticket)
{
        struct allocation *allocation = allocation_named(ticket->base);

        return allocation && allocation->kind == ALLOCATION_IPC && allocation->source_client == ticket->client &&
                               allocation->source_object == ticket->object ?
                       allocation :
                       NULL;
}

static CUresult ticket_map(CUcontext context, struct device *device, const struct ticket *ticket,
                           struct allocation **ret)
{
        struct mapping *mapping = NULL;
        struct memory *memory;
        uint64_t base;
        CUresult r = open_memory(device, ticket, &memory);

        if (r != CUDA_SUCCESS)
                return r;
        base = addresses_reserve_at(ticket->base, memory->size);
        r = base ? mapping_new(memory, base, memory->size, 0, true, &mapping) : CUDA_ERROR_OUT_OF_MEMORY;
        if (r != CUDA_SUCCESS)
                addresses_release(base, memory->size);
        else
                r = allocation_new(context, ALLOCATION_IPC, base, memory->size, ret);
        (void)memory_unref(memory);
        if (r != CUDA_SUCCESS) {
                (void)mapping_end(mapping);
                return r;
        }
        (*ret)->mapping = mapping;
        (*ret)->source_client = ticket->client;
        (*ret)->source_object = ticket->object;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr *at, CUipcMemHandle handle, unsigned int flags)
{
        LOCKED_LIBRARY;
        struct allocation *allocation;
        struct device *device;
        struct ticket ticket;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        memcpy(&ticket, &handle, sizeof(ticket));
        if (!at || flags & ~(unsigned int)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || ticket.magic != MAGIC)
                return CUDA_ERROR_INVALID_VALUE;
        if (ticket.pid == (uint32_t)getpid())
                return CUDA_ERROR_INVALID_CONTEXT; /* one's own memory cannot be imported */
        device = device_named(ticket.uuid);
        if (!device)
                return CUDA_ERROR_INVALID_DEVICE;
        allocation = find_open(&ticket);
        if (!allocation)
                r = ticket_map(context, device, &ticket, &allocation);
        if (r != CUDA_SUCCESS)
                return r;
        allocation->n_opened++;
        *at = allocation->span.base + ticket.offset;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr at)
{
        LOCKED_LIBRARY;
        struct allocation *allocation;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        allocation = allocation_at(at);
        if (!allocation || allocation->kind != ALLOCATION_IPC)
                return CUDA_ERROR_INVALID_VALUE;
        if (--allocation->n_opened > 0)
                return CUDA_SUCCESS;
        return allocation_end(allocation);
}
