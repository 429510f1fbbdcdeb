/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "sched/trace.h"

static struct trace *trace_of(size_t room, nsec n)
{
        struct trace *trace;

        assert_int_equal(trace_new(room, &trace), 0);
        for (nsec i = 0; i < n; i++)
                trace_put(trace, &(struct trace_span){ .from = 10 * i, .until = 10 * i + 5, .tenant = (uint64_t)i });
        return trace;
}

static void spans_are_read_in_order_in_pieces(void **state)
{
        struct trace *trace = trace_of(2000, 1000);
        struct trace_span spans[300];
        uint64_t cursor = trace_seek(trace, 0), seen = 0;
        size_t n;

        (void)state;
        while ((n = trace_read(trace, &cursor, spans, ARRAY_SIZE(spans))) > 0)
                for (size_t i = 0; i < n; i++)
                        assert_int_equal(spans[i].tenant, seen++);
        assert_int_equal(seen, 1000);
        assert_null(trace_free(trace));
}

static void a_full_ring_keeps_the_newest_spans(void **state)
{
        struct trace *trace = trace_of(100, 250);
        struct trace_span spans[200];
        uint64_t cursor = 0;

        (void)state;
        assert_int_equal(trace_read(trace, &cursor, spans, ARRAY_SIZE(spans)), 100);
        assert_int_equal(spans[0].tenant, 150);
        assert_int_equal(spans[99].tenant, 249);
        assert_int_equal(trace_read(trace, &cursor, spans, ARRAY_SIZE(spans)), 0);
        trace_put(trace, &(struct trace_span){ .tenant = 7 });
        assert_int_equal(trace_read(trace, &cursor, spans, ARRAY_SIZE(spans)), 1);
        assert_int_equal(spans[0].tenant, 7);
        assert_null(trace_free(trace));
}

/* A little more is given than was asked for: what ended late stands later. Never less. */
static void reading_begins_at_the_time_sought(void **state)
{
        struct trace *trace = trace_of(100000, 50000);
        struct trace_span span;
        uint64_t cursor;

        (void)state;
        for (nsec since = 0; since < 500000; since += 7919) {
                cursor = trace_seek(trace, since);
                assert_int_equal(trace_read(trace, &cursor, &span, 1), 1);
                assert_true(span.from <= since && span.from + 700 >= since);
        }
        cursor = trace_seek(trace, 500001);
        while (trace_read(trace, &cursor, &span, 1))
                ;
        assert_int_equal(cursor, 50000);
        assert_null(trace_free(trace));
}

static void every_call_has_a_name(void **state)
{
        (void)state;
        for (enum trace_call call = 0; call < TRACE_N_CALLS; call++)
                assert_string_not_equal(trace_call_name(call), "?");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(spans_are_read_in_order_in_pieces),
                cmocka_unit_test(a_full_ring_keeps_the_newest_spans),
                cmocka_unit_test(reading_begins_at_the_time_sought),
                cmocka_unit_test(every_call_has_a_name),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
