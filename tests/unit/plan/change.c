/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "plan/change.h"

#include <string.h>

static const struct plan_service services[] = {
        { .name = "chat", .memory = 8 * GIB + 1, .load = 0.2, .time = 1000000, .count = 2 },
};
static struct plan plan;
static struct plan_live live;
static struct plan_changes changes;

/* Two replicas in turns on device 0, with shares of 60 and 40 %; nobody runs. */
static void plan_two(void)
{
        plan = (struct plan){ .services = services, .n_services = 1, .n_devices = 2, .facts = plan_facts };
        plan.devices[0] = (struct plan_device){ .model = plan_model("H200"), .mode = PLAN_TURNS, .n_seats = 2 };
        plan.devices[0].seats[0] = (struct plan_seat){ .replica = 0, .share = 600, .is_latency = true };
        plan.devices[0].seats[1] = (struct plan_seat){ .replica = 1, .share = 400 };
        plan.devices[1] = (struct plan_device){ .model = plan_model("H200") };
        memset(&live, 0, sizeof(live));
        live.n_devices = 2;
}

static struct plan_tenant *runs(unsigned int replica)
{
        struct plan_tenant *tenant = &live.tenants[live.n_tenants++];

        *tenant = (struct plan_tenant){ .replica = replica,
                                        .way = PLAN_TIME,
                                        .quota = 8 * GIB + MIB, /* whole MiB, as the commands say it */
                                        .share = replica ? 400 : 600,
                                        .cap = 1000 };
        (void)snprintf(tenant->name, sizeof(tenant->name), "chat-%u", replica + 1);
        (void)snprintf(tenant->class, sizeof(tenant->class), "%s", replica ? "normal" : "latency");
        return tenant;
}

static const struct plan_change *change_of(size_t i)
{
        plan_changes_find(&plan, &live, &changes);
        assert_true(i < changes.n);
        return &changes.rows[i];
}

static void who_is_as_planned_is_kept_and_who_does_not_run_is_to_be_started(void **state)
{
        (void)state;
        plan_two();
        (void)runs(0);
        assert_int_equal(change_of(0)->action, PLAN_KEEP);
        assert_int_equal(change_of(1)->action, PLAN_START);
        assert_int_equal(plan_changes_count(&changes), 1);
}

static void each_difference_is_said(void **state)
{
        struct plan_tenant *tenant;

        (void)state;
        plan_two();
        tenant = runs(0);
        tenant->quota = 4 * GIB;
        tenant->share = 0;
        (void)snprintf(tenant->class, sizeof(tenant->class), "batch");
        assert_int_equal(change_of(0)->action, PLAN_SET);
        assert_string_equal(changes.rows[0].what, "memory 4 GiB -> 8 GiB, share none -> 60%, class batch -> latency");
}

static void a_cap_that_the_plan_does_not_know_stays(void **state)
{
        (void)state;
        plan_two();
        runs(0)->cap = 300;
        assert_int_equal(change_of(0)->action, PLAN_KEEP);
}

static void what_cannot_change_while_it_runs_is_a_move(void **state)
{
        (void)state;
        plan_two();
        runs(0)->device = 1;
        assert_int_equal(change_of(0)->action, PLAN_MOVE);
        assert_string_equal(changes.rows[0].what, "it is on GPU 1 now");
        live.tenants[0].device = 0;
        live.tenants[0].way = PLAN_SPACE;
        assert_int_equal(change_of(0)->action, PLAN_MOVE);
        assert_string_equal(changes.rows[0].what, "it shares by --mode spatial now");
        live.tenants[0].is_on_several = true;
        assert_non_null(strstr(change_of(0)->what, "several GPUs"));
}

static const struct plan_service jobs[] = {
        { .name = "ddp", .memory = 8 * GIB, .load = 0.4, .count = 1, .gpus = 2 },
        { .name = "alone", .memory = 100 * GIB, .load = 0.1, .count = 1 },
};

/* Four devices of one server, joined 0-3 and 1-2. */
static void plan_jobs(void)
{
        plan = (struct plan){ .services = jobs, .n_services = 2, .n_devices = 4, .facts = plan_facts };
        for (unsigned int i = 0; i < 4; i++)
                plan.devices[i] = (struct plan_device){ .model = plan_model("H200"), .nvlink = UINT64_C(1) << (3 - i) };
        memset(&live, 0, sizeof(live));
        live.n_devices = 4;
}

