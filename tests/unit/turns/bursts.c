/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services in open loops, by the default: no class, no goal. Requests come at random, each service answers them one by
 * one, and what counts is the time from arrival to answer. Launches are seen every millisecond.
 */
#include "unit.h"

#include "turns/model.h"

enum {
        LENGTH = 20,
        SEEDS = 4,
};

#define STEP (775 * USEC)

static struct model model;

static void begin(uint64_t seed, enum turns_policy policy)
{
        model_init(&model,
                   &(struct model_options){
                           .seed = seed, .policy = policy, .length = LENGTH * SEC, .has_signal = true, .watch = MSEC });
}

/* A service that computes for `load` permille of the time. */
static int server(nsec step, permille share, permille load)
{
        return model_add(&model, (struct model_tenant){
                                         .kind = SERVER, .work = step, .gap = step * 1000 / load, .share = share });
}

static void add_four(bool has_batch_job)
{
        for (int i = 0; i < 3 + !has_batch_job; i++)
                (void)server(STEP, 250, 150);
        if (has_batch_job)
                (void)model_add(&model, (struct model_tenant){ .kind = DEEP, .share = 250 });
}

/* The worst p99 of the services among them. */
static nsec worst_of_four(uint64_t seed, enum turns_policy policy, bool has_batch_job)
{
        nsec worst = 0;

        begin(seed, policy);
        add_four(has_batch_job);
        model_run(&model);
        for (int i = 0; i < model.n_tenants; i++)
                if (model.tenants[i].kind == SERVER && model_latency(&model, i, 99) > worst)
                        worst = model_latency(&model, i, 99);
        model_done(&model);
        return worst;
}

static void four_services_at_sixty_percent_wait_no_longer_than_by_the_drivers_default(void **state)
{
        (void)state;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                nsec ours = worst_of_four(seed, TURNS_POLICY_TURNS, false);
                nsec theirs = worst_of_four(seed, TURNS_POLICY_NONE, false);

                if (ours > theirs + theirs / 2)
                        fail_msg("seed %lu: p99 %ld us, by default %ld", (unsigned long)seed, (long)(ours / USEC),
                                 (long)(theirs / USEC));
        }
}

static void beside_a_batch_job_services_wait_half_as_long_as_by_the_drivers_default(void **state)
{
        (void)state;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                nsec ours = worst_of_four(seed, TURNS_POLICY_TURNS, true);
                nsec theirs = worst_of_four(seed, TURNS_POLICY_NONE, true);

                if (2 * ours > theirs || ours > 30 * MSEC)
                        fail_msg("seed %lu: p99 %ld us, by default %ld", (unsigned long)seed, (long)(ours / USEC),
                                 (long)(theirs / USEC));
        }
}

/* One that is within its share comes on at once, whoever else has the device. */
static void a_service_within_its_share_waits_for_some_milliseconds(void **state)
{
        (void)state;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                int a;

                begin(seed, TURNS_POLICY_TURNS);
                a = server(STEP, 300, 150);
                (void)model_add(&model, (struct model_tenant){ .kind = DEEP, .share = 700 });
                model_run(&model);
                assert_true(model_latency(&model, a, 99) < 6 * MSEC);
                model_done(&model);
        }
}

/* What a service may have in a burst is bounded: the others have their shares of each second. */
static void a_service_that_wants_more_than_its_share_does_not_get_it_from_who_wants_his(void **state)
{
        (void)state;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                int deep;

                begin(seed, TURNS_POLICY_TURNS);
                (void)server(STEP, 250, 400);
                deep = model_add(&model, (struct model_tenant){ .kind = DEEP, .share = 750 });
                model_run(&model);
                for (int t = 1000; t + 1000 <= LENGTH * 1000; t += 10)
                        assert_true(model_had(&model, deep, t, 1000) > 720 * 1000);
                model_done(&model);
        }
}

