/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ops, run: bytes now, time on the device.
 *
 * Copies to and from the host go over the copy engines, in between of what the stream did before
 * and does after; everything else over the stream's own queue.
 */
#include "sim/cuda/memory/array.h"
#include "sim/cuda/work/copy.h"
#include "sim/cuda/work/module.h"
#include "sim/cuda/memory/pool.h"

#include <stdlib.h>
#include <string.h>

enum {
        HOST_BYTES_PER_NS = 55,     /* a x16 link of the fifth generation */
        DEVICE_BYTES_PER_NS = 1500, /* read and written */
        SET_BYTES_PER_NS = 3000,
        ENGINE_NS = 1000,
};

CUresult op_copy(const struct op *op, struct op *ret)
{
        *ret = *op;
        if (op->kind == OP_KERNEL && op->kernel.params) {
                ret->kernel.params = malloc(op->kernel.size);
                if (!ret->kernel.params)
                        return CUDA_ERROR_OUT_OF_MEMORY;
                memcpy(ret->kernel.params, op->kernel.params, op->kernel.size);
        }
        if (op->kind == OP_ALLOC)
                pool_reserved_ref(op->at);
        return CUDA_SUCCESS;
}

void op_done(struct op *op)
{
        if (op->kind == OP_KERNEL)
                free(op->kernel.params);
        if (op->kind == OP_ALLOC)
                pool_reserved_unref(op->at);
        op->kind = OP_EMPTY;
}

/* On the device nothing is done to memory that is away: not before the channels go on. */
static CUresult wait_while_away(CUstream stream)
{
        return memories_are_away() ? mark_wait(stream->last) : CUDA_SUCCESS;
}

static CUresult run_kernel(CUstream stream, const struct op *op)
{
        const struct kernel *kernel = op->kernel.function->kernel;
        uint64_t cost = kernel_cost(op, stream->green ? stream->green->count : 0);
        struct meets meets = kernel_meets(op);
        CUresult r = meets.n ? stream_meet(stream, cost, &meets) : stream_send(stream, stream->queue, cost, 0);

        if (r != CUDA_SUCCESS || !kernel->work || (r = wait_while_away(stream)) != CUDA_SUCCESS)
                return r;
        /* An error of the kernel is reported later, by the next wait. */
        r = kernel->work(op);
        if (r != CUDA_SUCCESS)
                stream->context->error = r;
        return CUDA_SUCCESS;
}

static struct queue *copy_queue(CUstream stream, enum copy_way way)
{
        CUcontext context = stream->context;

        switch (way) {
        case COPY_TO_DEVICE:
                return &context->queue[QUEUE_TO_DEVICE];
        case COPY_TO_HOST:
                return &context->queue[QUEUE_TO_HOST];
        default:
                return stream->queue;
        }
}

/* SUBLET_SIM_COPY_NS: of each copy between host and device, whatever its size. A simulated copy moves bytes with the
 * processor, which is far slower than the link. */
static uint64_t copy_cost(enum copy_way way, uint64_t bytes)
{
        const char *set = way == COPY_IN_DEVICE ? NULL : getenv("SUBLET_SIM_COPY_NS");
        uint64_t ns = set ? strtoull(set, NULL, 10) : 0;

        return ns ? ns : ENGINE_NS + bytes / (way == COPY_IN_DEVICE ? DEVICE_BYTES_PER_NS : HOST_BYTES_PER_NS);
}

static CUresult run_copy(CUstream stream, const struct op *op)
{
        enum copy_way way;
        uint64_t bytes = (uint64_t)op->copy.WidthInBytes * op->copy.Height * op->copy.Depth;
        CUresult r = copy_check(&op->copy, &way);

        if (r != CUDA_SUCCESS || !bytes)
                return r;
        if (way != COPY_IN_HOST)
                r = stream_send(stream, copy_queue(stream, way), copy_cost(way, bytes), 0);
        if (r == CUDA_SUCCESS && way != COPY_IN_HOST)
                r = wait_while_away(stream);
        return r == CUDA_SUCCESS ? copy_bytes(&op->copy) : r;
}

static CUresult run_set(CUstream stream, const struct op *op)
{
        const CUDA_MEMSET_NODE_PARAMS *set = &op->set;
        uint64_t bytes = (uint64_t)set->width * set->height * set->elementSize;
        CUresult r = set_check(set);

        if (r != CUDA_SUCCESS || !bytes)
                return r;
        r = stream_send(stream, stream->queue, ENGINE_NS + bytes / SET_BYTES_PER_NS, 0);
        if (r == CUDA_SUCCESS)
                r = wait_while_away(stream);
        return r == CUDA_SUCCESS ? set_bytes(set) : r;
}

static CUresult run_record(CUstream stream, const struct op *op)
{
        CUresult r = stream_send(stream, stream->queue, 0, op->event->slot);

        if (r == CUDA_SUCCESS)
                op->event->last = stream->last;
        return r;
}

static CUresult run_free(CUstream stream, const struct op *op)
{
        struct allocation *allocation = allocation_named(op->at);

        if (!allocation)
                return CUDA_ERROR_INVALID_VALUE;
        if (allocation->kind != ALLOCATION_POOL) {
                CUresult r = mark_wait(stream->last);

                return r == CUDA_SUCCESS ? allocation_end(allocation) : r;
        }
        pool_give_in(allocation, stream);
        return CUDA_SUCCESS;
}

CUresult op_run(CUstream stream, const struct op *op)
{
        switch (op->kind) {
        case OP_KERNEL:
                return run_kernel(stream, op);
        case OP_COPY:
                return run_copy(stream, op);
        case OP_SET:
                return run_set(stream, op);
        case OP_RECORD:
                return run_record(stream, op);
        case OP_WAIT:
                return stream_depend(stream, op->event->last);
        case OP_ALLOC:
                return pool_commit(op->at, stream);
        case OP_FREE:
                return run_free(stream, op);
        case OP_HOST: /* the worker's */
        case OP_EMPTY:
                break;
        }
        return CUDA_SUCCESS;
}
