/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: how one is made and ended, and each thread's stack of current ones.
 *
 * The record of a destroyed context is never freed: a program may still name it, and gets an error.
 */
#include "sim/cuda/context/stream.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <stdlib.h>

enum {
        STACK_MAX = 64,
};

static _Thread_local struct {
        CUcontext context[STACK_MAX];
        int n;
} stack;

static CUcontext context_current(void)
{
        return stack.n ? stack.context[stack.n - 1] : NULL;
}

CUresult context_enter(CUcontext *ret)
{
        CUresult r = library_check();
        CUcontext context = context_current();

        if (r != CUDA_SUCCESS)
                return r;
        if (!context)
                return CUDA_ERROR_INVALID_CONTEXT;
        if (context->is_ended)
                return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (context->green)
                context = context->green->primary;
        *ret = context;
        return context->error;
}

CUgreenCtx green_current(void)
{
        CUcontext context = context_current();

        return context && !context->is_ended ? context->green : NULL;
}

/* ---- making and ending --------------------------------------------------------------------- */

static CUresult context_new(struct device *device, CUcontext *ret)
{
        _cleanup_(freep) CUcontext context = calloc(1, sizeof(*context));
        uint32_t status;

        if (!context)
                return CUDA_ERROR_OUT_OF_MEMORY;
        context->device = device;
        context->start.device = &device->start;
        status = start_context(&context->start);
        if (status != RM_STATUS_OK)
                return result_of(status);

        (void)pthread_cond_init(&context->changed, NULL);
        for (uint32_t i = 0; i < START_CHANNELS; i++)
                context->queue[i] = (struct queue){ context, context->start.channel[i], i, 0, 0 };
        context->legacy = (struct CUstream_st){ .context = context, .queue = &context->queue[0] };
        context->per_thread = (struct CUstream_st){ .context = context, .queue = &context->queue[1] };
        context->next_queue = 1;
        context->next = library.contexts;
        library.contexts = context;
        *ret = TAKE(context);
        return CUDA_SUCCESS;
}

static void free_leftovers(struct start_context *start, enum start_end what)
{
        CUcontext context = CONTAINER(start, struct CUctx_st, start);

        if (what == START_END_LEFTOVERS) {
                allocations_end(context);
                return;
        }
        while (context->streams) {
                CUstream stream = context->streams;

                context->streams = stream->next;
                (void)nv_uvm_group_free(&library.nv, stream->group);
                stream->context = NULL; /* leaked: the program may still name it */
        }
}

static void context_end(CUcontext context)
{
        (void)context_wait(context);
        if (context->is_ended)
                return;
        (void)mapping_end(TAKE(context->priority));
        greens_end(context);
        context->start.on_end = free_leftovers;
        start_context_end(&context->start);
        context->is_ended = true;
        LIST_REMOVE(&library.contexts, context);
        if (context->device->primary == context)
                context->device->primary = NULL;
}

/* Waits for all work of all streams. */
CUresult context_wait(CUcontext context)
{
        CUresult r = CUDA_SUCCESS;
        CUstream s;

        r = stream_wait(&context->legacy);
        if (r == CUDA_SUCCESS)
                r = stream_wait(&context->per_thread);
        for (s = context->streams; s && r == CUDA_SUCCESS && !context->is_ended; s = s->next)
                r = stream_wait(s);
        for (CUgreenCtx green = context->greens; green && r == CUDA_SUCCESS && !context->is_ended; green = green->next)
                r = stream_wait(&green->stream);
        /* Queues outlive their streams. */
        for (size_t i = 0; i < START_CHANNELS && r == CUDA_SUCCESS && !context->is_ended; i++)
                r = mark_wait((struct mark){ &context->queue[i], context->queue[i].sent });
        if (r == CUDA_SUCCESS && !context->is_ended)
                pools_release(context->device);
        return r;
}

/* ---- the primary context ------------------------------------------------------------------- */

