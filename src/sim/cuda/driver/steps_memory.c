/* SPDX-License-Identifier: Apache-2.0 */
/* What the start-up tables make of memory: see stage.h. */
#include "sim/cuda/driver/stage.h"

#include "rm/numbers.h"
#include "sim/cuda/driver/addresses.h"

#include <stdio.h>
#include <sys/mman.h>

/* Maps the memory of a piece where it belongs in the device's address space. */
static uint32_t map_piece(const struct stage *stage, uint32_t n, uint64_t base, uint64_t size)
{
        struct piece *p = stage_piece(stage, n);
        uint32_t status;

        p->base = base;
        p->size = size;
        status = nv_uvm_create(stage->nv, base, size);
        if (status != RM_STATUS_OK)
                return status;
        p->is_mapped = true;
        return nv_uvm_map(stage->nv, stage->device->uuid, base, size, 0, stage_handle(stage, n));
}

static uint32_t make_memory(const struct stage *stage, const struct step *step, struct nv_memory *memory)
{
        uint32_t status =
                nv_memory_alloc(stage->nv, stage_handle(stage, OBJECT_DEVICE), stage_handle(stage, step->n), memory);

        if (status == RM_STATUS_OK)
                stage_note_made(stage, step->n, OBJECT_DEVICE);
        return status;
}

uint32_t play_video(const struct stage *stage, const struct step *step)
{
        struct nv_memory memory = nv_video_memory(stage->nv, step->size, 0x18000000 | step->attr);
        uint64_t base;
        uint32_t status = make_memory(stage, step, &memory);

        if (status != RM_STATUS_OK)
                return status;
        base = stage_address(stage, step->address, memory.size);
        return base ? map_piece(stage, step->n, base, memory.size) : NV_LOST;
}

/* Video memory that the process maps, too: the queues of all channels. */
uint32_t play_ring(const struct stage *stage, const struct step *step)
{
        struct piece *p = stage_piece(stage, step->n);
        struct nv_memory memory = nv_video_memory(stage->nv, step->size, 0x18000000);
        uint64_t base = stage_address(stage, step->address, step->size);
        struct nv_mapping mapping =
                nv_mapping_at(stage_handle(stage, OBJECT_SUBDEVICE), stage_handle(stage, step->n), step->size, base);
        char node[32];
        uint32_t status = make_memory(stage, step, &memory);

        (void)snprintf(node, sizeof(node), "/dev/nvidia%u", stage->device->minor);
        mapping.node = node;
        if (status == RM_STATUS_OK)
                status = nv_map(stage->nv, &mapping, &p->at, &p->linear);
        if (status != RM_STATUS_OK)
                return status;
        p->view = OBJECT_SUBDEVICE;
        status = nv_update_mapping(stage->nv, &mapping, p->linear, mapping.at);
        if (status != RM_STATUS_OK)
                return status;
        p->linear = base; /* the name that the driver has for it from now on */
        return map_piece(stage, step->n, base, memory.size);
}

uint32_t play_host(const struct stage *stage, const struct step *step)
{
        struct piece *p = stage_piece(stage, step->n);
        struct nv_memory memory = nv_host_memory(stage->nv->client, step->size, step->attr);
        uint64_t base = stage_address(stage, step->address, step->size);
        struct nv_mapping mapping =
                nv_mapping_at(stage_handle(stage, OBJECT_DEVICE), stage_handle(stage, step->n), step->size, base);
        uint32_t status;

        memory.attr2 = step->attr2;
        mapping.flags = step->number;
        status = make_memory(stage, step, &memory);
        if (status != RM_STATUS_OK)
                return status;
        status = nv_map(stage->nv, &mapping, &p->at, &p->linear);
        p->view = OBJECT_DEVICE;
        return status == RM_STATUS_OK ? map_piece(stage, step->n, base, memory.size) : status;
}

uint32_t play_pinned(const struct stage *stage, const struct step *step)
{
        uint64_t base = stage_address(stage, step->address, step->size);
        void *pages = addresses_back(base, step->size);
        uint32_t status;

        if (!pages)
                return NV_LOST;
        status = nv_memory_pin(stage->nv, stage->device->node[NODE_MAIN], stage_handle(stage, OBJECT_DEVICE),
                               stage_handle(stage, step->n), step->attr, pages, step->size);
        if (status != RM_STATUS_OK)
                return status;
        stage_note_made(stage, step->n, OBJECT_DEVICE);
        return map_piece(stage, step->n, base, step->size);
}

uint32_t play_semaphores(const struct stage *stage, const struct step *step)
{
        uint8_t block[PARAMS_MAX] = { 0 };
        uint32_t size = stage->nv->layout.uvm_pool_size, status;
        uint64_t base = stage_address(stage, step->address, step->size);

        rm_put64(block, size, 0, base);
        rm_put64(block, size, 8, step->size);
        memcpy(block + 16, stage->device->uuid, 16);
        rm_put32(block, size, 32, 1);
        rm_put32(block, size, 36, 1);
        rm_put64(block, size, size - 16, 1);
        status = nv_uvm(stage->nv, UVM_SEMAPHORE_POOL, block, size - 8);
        if (status != RM_STATUS_OK)
                return status;
        stage->context->has_semaphores = true;
        if (mmap((void *)(uintptr_t)base, step->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, stage->nv->uvm,
                 (off_t)base) == MAP_FAILED)
                return NV_LOST;
        return nv_uvm_range(stage->nv, 72, base, step->size);
}

uint32_t play_parallelism(const struct stage *stage, const struct step *step)
{
        uint32_t status = nv_uvm_range_of(stage->nv, 65, stage_address(stage, step->address, step->size), step->size,
                                          stage->device->uuid);

        stage->context->has_parallelism = status == RM_STATUS_OK;
        return status;
}
