/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "sim/cuda/memory/memory.h"

#include <errno.h>
#include <stdlib.h>

static void what_is_put_is_found_by_any_of_its_addresses(void **state)
{
        struct spans spans = { 0 };
        struct span a = { 100, 10 }, b = { 50, 20 }, c = { 110, 5 };

        (void)state;
        assert_int_equal(spans_put(&spans, &a), 0);
        assert_int_equal(spans_put(&spans, &b), 0);
        assert_int_equal(spans_put(&spans, &c), 0);
        assert_ptr_equal(spans_find(&spans, 50), &b);
        assert_ptr_equal(spans_find(&spans, 69), &b);
        assert_null(spans_find(&spans, 70));
        assert_ptr_equal(spans_find(&spans, 109), &a);
        assert_ptr_equal(spans_find(&spans, 110), &c);
        assert_null(spans_find(&spans, 115));
        assert_null(spans_find(&spans, 0));
        free(spans.span);
}

static void what_overlaps_is_refused(void **state)
{
        struct spans spans = { 0 };
        struct span a = { 100, 10 }, wrong[] = { { 100, 10 }, { 95, 6 }, { 109, 1 }, { 90, 100 }, { 105, 1 } };

        (void)state;
        assert_int_equal(spans_put(&spans, &a), 0);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
                assert_int_equal(spans_put(&spans, &wrong[i]), -EEXIST);
        assert_int_equal(spans.n, 1);
        free(spans.span);
}

static void nothing_and_more_than_all_are_refused(void **state)
{
        struct spans spans = { 0 };
        struct span none = { 100, 0 }, all = { UINT64_MAX - 1, 3 };

        (void)state;
        assert_int_equal(spans_put(&spans, &none), -EINVAL);
        assert_int_equal(spans_put(&spans, &all), -EINVAL);
        free(spans.span);
}

static void what_is_taken_is_gone_and_the_rest_stays(void **state)
{
        struct spans spans = { 0 };
        struct span span[300];

        (void)state;
        for (size_t i = 0; i < 300; i++) {
                span[i] = (struct span){ (i * 7919) % 300 * 16, 16 };
                assert_int_equal(spans_put(&spans, &span[i]), 0);
        }
        for (size_t i = 0; i < 300; i += 2)
                spans_take(&spans, &span[i]);
        assert_int_equal(spans.n, 150);
        for (size_t i = 0; i < 300; i++)
                assert_ptr_equal(spans_find(&spans, span[i].base + 15), i % 2 ? &span[i] : NULL);
        free(spans.span);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_put_is_found_by_any_of_its_addresses),
                cmocka_unit_test(what_overlaps_is_refused),
                cmocka_unit_test(nothing_and_more_than_all_are_refused),
                cmocka_unit_test(what_is_taken_is_gone_and_the_rest_stays),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