static void a_job_is_on_devices_that_are_joined_with_one_lease(void **state)
{
        (void)state;
        plan_jobs();
        plan_make(&plan);
        assert_int_equal(plan.n_left, 0);
        plan_changes_find(&plan, &live, &changes);
        assert_int_equal(changes.n, 2);
        assert_int_equal(changes.rows[0].lease.devices, 9);
        assert_int_equal(changes.rows[0].action, PLAN_START);
        /* The other one sits with it on the first, so one share is for both devices: the least. */
        assert_int_equal(plan.devices[0].n_seats, 2);
        assert_int_equal(changes.rows[0].lease.share, plan.devices[0].seats[0].share);
}

static void a_job_that_runs_stays_where_it_is_and_half_of_it_does_not(void **state)
{
        (void)state;
        plan_jobs();
        plan.pins[plan.n_pins++] = (struct plan_pin){ .service = 0, .devices = 3 };
        plan_make(&plan);
        plan_changes_find(&plan, &live, &changes);
        assert_int_equal(changes.rows[0].lease.devices, 3); /* though 0 and 3 are joined */
        plan_jobs();
        plan.pins[plan.n_pins++] = (struct plan_pin){ .service = 0, .devices = 3 };
        plan.devices[1].others.is_lost = true;
        plan_make(&plan);
        plan_changes_find(&plan, &live, &changes);
        assert_int_equal(changes.rows[0].lease.devices, 9);
        assert_int_equal(plan.devices[1].n_seats, 0);
        live.tenants[live.n_tenants++] = (struct plan_tenant){ .way = PLAN_TIME, .devices = 3, .is_on_several = true };
        plan_changes_find(&plan, &live, &changes);
        assert_int_equal(changes.rows[0].action, PLAN_MOVE);
        assert_string_equal(changes.rows[0].what, "it is on other GPUs now");
}

static void a_job_is_placed_whole_or_not_at_all(void **state)
{
        (void)state;
        plan_jobs();
        for (unsigned int i = 0; i < 4; i++)
                plan.devices[i].server = i; /* four machines */
        plan_make(&plan);
        assert_int_equal(plan.n_left, 1);
        assert_non_null(strstr(plan.left[0].reason, "2 devices of one server are needed, and 1 can take it"));
        for (unsigned int i = 0; i < 4; i++)
                for (size_t k = 0; k < plan.devices[i].n_seats; k++)
                        assert_int_equal(plan.devices[i].seats[k].service, 1);
        plan_jobs();
        for (unsigned int i = 1; i < 4; i++)
                plan.devices[i].others.way = PLAN_SPACE; /* which cannot take turns */
        plan_make(&plan);
        assert_int_equal(plan.n_left, 1);
}

static void outside_of_turns_share_and_class_do_not_matter(void **state)
{
        (void)state;
        plan_two();
        plan.devices[0].mode = PLAN_SPATIAL;
        runs(0)->way = PLAN_SPACE;
        live.tenants[0].share = 17;
        assert_int_equal(change_of(0)->action, PLAN_KEEP);
}

static void a_replica_more_than_wanted_is_extra(void **state)
{
        (void)state;
        plan_two();
        (void)runs(0);
        (void)runs(1);
        (void)runs(2);
        assert_int_equal(change_of(2)->action, PLAN_EXTRA);
        assert_string_equal(changes.rows[2].lease.name, "chat-3");
        assert_int_equal(plan_changes_count(&changes), 1);
}

static void the_command_says_what_is_leased(void **state)
{
        struct plan_lease lease;
        char command[PLAN_COMMAND];

        (void)state;
        plan_two();
        plan_lease_of(&plan, 0, &plan.devices[0].seats[0], &lease);
        plan_command(&lease, command);
        assert_string_equal(command,
                            "sublet run --name chat-1 --gpu 0 --mem 8193M --share 60.0 --class latency -- COMMAND");
        plan.devices[0].mode = PLAN_MIG;
        plan_lease_of(&plan, 0, &plan.devices[0].seats[1], &lease);
        plan_command(&lease, command);
        assert_string_equal(command, "sublet run --name chat-2 --gpu 0 --mem 8193M --mode mig -- COMMAND");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(who_is_as_planned_is_kept_and_who_does_not_run_is_to_be_started),
                cmocka_unit_test(each_difference_is_said),
                cmocka_unit_test(a_cap_that_the_plan_does_not_know_stays),
                cmocka_unit_test(what_cannot_change_while_it_runs_is_a_move),
                cmocka_unit_test(a_job_is_on_devices_that_are_joined_with_one_lease),
                cmocka_unit_test(a_job_that_runs_stays_where_it_is_and_half_of_it_does_not),
                cmocka_unit_test(a_job_is_placed_whole_or_not_at_all),
                cmocka_unit_test(outside_of_turns_share_and_class_do_not_matter),
                cmocka_unit_test(a_replica_more_than_wanted_is_extra),
                cmocka_unit_test(the_command_says_what_is_leased),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
