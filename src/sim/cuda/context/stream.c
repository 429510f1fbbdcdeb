/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: submitting, the backlog and its worker, waiting. */
#include "sim/cuda/work/graph.h"
#include "sim/cuda/context/stream.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <stdlib.h>

CUresult stream_enter(CUstream name, CUstream *ret)
{
        CUgreenCtx green = green_current();
        CUcontext context;
        CUresult r = context_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!name || name == CU_STREAM_LEGACY)
                *ret = green ? &green->stream : &context->legacy;
        else if (name == CU_STREAM_PER_THREAD && green)
                return CUDA_ERROR_INVALID_HANDLE; /* as the real one answers (H200, 580.159.04) */
        else if (name == CU_STREAM_PER_THREAD)
                *ret = &context->per_thread;
        else
                *ret = name;
        if (!(*ret)->context || (*ret)->context->is_ended)
                return CUDA_ERROR_INVALID_HANDLE;
        return (*ret)->context->error;
}

CUstream stream_legacy_of(CUstream stream)
{
        return stream->green ? &stream->green->stream : &stream->context->legacy;
}

/* ---- the backlog --------------------------------------------------------------------------- */

CUresult op_list_append(struct op_list *list, const struct op *op)
{
        _cleanup_(freep) struct op_entry *entry = calloc(1, sizeof(*entry));
        CUresult r;

        if (!entry)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = op_copy(op, &entry->op);
        if (r != CUDA_SUCCESS)
                return r;
        if (list->last)
                list->last->next = entry;
        else
                list->first = entry;
        list->last = TAKE(entry);
        return CUDA_SUCCESS;
}

void op_list_done(struct op_list *list)
{
        while (list->first) {
                struct op_entry *entry = list->first;

                list->first = entry->next;
                op_done(&entry->op);
                free(entry);
        }
        list->last = NULL;
}

/* Runs the program's function, without the lock. */
static void run_host(CUstream stream, const struct op *op)
{
        CUresult r = mark_wait(stream->last);
        int locked = 0;

        if (r != CUDA_SUCCESS)
                return; /* a host function runs only after success */
        library_unlock(&locked);
        op->host.function(op->host.argument);
        (void)library_lock();
}

static void run_backlog_entry(CUstream stream, const struct op *op)
{
        switch (op->kind) {
        case OP_HOST:
                run_host(stream, op);
                break;
        case OP_WAIT:
                while (op->event->n_backlog && op->event->context != stream->context)
                        library_wait(&op->event->context->changed);
                while (op->event->n_backlog && !stream->context->is_ended)
                        library_wait(&stream->context->changed);
                (void)op_run(stream, op);
                break;
        case OP_RECORD:
                (void)op_run(stream, op);
                op->event->n_backlog--;
                break;
        default:
                (void)op_run(stream, op); /* an error sticks to the context */
                break;
        }
}

/* run_host takes the lock again, too. */
static void *backlog_worker(void *argument)
{
        library_be_insider();
        LOCKED_LIBRARY;
        CUstream stream = argument;
        CUcontext context = stream->context;

        while (stream->backlog.first) {
                struct op_entry *entry = stream->backlog.first;

                run_backlog_entry(stream, &entry->op);
                stream->backlog.first = entry->next;
                if (!entry->next)
                        stream->backlog.last = NULL;
                op_done(&entry->op);
                free(entry);
                (void)pthread_cond_broadcast(&context->changed);
        }
        stream->has_worker = false;
        (void)pthread_cond_broadcast(&context->changed);
        return NULL;
}

static CUresult backlog_append(CUstream stream, const struct op *op)
{
        CUresult r = op_list_append(&stream->backlog, op);
        pthread_attr_t attributes;
        pthread_t thread;

        if (r != CUDA_SUCCESS)
                return r;
        if (op->kind == OP_RECORD)
                op->event->n_backlog++;
        if (stream->has_worker)
                return CUDA_SUCCESS;

        (void)pthread_attr_init(&attributes);
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        stream->has_worker = pthread_create(&thread, &attributes, backlog_worker, stream) == 0;
        (void)pthread_attr_destroy(&attributes);
        return stream->has_worker ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

static bool must_wait_for_host(CUstream stream, const struct op *op)
{
        return stream->backlog.first || op->kind == OP_HOST || (op->kind == OP_WAIT && op->event->n_backlog);
}

CUresult stream_submit(CUstream stream, const struct op *op)
{
        if (stream->capture)
                return graph_append(stream->capture, op, NULL);
        if (must_wait_for_host(stream, op))
                return backlog_append(stream, op);
        return op_run(stream, op);
}

CUresult stream_wait(CUstream stream)
{
        CUcontext context = stream->context;

        while (stream->has_worker && !context->is_ended)
                library_wait(&context->changed);
        return context->is_ended ? CUDA_ERROR_CONTEXT_IS_DESTROYED : mark_wait(stream->last);
}

static bool stream_is_done(CUstream stream)
{
        return !stream->has_worker && mark_is_reached(stream->last);
}

/* ---- entry points -------------------------------------------------------------------------- */

static CUresult stream_new(CUcontext context, CUgreenCtx green, unsigned int flags, int priority, CUstream *stream)
{
        _cleanup_(freep) CUstream made = NULL;
        uint32_t status;
        CUresult r;

        if (!stream || (flags & ~(unsigned int)CU_STREAM_NON_BLOCKING))
                return CUDA_ERROR_INVALID_VALUE;
        made = calloc(1, sizeof(*made));
        if (!made)
                return CUDA_ERROR_OUT_OF_MEMORY;
        if (priority < 0 && !context->priority) { /* recorded: the first one costs 2 MiB of video memory */
                r = mapping_video(context->device, CHUNK_SIZE, ATTR_LINEAR, &context->priority);
                if (r != CUDA_SUCCESS)
                        return r;
        }
        status = nv_uvm_group(&library.nv, &made->group);
        if (status != RM_STATUS_OK)
                return result_of(status);

        made->context = context;
        made->green = green;
        made->flags = flags;
        context->next_queue = context->next_queue % (START_COMPUTE - 1) + 1;
        made->queue = &context->queue[context->next_queue]; /* the first one is the NULL stream's */
        made->next = context->streams;
        context->streams = made;
        *stream = TAKE(made);
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = context_enter(&context);

        return r == CUDA_SUCCESS ? stream_new(context, green_current(), flags, priority, stream) : r;
}

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned int flags)
{
        return cuStreamCreateWithPriority(stream, flags, 0);
}

