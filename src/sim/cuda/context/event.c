/* SPDX-License-Identifier: Apache-2.0 */
/* Events: a mark in a stream, and when the device passed it. */
#include "sim/cuda/context/stream.h"

#include "base/cleanup.h"

#include <stdlib.h>

enum {
        FLAGS = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS,
};

CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned int flags)
{
        LOCKED_LIBRARY;
        _cleanup_(freep) CUevent made = NULL;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!event || (flags & ~(unsigned int)FLAGS))
                return CUDA_ERROR_INVALID_VALUE;
        if (flags & CU_EVENT_INTERPROCESS)
                return CUDA_ERROR_NOT_SUPPORTED; /* as CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED says */
        made = calloc(1, sizeof(*made));
        if (!made)
                return CUDA_ERROR_OUT_OF_MEMORY;
        made->context = context;
        made->flags = flags;
        if (!(flags & CU_EVENT_DISABLE_TIMING)) {
                made->slot = slot_take(context);
                if (!made->slot)
                        return CUDA_ERROR_OUT_OF_MEMORY;
        }
        *event = TAKE(made);
        return CUDA_SUCCESS;
}

static CUresult event_check(CUevent event)
{
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!event)
                return CUDA_ERROR_INVALID_HANDLE;
        return event->context->is_ended ? CUDA_ERROR_CONTEXT_IS_DESTROYED : event->context->error;
}

CUresult CUDAAPI cuEventDestroy_v2(CUevent event)
{
        LOCKED_LIBRARY;
        CUresult r = event_check(event);

        if (r == CUDA_ERROR_INVALID_HANDLE || r == CUDA_ERROR_NOT_INITIALIZED)
                return r;
        while (event->n_backlog && !event->context->is_ended)
                library_wait(&event->context->changed);
        (void)mark_wait(event->last); /* the device still writes its slot */
        slot_give(event->context, event->slot);
        free(event);
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream name)
{
        LOCKED_LIBRARY;
        CUstream stream;
        CUresult r = event_check(event);

        if (r == CUDA_SUCCESS)
                r = stream_enter(name, &stream);
        if (r != CUDA_SUCCESS)
                return r;
        if (stream->context != event->context)
                return CUDA_ERROR_INVALID_HANDLE;
        event->is_recorded = true;
        return stream_submit(stream, &(struct op){ .kind = OP_RECORD, .event = event });
}

CUresult CUDAAPI cuEventQuery(CUevent event)
{
        LOCKED_LIBRARY;
        CUresult r = event_check(event);

        if (r != CUDA_SUCCESS)
                return r;
        return !event->n_backlog && mark_is_reached(event->last) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuEventSynchronize(CUevent event)
{
        LOCKED_LIBRARY;
        CUresult r = event_check(event);

        if (r != CUDA_SUCCESS)
                return r;
        while (event->n_backlog && !event->context->is_ended)
                library_wait(&event->context->changed);
        r = mark_wait(event->last);
        if (r == CUDA_SUCCESS)
                pools_release(event->context->device);
        return r;
}

CUresult CUDAAPI cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
        LOCKED_LIBRARY;
        CUresult r = event_check(start);
        uint64_t from, to;

        if (r == CUDA_SUCCESS)
                r = event_check(end);
        if (r != CUDA_SUCCESS)
                return r;
        if (!milliseconds)
                return CUDA_ERROR_INVALID_VALUE;
        if (!start->slot || !end->slot || !start->is_recorded || !end->is_recorded)
                return CUDA_ERROR_INVALID_HANDLE;
        if (start->n_backlog || end->n_backlog || !mark_is_reached(start->last) || !mark_is_reached(end->last))
                return CUDA_ERROR_NOT_READY;
        from = slot_time(start->context, start->slot);
        to = slot_time(end->context, end->slot);
        *milliseconds = (float)((double)(int64_t)(to - from) * 1e-6);
        return CUDA_SUCCESS;
}