CUresult primary_retain(struct device *device, CUcontext *ret)
{
        CUresult r;

        if (!device->primary) {
                r = context_new(device, &device->primary);
                if (r != CUDA_SUCCESS)
                        return r;
                device->primary->is_primary = true;
        }
        device->n_retained++;
        *ret = device->primary;
        return CUDA_SUCCESS;
}

CUresult primary_release(struct device *device)
{
        if (!device->primary || !device->n_retained)
                return CUDA_ERROR_INVALID_CONTEXT;
        if (--device->n_retained == 0)
                context_end(device->primary);
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal)
{
        LOCKED_LIBRARY;
        struct device *device;
        CUresult r = device_enter(ordinal, &device);

        if (r != CUDA_SUCCESS)
                return r;
        return context ? primary_retain(device, context) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice ordinal)
{
        LOCKED_LIBRARY;
        struct device *device;
        CUresult r = device_enter(ordinal, &device);

        return r == CUDA_SUCCESS ? primary_release(device) : r;
}

/* Ends it, whatever its count of references; the next retain makes a new one. Refused while it has green contexts
 * (measured, H200, 580.159.04). */
CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice ordinal)
{
        LOCKED_LIBRARY;
        struct device *device;
        CUresult r = device_enter(ordinal, &device);

        if (r != CUDA_SUCCESS)
                return r;
        if (device->primary && device->primary->greens)
                return CUDA_ERROR_NOT_PERMITTED;
        if (device->primary)
                context_end(device->primary);
        device->n_retained = 0;
        return CUDA_SUCCESS;
}

/* ---- contexts of the program --------------------------------------------------------------- */

CUresult CUDAAPI cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice ordinal)
{
        LOCKED_LIBRARY;
        struct device *device;
        CUresult r = device_enter(ordinal, &device);

        if (r != CUDA_SUCCESS)
                return r;
        if (!context || (flags & ~(unsigned int)CU_CTX_FLAGS_MASK))
                return CUDA_ERROR_INVALID_VALUE;
        if (stack.n == STACK_MAX)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = context_new(device, context);
        if (r == CUDA_SUCCESS)
                stack.context[stack.n++] = *context;
        return r;
}

/* Execution affinity is MPS's, and MPS is not simulated. */
CUresult CUDAAPI cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params, int n_params, unsigned int flags,
                                CUdevice ordinal)
{
        if (params || n_params)
                return CUDA_ERROR_NOT_SUPPORTED;
        return cuCtxCreate_v2(context, flags, ordinal);
}

CUresult CUDAAPI cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags, CUdevice ordinal)
{
        if (params)
                return CUDA_ERROR_NOT_SUPPORTED;
        return cuCtxCreate_v2(context, flags, ordinal);
}

CUresult CUDAAPI cuCtxDestroy_v2(CUcontext context)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!context || context->is_primary || context->green)
                return CUDA_ERROR_INVALID_CONTEXT;
        if (context->is_ended)
                return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        context_end(context);
        if (context_current() == context)
                stack.n--;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (context && context->is_ended)
                return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (stack.n)
                stack.n--;
        if (context)
                stack.context[stack.n++] = context;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext *context)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!context)
                return CUDA_ERROR_INVALID_VALUE;
        *context = context_current();
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext context)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!context)
                return CUDA_ERROR_INVALID_VALUE;
        if (context->is_ended)
                return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (stack.n == STACK_MAX)
                return CUDA_ERROR_OUT_OF_MEMORY;
        stack.context[stack.n++] = context;
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *context)
{
        LOCKED_LIBRARY;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!stack.n)
                return CUDA_ERROR_INVALID_CONTEXT;
        stack.n--;
        if (context)
                *context = stack.context[stack.n];
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice *device)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!device)
                return CUDA_ERROR_INVALID_VALUE;
        *device = (CUdevice)(context->device - library.device);
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize(void)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = context_enter(&context);

        return r == CUDA_SUCCESS ? context_wait(context) : r;
}
