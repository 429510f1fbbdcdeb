/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants that show the scheduler one kind of work and do another: none takes what is another's. Without S10 and the
 * last sentence of S9 (steps.c) each of these had up to 900 permille with a share of 300.
 */
#include "unit.h"

#include "base/cleanup.h"
#include "turns/model.h"

#include <string.h>

static struct model model;

enum {
        FROM = 3000, /* ms: what happens before is learning */
        LENGTH = 8000,
        ERROR = 20, /* permille */
        ROUGH = 15, /* more, where calls are late, */
        GROWS = 50, /* and where what is known of a step is always a little behind */
};

static void begin(bool is_rough)
{
        model_init(&model, &(struct model_options){ .seed = 7,
                                                    .policy = TURNS_POLICY_TURNS,
                                                    .length = LENGTH * MSEC,
                                                    .has_signal = true,
                                                    .is_rough = is_rough });
}

static void run_until(nsec at)
{
        nsec length = model.options.length;

        model.options.length = at;
        model_run(&model);
        model.options.length = length;
}

static int deep(permille share, int team)
{
        return model_add(&model, (struct model_tenant){ .kind = DEEP, .share = share, .team = team });
}

/* Kernels of `step`, one after the other. */
static int service(nsec step, permille share, int team)
{
        return model_add(&model, (struct model_tenant){
                                         .kind = SYNC, .work = step, .gap = 15 * USEC, .share = share, .team = team });
}

/* The neighbour: a deep queue, or a service. */
static int honest(nsec step, permille share)
{
        return step ? service(step, share, 0) : deep(share, 0);
}

/* What the neighbour has of all, in the mean. */
static void expect_its_share(int neighbour, permille share, const char *what, nsec step, nsec then)
{
        nsec error = ERROR + (model.options.is_rough ? ROUGH : 0) + (strstr(what, "grow") ? GROWS : 0);
        nsec all = 0, its = model_had(&model, neighbour, FROM, LENGTH - FROM);

        for (int i = 0; i < model.n_tenants; i++)
                all += model_had(&model, i, FROM, LENGTH - FROM);
        if (its * 1000 / all < share - error)
                fail_msg("%s of %ld us, then %ld us: the neighbour has %ld permille of %u", what, (long)(step / USEC),
                         (long)(then / USEC), (long)(its * 1000 / all), share);
        model_done(&model);
}

static const nsec neighbours[] = { 0, 800 * USEC, 3 * MSEC };
static const permille shares[] = { 300, 500, 700 };
static const nsec steps[] = { 50 * USEC, 300 * USEC, MSEC, 3 * MSEC };

static void who_shows_short_steps_and_has_long_ones_then_gains_nothing(void **state)
{
        static const nsec then[] = { 10 * MSEC, 300 * MSEC, 3 * SEC };

        (void)state;
        for (size_t h = 0; h < ARRAY_SIZE(neighbours) * ARRAY_SIZE(shares); h++)
                for (size_t i = 0; i < ARRAY_SIZE(steps) * ARRAY_SIZE(then); i++) {
                        nsec step = steps[i / ARRAY_SIZE(then)], later = then[i % ARRAY_SIZE(then)];
                        permille share = shares[h % ARRAY_SIZE(shares)];
                        int thief, neighbour;

                        begin(h % 2);
                        thief = service(step, share, 0);
                        neighbour = honest(neighbours[h / ARRAY_SIZE(shares)], 1000 - share);
                        run_until(1500 * MSEC);
                        model.tenants[thief].work = later;
                        run_until(LENGTH * MSEC);
                        expect_its_share(neighbour, 1000 - share, "steps", step, later);
                }
}

