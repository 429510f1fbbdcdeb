/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "sim/objects/heap.h"

/* As libcuda asks for it: huge pages, and 4 KiB pages. */
#define ATTR_HUGE 0x11800000u
#define ATTR_4K 0x08800000u

static void assert_rounds(bytes asked, uint32_t attr, uint32_t attr2, bytes size, bytes taken)
{
        bytes got_size, got_taken;

        assert_int_equal(heap_round(asked, attr, attr2, &got_size, &got_taken), HEAP_OK);
        assert_int_equal(got_size, size);
        assert_int_equal(got_taken, taken);
}

static void a_size_is_rounded_to_its_pages_and_takes_whole_granules(void **state)
{
        (void)state;
        assert_rounds(1, ATTR_4K, 0, 4 * KIB, 64 * KIB);
        assert_rounds(65 * KIB, ATTR_4K, 0, 68 * KIB, 128 * KIB);
        assert_rounds(1, ATTR_HUGE, 0x100005, 2 * MIB, 2 * MIB);
        assert_rounds(434110464, ATTR_HUGE, 0x100005, 434110464, 434110464); /* the trace's */
        assert_rounds(1, ATTR_HUGE, 2u << 20, 512 * MIB, 512 * MIB);
}

static void the_default_page_is_the_largest_that_the_size_fills(void **state)
{
        (void)state;
        assert_rounds(1, 0, 0, 4 * KIB, 64 * KIB);
        assert_rounds(65 * KIB, 0, 0, 128 * KIB, 128 * KIB);
        assert_rounds(3 * MIB, 0, 0, 4 * MIB, 4 * MIB);
}

static void a_size_beyond_all_addresses_is_refused_not_wrapped(void **state)
{
        bytes size = 7, taken = 7;

        (void)state;
        assert_int_equal(heap_round(UINT64_MAX, ATTR_HUGE, 0, &size, &taken), HEAP_E_FULL);
        assert_int_equal(size, 7);
        assert_int_equal(taken, 7);
}

static void a_full_heap_refuses_and_takes_nothing(void **state)
{
        struct heap heap = { .size = 100 };

        (void)state;
        assert_int_equal(heap_take(&heap, 60), HEAP_OK);
        assert_int_equal(heap_take(&heap, 41), HEAP_E_FULL);
        assert_int_equal(heap_free(&heap), 40);
        assert_int_equal(heap_take(&heap, 40), HEAP_OK);
        heap_give(&heap, 100);
        assert_int_equal(heap_free(&heap), 100);
}

static void a_lodger_gets_what_is_free_and_no_more(void **state)
{
        struct heap heap = { .size = 100 };
        struct heap_evictable evictables = { 0 };

        (void)state;
        assert_int_equal(heap_take(&heap, 70), HEAP_OK);
        heap_take_evictable(&heap, &evictables, 50);
        assert_int_equal(evictables.held, 30);
        assert_int_equal(heap_free(&heap), 0);
        heap_give_evictable(&heap, &evictables);
        assert_int_equal(heap_free(&heap), 30);
}

static void memory_pushes_lodgers_out_the_oldest_first(void **state)
{
        struct heap heap = { .size = 100 };
        struct heap_evictable old = { 0 }, young = { 0 };

        (void)state;
        heap_take_evictable(&heap, &old, 40);
        heap_take_evictable(&heap, &young, 40);
        assert_int_equal(heap_take(&heap, 70), HEAP_OK);
        assert_int_equal(old.held, 0);
        assert_int_equal(young.held, 30);
        assert_int_equal(heap_free(&heap), 0);
        assert_int_equal(heap_take(&heap, 31), HEAP_E_FULL);
        assert_int_equal(young.held, 30);
        heap_give_evictable(&heap, &old);
        heap_give_evictable(&heap, &young);
        assert_int_equal(heap_free(&heap), 30);
}

static void a_new_lodger_takes_from_the_older_ones_but_not_from_memory(void **state)
{
        struct heap heap = { .size = 100 };
        struct heap_evictable old = { 0 }, young = { 0 };

        (void)state;
        assert_int_equal(heap_take(&heap, 50), HEAP_OK);
        heap_take_evictable(&heap, &old, 50);
        heap_take_evictable(&heap, &young, 80);
        assert_int_equal(young.held, 50);
        assert_int_equal(old.held, 0);
        assert_int_equal(heap.used, 100);
        heap_give_evictable(&heap, &young);
        heap_give_evictable(&heap, &old);
        assert_int_equal(heap.used, 50);
}

static void who_is_no_lodger_cannot_leave(void **state)
{
        struct heap heap = { .size = 100, .used = 10 };
        struct heap_evictable outsider = { .held = 10 };

        (void)state;
        heap_give_evictable(&heap, &outsider);
        assert_int_equal(heap.used, 10);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_size_is_rounded_to_its_pages_and_takes_whole_granules),
                cmocka_unit_test(the_default_page_is_the_largest_that_the_size_fills),
                cmocka_unit_test(a_size_beyond_all_addresses_is_refused_not_wrapped),
                cmocka_unit_test(a_full_heap_refuses_and_takes_nothing),
                cmocka_unit_test(a_lodger_gets_what_is_free_and_no_more),
                cmocka_unit_test(memory_pushes_lodgers_out_the_oldest_first),
                cmocka_unit_test(a_new_lodger_takes_from_the_older_ones_but_not_from_memory),
                cmocka_unit_test(who_is_no_lodger_cannot_leave),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
