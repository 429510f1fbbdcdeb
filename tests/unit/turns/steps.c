/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants that launch and wait: how long they wait for the turns of others, on the model of the device. turns-services
 * prints the figures.
 */
#include "unit.h"

#include "base/cleanup.h"
#include "turns/model.h"

static struct model model;

#define BATCH_1 (760 * USEC)
#define BATCH_16 (1370 * USEC)

static void begin(void)
{
        model_init(&model, &(struct model_options){
                                   .seed = 1, .policy = TURNS_POLICY_TURNS, .length = 4 * SEC, .has_signal = true });
}

static int service(nsec step, permille share)
{
        return model_add(&model, (struct model_tenant){ .kind = SYNC, .work = step, .gap = 15 * USEC, .share = share });
}

static int deep(permille share)
{
        return model_add(&model, (struct model_tenant){ .kind = DEEP, .share = share });
}

/* Over each second but the first, to a point, of what all had. */
static void expect_shares(void)
{
        for (int t = 1000; t + 1000 <= 4000; t += 10) {
                nsec all = 0;

                for (int i = 0; i < model.n_tenants; i++)
                        all += model_had(&model, i, t, 1000);
                for (int i = 0; i < model.n_tenants; i++)
                        assert_in_range(model_had(&model, i, t, 1000) * 1000 / all + 10 - model.tenants[i].share, 0,
                                        20);
        }
}

static void expect_p99(int tenant, nsec most)
{
        nsec p99 = model_latency(&model, tenant, 99);

        if (p99 > most)
                fail_msg("tenant %d: p99 %ld us, of at most %ld", tenant, (long)(p99 / USEC), (long)(most / USEC));
}

static void two_services_wait_for_each_other_for_some_milliseconds(void **state)
{
        static const nsec steps[] = { BATCH_1, BATCH_16 };

        (void)state;
        for (int i = 0; i < 2; i++) {
                int a, b;

                begin();
                a = service(steps[i], 500), b = service(steps[i], 500);
                model_run(&model);
                expect_p99(a, 9 * MSEC), expect_p99(b, 9 * MSEC);
                expect_shares();
                assert_true(model.tenants[a].done + model.tenants[b].done > model.options.length / 100 * 94);
                model_done(&model);
        }
}

/* What the rings show of a CUDA graph is mostly work that waits. */
static void a_graph_is_a_step_although_it_is_taken_late(void **state)
{
        static const nsec steps[] = { 500 * USEC, BATCH_1, BATCH_16, 2500 * USEC }, gaps[] = { 10 * USEC, MSEC };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
                for (size_t k = 0; k < 2; k++) {
                        int a, b;

                        begin();
                        a = service(steps[i], 600), b = service(steps[i], 400);
                        for (int t = 0; t < 2; t++) {
                                model.tenants[t].is_graph = true;
                                model.tenants[t].gap = gaps[k];
                        }
                        model_run(&model);
                        expect_p99(a, 9 * MSEC + 6 * steps[i]), expect_p99(b, 9 * MSEC + 6 * steps[i]);
                        model_done(&model);
                }
}

/* From the first second on: what a newcomer waits for is not a turn of the time before it came. */
static void nobody_waits_for_a_long_turn_at_the_beginning(void **state)
{
        int a, b;

        (void)state;
        begin();
        a = service(BATCH_1, 700), b = service(BATCH_1, 300);
        model.tenants[b].begins_at = 100 * MSEC;
        model_run(&model);
        expect_p99(a, 8 * MSEC);
        assert_true(model_longest_wait(&model, a, 0) <= 20);
        assert_true(model_longest_wait(&model, b, 0) <= 20);
        model_done(&model);
}

static void a_service_of_thirty_percent_has_short_turns_often(void **state)
{
        static const nsec steps[] = { BATCH_1, BATCH_16 };

        (void)state;
        for (int i = 0; i < 2; i++) {
                int a, b;

                begin();
                a = service(steps[i], 700), b = service(steps[i], 300);
                model_run(&model);
                expect_p99(a, 6 * MSEC), expect_p99(b, 10 * MSEC);
                expect_shares();
                model_done(&model);
        }
}

static void a_service_beside_a_deep_queue_waits_no_longer(void **state)
{
        (void)state;
        for (enum turns_class class = TURNS_NORMAL; class <= TURNS_LATENCY; class ++) {
                int a;

                begin();
                a = service(BATCH_1, 300);
                model.tenants[a].class = class;
                deep(700);
                model_run(&model);
                expect_p99(a, 10 * MSEC);
                expect_shares();
                model_done(&model);
        }
}

/* What it has too much of each short turn is more than a quarter of that. */
static void a_deep_queue_of_a_small_share_has_no_more_beside_services(void **state)
{
        (void)state;
        begin();
        (void)service(BATCH_1, 500), (void)service(BATCH_1, 300);
        deep(200);
        model_run(&model);
        expect_p99(0, 12 * MSEC), expect_p99(1, 16 * MSEC);
        expect_shares();
        model_done(&model);
}

