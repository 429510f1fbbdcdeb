/* SPDX-License-Identifier: Apache-2.0 */
/* The device's total against the books. */
#include "unit.h"

#include "daemon/state/balance.h"

/* Some readings of the same: whether a finding began, and whom it names. */
static bool read_times(struct balance *balance, int times, bytes used, const struct balance_row *rows, size_t n,
                       uint64_t *ret_tenant)
{
        struct balance_view view = { .used = used, .rows = rows, .n_rows = n };
        bool has_begun = false;

        for (int i = 0; i < times; i++)
                has_begun |= balance_step(balance, &view, ret_tenant);
        return has_begun;
}

static void what_was_there_before_is_explained(void **state)
{
        struct balance balance = { 0 };
        struct balance_row one = { .id = 1, .held = 2 * GIB, .n_processes = 1 };
        uint64_t tenant = 77;

        (void)state;
        assert_false(read_times(&balance, 5, 9 * GIB, NULL, 0, &tenant));
        assert_false(read_times(&balance, 5, 11 * GIB + 9 * MIB, &one, 1, &tenant));
        assert_int_equal(balance.unexplained, 9 * MIB);
        assert_false(read_times(&balance, 5, 12 * GIB, NULL, 0, &tenant)); /* something else came when it was gone */
        assert_int_equal(balance.unexplained, 0);
        assert_int_equal(tenant, 77);
}

static void an_mps_server_takes_some_that_is_of_no_process_and_no_more(void **state)
{
        struct balance balance = { 0 };
        struct balance_row one = { .id = 1, .held = 2 * GIB, .n_processes = 1 };
        struct balance_view before = { 0 };
        struct balance_view view = { .used = 3 * GIB, .unmanaged = GIB - 380 * MIB, .rows = &one, .n_rows = 1 };
        uint64_t tenant;
        bool has_begun[2] = { false };

        (void)state;
        (void)balance_step(&balance, &before, &tenant);
        for (view.n_servers = 2; view.n_servers > 0; view.n_servers--)
                for (int i = 0; i < BALANCE_TIMES; i++)
                        has_begun[view.n_servers - 1] |= balance_step(&balance, &view, &tenant);
        assert_false(has_begun[1] || has_begun[0]);
        for (int i = 0; i < BALANCE_TIMES; i++)
                has_begun[0] |= balance_step(&balance, &view, &tenant);
        assert_true(has_begun[0]);
}

static void a_daemon_that_begins_with_tenants_counts_from_there(void **state)
{
        struct balance balance = { 0 };
        struct balance_row one = { .id = 1, .held = 2 * GIB, .n_processes = 1 };
        uint64_t tenant;

        (void)state;
        assert_false(read_times(&balance, 5, 11 * GIB, &one, 1, &tenant));
        assert_int_equal(balance.unexplained, 0);
        assert_true(read_times(&balance, 3, 12 * GIB, &one, 1, &tenant));
}

static void a_difference_is_a_finding_once_and_after_three_readings(void **state)
{
        struct balance balance = { 0 };
        struct balance_row one = { .id = 1, .held = 1 * GIB, .n_processes = 1 };
        uint64_t tenant;

        (void)state;
        (void)read_times(&balance, 1, 0, NULL, 0, &tenant);
        assert_false(read_times(&balance, 2, 2 * GIB, &one, 1, &tenant));
        assert_false(read_times(&balance, 1, 1 * GIB, &one, 1, &tenant)); /* the books were behind */
        assert_false(read_times(&balance, 2, 2 * GIB, &one, 1, &tenant));
        assert_true(read_times(&balance, 1, 2 * GIB, &one, 1, &tenant));
        assert_false(read_times(&balance, 9, 3 * GIB, &one, 1, &tenant));
        assert_false(read_times(&balance, 1, 1 * GIB, &one, 1, &tenant));
        assert_true(read_times(&balance, 3, 2 * GIB, &one, 1, &tenant));
}

