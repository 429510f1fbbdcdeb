/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants whose rings say that work waits, and that have none, or next to none, on the model of the device. */
#include "unit.h"

#include "turns/model.h"

static struct model model;

#define ADD(...) model_add(&model, (struct model_tenant){ __VA_ARGS__ })

static void deep(permille share)
{
        ADD(.kind = DEEP, .share = share);
}

/* As they are seen at once; late calls; looks each millisecond. */
static struct model_options way_of_looking(int which)
{
        struct model_options options = {
                .seed = 1, .policy = TURNS_POLICY_TURNS, .length = 4 * SEC, .has_signal = true
        };

        options.is_rough = which == 1;
        options.watch = which == 2 ? MSEC : 0;
        return options;
}

static void launches_without_a_doorbell_take_no_time_of_another(void **state)
{
        static const nsec gaps[] = { 300 * USEC, 5 * MSEC, 9 * SEC };

        (void)state;
        for (int which = 0; which < 9; which++) {
                struct model_options options = way_of_looking(which / 3);

                model_init(&model, &options);
                ADD(.kind = LIAR, .share = 300, .gap = gaps[which % 3]);
                deep(700);
                model_run(&model);
                assert_true(model_had(&model, 1, 1000, 3000) > 3000 * 990);
                model_done(&model);
        }
}

static void several_whose_rings_lie_take_no_time_of_others(void **state)
{
        (void)state;
        for (int which = 0; which < 3; which++) {
                struct model_options options = way_of_looking(which);

                model_init(&model, &options);
                for (int i = 0; i < 4; i++)
                        ADD(.kind = LIAR, .share = 100, .gap = MSEC, .goal = i ? 0 : 40 * MSEC);
                deep(300);
                ADD(.kind = SYNC, .share = 300, .work = 1400 * USEC, .gap = 15 * USEC);
                model_run(&model);
                for (int t = 1000; t < 3000; t += 20) {
                        nsec first = model_had(&model, 4, t, 1000), second = model_had(&model, 5, t, 1000);

                        assert_true(first + second > 1000 * 950);
                        assert_in_range(first * 1000 / (first + second), 485, 515);
                }
                model_done(&model);
        }
}

/* It computes a little now and then, so that nothing contradicts it: it has its turns, and no more than those. */
static void a_little_work_does_not_make_a_lie_worth_more_than_the_share(void **state)
{
        (void)state;
        for (int which = 0; which < 6; which++) { /* a cap that it does not reach changes nothing */
                struct model_options options = way_of_looking(which % 3);

                for (nsec gap = 3 * MSEC; gap < 80 * MSEC; gap = gap * 3 / 2) {
                        model_init(&model, &options);
                        ADD(.kind = LIAR, .share = 300, .gap = gap, .work = 20 * USEC, .cap = which < 3 ? 0 : 990);
                        deep(700);
                        model_run(&model);
                        assert_true(model_had(&model, 1, 1000, 3000) > 3000 * (options.is_rough ? 620 : 665));
                        model_done(&model);
                }
        }
}

static void beside_a_service_one_whose_rings_lie_starves_nobody(void **state)
{
        static const nsec works[] = { 0, 20 * USEC };

        (void)state;
        for (int which = 0; which < 6; which++) {
                struct model_options options = way_of_looking(which / 2);

                model_init(&model, &options);
                ADD(.kind = LIAR, .share = 300, .gap = 5 * MSEC, .work = works[which % 2]);
                deep(450);
                ADD(.kind = PERIODIC, .work = 300 * USEC, .gap = 10 * MSEC, .share = 250);
                model_run(&model);
                assert_true(model_had(&model, 1, 1000, 3000) > 3000 * (which % 2 ? 430 : 700));
                if (!works[which % 2])
                        assert_true(model_latency(&model, 2, 95) < 3 * MSEC);
                model_done(&model);
        }
}

/* What it did not use is not owed to it. So it is with work that waits for a semaphore: it is no work yet. */
static void what_began_after_a_lie_has_its_share_at_once_and_no_more(void **state)
{
        (void)state;
        for (int which = 0; which < 3; which++) {
                struct model_options options = way_of_looking(which);

                model_init(&model, &options);
                ADD(.kind = LIAR, .share = 300, .gap = MSEC, .goal = which ? 0 : 20 * MSEC);
                deep(700);
                model.options.length = 2 * SEC;
                model_run(&model);
                model.options.length = 4 * SEC;
                model.tenants[0].kind = DEEP;
                model.contexts[0].next = model.now;
                model_run(&model);
                assert_true(model_had(&model, 0, 2000, 8) > 0);
                assert_in_range(model_had(&model, 0, 2000, 100), 0, 80000);
                assert_in_range(model_had(&model, 0, 2200, 1000), 285000, 315000);
                assert_in_range(model_had(&model, 1, 2200, 1000), 670000, 715000);
                assert_in_range(model_longest_wait(&model, 1, 2000), 0, 100);
                assert_int_equal(model.tenants[0].waits.n_late, 0); /* it waited for nobody */
                model_done(&model);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(launches_without_a_doorbell_take_no_time_of_another),
                cmocka_unit_test(several_whose_rings_lie_take_no_time_of_others),
                cmocka_unit_test(a_little_work_does_not_make_a_lie_worth_more_than_the_share),
                cmocka_unit_test(beside_a_service_one_whose_rings_lie_starves_nobody),
                cmocka_unit_test(what_began_after_a_lie_has_its_share_at_once_and_no_more),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
