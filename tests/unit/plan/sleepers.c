/* SPDX-License-Identifier: Apache-2.0 */
/* How many suspended tenants fit beside a plan. */
#include "unit.h"

#include "plan/plan.h"

#include <string.h>

static const struct plan_service services[] = {
        { .name = "chat", .memory = 40 * GIB, .load = 0.2, .time = 1000000, .count = 1 },
        { .name = "draw", .memory = 60 * GIB, .load = 0.01, .count = 1, .burst = PLAN_RARE, .wake = 30 * NSEC_PER_SEC },
};
static struct plan plan;

static struct plan_sleepers *count(bytes memory, bytes host)
{
        plan.sleepers = (struct plan_sleepers){ .memory = memory, .host = host };
        plan_count_sleepers(&plan);
        return &plan.sleepers;
}

/* Two devices of a server; chat is on the first in turns, and 10 GiB are free there. */
static int set_up(void **state)
{
        (void)state;
        plan = (struct plan){ .services = services, .n_services = 2, .n_devices = 2, .facts = plan_facts };
        plan.devices[0] = (struct plan_device){
                .model = plan_model("H200"), .mode = PLAN_TURNS, .n_seats = 1, .memory_free = 10 * GIB
        };
        plan.devices[1] = (struct plan_device){ .model = plan_model("H200") };
        plan.devices[1].others.is_lost = true;
        return 0;
}

static void host_memory_bounds_them_and_the_device_who_is_awake(void **state)
{
        (void)state;
        assert_int_equal(count(4 * GIB, 80 * GIB)->n, 20);
        assert_int_equal(plan.sleepers.n_awake, 2);
        assert_int_equal(plan.sleepers.n_devices, 1);
        assert_true(plan.sleepers.is_host_full);
        assert_int_equal(count(4 * GIB, 7 * GIB)->n, 1);
        assert_int_equal(plan.sleepers.n_awake, 1);
        assert_int_equal(count(4 * GIB, GIB)->n, 0);
        assert_int_equal(count(4 * GIB, 10000 * GIB)->n, PLAN_SEATS_MAX - 1);
        assert_false(plan.sleepers.is_host_full);
}

static void one_that_could_not_wake_does_not_fit(void **state)
{
        (void)state;
        assert_int_equal(count(11 * GIB, 1000 * GIB)->n, 0);
        assert_int_equal(plan.sleepers.n_devices, 0);
        assert_int_equal(count(10 * GIB, 1000 * GIB)->n_awake, 1);
}

static void a_device_that_the_plan_leaves_free_takes_them(void **state)
{
        (void)state;
        plan.devices[1].others.is_lost = false;
        assert_int_equal(count(100 * GIB, 1000 * GIB)->n, 10);
        assert_int_equal(plan.sleepers.n_awake, 1);
        plan.devices[1].others.memory = 50 * GIB;
        assert_int_equal(count(100 * GIB, 1000 * GIB)->n, 0);
        plan.devices[1].others = (struct plan_others){ .memory = GIB, .way = PLAN_SPACE };
        assert_int_equal(count(100 * GIB, 1000 * GIB)->n, 0);
        plan.devices[1].others.way = PLAN_TIME;
        assert_int_equal(count(100 * GIB, 1000 * GIB)->n, 10);
}

static void a_device_whose_mode_has_no_place_takes_none(void **state)
{
        static const enum plan_mode none[] = { PLAN_WHOLE, PLAN_SPATIAL, PLAN_MIG };

        (void)state;
        for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
                plan.devices[0].mode = none[i];
                assert_int_equal(count(4 * GIB, 80 * GIB)->n, 0);
        }
        plan.devices[0].mode = PLAN_SLICES;
        assert_int_equal(count(4 * GIB, 80 * GIB)->n, 20);
}

static void the_plans_own_sleepers_have_their_host_memory_first(void **state)
{
        (void)state;
        plan.devices[0].mode = PLAN_SUSPEND;
        plan.devices[0].n_seats = 3;
        plan.devices[0].seats[1].service = plan.devices[0].seats[2].service = 1;
        assert_int_equal(count(4 * GIB, 140 * GIB)->n, 5); /* draw twice is 120 */
        assert_int_equal(count(4 * GIB, 100 * GIB)->n, 0);
}

static void each_server_has_its_own_host_memory(void **state)
{
        (void)state;
        plan.devices[1].others.is_lost = false;
        assert_int_equal(count(4 * GIB, 80 * GIB)->n, 20);
        plan.devices[1].server = 1;
        assert_int_equal(count(4 * GIB, 80 * GIB)->n, 40);
        assert_int_equal(plan.sleepers.n_devices, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
        const struct CMUnitTest tests[] = {
                TEST(host_memory_bounds_them_and_the_device_who_is_awake),
                TEST(one_that_could_not_wake_does_not_fit),
                TEST(a_device_that_the_plan_leaves_free_takes_them),
                TEST(a_device_whose_mode_has_no_place_takes_none),
                TEST(the_plans_own_sleepers_have_their_host_memory_first),
                TEST(each_server_has_its_own_host_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