/* It wants more than its share: each step waits a little, and none for long, from the first second on. A turn that is
 * too short once is missed: two rounds of 8 ms, or 5 ms of others. */
static void class_latency_in_a_closed_loop_is_slowed_and_not_stopped(void **state)
{
        static const nsec steps[] = { 300 * USEC, BATCH_1, BATCH_16, 3 * MSEC };
        static const permille shares[] = { 200, 300, 500 };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
                for (size_t k = 0; k < ARRAY_SIZE(shares); k++) {
                        int a;

                        begin();
                        a = service(steps[i], shares[k]);
                        model.tenants[a].class = TURNS_LATENCY;
                        model.tenants[deep(1000 - shares[k])].class = TURNS_BATCH;
                        model_run(&model);
                        expect_p99(a, 14 * MSEC + 4 * steps[i]);
                        if (model_longest_wait(&model, a, 0) > 25)
                                fail_msg("step %ld us of %u permille waited for %ld ms", (long)(steps[i] / USEC),
                                         shares[k], (long)model_longest_wait(&model, a, 0));
                        model_done(&model);
                }
}

static void where_nobody_waits_for_an_answer_turns_stay_long(void **state)
{
        (void)state;
        for (int i = 0; i < 3; i++) {
                begin();
                deep(700);
                if (i == 0)
                        deep(300);
                else if (i == 1)
                        service(100 * MSEC, 300);
                else
                        model.tenants[service(BATCH_1, 300)].class = TURNS_BATCH;
                model_run(&model);
                assert_true(model.n_calls <= 45 * (model.options.length / SEC));
                model_done(&model);
        }
}

/* As a program does that waits for its answers while it sets up, and then queues all its work. */
static void services_that_begin_to_queue_keep_nobody_off(void **state)
{
        enum { N = 4 };
        (void)state;
        begin();
        for (int i = 0; i < N; i++)
                service(BATCH_1, 250);
        model.options.length = SEC / 2;
        model_run(&model);
        for (int i = 0; i < N; i++) {
                model.tenants[i].kind = DEEP;
                model.contexts[i].next = model.now;
        }
        model.options.length = 4 * SEC;
        model_run(&model);
        for (int i = 0; i < N; i++) {
                for (int t = 500; t + 200 <= 4000; t += 10)
                        assert_true(model_had(&model, i, t, 200) >= 15 * MSEC / USEC);
                for (int t = 2000; t + 1000 <= 4000; t += 10)
                        assert_in_range(model_had(&model, i, t, 1000) * USEC / MSEC, 240, 260);
        }
        model_done(&model);
}

static void a_period_that_was_asked_for_is_never_exceeded(void **state)
{
        (void)state;
        model_init(&model, &(struct model_options){ .seed = 1,
                                                    .policy = TURNS_POLICY_TURNS,
                                                    .length = 4 * SEC,
                                                    .has_signal = true,
                                                    .period = 20 * MSEC });
        for (int i = 0; i < 4; i++)
                service(BATCH_1, 250);
        model_run(&model);
        for (int i = 0; i < 4; i++)
                expect_p99(i, 22 * MSEC);
        expect_shares();
        model_done(&model);
}

static void a_service_that_falls_silent_leaves_its_time_to_the_other(void **state)
{
        int a, b;

        (void)state;
        begin();
        a = service(BATCH_1, 500), b = service(BATCH_1, 500);
        model.tenants[a].kind = PERIODIC;
        model.tenants[a].gap = 5 * MSEC; /* a sixth of the device */
        model_run(&model);
        expect_p99(a, 4 * MSEC);
        assert_true(model_had(&model, b, 1000, 3000) > 3000 * 700);
        model_done(&model);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(two_services_wait_for_each_other_for_some_milliseconds),
                cmocka_unit_test(a_graph_is_a_step_although_it_is_taken_late),
                cmocka_unit_test(nobody_waits_for_a_long_turn_at_the_beginning),
                cmocka_unit_test(a_service_of_thirty_percent_has_short_turns_often),
                cmocka_unit_test(a_service_beside_a_deep_queue_waits_no_longer),
                cmocka_unit_test(a_deep_queue_of_a_small_share_has_no_more_beside_services),
                cmocka_unit_test(class_latency_in_a_closed_loop_is_slowed_and_not_stopped),
                cmocka_unit_test(where_nobody_waits_for_an_answer_turns_stay_long),
                cmocka_unit_test(services_that_begin_to_queue_keep_nobody_off),
                cmocka_unit_test(a_period_that_was_asked_for_is_never_exceeded),
                cmocka_unit_test(a_service_that_falls_silent_leaves_its_time_to_the_other),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
