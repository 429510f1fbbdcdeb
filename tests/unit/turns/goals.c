/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goals on the virtual clock: what turns_goal_least says can be promised is kept, whatever the others do, and shares
 * stay what they were promised.
 */
#include "unit.h"

#include "base/cleanup.h"
#include "turns/model.h"

enum {
        RUNS = 60, /* each stands for a minute */
        LENGTH = 30,
};

static struct model model;

static void begin(uint64_t seed)
{
        model_init(&model,
                   &(struct model_options){
                           .seed = seed, .policy = TURNS_POLICY_TURNS, .length = LENGTH * SEC, .has_signal = true });
}

static int closed(nsec step, permille share, nsec goal)
{
        return model_add(&model, (struct model_tenant){
                                         .kind = SYNC, .work = step, .gap = 15 * USEC, .share = share, .goal = goal });
}

static nsec least_of(permille share, size_t n)
{
        return turns_goal_least(share * TURNS_PPM, n);
}

/* The least that is promised for such steps: turns.h. */
static nsec goal_for(nsec step, permille share, size_t n)
{
        nsec goal = least_of(share, n);

        goal = goal < 8 * step ? 8 * step : goal;
        return goal < 4 * step * 1000 / share ? 4 * step * 1000 / share : goal;
}

static bool is_kept(int tenant)
{
        return model_latency(&model, tenant, 99) <= model.tenants[tenant].goal;
}

/* Of what all had, to a point, over each second but the first. */
static void expect_shares(void)
{
        for (int t = 1000; t + 1000 <= LENGTH * 1000; t += 10) {
                nsec all = 0;

                for (int i = 0; i < model.n_tenants; i++)
                        all += model_had(&model, i, t, 1000);
                for (int i = 0; i < model.n_tenants; i++)
                        assert_in_range(model_had(&model, i, t, 1000) * 1000 / all + 10 - model.tenants[i].share, 0,
                                        20);
        }
}

static void the_bound_is_what_the_documents_say(void **state)
{
        (void)state;
        assert_int_equal(least_of(500, 1), 2 * MSEC);
        assert_int_equal(least_of(500, 2), 6 * MSEC);
        assert_int_equal(least_of(250, 4), 14 * MSEC);
        assert_int_equal(least_of(125, 8), 30 * MSEC);
        assert_int_equal(least_of(100, 2), 29 * MSEC); /* 15 ms in one round, for a turn of 1.5 */
        assert_int_equal(least_of(1000, 2), 2 * MSEC);
        assert_int_equal(turns_goal_least(0, 2), TURNS_GOAL_MOST);
}

/* Every one wants all it can get. */
static void services_in_a_closed_loop_keep_their_goals_and_their_shares(void **state)
{
        static const permille mixes[][4] = {
                { 500, 500 },      { 700, 300 },           { 900, 100 },
                { 400, 300, 300 }, { 250, 250, 250, 250 }, { 700, 100, 100, 100 },
        };

        (void)state;
        for (size_t m = 0; m < ARRAY_SIZE(mixes); m++)
                for (nsec step = 500 * USEC; step <= 2 * MSEC; step *= 2) {
                        size_t n = 0;

                        while (n < 4 && mixes[m][n])
                                n++;
                        begin(m + 1);
                        for (size_t i = 0; i < n; i++) {
                                (void)closed(step, mixes[m][i], goal_for(step, mixes[m][i], n));
                        }
                        model_run(&model);
                        for (int i = 0; i < (int)n; i++)
                                if (!is_kept(i))
                                        fail_msg("mix %zu, step %ld us, tenant %d: p99 %ld us, goal %ld us", m,
                                                 (long)(step / USEC), i, (long)(model_latency(&model, i, 99) / USEC),
                                                 (long)(model.tenants[i].goal / USEC));
                        expect_shares();
                        model_done(&model);
                }
}

static void random_shares(permille ret[static 8], int n)
{
        for (int i = 0; i < n; i++)
                ret[i] = 50 + model_below(&model, 1000 / (uint32_t)n - 50);
}

static struct model_tenant random_tenant(permille share, int n)
{
        nsec goal = least_of(share, (size_t)n) * (100 + model_below(&model, 100)) / 100;
        nsec most = goal / 8 < goal * share / 4000 ? goal / 8 : goal * share / 4000;
        nsec step = most / 8 + model_below(&model, (uint32_t)(most - most / 8));

        switch (model_below(&model, 4)) {
        case 0:
                return (struct model_tenant){ .kind = DEEP, .share = share, .class = TURNS_BATCH };
        case 1:
                return (struct model_tenant){
                        .kind = SYNC, .work = step, .gap = 15 * USEC, .share = share, .goal = goal
                };
        default:
                return (struct model_tenant){
                        .kind = AT_RANDOM, .work = step, .gap = step * 1000 / share * 4, .share = share, .goal = goal
                };
        }
}

/* Tenants at random: deep queues, closed loops, and open loops that use a quarter of their share. */
static void goals_that_were_admitted_are_kept_in_99_of_100_minutes(void **state)
{
        int n_goals = 0, n_missed = 0;

        (void)state;
        for (uint64_t seed = 1; seed <= RUNS; seed++) {
                permille shares[8];
                int n;

                begin(seed);
                n = 2 + (int)model_below(&model, 7);
                random_shares(shares, n);
                for (int i = 0; i < n; i++)
                        (void)model_add(&model, random_tenant(shares[i], n));
                model_run(&model);
                for (int i = 0; i < n; i++) {
                        n_goals += model.tenants[i].goal > 0;
                        if (!model.tenants[i].goal || is_kept(i))
                                continue;
                        n_missed++;
                        print_message("run %ld, tenant %d of %d (kind %d, step %ld us, share %u): p99 %ld us of %ld\n",
                                      (long)seed, i, n, (int)model.tenants[i].kind,
                                      (long)(model.tenants[i].work / USEC), model.tenants[i].share,
                                      (long)(model_latency(&model, i, 99) / USEC),
                                      (long)(model.tenants[i].goal / USEC));
                }
                model_done(&model);
        }
        assert_true(n_goals > RUNS);
        assert_true(n_missed * 100 <= n_goals);
}

/* A goal helps nobody to more than a share, and nobody starves. */
static void who_has_a_goal_takes_no_more_than_its_share(void **state)
{
        int a, b;

        (void)state;
        begin(1);
        a = closed(760 * USEC, 300, least_of(300, 2));
        b = model_add(&model, (struct model_tenant){ .kind = DEEP, .share = 700 });
        model_run(&model);
        expect_shares();
        assert_true(is_kept(a));
        assert_true(model_longest_wait(&model, b, 0) <= 20);
        model_done(&model);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_bound_is_what_the_documents_say),
                cmocka_unit_test(services_in_a_closed_loop_keep_their_goals_and_their_shares),
                cmocka_unit_test(goals_that_were_admitted_are_kept_in_99_of_100_minutes),
                cmocka_unit_test(who_has_a_goal_takes_no_more_than_its_share),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
