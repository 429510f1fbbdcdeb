/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver takes of a device without being asked, beside the buffers of groups and channels (engine/gpu.c).
 *
 *      reservation    page tables for all of it at once, unless it is lazy or somebody else's; as many for small pages
 *                     as for large ones
 *      mapping in it  page tables of what is touched; they stay with the reservation
 *      UVM            page tables of each mapping, and something for each device that a space uses
 *
 * Measured, H200, 580.159.04: tests/gpu/ownmem.sh. Not simulated: what an address space keeps of a freed reservation.
 */
#include "sim/server/machine.h"

#include "rm/numbers.h"

enum {
        FLAG_LAZY = 0x400,
        FLAG_EXTERNAL = 0x400000,
        SPACE_IS_EXTERNAL = 0x8, /* flag of an address space */
        PAGES_BIG = 2,
        PAGES_HUGE = 3,
};

#define TABLE (4 * KIB)
#define TABLE_OF_BIG 256ull
#define PIECE (2 * MIB)
#define TAKEN_SPACE (64 * KIB)
#define TAKEN_REGISTERED (3264 * KIB) /* 2 MiB of it for page tables */

bytes own_of(uint64_t said_kib, bytes measured)
{
        return said_kib ? said_kib * KIB : measured;
}

static uint64_t touched(uint64_t base, uint64_t length, uint64_t unit)
{
        return length ? (base + length - 1) / unit - base / unit + 1 : 0;
}

static bytes tables_of(uint64_t base, uint64_t length, uint32_t pages)
{
        bytes each = pages == PAGES_HUGE ? 0 : pages == PAGES_BIG ? TABLE_OF_BIG : TABLE;

        return each * touched(base, length, 2 * MIB) + TABLE * touched(base, length, 512 * MIB);
}

static uint32_t object_take(struct object *object, bytes size)
{
        if (!object->gpu)
                return SIM_STATUS_INVALID_PARENT;
        if (heap_take(&object->gpu->heap, size) != HEAP_OK)
                return RM_STATUS_NO_MEMORY;
        object->taken += size;
        return RM_STATUS_OK;
}

uint32_t taken_alloc(struct object *object, const struct part *params)
{
        uint32_t attr = rm_get32(params->data, params->size, 24), flags;
        uint64_t size = rm_get64(params->data, params->size, 64);
        const struct faults *faults;

        if (!object->gpu)
                return SIM_STATUS_INVALID_PARENT;
        faults = &object->gpu->machine->faults;
        if (object->class_number == RM_CLASS_DEVICE)
                return object_take(object, own_of(faults->own_client, 0));
        if (object->class_number != RM_CLASS_MEMORY_VIRTUAL) {
                flags = rm_get32(params->data, params->size, 4);
                return flags & SPACE_IS_EXTERNAL ? RM_STATUS_OK :
                                                   object_take(object, own_of(faults->own_space, TAKEN_SPACE));
        }
        flags = rm_get32(params->data, params->size, 8);
        if (flags & (FLAG_LAZY | FLAG_EXTERNAL) || size > UINT64_MAX / 2)
                return RM_STATUS_OK;
        return object_take(object, tables_of(0, size, 1) +
                                           (RM_ATTR_PAGE_SIZE(attr) ? 0 : touched(0, size, 2 * MIB) * TABLE_OF_BIG));
}

/* dmaOffset: before the status. A reservation of a lazy kind begins with nothing. */
uint32_t taken_map_dma(struct request *request)
{
        struct object *dma = handles_get(request->client, request->call.object);
        uint64_t base = rm_get64(request->block.data, request->block.size, request->call.status_at - 8);
        uint64_t length = request->call.length;

        if (!dma || dma->class_number != RM_CLASS_MEMORY_VIRTUAL || length > UINT64_MAX / 4 || base > UINT64_MAX / 4)
                return RM_STATUS_OK;
        return object_take(dma, tables_of(base, length, 1));
}

/* ---- UVM ----------------------------------------------------------------------------------- */

static int tables_change(struct gpu *gpu, bytes tables)
{
        bytes taken = tables > PIECE ? (tables - 1) / PIECE * PIECE : 0; /* the first piece is there */

        if (taken > gpu->tables_taken && heap_take(&gpu->heap, taken - gpu->tables_taken) != HEAP_OK)
                return HEAP_E_FULL;
        if (taken < gpu->tables_taken)
                heap_give(&gpu->heap, gpu->tables_taken - taken);
        gpu->tables_taken = taken;
        gpu->tables = tables;
        return HEAP_OK;
}

int mmu_take(struct gpu *gpu, uint64_t base, uint64_t length, uint32_t pages, bytes *ret)
{
        *ret = tables_of(base, length, pages);
        if (tables_change(gpu, gpu->tables + *ret) == HEAP_OK)
                return HEAP_OK;
        *ret = 0;
        return HEAP_E_FULL;
}

void mmu_give(struct gpu *gpu, bytes size)
{
        (void)tables_change(gpu, gpu->tables - size);
}

void group_give(struct group *group, bytes size)
{
        if (group->is_retained)
                group->taken += size;
        else
                heap_give(&group->gpu->heap, size);
}

int gpu_register(struct gpu *gpu)
{
        if (!gpu->n_registered && heap_take(&gpu->heap, TAKEN_REGISTERED) != HEAP_OK)
                return HEAP_E_FULL;
        gpu->n_registered++;
        return HEAP_OK;
}

void gpu_unregister(struct gpu *gpu)
{
        if (--gpu->n_registered == 0)
                heap_give(&gpu->heap, TAKEN_REGISTERED);
}
