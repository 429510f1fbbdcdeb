/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues, marks and semaphores: how time passes. See stream.h and sim/doorbell.h.
 *
 * A queue's semaphore is written by the device when a piece of work is done, so that asking whether
 * something is done is a read of memory; only waiting is a message.
 */
#include "sim/cuda/context/stream.h"

#include "base/clock.h"
#include "rm/numbers.h"

#include <errno.h>

enum {
        SEMAPHORE_SIZE = 16,
        SERVICE_INTERRUPTS = 0x20801702, /* control MC_SERVICE_INTERRUPTS: which engines */
};

static uint64_t slot_read(CUcontext context, uint32_t slot, size_t word)
{
        const char *at = context->start.piece[OBJECT_SEMAPHORES].at;
        uint64_t value = 0;

        if (at)
                value = __atomic_load_n((const uint64_t *)(const void *)(at + (size_t)slot * SEMAPHORE_SIZE) + word,
                                        __ATOMIC_ACQUIRE);
        return value;
}

static uint64_t slot_value(CUcontext context, uint32_t slot)
{
        return slot_read(context, slot, 0);
}

uint64_t slot_time(CUcontext context, uint32_t slot)
{
        return slot_read(context, slot, 1);
}

uint32_t slot_take(CUcontext context)
{
        for (uint32_t i = SLOT_EVENTS / 64; i < SLOTS / 64; i++) {
                uint32_t bit;

                if (context->slots[i] == UINT64_MAX)
                        continue;
                bit = (uint32_t)__builtin_ctzll(~context->slots[i]);
                context->slots[i] |= 1ull << bit;
                return i * 64 + bit;
        }
        return 0;
}

void slot_give(CUcontext context, uint32_t slot)
{
        if (slot)
                context->slots[slot / 64] &= ~(1ull << slot % 64);
}

/* The error of a failed wait; it sticks to the context. */
static CUresult context_fail(CUcontext context, int error)
{
        if (error == -EIO)
                context->error = CUDA_ERROR_LAUNCH_FAILED;
        else
                context->error = CUDA_ERROR_UNKNOWN; /* the device is lost, or the simulator has ended */
        return context->error;
}

bool mark_is_reached(struct mark mark)
{
        struct queue *queue = mark.queue;
        uint64_t value;

        if (!queue || queue->reached >= mark.value || queue->context->is_ended)
                return true;
        value = slot_value(queue->context, queue->slot);
        if (value > queue->reached)
                queue->reached = value;
        return queue->reached >= mark.value;
}

/* What libcuda does where a wait has lasted for a second: it asks for interrupts to be served, once, and waits on. If
 * that is refused it waits no longer and says that the work is done, which it is not. Seen on an H200, 580.159.04. */
static bool may_wait_on(CUcontext context, bool *has_asked)
{
        uint8_t engines[4] = { 1 };
        uint32_t subdevice = start_handle(&context->device->start, NULL, OBJECT_SUBDEVICE);

        if (*has_asked)
                return true;
        *has_asked = true;
        return nv_control(&library.nv, subdevice, SERVICE_INTERRUPTS, engines, sizeof(engines)) == RM_STATUS_OK;
}

CUresult mark_wait(struct mark mark)
{
        CUcontext context;
        uint32_t channel;
        uint64_t reached = 0;
        bool has_asked = false;
        int ctl, r, locked = 0;

        if (mark_is_reached(mark))
                return CUDA_SUCCESS;
        context = mark.queue->context;
        channel = mark.queue->channel;
        ctl = library.nv.ctl;

        do {
                library_unlock(&locked);
                r = sim_gpu_wait(ctl, library.nv.client, channel, mark.value, has_asked ? SIM_FOREVER : NSEC_PER_SEC,
                                 &reached);
                (void)library_lock();
                if (context->is_ended)
                        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
                if (r == -ETIMEDOUT && !may_wait_on(context, &has_asked))
                        return CUDA_SUCCESS;
        } while (r == -ETIMEDOUT);

        if (r < 0)
                return context_fail(context, r);
        if (mark.queue->reached < mark.value)
                mark.queue->reached = mark.value;
        return CUDA_SUCCESS;
}

