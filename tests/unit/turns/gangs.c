/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns taken together, in mixes that people have, on a model of a server whose jobs have ranks that wait for each
 * other (server.h). gangs_random.c has the others.
 *
 *      SUBLET_SHOW=1 unit-turns-gangs           says what each tenant had
 */
#include "unit.h"

#include "turns/server.h"

#include <stdlib.h>

static struct server server;

#define ADD(...) server_add(&server, (struct server_tenant){ __VA_ARGS__ })

#define SWITCH (1500 * USEC) /* a handover: both calls, and a thread that is woken */

static void begin(unsigned int n_devices)
{
        server_init(&server, n_devices, &(struct turns_settings){ 0 });
}

/* A job that steps, and one device's tenant that always wants. */
static int job(uint32_t devices, permille share)
{
        return ADD(.devices = devices, .share = share, .work = 2 * MSEC, .meet = MSEC);
}

static int single(unsigned int device, permille share)
{
        return ADD(.devices = 1u << device, .share = share, .work = 50 * MSEC, .meet = TICK);
}

static void show(void)
{
        for (int i = 0; i < server.n_tenants && getenv("SUBLET_SHOW"); i++) {
                print_message("# tenant %d share %u steps %lu half %ld us:", i, server.tenants[i].share,
                              (unsigned long)server.tenants[i].n_steps, (long)(server_half(&server, i) / USEC));
                for (unsigned int d = 0; d < server.n_devices; d++)
                        if (server.tenants[i].devices & 1u << d)
                                print_message(" %u: %ld", d, (long)server_had(&server, i, d, 1000, 2000) / 2000);
                print_message("\n");
        }
}

static void run(nsec length)
{
        server_run(&server, length);
        show();
}

static void expect_had(int tenant, unsigned int device, int from, int length, int least, int most)
{
        nsec had = server_had(&server, tenant, device, from, length) / length;

        if (had < least || had > most)
                fail_msg("tenant %d had %ld permille of device %u, not %d to %d", tenant, (long)had, device, least,
                         most);
}

static void expect_whole(void)
{
        for (int i = 0; i < server.n_tenants; i++)
                if (server_half(&server, i) > SWITCH)
                        fail_msg("tenant %d was half on for %ld us", i, (long)(server_half(&server, i) / USEC));
}

/* ---- mixes ----------------------------------------------------------------------------------- */

static void two_jobs_of_two_devices_have_their_shares_of_the_steps(void **state)
{
        static const permille shares[] = { 700, 500, 900 };
        uint64_t alone;

        (void)state;
        begin(2);
        job(3, 1000);
        run(4 * SEC);
        alone = server.tenants[0].n_steps;
        server_done(&server);
        for (size_t i = 0; i < 3; i++) {
                int a, b;

                begin(2);
                a = job(3, shares[i]);
                b = job(3, 1000 - shares[i]);
                run(4 * SEC);
                for (unsigned int d = 0; d < 2; d++) {
                        expect_had(a, d, 1000, 2000, (int)shares[i] - 15, (int)shares[i] + 15);
                        expect_had(b, d, 1000, 2000, 985 - (int)shares[i], 1015 - (int)shares[i]);
                }
                expect_whole();
                assert_in_range(server.tenants[a].n_steps * 1000 / alone, shares[i] - 30, shares[i] + 30);
                assert_in_range(server.tenants[b].n_steps * 1000 / alone, 970 - shares[i], 1030 - shares[i]);
                server_done(&server);
        }
}

/* How often jobs come on, in 4 s; a step is lost each time. */
static uint64_t switches(nsec period, bool has_single)
{
        uint64_t n;

        server_init(&server, 2, &(struct turns_settings){ .period = period });
        job(3, 500);
        job(3, 300);
        if (has_single)
                single(0, 200);
        run(4 * SEC);
        n = server.n_switches;
        server_done(&server);
        return n;
}

static void jobs_that_have_their_devices_for_themselves_take_long_turns(void **state)
{
        uint64_t usual = switches(100 * MSEC, false), usual_beside = switches(100 * MSEC, true);

        (void)state;
        assert_in_range(switches(0, false), usual * 4 / 10, usual * 6 / 10);
        assert_in_range(switches(0, true), usual_beside * 9 / 10, usual_beside * 11 / 10);
}