static void the_tenant_whose_books_fell_is_named(void **state)
{
        struct balance balance = { 0 };
        struct balance_row rows[] = { { .id = 4, .held = 8 * GIB, .n_processes = 1 },
                                      { .id = 5, .held = 9 * GIB, .n_processes = 1 } };
        uint64_t tenant = 0;

        (void)state;
        (void)read_times(&balance, 1, 0, NULL, 0, &tenant);
        (void)read_times(&balance, 3, 17 * GIB, rows, 2, &tenant);
        rows[0].n_calls = rows[1].n_calls = 1000;
        rows[1].held = 1 * GIB; /* its charges ended, its memory is still there */
        assert_true(read_times(&balance, 3, 17 * GIB, rows, 2, &tenant));
        assert_int_equal(tenant, 5);
}

static void the_only_tenant_that_made_calls_is_named_and_of_two_nobody(void **state)
{
        struct balance balance = { 0 };
        struct balance_row rows[] = { { .id = 4, .held = 1 * GIB, .n_processes = 1 },
                                      { .id = 5, .held = 1 * GIB, .n_processes = 1 } };
        uint64_t tenant = 0;

        (void)state;
        (void)read_times(&balance, 1, 0, NULL, 0, &tenant);
        (void)read_times(&balance, 3, 2 * GIB, rows, 2, &tenant);
        rows[0].n_calls++;
        assert_true(read_times(&balance, 3, 4 * GIB, rows, 2, &tenant));
        assert_int_equal(tenant, 4);
        (void)read_times(&balance, 1, 2 * GIB, rows, 2, &tenant);
        rows[0].n_calls++;
        rows[1].n_calls++;
        assert_true(read_times(&balance, 3, 8 * GIB, rows, 2, &tenant));
        assert_int_equal(tenant, 0);
}

/* 8 MiB and less a reading; the others' books move as they like, and they call now and then. */
static void who_takes_little_at_a_time_is_named(void **state)
{
        (void)state;
        for (bytes step = MIB; step <= 32 * MIB; step *= 2) {
                struct balance balance = { 0 };
                struct balance_row rows[] = { { .id = 1, .held = 2 * GIB }, { .id = 2, .held = 2 * GIB } };
                struct balance_view view = { .used = 4 * GIB, .rows = rows, .n_rows = 2 };
                uint64_t tenant = 0;
                bool has_begun = false;

                (void)balance_step(&balance, &view, &tenant);
                for (int i = 0; i < 600 && !has_begun; i++) {
                        view.used += step;
                        rows[0].n_calls += i % 80 == 79;
                        rows[1].n_calls++;
                        has_begun = balance_step(&balance, &view, &tenant);
                }
                assert_true(has_begun);
                assert_int_equal(tenant, 2);
        }
}

/* A little that nobody explains begins the slow sum; what one frees honestly in it is not what another one keeps. */
static void what_grows_at_once_is_compared_with_the_reading_before(void **state)
{
        struct balance balance = { 0 };
        struct balance_row rows[] = { { .id = 1, .held = 2 * GIB }, { .id = 2, .held = 2 * GIB } };
        struct balance_view view = { .used = 4 * GIB, .rows = rows, .n_rows = 2 };
        uint64_t tenant = 0;
        bool has_begun = false;

        (void)state;
        (void)balance_step(&balance, &view, &tenant);
        view.used += 8 * MIB;
        (void)balance_step(&balance, &view, &tenant);
        rows[1].held -= GIB; /* and the device has it back */
        view.used -= GIB;
        rows[0].held += GIB;
        view.used += GIB;
        (void)balance_step(&balance, &view, &tenant);
        rows[0].held -= GIB; /* and the device has not */
        for (int i = 0; i < BALANCE_TIMES; i++)
                has_begun |= balance_step(&balance, &view, &tenant);
        assert_true(has_begun);
        assert_int_equal(tenant, 1);
}

static void a_tenant_that_begins_with_it_is_named(void **state)
{
        struct balance balance = { 0 };
        struct balance_row one = { .id = 6, .held = 1 * GIB, .n_calls = 9, .n_processes = 1 };
        uint64_t tenant = 0;

        (void)state;
        (void)read_times(&balance, 1, 0, NULL, 0, &tenant);
        assert_true(read_times(&balance, 3, 5 * GIB, &one, 1, &tenant));
        assert_int_equal(tenant, 6);
}

