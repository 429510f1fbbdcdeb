/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work and its order.
 *
 * A queue is a channel of the context: its work runs in order, one after the other, in the simulated
 * device's time. A stream is an order of ops over queues. The bytes of an op change when it is
 * submitted, its time passes on the device: a program that waits before it reads, as it must, sees no
 * difference.
 *
 * Ops that cannot be submitted yet stay in the stream's backlog: those behind a function of the host,
 * and those behind an event that is itself in a backlog. A worker thread per such stream drains it.
 */
#pragma once

#include "sim/cuda/memory/memory.h"
#include "sim/client/doorbell.h"

struct queue {
        CUcontext context;
        uint32_t channel;
        uint32_t slot; /* its semaphore */
        uint64_t sent, reached;
};

/* A point in a queue; queue NULL: long ago. */
struct mark {
        struct queue *queue;
        uint64_t value;
};

bool mark_is_reached(struct mark mark);
CUresult mark_wait(struct mark mark); /* drops the lock meanwhile; a sticky error of the context */

enum op_kind {
        OP_EMPTY,
        OP_KERNEL,
        OP_COPY,
        OP_SET,
        OP_HOST,
        OP_RECORD,
        OP_WAIT,
        OP_ALLOC,
        OP_FREE,
};

struct op {
        enum op_kind kind;
        union {
                struct {
                        CUfunction function;
                        uint32_t grid[3], block[3];
                        uint8_t *params; /* owned; laid out as the entry declares them */
                        size_t size;
                } kernel;
                CUDA_MEMCPY3D copy;
                CUDA_MEMSET_NODE_PARAMS set;
                struct {
                        CUhostFn function;
                        void *argument;
                } host;
                CUevent event;
                CUdeviceptr at;
        };
};

CUresult op_copy(const struct op *op, struct op *ret);
void op_done(struct op *op);
CUresult op_run(CUstream stream, const struct op *op); /* everything but OP_HOST */

/* An op of a stream's backlog or of a graph. */
struct op_list {
        struct op_entry *first, *last;
};

struct op_entry {
        struct op_entry *next;
        struct op op;
};

CUresult op_list_append(struct op_list *list, const struct op *op);
void op_list_done(struct op_list *list);

struct CUstream_st {
        CUcontext context;
        CUstream next; /* in the context */
        struct queue *queue;
        struct mark last;
        struct mark legacy; /* of the NULL stream: what this one already waits for */
        unsigned int flags;
        uint64_t group; /* UVM's */
        struct op_list backlog;
        bool has_worker;
        CUgraph capture;  /* NULL: not capturing */
        CUgreenCtx green; /* whose multiprocessors it has; NULL: all */
};

struct CUevent_st {
        CUcontext context;
        unsigned int flags;
        uint32_t slot; /* of the semaphores */
        struct mark last;
        unsigned int n_backlog; /* records of it that are in a backlog */
        bool is_recorded;
};

/* NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD have a meaning in the current context. */
CUresult stream_enter(CUstream name, CUstream *ret);
CUresult stream_submit(CUstream stream, const struct op *op);
CUresult stream_wait(CUstream stream); /* until all of it is done */

/* Sends work of so many ns to one of the context's queues, behind the stream's own past. */
CUresult stream_send(CUstream stream, struct queue *queue, uint64_t duration, uint32_t slot);
CUresult stream_depend(CUstream stream, struct mark mark);

/* The same, to the stream's own queue, for work that waits for n - 1 others of that name (sim/client/doorbell.h). */
struct meets {
        uint64_t name;
        uint32_t n; /* 0: for none */
};
CUresult stream_meet(CUstream stream, uint64_t duration, const struct meets *meets);

enum {
        SLOT_EVENTS = 64, /* slots below are the queues' */
        SLOTS = 65536,
        QUEUE_TO_DEVICE = START_COMPUTE, /* copy engines */
        QUEUE_TO_HOST = START_COMPUTE + 4,
};

/*
 * Some of a device's multiprocessors, under a name that programs make current. Memory, modules and channels are the
 * primary context's; streams made while it is current, and its own NULL stream, are the green one's.
 */
struct CUctx_st {
        struct device *device;
        CUgreenCtx green; /* this is only a green context's name */
        struct start_context start;
        CUcontext next; /* in the library */
        bool is_primary, is_ended;
        CUresult error; /* sticky */
        struct queue queue[START_CHANNELS];
        unsigned int next_queue;
        struct CUstream_st legacy, per_thread;
        CUstream streams;
        CUgreenCtx greens;
        pthread_cond_t changed; /* a backlog became shorter */
        struct chunks chunks, host_chunks, managed_chunks, array_chunks;
        struct mapping *priority; /* what the first stream with a priority cost */
        uint64_t slots[SLOTS / 64];
};

struct CUgreenCtx_st {
        CUgreenCtx next; /* in the primary context */
        struct CUctx_st name;
        CUcontext primary; /* NULL: it has ended */
        struct CUstream_st stream;
        uint64_t group; /* UVM's, beside the stream's own */
        struct mapping *mapping[3];
        uint32_t first, count; /* multiprocessors */
};

/* Of the calling thread; NULL: its context is no green one. */
CUgreenCtx green_current(void);
void greens_end(CUcontext primary); /* their names are dead */

CUresult primary_retain(struct device *device, CUcontext *ret);
CUresult primary_release(struct device *device);

/* The one that a stream of its kind waits for, and that waits for them. */
CUstream stream_legacy_of(CUstream stream);

/* Semaphores: { value, ns } each, in host memory that the device writes. */
uint32_t slot_take(CUcontext context); /* 0: none left */
void slot_give(CUcontext context, uint32_t slot);
uint64_t slot_time(CUcontext context, uint32_t slot);

CUresult context_wait(CUcontext context);

/* After a wait: pools give back the memory of idle slots. */
void pools_release(struct device *device);
