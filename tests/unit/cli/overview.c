/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "cli/overview.h"

#include <stdio.h>
#include <string.h>

/* One answer: a tenant with that much of device 0. */
static void update(struct overview *overview, const char *tenant, double granted, double seconds)
{
        json_t *devices = json_pack("[{s:i, s:s, s:I, s:f}]", "index", 0, "name", "H200", "memory_bytes",
                                    (json_int_t)(140 * GIB), "busy_permille", 970.5);
        json_t *tenants =
                json_pack("[{s:s, s:s, s:[{s:i, s:f, s:i, s:b}]}]", "tenant", tenant, "class", "batch", "devices",
                          "index", 0, "granted_permille", granted, "share_permille", 300, "waiting", 1);

        assert_int_equal(overview_update(overview, devices, tenants, (nsec)(seconds * 1e9)), 0);
        json_decref(devices);
        json_decref(tenants);
}

static double newest(const struct overview *overview, int age)
{
        return overview->rows[0].minute[OVERVIEW_MINUTE - 1 - age];
}

static void an_answer_becomes_rows(void **state)
{
        struct overview overview = { 0 };

        (void)state;
        update(&overview, "a", 250, 100);
        assert_int_equal(overview.n_rows, 1);
        assert_int_equal(overview.n_tenants, 1);
        assert_string_equal(overview.rows[0].tenant, "a");
        assert_string_equal(overview.rows[0].class, "batch");
        assert_true(overview.rows[0].is_waiting);
        assert_true(overview.rows[0].share == 300 && overview.rows[0].cap == 1000); /* not said: none */
        assert_true(overview.devices[0].busy == 970.5);
        overview_done(&overview);
}

static struct overview_row sleeper(const char *state, bool has_swap, const char *waits_for)
{
        struct overview overview = { 0 };
        struct overview_row row;
        json_t *tenants = json_pack("[{s:s, s:s, s:b, s:s?, s:[{s:i, s:I}]}]", "tenant", "a", "state", state, "swap",
                                    (int)has_swap, "waits_for", waits_for, "devices", "index", 0, "swapped_bytes",
                                    (json_int_t)GIB);

        assert_int_equal(overview_update(&overview, NULL, tenants, NSEC_PER_SEC), 0);
        row = overview.rows[0];
        overview_done(&overview);
        json_decref(tenants);
        return row;
}

static void who_is_suspended_or_out_is_asleep(void **state)
{
        (void)state;
        assert_string_equal(sleeper("running", true, NULL).asleep, "");
        assert_string_equal(sleeper("suspended", false, NULL).asleep, "suspended");
        assert_int_equal(sleeper("suspended", false, NULL).swapped, GIB);
        assert_string_equal(sleeper("suspended", true, NULL).asleep, "out");
        assert_string_equal(sleeper("suspended", true, "others").asleep, "out, waits");
        assert_string_equal(sleeper("suspended", true, "others").waits_for, "others");
        assert_string_equal(sleeper("suspending", true, NULL).asleep, "suspending");
        assert_string_equal(sleeper("resuming", false, NULL).asleep, "resuming");
        assert_string_equal(sleeper("ended", false, NULL).asleep, "");
}

static void a_minute_is_remembered_second_by_second(void **state)
{
        struct overview overview = { 0 };

        (void)state;
        update(&overview, "a", 100, 50.2);
        assert_true(newest(&overview, 0) == 100 && newest(&overview, 1) < 0);
        update(&overview, "a", 300, 50.7); /* the same second: the mean */
        assert_true(newest(&overview, 0) == 200 && newest(&overview, 1) < 0);
        update(&overview, "a", 800, 50.9);
        assert_true(newest(&overview, 0) == 400 && newest(&overview, 1) < 0);
        update(&overview, "a", 500, 51.1);
        assert_true(newest(&overview, 0) == 500 && newest(&overview, 1) == 400);
        update(&overview, "a", 700, 54.0); /* two were missed */
        assert_true(newest(&overview, 0) == 700 && newest(&overview, 2) == 700 && newest(&overview, 3) == 500);
        update(&overview, "a", 900, 1000); /* a minute and more */
        assert_true(newest(&overview, 0) == 900 && newest(&overview, 1) < 0);
        overview_done(&overview);
}

static void what_is_hidden_keeps_its_minute(void **state)
{
        struct overview overview = { 0 };

        (void)state;
        update(&overview, "Train-1", 300, 50.2);
        (void)strcpy(overview.filter, "chat");
        overview_filter(&overview);
        assert_int_equal(overview.n_rows, 0);
        assert_int_equal(overview.n_hidden, 1);
        update(&overview, "Train-1", 500, 51.2);
        overview_filter(&overview);
        assert_int_equal(overview.n_rows, 0);
        (void)strcpy(overview.filter, "train");
        overview_filter(&overview);
        assert_int_equal(overview.n_rows, 1);
        assert_true(newest(&overview, 0) == 500 && newest(&overview, 1) == 300);
        overview_done(&overview);
}

static void who_goes_is_forgotten(void **state)
{
        struct overview overview = { 0 };

        (void)state;
        update(&overview, "a", 100, 50);
        update(&overview, "b", 200, 51);
        assert_int_equal(overview.n_rows, 1);
        assert_string_equal(overview.rows[0].tenant, "b");
        assert_true(newest(&overview, 1) < 0);
        overview_done(&overview);
}

static void what_is_no_answer_is_an_empty_overview(void **state)
{
        static const char *const answers[] = { "{}", "[]", "[1, null, \"x\"]", "[{\"devices\": 7}]",
                                               "[{\"devices\": []}]" };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
                json_t *root = json_loads(answers[i], 0, NULL);
                struct overview overview = { 0 };

                assert_int_equal(overview_update(&overview, root, root, 1), 0);
                assert_int_equal(overview.n_rows, 0);
                overview_done(&overview);
                json_decref(root);
        }
}

static void order_is_as_asked_and_equals_by_name(void **state)
{
        static const struct {
                enum overview_order order;
                const char *names;
        } cases[] = {
                { OVERVIEW_BY_GPU, "bcad" },
                { OVERVIEW_BY_NAME, "abcd" },
                { OVERVIEW_BY_MEMORY, "dabc" },
                { OVERVIEW_BY_REFUSED, "cabd" },
        };
        struct overview_row rows[4] = { { .tenant = "c", .granted = 300, .n_refused = 9 },
                                        { .tenant = "b", .granted = 400 },
                                        { .tenant = "d", .held = 5 },
                                        { .tenant = "a", .granted = 300 } };
        struct overview overview = { .rows = rows, .n_rows = 4 };

        (void)state;
        rows[0].granted = 350;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                for (int is_reversed = 0; is_reversed < 2; is_reversed++) {
                        overview_sort(&overview, cases[i].order, is_reversed);
                        for (int k = 0; k < 4; k++)
                                assert_int_equal(rows[k].tenant[0], cases[i].names[is_reversed ? 3 - k : k]);
                }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_answer_becomes_rows),
                cmocka_unit_test(who_is_suspended_or_out_is_asleep),
                cmocka_unit_test(a_minute_is_remembered_second_by_second),
                cmocka_unit_test(what_is_hidden_keeps_its_minute),
                cmocka_unit_test(who_goes_is_forgotten),
                cmocka_unit_test(what_is_no_answer_is_an_empty_overview),
                cmocka_unit_test(order_is_as_asked_and_equals_by_name),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
