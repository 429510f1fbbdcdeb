/* SPDX-License-Identifier: Apache-2.0 */
/* What is reported of goals is what the steps of the model took, as far as it can be seen. */
#include "unit.h"

#include "base/cleanup.h"
#include "turns/model.h"

#include <string.h>

enum { LENGTH = 50 }; /* a report is of all of it */

#define STEP (775 * USEC)

static struct model model;

static void begin(uint64_t seed)
{
        model_init(&model, &(struct model_options){ .seed = seed,
                                                    .policy = TURNS_POLICY_TURNS,
                                                    .length = LENGTH * SEC,
                                                    .has_signal = true,
                                                    .watch = MSEC });
}

static int closed(permille share, nsec goal)
{
        return model_add(&model, (struct model_tenant){
                                         .kind = SYNC, .work = STEP, .gap = 15 * USEC, .share = share, .goal = goal });
}

static int deep(permille share)
{
        return model_add(&model, (struct model_tenant){ .kind = DEEP, .share = share });
}

static struct waits_report report_of(int tenant)
{
        struct waits_report report;

        waits_read(&model.tenants[tenant].waits, &report);
        return report;
}

static void expect_about(nsec is, nsec should, nsec error)
{
        if (is < should - error || is > should + error)
                fail_msg("%ld us, of %ld", (long)(is / USEC), (long)(should / USEC));
}

static void the_report_of_a_closed_loop_is_what_its_steps_took(void **state)
{
        static const permille shares[] = { 300, 500, 700 };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
                struct waits_report report;
                int a;

                begin(i + 1);
                a = closed(shares[i], 20 * MSEC);
                (void)deep(1000 - shares[i]);
                model_run(&model);
                report = report_of(a);
                assert_in_range(report.n_steps, model.tenants[a].done / STEP * 75 / 100,
                                model.tenants[a].done / STEP * 125 / 100);
                expect_about(report.p50, model_latency(&model, a, 50), MSEC);
                expect_about(report.p99, model_latency(&model, a, 99), 2 * MSEC);
                assert_true(report.longest >= report.p99 - 2 * MSEC);
                assert_int_equal(report.n_late, 0);
                model_done(&model);
        }
}

/* A goal that was never promised: less than it waits for. */
static void steps_that_are_late_are_counted_and_said_for_whom(void **state)
{
        struct waits_report report;
        int a, b;

        (void)state;
        begin(1);
        (void)closed(100, 0);
        a = closed(100, 6 * MSEC);
        b = deep(800);
        model_run(&model);
        report = report_of(a);
        assert_true(model.tenants[a].n_late > 100);
        assert_in_range(report.n_late, model.tenants[a].n_late * 8 / 10, model.tenants[a].n_late * 12 / 10);
        assert_int_equal(report.late_by, b + 1);
        assert_true(report.latest_late > 6 * MSEC);
        model_done(&model);
}

static void a_service_in_an_open_loop_is_reported_too(void **state)
{
        struct waits_report report;
        int a;

        (void)state;
        begin(1);
        a = model_add(&model, (struct model_tenant){
                                      .kind = SERVER, .work = STEP, .gap = 5 * MSEC, .share = 300, .goal = 20 * MSEC });
        (void)deep(700);
        model_run(&model);
        report = report_of(a);
        assert_in_range(report.n_steps, model.tenants[a].n_requests / 2, model.tenants[a].n_requests * 3 / 2);
        assert_true(report.p99 <= model_latency(&model, a, 99) + MSEC); /* what waits in the program is not seen */
        assert_true(report.p50 >= STEP / 2);
        model_done(&model);
}

static struct turns_tenant seen(nsec launched_at, nsec started_at, bool is_resident)
{
        return (struct turns_tenant){ .id = 1,
                                      .goal = 10 * MSEC,
                                      .launched_at = launched_at,
                                      .started_at = started_at,
                                      .is_resident = is_resident,
                                      .work = is_resident ? TURNS_WORK_NONE : TURNS_WORK_PENDING };
}

static void a_wait_is_from_the_launch_to_the_switch(void **state)
{
        struct waits waits = { 0 };
        struct waits_report report;
        struct turns_tenant one = seen(0, 0, true);

        (void)state;
        assert_false(waits_look(&waits, &one, 1, 100 * MSEC, MSEC));
        one = seen(101 * MSEC, 0, false);
        assert_false(waits_look(&waits, &one, 7, 102 * MSEC, MSEC));
        assert_false(waits_look(&waits, &one, 8, 103 * MSEC, MSEC));
        assert_false(waits_look(&waits, &one, 7, 110 * MSEC, MSEC));
        one = seen(101 * MSEC, 111 * MSEC, true);
        assert_true(waits_look(&waits, &one, 1, 112 * MSEC, MSEC)); /* 10 ms, and the step */
        waits_read(&waits, &report);
        assert_int_equal(report.n_late, 1);
        assert_int_equal(report.late_by, 7);
        assert_int_equal(report.latest_late, 11 * MSEC);
        assert_int_equal(report.longest, 11 * MSEC);
        assert_int_equal(report.n_steps, 1);
}

/* What is older than a minute is forgotten; what was late is not. */
static void a_report_is_of_the_latest_minute(void **state)
{
        struct waits waits = { 0 };
        struct waits_report report;
        struct turns_tenant one = seen(0, 0, true);

        (void)state;
        (void)waits_look(&waits, &one, 1, SEC, MSEC);
        one = seen(SEC + MSEC, 0, false);
        (void)waits_look(&waits, &one, 7, SEC + 2 * MSEC, MSEC);
        one = seen(SEC + MSEC, SEC + 40 * MSEC, true);
        assert_true(waits_look(&waits, &one, 1, SEC + 41 * MSEC, MSEC));
        for (nsec at = 2 * SEC; at < 80 * SEC; at += SEC)
                assert_false(waits_look(&waits, &one, 1, at, MSEC));
        waits_read(&waits, &report);
        assert_int_equal(report.p99, MSEC);
        assert_int_equal(report.n_late, 1);
        assert_true(report.longest >= 39 * MSEC);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_report_of_a_closed_loop_is_what_its_steps_took),
                cmocka_unit_test(steps_that_are_late_are_counted_and_said_for_whom),
                cmocka_unit_test(a_service_in_an_open_loop_is_reported_too),
                cmocka_unit_test(a_wait_is_from_the_launch_to_the_switch),
                cmocka_unit_test(a_report_is_of_the_latest_minute),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