/* Each is a little longer than the one before it, for a second: what is known of it follows. */
static void who_makes_its_steps_longer_bit_by_bit_gains_nothing(void **state)
{
        static const nsec factors[] = { 5, 10, 25 }; /* tenths */

        (void)state;
        for (size_t h = 0; h < ARRAY_SIZE(neighbours) * ARRAY_SIZE(shares); h++)
                for (size_t i = 0; i < ARRAY_SIZE(steps) * ARRAY_SIZE(factors); i++) {
                        permille share = shares[h % ARRAY_SIZE(shares)];
                        nsec step = steps[i / ARRAY_SIZE(factors)];
                        int thief, neighbour;

                        begin(false);
                        thief = service(step, share, 0);
                        neighbour = honest(neighbours[h / ARRAY_SIZE(shares)], 1000 - share);
                        for (nsec at = 1500; at < LENGTH; at += 700) {
                                run_until(at * MSEC);
                                step += step * factors[i % ARRAY_SIZE(factors)] / 10;
                                step = step > 200 * MSEC ? 200 * MSEC : step;
                                model.tenants[thief].work = step;
                        }
                        run_until(LENGTH * MSEC);
                        expect_its_share(neighbour, 1000 - share, "steps that grow", steps[i / ARRAY_SIZE(factors)],
                                         step);
                }
}

/* The mate that always waits for its answer says nothing for the other one. */
static void a_deep_queue_is_one_beside_a_mate_with_short_steps(void **state)
{
        (void)state;
        for (size_t h = 0; h < ARRAY_SIZE(neighbours) * ARRAY_SIZE(shares); h++)
                for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                        permille share = shares[h % ARRAY_SIZE(shares)];
                        int neighbour;

                        begin(false);
                        (void)service(steps[i], share / 2, 1);
                        (void)deep(share / 2, 1);
                        neighbour = honest(neighbours[h / ARRAY_SIZE(shares)], 1000 - share);
                        run_until(LENGTH * MSEC);
                        expect_its_share(neighbour, 1000 - share, "a mate's steps", steps[i], 0);
                }
}

/* Its rings hold nothing, and always show a new launch: only the meter tells. */
static void a_long_kernel_is_one_beside_a_mate_with_short_steps(void **state)
{
        (void)state;
        for (size_t h = 0; h < ARRAY_SIZE(neighbours) * ARRAY_SIZE(shares); h++)
                for (size_t i = 0; i < 2 * ARRAY_SIZE(steps); i++) {
                        permille share = shares[h % ARRAY_SIZE(shares)];
                        int neighbour;

                        begin(false);
                        (void)model_add(&model, (struct model_tenant){ .kind = SYNC,
                                                                       .work = steps[i / 2],
                                                                       .gap = i % 2 ? 500 * USEC : 15 * USEC,
                                                                       .share = share / 2,
                                                                       .team = 1 });
                        (void)model_add(&model, (struct model_tenant){ .kind = SYNC,
                                                                       .work = 300 * MSEC,
                                                                       .gap = 15 * USEC,
                                                                       .share = share / 2,
                                                                       .team = 1,
                                                                       .begins_at = 1500 * MSEC });
                        neighbour = honest(neighbours[h / ARRAY_SIZE(shares)], 1000 - share);
                        run_until(LENGTH * MSEC);
                        expect_its_share(neighbour, 1000 - share, "a mate's steps", steps[i / 2], 300 * MSEC);
                }
}

/* Generating text: short steps, and a long one where a prompt comes in between. It waits as long as without S10. */
static void a_service_with_a_long_step_now_and_then_waits_no_longer(void **state)
{
        int mixed;

        (void)state;
        begin(false);
        mixed = service(2 * MSEC, 500, 0);
        (void)deep(500, 0);
        for (nsec at = 500; at < LENGTH; at += 500) {
                run_until(at * MSEC);
                model.tenants[mixed].work = 40 * MSEC;
                run_until((at + 30) * MSEC);
                model.tenants[mixed].work = 2 * MSEC;
        }
        run_until(LENGTH * MSEC);
        assert_in_range(model_latency(&model, mixed, 98), 0, 60 * MSEC);
        model_done(&model);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(who_shows_short_steps_and_has_long_ones_then_gains_nothing),
                cmocka_unit_test(who_makes_its_steps_longer_bit_by_bit_gains_nothing),
                cmocka_unit_test(a_deep_queue_is_one_beside_a_mate_with_short_steps),
                cmocka_unit_test(a_long_kernel_is_one_beside_a_mate_with_short_steps),
                cmocka_unit_test(a_service_with_a_long_step_now_and_then_waits_no_longer),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
