/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/map.h"

#include <errno.h>

static char things[4096]; /* their addresses are the values */

static void an_empty_map_has_nothing_and_allocates_nothing(void **state)
{
        struct map map = { 0 };
        size_t i = 0;

        (void)state;
        assert_null(map_get(&map, 0));
        assert_null(map_take(&map, 0));
        assert_null(map_next(&map, &i));
        assert_null(map.slots);
        map_done(&map);
}

static void what_is_put_is_found_until_it_is_taken(void **state)
{
        struct map map = { 0 };

        (void)state;
        assert_int_equal(map_put(&map, 5, &things[0]), 0);
        assert_ptr_equal(map_get(&map, 5), &things[0]);
        assert_null(map_get(&map, 6));
        assert_ptr_equal(map_take(&map, 5), &things[0]);
        assert_null(map_get(&map, 5));
        assert_null(map_take(&map, 5));
        assert_int_equal(map.n_used, 0);
        map_done(&map);
}

static void a_key_put_twice_keeps_its_first_value(void **state)
{
        struct map map = { 0 };

        (void)state;
        assert_int_equal(map_put(&map, 0, &things[0]), 0);
        assert_int_equal(map_put(&map, 0, &things[1]), -EEXIST);
        assert_ptr_equal(map_get(&map, 0), &things[0]);
        assert_int_equal(map.n_used, 1);
        map_done(&map);
}

static void the_ends_of_the_numbers_are_keys_like_others(void **state)
{
        static const uint64_t keys[] = { 0, 1, UINT32_MAX, (uint64_t)1 << 32, INT64_MAX, UINT64_MAX };
        struct map map = { 0 };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                assert_int_equal(map_put(&map, keys[i], &things[i]), 0);
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                assert_ptr_equal(map_take(&map, keys[i]), &things[i]);
        map_done(&map);
}

static void after_a_reservation_the_slots_do_not_move(void **state)
{
        struct map map = { 0 };
        const struct map_slot *slots;

        (void)state;
        assert_int_equal(map_reserve(&map, 1000), 0);
        slots = map.slots;
        for (uint64_t key = 0; key < 1000; key++)
                assert_int_equal(map_put(&map, key << 32, &things[key]), 0);
        assert_ptr_equal(map.slots, slots);
        assert_int_equal(map_reserve(&map, 0), 0);
        assert_ptr_equal(map.slots, slots);
        map_done(&map);
}

static void a_reservation_beyond_all_memory_is_refused(void **state)
{
        static const size_t sizes[] = { SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 4, SIZE_MAX / 4 + 1, SIZE_MAX / 16 };
        struct map map = { 0 };

        (void)state;
        assert_int_equal(map_put(&map, 1, &things[1]), 0);
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
                assert_int_equal(map_reserve(&map, sizes[i]), -ENOMEM);
        assert_ptr_equal(map_get(&map, 1), &things[1]);
        map_done(&map);
}

static void a_map_that_only_churns_does_not_grow(void **state)
{
        struct map map = { 0 };
        size_t n_slots;

        (void)state;
        for (uint64_t key = 0; key < 100; key++)
                assert_int_equal(map_put(&map, key, &things[key]), 0);
        n_slots = map.n_slots;
        for (uint64_t key = 100; key < 100000; key++) {
                assert_non_null(map_take(&map, key - 100));
                assert_int_equal(map_put(&map, key, &things[key % 100]), 0);
        }
        assert_int_equal(map.n_slots, n_slots);
        assert_int_equal(map.n_used, 100);
        map_done(&map);
}

static void a_visit_meets_each_entry_once(void **state)
{
        size_t n_met[ARRAY_SIZE(things)] = { 0 }, n = 0;
        struct map map = { 0 };
        const char *thing;

        (void)state;
        for (uint64_t key = 0; key < ARRAY_SIZE(things); key += 3)
                assert_int_equal(map_put(&map, key * key, &things[key]), 0);
        for (size_t i = 0; (thing = map_next(&map, &i)) != NULL; n++)
                n_met[thing - things]++;
        for (size_t i = 0; i < ARRAY_SIZE(things); i++)
                assert_int_equal(n_met[i], i % 3 == 0);
        assert_int_equal(n, map.n_used);
        map_done(&map);
}

/* Few keys, so that runs form and holes are closed; among them some that once shared a slot. */
static void random_puts_and_takes_agree_with_an_array(void **state)
{
        char *expected[64] = { 0 };
        struct map map = { 0 };
        uint64_t random = 1;

        (void)state;
        for (size_t i = 0; i < 300000; i++) {
                uint64_t at, key;

                random = random * 6364136223846793005u + 1442695040888963407u;
                at = random >> 58;
                key = at << (at % 4 * 16);
                if (random >> 40 & 1) {
                        char *thing = &things[i % ARRAY_SIZE(things)];

                        assert_int_equal(map_put(&map, key, thing), expected[at] ? -EEXIST : 0);
                        expected[at] = expected[at] ? expected[at] : thing;
                } else {
                        assert_ptr_equal(map_take(&map, key), expected[at]);
                        expected[at] = NULL;
                }
                at = random >> 50 & 63;
                assert_ptr_equal(map_get(&map, at << (at % 4 * 16)), expected[at]);
        }
        map_done(&map);
}

static size_t longest_run(const struct map *map)
{
        size_t longest = 0, run = 0;

        for (size_t i = 0; i < map->n_slots; i++) {
                run = map->slots[i].value ? run + 1 : 0;
                longest = run > longest ? run : longest;
        }
        return longest;
}

/* Keys a tenant could choose: multiples of large powers of two, and inverses of multipliers. */
static void no_pattern_of_keys_makes_a_long_run(void **state)
{
        (void)state;
        for (unsigned int pattern = 0; pattern < 6; pattern++) {
                struct map map = { 0 };

                for (uint64_t i = 0; i < 20000; i++) {
                        uint64_t keys[] = {
                                i, i << 32, i << 44, i << 32 | i, i << 16, (i << 40) * 0xf1de83e19937733du
                        };

                        assert_int_equal(map_put(&map, keys[pattern], &things[0]), 0);
                }
                assert_true(longest_run(&map) < 1000);
                map_done(&map);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_empty_map_has_nothing_and_allocates_nothing),
                cmocka_unit_test(what_is_put_is_found_until_it_is_taken),
                cmocka_unit_test(a_key_put_twice_keeps_its_first_value),
                cmocka_unit_test(the_ends_of_the_numbers_are_keys_like_others),
                cmocka_unit_test(after_a_reservation_the_slots_do_not_move),
                cmocka_unit_test(a_reservation_beyond_all_memory_is_refused),
                cmocka_unit_test(a_map_that_only_churns_does_not_grow),
                cmocka_unit_test(a_visit_meets_each_entry_once),
                cmocka_unit_test(random_puts_and_takes_agree_with_an_array),
                cmocka_unit_test(no_pattern_of_keys_makes_a_long_run),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