/* Submitted work still runs: the record is freed when it is done. */
CUresult CUDAAPI cuStreamDestroy_v2(CUstream stream)
{
        LOCKED_LIBRARY;
        CUcontext context;
        CUresult r = library_check();

        if (r != CUDA_SUCCESS)
                return r;
        if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD || !stream->context)
                return CUDA_ERROR_INVALID_HANDLE;
        context = stream->context;
        while (stream->has_worker)
                library_wait(&context->changed);
        for (CUstream *at = &context->streams; *at; at = &(*at)->next) {
                if (*at != stream)
                        continue;
                *at = stream->next;
                (void)nv_uvm_group_free(&library.nv, stream->group);
                free(stream);
                return CUDA_SUCCESS;
        }
        return CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream name)
{
        LOCKED_LIBRARY;
        CUstream stream;
        CUresult r = stream_enter(name, &stream);
        struct device *device;

        if (r != CUDA_SUCCESS)
                return r;
        if (stream->capture)
                return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        device = stream->context->device;
        if (stream == stream_legacy_of(stream)) /* waits for all blocking streams as well */
                for (CUstream s = stream->context->streams; s && r == CUDA_SUCCESS; s = s->next)
                        if (s->green == stream->green && !(s->flags & CU_STREAM_NON_BLOCKING))
                                r = stream_wait(s);
        if (r == CUDA_SUCCESS)
                r = stream_wait(stream);
        if (r == CUDA_SUCCESS)
                pools_release(device);
        return r;
}

CUresult CUDAAPI cuStreamQuery(CUstream name)
{
        LOCKED_LIBRARY;
        CUstream stream;
        CUresult r = stream_enter(name, &stream);

        if (r != CUDA_SUCCESS)
                return r;
        if (stream->capture)
                return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        return stream_is_done(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream name, CUevent event, unsigned int flags)
{
        LOCKED_LIBRARY;
        CUstream stream;
        CUresult r = stream_enter(name, &stream);

        if (r != CUDA_SUCCESS)
                return r;
        if (!event || !event->context)
                return CUDA_ERROR_INVALID_HANDLE;
        if (flags > 1)
                return CUDA_ERROR_INVALID_VALUE;
        return stream_submit(stream, &(struct op){ .kind = OP_WAIT, .event = event });
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream name, CUhostFn function, void *argument)
{
        LOCKED_LIBRARY;
        CUstream stream;
        CUresult r = stream_enter(name, &stream);

        if (r != CUDA_SUCCESS)
                return r;
        if (!function)
                return CUDA_ERROR_INVALID_VALUE;
        return stream_submit(stream,
                             &(struct op){ .kind = OP_HOST, .host = { .function = function, .argument = argument } });
}

CUresult CUDAAPI cuStreamGetCtx(CUstream name, CUcontext *context)
{
        LOCKED_LIBRARY;
        CUstream stream;
        CUresult r = stream_enter(name, &stream);

        if (r != CUDA_SUCCESS)
                return r;
        if (!context)
                return CUDA_ERROR_INVALID_VALUE;
        *context = stream->green ? &stream->green->name : stream->context;
        return CUDA_SUCCESS;
}

/* ---- capture: one stream, its ops in a row ------------------------------------------------- */

CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream name, CUstreamCaptureMode mode)
{
        LOCKED_LIBRARY;
        CUstream stream;
        CUresult r = stream_enter(name, &stream);

        if (r != CUDA_SUCCESS)
                return r;
        if (stream == stream_legacy_of(stream))
                return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        if (stream->capture)
                return CUDA_ERROR_ILLEGAL_STATE;
        if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
                return CUDA_ERROR_INVALID_VALUE;
        return graph_new(stream->context->device, &stream->capture);
}

CUresult CUDAAPI cuStreamEndCapture(CUstream name, CUgraph *graph)
{
        LOCKED_LIBRARY;
        CUstream stream;
        CUresult r = stream_enter(name, &stream);

        if (r != CUDA_SUCCESS)
                return r;
        if (!graph)
                return CUDA_ERROR_INVALID_VALUE;
        if (!stream->capture)
                return CUDA_ERROR_ILLEGAL_STATE;
        *graph = TAKE(stream->capture);
        return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream name, CUstreamCaptureStatus *status)
{
        LOCKED_LIBRARY;
        CUstream stream;
        CUresult r = stream_enter(name, &stream);

        if (r != CUDA_SUCCESS)
                return r;
        if (!status)
                return CUDA_ERROR_INVALID_VALUE;
        *status = stream->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
        return CUDA_SUCCESS;
}
