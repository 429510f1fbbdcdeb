/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of spans; see trace.h. */
#include "sched/trace.h"

#include "base/lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
        COPY_AT_ONCE = 256, /* spans that a reader copies while a writer waits: some 10 us */
};

struct trace {
        struct lock lock;
        size_t n_spans;
        uint64_t n_put; /* span i stands in spans[i % n_spans] */
        struct trace_span spans[];
};

int trace_new(size_t n_spans, struct trace **ret)
{
        struct trace *trace = calloc(1, sizeof(*trace) + n_spans * sizeof(trace->spans[0]));

        if (!trace)
                return -ENOMEM;
        lock_init(&trace->lock, LOCK_TRACE);
        trace->n_spans = n_spans;
        *ret = trace;
        return 0;
}

struct trace *trace_free(struct trace *trace)
{
        if (trace)
                lock_done(&trace->lock);
        free(trace);
        return NULL;
}

void trace_put(struct trace *trace, const struct trace_span *span)
{
        LOCKED(&trace->lock);

        trace->spans[trace->n_put++ % trace->n_spans] = *span;
}

static uint64_t oldest(const struct trace *trace)
{
        return trace->n_put > trace->n_spans ? trace->n_put - trace->n_spans : 0;
}

/* Spans are in the order in which they were put, which is that of their ends, but for late ones: a driver call ends
 * before the records of what it did are read. So the search finds the first that fits, and goes a little back. */
uint64_t trace_seek(struct trace *trace, nsec since)
{
        enum {
                BACK = 64,
        };
        LOCKED(&trace->lock);
        uint64_t low = oldest(trace), high = trace->n_put, first = low;

        while (low < high) {
                uint64_t middle = low + (high - low) / 2;

                if (trace->spans[middle % trace->n_spans].until < since)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low - first > BACK ? low - BACK : first;
}

static size_t copy_some(struct trace *trace, uint64_t *cursor, struct trace_span *spans, size_t n_room)
{
        LOCKED(&trace->lock);
        uint64_t first = oldest(trace), at = *cursor > first ? *cursor : first;
        size_t n = 0;

        while (n < n_room && n < COPY_AT_ONCE && at < trace->n_put)
                spans[n++] = trace->spans[at++ % trace->n_spans];
        *cursor = at;
        return n;
}

size_t trace_read(struct trace *trace, uint64_t *cursor, struct trace_span *spans, size_t n_room)
{
        size_t n = 0, some;

        do {
                some = copy_some(trace, cursor, spans + n, n_room - n);
                n += some;
        } while (some);
        return n;
}

const char *trace_call_name(enum trace_call call)
{
        static const char *const names[TRACE_N_CALLS] = { "let on", "keep off", "flush", "let end" };

        return call < TRACE_N_CALLS ? names[call] : "?";
}
