/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "gate/state/listens.h"

#include "base/cleanup.h"

#include <errno.h>

static bool is_odd(void *context, uint32_t client)
{
        (void)context;
        return client % 2;
}

static void a_number_of_a_client_counts_once(void **state)
{
        _cleanup_(listens_done) struct listens listens = { 0 };

        (void)state;
        assert_int_equal(listens_put(&listens, 1, 7), 0);
        assert_int_equal(listens_put(&listens, 1, 7), -EEXIST);
        assert_int_equal(listens_put(&listens, 2, 7), 0);
        assert_int_equal(listens_put(&listens, 0, 7), 0);
        listens_take(&listens, 1, 7);
        assert_int_equal(listens_put(&listens, 1, 7), 0);
}

static void there_is_a_bound_and_what_is_taken_makes_room(void **state)
{
        _cleanup_(listens_done) struct listens listens = { 0 };

        (void)state;
        for (uint32_t i = 0; i < LISTENS_MAX; i++)
                assert_int_equal(listens_put(&listens, i, ~i), 0);
        assert_int_equal(listens_put(&listens, 1, 1), -ENOSPC);
        assert_int_equal(listens_put(&listens, 1, ~1u), -EEXIST);
        listens_take(&listens, 5, 5); /* was not there */
        assert_int_equal(listens_put(&listens, 1, 1), -ENOSPC);
        listens_take(&listens, 5, ~5u);
        assert_int_equal(listens_put(&listens, 1, 1), 0);
}

/* However few are taken at a time, each of them comes. */
static void those_of_clients_that_are_gone_are_all_found_in_turn(void **state)
{
        _cleanup_(listens_done) struct listens listens = { 0 };
        struct listen some[10];
        bool was_seen[100] = { false };
        size_t n_seen = 0;

        (void)state;
        assert_int_equal(listens_some(&listens, is_odd, NULL, some, ARRAY_SIZE(some)), 0);
        for (uint32_t i = 0; i < 100; i++)
                assert_int_equal(listens_put(&listens, i, 1000 + i), 0);
        for (int turn = 0; turn < 20; turn++)
                for (size_t n = listens_some(&listens, is_odd, NULL, some, ARRAY_SIZE(some)); n--;) {
                        assert_true(some[n].client % 2 && some[n].number == 1000 + some[n].client);
                        n_seen += !was_seen[some[n].client];
                        was_seen[some[n].client] = true;
                }
        assert_int_equal(n_seen, 50);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_number_of_a_client_counts_once),
                cmocka_unit_test(there_is_a_bound_and_what_is_taken_makes_room),
                cmocka_unit_test(those_of_clients_that_are_gone_are_all_found_in_turn),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