/* One launch; `after` may be reached already. slot 0: the queue's own. */
static CUresult queue_send_to(struct queue *queue, uint64_t duration, struct mark after, uint32_t slot,
                              const struct meets *meets)
{
        CUcontext context = queue->context;
        struct sim_gpu launch = {
                .op = SIM_GPU_LAUNCH,
                .client = library.nv.client,
                .object = queue->channel,
                .duration = duration,
                .meeting = meets->name,
                .n_meeting = meets->n,
                .value = queue->sent + 1,
                .semaphore = start_handle(&context->device->start, &context->start, OBJECT_SEMAPHORES),
                .semaphore_offset = (uint64_t)(slot ? slot : queue->slot) * SEMAPHORE_SIZE,
        };
        int r;

        if (!mark_is_reached(after) && after.queue != queue) {
                launch.after_client = library.nv.client;
                launch.after_channel = after.queue->channel;
                launch.after_value = after.value;
        }
        r = sim_gpu_send(library.nv.ctl, &launch);
        if (r < 0)
                return context_fail(context, r);
        queue->sent++;
        return CUDA_SUCCESS;
}

static CUresult queue_send(struct queue *queue, uint64_t duration, struct mark after, uint32_t slot)
{
        return queue_send_to(queue, duration, after, slot, &(struct meets){ 0 });
}

CUresult stream_depend(CUstream stream, struct mark mark)
{
        CUresult r;

        if (mark_is_reached(mark))
                return CUDA_SUCCESS;
        /* Both must be waited for: the stream's own past, if it is in another queue, and the mark. */
        if (stream->last.queue && stream->last.queue != stream->queue && !mark_is_reached(stream->last)) {
                r = queue_send(stream->queue, 0, stream->last, 0);
                if (r != CUDA_SUCCESS)
                        return r;
        }
        r = queue_send(stream->queue, 0, mark, 0);
        if (r == CUDA_SUCCESS)
                stream->last = (struct mark){ stream->queue, stream->queue->sent };
        return r;
}

/* The NULL stream waits for all blocking streams, and they for it. */
static CUresult order_with_legacy(CUstream stream)
{
        CUstream legacy = stream_legacy_of(stream);
        CUcontext context = stream->context;
        CUresult r = CUDA_SUCCESS;

        if (stream != legacy) {
                struct mark last = legacy->last;

                if (stream->flags & CU_STREAM_NON_BLOCKING)
                        return r;
                if (last.queue == stream->legacy.queue && last.value == stream->legacy.value)
                        return r;
                stream->legacy = last;
                return stream_depend(stream, last);
        }
        for (CUstream s = context->streams; s && r == CUDA_SUCCESS; s = s->next)
                if (s->green == stream->green && !(s->flags & CU_STREAM_NON_BLOCKING) && s->last.queue)
                        r = stream_depend(stream, s->last);
        if (r == CUDA_SUCCESS && !stream->green && context->per_thread.last.queue)
                r = stream_depend(stream, context->per_thread.last);
        return r;
}

CUresult stream_send(CUstream stream, struct queue *queue, uint64_t duration, uint32_t slot)
{
        CUresult r = order_with_legacy(stream);

        if (r == CUDA_SUCCESS)
                r = queue_send(queue, duration, stream->last, slot);
        if (r == CUDA_SUCCESS && slot) /* so that the queue's own semaphore passes this value, too */
                r = queue_send(queue, 0, (struct mark){ 0 }, 0);
        if (r == CUDA_SUCCESS)
                stream->last = (struct mark){ queue, queue->sent };
        return r;
}

CUresult stream_meet(CUstream stream, uint64_t duration, const struct meets *meets)
{
        CUresult r = order_with_legacy(stream);

        if (r == CUDA_SUCCESS)
                r = queue_send_to(stream->queue, duration, stream->last, 0, meets);
        if (r == CUDA_SUCCESS)
                stream->last = (struct mark){ stream->queue, stream->queue->sent };
        return r;
}
