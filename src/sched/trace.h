/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace: what happened on one device and when, for some minutes back. A ring of spans, in the order in which they
 * ended: which context was on the device, which tenant was disabled, and the driver calls for that.
 *
 *      cursor = trace_seek(trace, now - 5 * NSEC_PER_SEC);
 *      while ((n = trace_read(trace, &cursor, spans, ARRAY_SIZE(spans))) > 0)
 *              ... write them; ask for more than the ring holds, and the oldest are missing ...
 *
 * Times are clock_now()'s. What has not ended yet has no span: sched_read reports it.
 *
 * Threads: any, LOCK_TRACE (a leaf); a reader copies little at a time, so it never holds up a writer.
 */
#pragma once

#include "base/clock.h"

#include <stddef.h>
#include <stdint.h>

enum trace_kind {
        TRACE_ON,         /* a context was on the device; tenant 0: it belongs to none */
        TRACE_OFF,        /* the tenant's channels were disabled */
        TRACE_CALL,       /* a driver call; tenant 0: for several */
        TRACE_ENGINE_ON,  /* the tenant had work on an engine beside graphics and compute, as sched/engines.c sees it */
        TRACE_ENGINE_OFF, /* it had work for the engine, and its channels there were disabled */
        TRACE_LOST,       /* the driver dropped records of this time: the trace has a gap */
        TRACE_N_KINDS,
};

struct trace_span {
        nsec from, until;
        uint64_t tenant; /* id that sched_add was given; 0: none */
        uint32_t kind;   /* enum trace_kind */
        uint32_t detail; /* CALL: enum trace_call; ON: the context's id; ENGINE_x: enum rm_engine; LOST: how many */
};

enum trace_call {
        TRACE_CALL_ENABLE,
        TRACE_CALL_DISABLE,
        TRACE_CALL_FLUSH,
        TRACE_CALL_RETIRE, /* disable, without preemption */
        TRACE_N_CALLS,
};

enum {
        TRACE_SPANS = 1 << 17, /* of 32 bytes: four minutes at 500 switches a second */
};

struct trace;

int trace_new(size_t n_spans, struct trace **ret); /* 0; -ENOMEM */
struct trace *trace_free(struct trace *trace);     /* NULL is fine */

void trace_put(struct trace *trace, const struct trace_span *span);

/* The cursor of the first span that ended at or after `since`. */
uint64_t trace_seek(struct trace *trace, nsec since);

/* Copies the next spans, at most n_room; *cursor advances, also past what has been overwritten. 0: no more yet. */
size_t trace_read(struct trace *trace, uint64_t *cursor, struct trace_span *spans, size_t n_room);

const char *trace_call_name(enum trace_call call); /* "let on", "keep off", "flush", "let end" */
