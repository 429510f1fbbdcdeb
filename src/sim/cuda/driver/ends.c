/* SPDX-License-Identifier: Apache-2.0 */
/* How a context ends: see stage.h and end_context.def. What was not made is not undone. */
#include "sim/cuda/driver/stage.h"

#include "base/cleanup.h"
#include "rm/numbers.h"
#include "sim/cuda/driver/addresses.h"

#include <sys/mman.h>

uint32_t play_gone(const struct stage *stage, const struct step *step)
{
        struct piece *p = stage_piece(stage, step->n);

        if (!p->is_made)
                return RM_STATUS_OK;
        if (p->is_mapped)
                (void)nv_uvm_free(stage->nv, p->base, p->size);
        if (p->view)
                (void)nv_unmap(stage->nv, stage_handle(stage, p->view), stage_handle(stage, step->n), p->linear, 0);
        if (p->at)
                addresses_reserve_again((uintptr_t)p->at, p->size ? p->size : 4096);
        (void)nv_free(stage->nv, stage_handle(stage, OBJECT_DEVICE), stage_handle(stage, step->n));
        *p = (struct piece){ 0 };
        return RM_STATUS_OK;
}

uint32_t play_freed(const struct stage *stage, const struct step *step)
{
        if (stage_piece(stage, step->n)->is_made)
                (void)nv_free(stage->nv, stage_handle(stage, step->parent), stage_handle(stage, step->n));
        *stage_piece(stage, step->n) = (struct piece){ 0 };
        return RM_STATUS_OK;
}

uint32_t play_closed(const struct stage *stage, const struct step *step)
{
        struct piece *p = stage_piece(stage, step->n);

        if (!p->is_made)
                return RM_STATUS_OK;
        (void)nv_free(stage->nv, stage_handle(stage, step->parent), stage_handle(stage, step->n));
        closep(&p->copy);
        (void)stage_event_ioctl(stage, p->fd, RM_NR_FREE_EVENT);
        closep(&p->fd);
        *p = (struct piece){ 0 };
        return RM_STATUS_OK;
}

uint32_t play_unregister(const struct stage *stage, const struct step *step)
{
        uint8_t block[32] = { 0 };
        uint32_t size = stage->nv->layout.uvm_unregister_channel_size, end = size - 12;

        if (!stage_piece(stage, step->n)->is_made)
                return RM_STATUS_OK;
        rm_put32(block, size, end, stage->nv->client);
        rm_put32(block, size, end + 4, stage_handle(stage, step->n));
        return nv_uvm(stage->nv, 28, block, end + 8);
}

uint32_t play_ended(const struct stage *stage, const struct step *step)
{
        uint32_t channel = step->n + 1;

        for (uint32_t n = channel + 1; n < START_END && stage_piece(stage, n)->is_made; n++)
                if (stage_piece(stage, n)->parent == channel)
                        (void)play_freed(stage, &(struct step){ .n = n, .parent = channel });
        (void)play_freed(stage, &(struct step){ .n = channel, .parent = OBJECT_DEVICE });
        return play_gone(stage, step);
}

uint32_t play_groups_gone(const struct stage *stage, const struct step *step)
{
        (void)step;
        for (uint32_t i = START_GROUPS; i-- > 0;) {
                if (stage->context->group[i])
                        (void)nv_uvm_group_free(stage->nv, stage->context->group[i]);
                stage->context->group[i] = 0;
        }
        if (stage->context->on_end)
                stage->context->on_end(stage->context, START_END_STREAMS);
        return RM_STATUS_OK;
}

uint32_t play_range_gone(const struct stage *stage, const struct step *step)
{
        struct start_context *context = stage->context;

        if (step->n == PARALLELISM_RANGE && context->has_parallelism)
                (void)nv_uvm_free(stage->nv, context->near + 0xe00000, 4096);
        if (step->n == SEMAPHORE_RANGE && context->has_semaphores) {
                (void)munmap((void *)(uintptr_t)(context->low + 0x4a00000), SEMAPHORES_SIZE);
                (void)nv_uvm_free(stage->nv, context->low + 0x4a00000, SEMAPHORES_SIZE);
        }
        return RM_STATUS_OK;
}

uint32_t play_leftovers(const struct stage *stage, const struct step *step)
{
        (void)step;
        if (stage->context->on_end)
                stage->context->on_end(stage->context, START_END_LEFTOVERS);
        return RM_STATUS_OK;
}

uint32_t play_unregister_vaspace(const struct stage *stage, const struct step *step)
{
        uint8_t block[24] = { 0 };

        (void)step;
        if (stage->device->n_contexts > 1 || !stage->device->has_vaspace || stage->device->keeps_vaspace)
                return RM_STATUS_OK;
        stage->device->has_vaspace = false;
        memcpy(block, stage->device->uuid, 16);
        return nv_uvm(stage->nv, 26, block, 16);
}