/* J2: what the two singles of different shares leave is not the same, and the job has the less of it on both. */
static void a_job_beside_single_tenants_has_its_share_of_both_devices_and_so_have_they(void **state)
{
        int a, b, c;

        (void)state;
        begin(2);
        a = job(3, 500);
        b = single(0, 500);
        c = single(1, 300);
        run(4 * SEC);
        expect_had(a, 0, 1000, 2000, 485, 515);
        expect_had(a, 1, 1000, 2000, 485, 515);
        expect_had(b, 0, 1000, 2000, 485, 515);
        expect_had(c, 1, 1000, 2000, 470, 515);
        expect_whole();
        assert_true(server.devices[0].wasted < 4 * SEC / 50 && server.devices[1].wasted < 4 * SEC / 50);
        server_done(&server);
}

static void tenants_of_one_job_come_on_together(void **state)
{
        int a, b, other;

        (void)state;
        begin(2);
        a = ADD(.devices = 1, .job = 7, .share = 600, .work = 2 * MSEC, .meet = MSEC);
        b = ADD(.devices = 2, .job = 7, .share = 600, .work = 2 * MSEC, .meet = MSEC);
        other = job(3, 400);
        run(3 * SEC);
        expect_had(a, 0, 1000, 2000, 585, 615);
        expect_had(b, 1, 1000, 2000, 585, 615);
        expect_had(other, 1, 1000, 2000, 385, 415);
        expect_whole();
        assert_in_range(server.tenants[a].n_steps, 500, 640); /* of 1000 */
        server_done(&server);
}

/* J3: no schedule gives each of them more than a third. */
static void shares_that_cannot_be_kept_together_are_kept_in_proportion_and_nobody_starves(void **state)
{
        static const uint32_t devices[] = { 3, 6, 5 };

        (void)state;
        begin(3);
        for (int i = 0; i < 3; i++)
                job(devices[i], 500);
        run(4 * SEC);
        for (int i = 0; i < 3; i++)
                expect_had(i, (unsigned int)__builtin_ctz(devices[i]), 1000, 3000, 310, 350);
        expect_whole();
        server_done(&server);
}

/* ---- demand ---------------------------------------------------------------------------------- */

/* Rank 0 waits for rank 1 during nine tenths of each step, and spins. */
static void a_rank_that_waits_for_its_other_half_is_not_idle_and_lends_nothing(void **state)
{
        int a, b;

        (void)state;
        begin(2);
        a = ADD(.devices = 3, .share = 500, .work = 4 * MSEC, .meet = MSEC, .skew = 40 * MSEC);
        b = single(0, 500);
        run(4 * SEC);
        expect_had(a, 0, 1000, 2000, 480, 520);
        expect_had(b, 0, 1000, 2000, 480, 520);
        assert_in_range(server.tenants[a].n_steps, 36, 50); /* half of 4 s in steps of 45 ms */
        expect_whole();
        server_done(&server);
}

static void what_a_job_leaves_when_all_its_ranks_are_quiet_is_lent_and_back_when_it_returns(void **state)
{
        int a, b;

        (void)state;
        begin(2);
        a = ADD(.devices = 3, .share = 500, .work = 2 * MSEC, .meet = MSEC, .quiet_from = SEC, .quiet_until = 2 * SEC);
        b = single(1, 500);
        run(4 * SEC);
        expect_had(b, 1, 1200, 800, 980, 1000);
        expect_had(a, 0, 2200, 1500, 480, 520);
        expect_had(a, 1, 2200, 1500, 480, 520);
        expect_whole();
        server_done(&server);
}

static void a_device_that_a_tenant_holds_and_does_not_use_is_lent(void **state)
{
        int a, b, c;

        (void)state;
        begin(2);
        a = ADD(.devices = 3, .uses = 1, .share = 500, .work = 2 * MSEC, .meet = TICK);
        b = single(0, 500);
        c = single(1, 500);
        run(4 * SEC);
        expect_had(a, 0, 1000, 2000, 480, 520);
        expect_had(b, 0, 1000, 2000, 480, 520);
        expect_had(c, 1, 1000, 2000, 960, 1000);
        expect_whole();
        server_done(&server);
}