static void programs_beside_sublet_explain_what_they_hold(void **state)
{
        struct balance balance = { 0 };
        struct balance_row one = { .id = 1, .held = 1 * GIB, .n_processes = 1 };
        struct balance_view view = { .used = 9 * GIB, .unmanaged = 8 * GIB, .rows = &one, .n_rows = 1 };
        uint64_t tenant;

        (void)state;
        (void)read_times(&balance, 1, 0, NULL, 0, &tenant);
        for (int i = 0; i < 5; i++)
                assert_false(balance_step(&balance, &view, &tenant));
        view.unmanaged = 0;
        for (int i = 0; i < 2; i++)
                assert_false(balance_step(&balance, &view, &tenant));
        assert_true(balance_step(&balance, &view, &tenant));
}

/* Managed memory is charged at its length, wherever it is. */
static void what_is_charged_and_not_there_is_no_finding(void **state)
{
        struct balance balance = { 0 };
        struct balance_row one = { .id = 1, .held = 8 * GIB, .n_processes = 1 };
        uint64_t tenant;

        (void)state;
        (void)read_times(&balance, 1, 1 * GIB, NULL, 0, &tenant);
        assert_false(read_times(&balance, 5, 1 * GIB, &one, 1, &tenant));
        assert_false(read_times(&balance, 5, 9 * GIB, &one, 1, &tenant)); /* and now it is */
}

static void many_processes_raise_the_limit_only_so_far(void **state)
{
        struct balance balance = { 0 };
        struct balance_row one = { .id = 1, .held = 1 * GIB, .n_processes = 100000 };
        uint64_t tenant;

        (void)state;
        (void)read_times(&balance, 1, 0, NULL, 0, &tenant);
        assert_false(read_times(&balance, 3, 1 * GIB + 700 * MIB, &one, 1, &tenant));
        assert_true(read_times(&balance, 3, 2 * GIB, &one, 1, &tenant));
}

static void more_tenants_than_are_remembered_do_no_harm(void **state)
{
        struct balance balance = { 0 };
        static struct balance_row rows[BALANCE_TENANTS + 10];
        uint64_t tenant = 0;

        (void)state;
        for (size_t i = 0; i < BALANCE_TENANTS + 10; i++)
                rows[i] = (struct balance_row){ .id = i + 1, .held = GIB };
        (void)read_times(&balance, 1, 0, NULL, 0, &tenant);
        assert_false(read_times(&balance, 3, (BALANCE_TENANTS + 10) * GIB, rows, BALANCE_TENANTS + 10, &tenant));
        rows[BALANCE_TENANTS + 5].n_calls++;
        assert_true(read_times(&balance, 3, (BALANCE_TENANTS + 12) * GIB, rows, BALANCE_TENANTS + 10, &tenant));
        assert_int_equal(tenant, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_was_there_before_is_explained),
                cmocka_unit_test(an_mps_server_takes_some_that_is_of_no_process_and_no_more),
                cmocka_unit_test(a_daemon_that_begins_with_tenants_counts_from_there),
                cmocka_unit_test(a_difference_is_a_finding_once_and_after_three_readings),
                cmocka_unit_test(the_tenant_whose_books_fell_is_named),
                cmocka_unit_test(the_only_tenant_that_made_calls_is_named_and_of_two_nobody),
                cmocka_unit_test(who_takes_little_at_a_time_is_named),
                cmocka_unit_test(what_grows_at_once_is_compared_with_the_reading_before),
                cmocka_unit_test(a_tenant_that_begins_with_it_is_named),
                cmocka_unit_test(programs_beside_sublet_explain_what_they_hold),
                cmocka_unit_test(what_is_charged_and_not_there_is_no_finding),
                cmocka_unit_test(many_processes_raise_the_limit_only_so_far),
                cmocka_unit_test(more_tenants_than_are_remembered_do_no_harm),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
