/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ops, run: bytes now, time on the device.
 *
 * Copies to and from the host go over the copy engines, in between of what the stream did before
 * and does after; everything else over the stream's own queue.
 */
#include "base/cleanup.h"
#include "sim/client/doorbell.h"
#include "sim/cuda/memory/array.h"
#include "sim/cuda/work/copy.h"
#include "sim/cuda/work/module.h"
#include "sim/cuda/memory/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

/* ---- bytes (client/doorbell.h, Touches) ------------------------------------------------------ */

/* NULL: the machine has ended, or has none. */
static struct sim_touch *touch_page(void)
{
        static struct sim_touch *page;
        static uint32_t client; /* whose it is */
        _cleanup_(closep) int fd = -1;
        void *at;

        if (page && client == library.nv.client)
                return page;
        fd = sim_gpu_touch(library.nv.ctl, library.nv.client);
        at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED)
                return NULL;
        if (page)
                (void)munmap(page, sizeof(*page));
        page = at;
        client = library.nv.client;
        return page;
}

/* On the device nothing is done to memory that is away: not before the channels go on. An op that takes no time is done
 * as soon as they are. */
static CUresult bytes_begin(CUstream stream, struct sim_touch **ret)
{
        CUresult r = CUDA_SUCCESS;

        while (r == CUDA_SUCCESS) {
                *ret = touch_page();
                if (!*ret)
                        return CUDA_SUCCESS;
                atomic_fetch_add(&(*ret)->touching, 1);
                if (!atomic_load(&(*ret)->is_away))
                        return CUDA_SUCCESS;
                atomic_fetch_sub(&(*ret)->touching, 1);
                r = stream_send(stream, stream->queue, 0, 0);
                if (r == CUDA_SUCCESS)
                        r = mark_wait(stream->last);
        }
        *ret = NULL;
        return r;
}

static void bytes_end(struct sim_touch **touch)
{
        if (*touch)
                atomic_fetch_sub(&(*touch)->touching, 1);
}

/* ---- ops ------------------------------------------------------------------------------------- */

static CUresult run_kernel(CUstream stream, const struct op *op)
{
        const struct kernel *kernel = op->kernel.function->kernel;
        uint64_t cost = kernel_cost(op, stream->green ? stream->green->count : 0);
        _cleanup_(bytes_end) struct sim_touch *touch = NULL;
        struct meets meets = kernel_meets(op);
        CUresult r = meets.n ? stream_meet(stream, cost, &meets) : stream_send(stream, stream->queue, cost, 0);

        if (r != CUDA_SUCCESS || !kernel->work || (r = bytes_begin(stream, &touch)) != CUDA_SUCCESS)
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
        _cleanup_(bytes_end) struct sim_touch *touch = NULL;
        enum copy_way way;
        uint64_t bytes = (uint64_t)op->copy.WidthInBytes * op->copy.Height * op->copy.Depth;
        CUresult r = copy_check(&op->copy, &way);

        if (r != CUDA_SUCCESS || !bytes)
                return r;
        if (way != COPY_IN_HOST)
                r = stream_send(stream, copy_queue(stream, way), copy_cost(way, bytes), 0);
        if (r == CUDA_SUCCESS && way != COPY_IN_HOST)
                r = bytes_begin(stream, &touch);
        return r == CUDA_SUCCESS ? copy_bytes(&op->copy) : r;
}

static CUresult run_set(CUstream stream, const struct op *op)
{
        _cleanup_(bytes_end) struct sim_touch *touch = NULL;
        const CUDA_MEMSET_NODE_PARAMS *set = &op->set;
        uint64_t bytes = (uint64_t)set->width * set->height * set->elementSize;
        CUresult r = set_check(set);

        if (r != CUDA_SUCCESS || !bytes)
                return r;
        r = stream_send(stream, stream->queue, ENGINE_NS + bytes / SET_BYTES_PER_NS, 0);
        if (r == CUDA_SUCCESS)
                r = bytes_begin(stream, &touch);
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