/* J6 */
static void a_gang_has_the_whole_of_devices_that_nobody_else_wants(void **state)
{
        int a;

        (void)state;
        begin(3);
        a = job(3, 200);
        ADD(.devices = 6, .share = 800, .is_idle = true);
        ADD(.devices = 1, .share = 300, .is_idle = true);
        run(2 * SEC);
        expect_had(a, 0, 500, 1000, 990, 1000);
        expect_had(a, 1, 500, 1000, 990, 1000);
        server_done(&server);
}

/* J7 */
static void a_cap_holds_on_each_device_over_any_second(void **state)
{
        int a;

        (void)state;
        begin(2);
        a = ADD(.devices = 3, .share = 200, .cap = 300, .work = 2 * MSEC, .meet = MSEC);
        single(0, 100);
        run(4 * SEC);
        for (unsigned int d = 0; d < 2; d++)
                for (int from = 0; from + 1000 <= 4000; from += 10)
                        assert_true(server_had(&server, a, d, from, 1000) <= 300000);
        expect_had(a, 0, 1000, 2000, 270, 300);
        expect_whole();
        server_done(&server);
}

static void a_job_that_wants_less_than_its_share_is_on_all_the_time(void **state)
{
        int a, b;

        (void)state;
        begin(2);
        a = ADD(.devices = 3, .share = 500, .class = TURNS_LATENCY, .work = MSEC, .meet = TICK, .gap = 9 * MSEC);
        b = job(3, 500);
        run(3 * SEC);
        assert_in_range(server.tenants[a].n_steps, 225, 300); /* alone: 297 */
        expect_had(b, 1, 1000, 2000, 800, 930);
        server_done(&server);
}

/* Its rings say that work waits on the second device, and it has none there. */
static void a_rank_that_only_pretends_to_work_takes_no_time_of_its_device(void **state)
{
        (void)state;
        begin(2);
        ADD(.devices = 3, .share = 500, .work = 2 * MSEC, .meet = TICK, .uses = 1, .lies = 2);
        single(0, 500), single(1, 500);
        run(3 * SEC);
        expect_had(0, 0, 1000, 2000, 485, 505);
        expect_had(1, 0, 1000, 2000, 485, 505);
        expect_had(2, 1, 1000, 2000, 960, 1000);
        server_done(&server);
}

static void a_gang_that_only_pretends_to_work_takes_no_time_of_others(void **state)
{
        (void)state;
        begin(2);
        ADD(.devices = 3, .share = 500, .work = 2 * MSEC, .meet = MSEC, .lies = 3, .quiet_from = SEC,
            .quiet_until = 4 * SEC);
        single(0, 500), single(1, 500);
        run(4 * SEC);
        expect_had(1, 0, 1500, 2000, 980, 1000);
        expect_had(2, 1, 1500, 2000, 980, 1000);
        server_done(&server);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(two_jobs_of_two_devices_have_their_shares_of_the_steps),
                cmocka_unit_test(jobs_that_have_their_devices_for_themselves_take_long_turns),
                cmocka_unit_test(a_job_beside_single_tenants_has_its_share_of_both_devices_and_so_have_they),
                cmocka_unit_test(tenants_of_one_job_come_on_together),
                cmocka_unit_test(shares_that_cannot_be_kept_together_are_kept_in_proportion_and_nobody_starves),
                cmocka_unit_test(a_rank_that_waits_for_its_other_half_is_not_idle_and_lends_nothing),
                cmocka_unit_test(what_a_job_leaves_when_all_its_ranks_are_quiet_is_lent_and_back_when_it_returns),
                cmocka_unit_test(a_device_that_a_tenant_holds_and_does_not_use_is_lent),
                cmocka_unit_test(a_gang_has_the_whole_of_devices_that_nobody_else_wants),
                cmocka_unit_test(a_cap_holds_on_each_device_over_any_second),
                cmocka_unit_test(a_job_that_wants_less_than_its_share_is_on_all_the_time),
                cmocka_unit_test(a_rank_that_only_pretends_to_work_takes_no_time_of_its_device),
                cmocka_unit_test(a_gang_that_only_pretends_to_work_takes_no_time_of_others),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