/* Whoever is behind its share is served first when all want more. */
static void services_beside_closed_loops_keep_to_their_latency_and_those_to_their_shares(void **state)
{
        (void)state;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                int a, b, c;

                begin(seed, TURNS_POLICY_TURNS);
                a = server(STEP, 200, 120);
                b = model_add(&model,
                              (struct model_tenant){ .kind = SYNC, .share = 400, .work = STEP, .gap = 15 * USEC });
                c = model_add(&model,
                              (struct model_tenant){ .kind = SYNC, .share = 400, .work = STEP, .gap = 15 * USEC });
                model_run(&model);
                assert_true(model_latency(&model, a, 99) < 12 * MSEC);
                for (int t = 1000; t + 1000 <= LENGTH * 1000; t += 10)
                        assert_in_range(model_had(&model, b, t, 1000) - model_had(&model, c, t, 1000) + 30000, 0,
                                        60000);
                model_done(&model);
        }
}

/* Rings that were looked at before a step ended say nothing of what comes after it. */
static void closed_loops_take_turns_at_once_however_often_their_rings_are_looked_at(void **state)
{
        (void)state;
        for (nsec watch = MSEC; watch <= 2 * MSEC; watch += MSEC / 4)
                for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                        model_init(&model, &(struct model_options){ .seed = seed,
                                                                    .policy = TURNS_POLICY_TURNS,
                                                                    .length = 2 * SEC,
                                                                    .has_signal = true,
                                                                    .watch = watch,
                                                                    .meter_delay = 20 * USEC });
                        for (int i = 0; i < 2; i++)
                                (void)model_add(&model, (struct model_tenant){ .kind = SYNC,
                                                                               .share = i ? 300 : 700,
                                                                               .work = 760 * USEC,
                                                                               .gap = 15 * USEC });
                        model_run(&model);
                        for (int t = 150; t + 100 <= 2000; t += 10)
                                assert_true(model_had(&model, 0, t, 100) > model_had(&model, 1, t, 100) * 3 / 2);
                        model_done(&model);
                }
}

/* Class latency that wants more than its share is slowed evenly: no burst at once, and no long wait for it. */
static void class_latency_in_a_closed_loop_is_slowed_evenly(void **state)
{
        (void)state;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                int a, deep;

                begin(seed, TURNS_POLICY_TURNS);
                a = model_add(
                        &model,
                        (struct model_tenant){
                                .kind = SYNC, .share = 300, .work = STEP, .gap = 15 * USEC, .class = TURNS_LATENCY });
                deep = model_add(&model, (struct model_tenant){ .kind = DEEP, .share = 700, .class = TURNS_BATCH });
                model_run(&model);
                assert_true(model_latency(&model, a, 99) < 9 * MSEC);
                assert_true(model_longest_wait(&model, a, 1000) <= 12);
                for (int t = 1000; t + 1000 <= LENGTH * 1000; t += 10) {
                        nsec all = model_had(&model, a, t, 1000) + model_had(&model, deep, t, 1000);

                        assert_in_range(model_had(&model, a, t, 1000) * 1000 / all, 295, 305);
                }
                model_done(&model);
        }
}

/* A kernel that never ends has empty rings; it is no service. */
static void a_kernel_without_an_end_is_not_taken_for_idle(void **state)
{
        int a, b;

        (void)state;
        begin(1, TURNS_POLICY_TURNS);
        a = model_add(&model, (struct model_tenant){ .kind = ENDLESS, .share = 200 });
        b = model_add(&model, (struct model_tenant){ .kind = SYNC, .share = 800, .work = STEP, .gap = 15 * USEC });
        model_run(&model);
        for (int t = 1000; t + 1000 <= LENGTH * 1000; t += 10) {
                nsec all = model_had(&model, a, t, 1000) + model_had(&model, b, t, 1000);

                assert_in_range(model_had(&model, a, t, 1000) * 1000 / all, 180, 220);
        }
        model_done(&model);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(four_services_at_sixty_percent_wait_no_longer_than_by_the_drivers_default),
                cmocka_unit_test(beside_a_batch_job_services_wait_half_as_long_as_by_the_drivers_default),
                cmocka_unit_test(a_service_within_its_share_waits_for_some_milliseconds),
                cmocka_unit_test(a_service_that_wants_more_than_its_share_does_not_get_it_from_who_wants_his),
                cmocka_unit_test(services_beside_closed_loops_keep_to_their_latency_and_those_to_their_shares),
                cmocka_unit_test(closed_loops_take_turns_at_once_however_often_their_rings_are_looked_at),
                cmocka_unit_test(class_latency_in_a_closed_loop_is_slowed_evenly),
                cmocka_unit_test(a_kernel_without_an_end_is_not_taken_for_idle),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
