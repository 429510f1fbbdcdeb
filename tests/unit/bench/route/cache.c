/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/cache.h"

#include "base/cleanup.h"

#include "unit.h"

static const uint64_t KEYS[] = { 11, 12, 13, 14, 15, 16, 17, 18 };

static void fill(struct cache *cache, const uint64_t *keys, uint32_t n)
{
        assert_true(cache_reserve(cache, n));
        for (uint32_t i = 0; i < n; i++)
                cache_fill(cache, keys[i]);
}

static void release(struct cache *cache, const uint64_t *keys, uint32_t n)
{
        while (n-- > 0)
                cache_unpin(cache, keys[n]);
}

static void a_match_is_a_prefix(void **state)
{
        const uint64_t gap[] = { 11, 99, 13 };
        _cleanup_(cache_done) struct cache cache = { 0 };

        (void)state;
        assert_int_equal(cache_init(&cache, 8), 0);
        fill(&cache, KEYS, 3);
        assert_int_equal(cache_match(&cache, KEYS, 8), 3);
        assert_int_equal(cache_match(&cache, KEYS, 2), 2);
        assert_int_equal(cache_match(&cache, gap, 3), 1);
}

static void what_is_pinned_is_not_evicted(void **state)
{
        _cleanup_(cache_done) struct cache cache = { 0 };

        (void)state;
        assert_int_equal(cache_init(&cache, 4), 0);
        fill(&cache, KEYS, 3);
        assert_false(cache_reserve(&cache, 2));
        release(&cache, KEYS, 3);
        assert_true(cache_reserve(&cache, 2));
        assert_int_equal(cache.n_blocks + cache.n_reserved, 4);
}

static void the_end_of_a_prompt_goes_before_its_beginning(void **state)
{
        _cleanup_(cache_done) struct cache cache = { 0 };

        (void)state;
        assert_int_equal(cache_init(&cache, 4), 0);
        fill(&cache, KEYS, 4);
        release(&cache, KEYS, 4);
        fill(&cache, (const uint64_t[]){ 50 }, 1);
        assert_int_equal(cache_match(&cache, KEYS, 4), 3);
}

static void a_block_that_two_fill_is_one(void **state)
{
        _cleanup_(cache_done) struct cache cache = { 0 };

        (void)state;
        assert_int_equal(cache_init(&cache, 4), 0);
        fill(&cache, KEYS, 2);
        fill(&cache, KEYS, 2);
        assert_int_equal(cache.n_blocks, 2);
        release(&cache, KEYS, 2);
        assert_int_equal(cache.n_pinned, 2);
        release(&cache, KEYS, 2);
        assert_int_equal(cache.n_pinned, 0);
}

static void a_copy_forgets_what_was_not_touched_longest(void **state)
{
        _cleanup_(cache_done) struct cache cache = { 0 };

        (void)state;
        assert_int_equal(cache_init(&cache, 3), 0);
        for (int i = 0; i < 3; i++)
                cache_touch(&cache, KEYS[i]);
        cache_touch(&cache, KEYS[0]);
        cache_touch(&cache, KEYS[3]);
        assert_int_equal(cache_match(&cache, &KEYS[0], 1), 1);
        assert_int_equal(cache_match(&cache, &KEYS[1], 1), 0);
        assert_int_equal(cache_match(&cache, &KEYS[2], 2), 2);
}

static void clearing_leaves_what_is_pinned(void **state)
{
        _cleanup_(cache_done) struct cache cache = { 0 };

        (void)state;
        assert_int_equal(cache_init(&cache, 8), 0);
        fill(&cache, KEYS, 2);
        cache_touch(&cache, KEYS[5]);
        cache_clear(&cache);
        assert_int_equal(cache_match(&cache, KEYS, 2), 2);
        assert_int_equal(cache.n_blocks, 2);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_match_is_a_prefix),
                cmocka_unit_test(what_is_pinned_is_not_evicted),
                cmocka_unit_test(the_end_of_a_prompt_goes_before_its_beginning),
                cmocka_unit_test(a_block_that_two_fill_is_one),
                cmocka_unit_test(a_copy_forgets_what_was_not_touched_longest),
                cmocka_unit_test(clearing_leaves_what_is_pinned),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
