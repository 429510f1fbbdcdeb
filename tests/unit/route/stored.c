/* SPDX-License-Identifier: Apache-2.0 */
#include "route/keys/stored.h"

#include "unit.h"

enum {
        AROUND = 2 * STORED_SLOTS, /* so far from an id, another one has the same slots */
};

static struct stored_table table;

static void store(uint64_t id, uint64_t reserved)
{
        stored_put(&table, id, &(struct stored){ .key = 7, .reserved = reserved, .per_minute = 60 });
}

static void an_entry_is_had_once(void **state)
{
        struct stored entry;

        (void)state;
        store(5, 100);
        store(5 + AROUND, 200);
        assert_true(stored_take(&table, 5, &entry));
        assert_int_equal(entry.reserved, 100);
        assert_int_equal(entry.key, 7);
        assert_false(stored_take(&table, 5, &entry));
        assert_true(stored_take(&table, 5 + AROUND, &entry));
        assert_int_equal(entry.reserved, 200);
}

static void the_oldest_is_forgotten_first(void **state)
{
        struct stored entry;

        (void)state;
        for (uint64_t i = 0; i <= STORED_NEAR; i++)
                store(9 + i * AROUND, i);
        assert_false(stored_take(&table, 9, &entry));
        for (uint64_t i = 1; i <= STORED_NEAR; i++)
                assert_true(stored_take(&table, 9 + i * AROUND, &entry));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_entry_is_had_once),
                cmocka_unit_test(the_oldest_is_forgotten_first),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
