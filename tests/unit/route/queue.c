/* SPDX-License-Identifier: Apache-2.0 */
#include "route/queue.h"

#include "unit.h"

static struct queue_item item(int64_t arrived, int32_t priority, uint32_t cached)
{
        return (struct queue_item){ .arrived = arrived,
                                    .deadline = arrived + 100,
                                    .due = arrived + 100,
                                    .priority = priority,
                                    .cached_permille = cached };
}

static void priority_goes_before_everything(void **state)
{
        struct queue_item high = item(50, 1, 0), low = item(0, 0, 1000);

        (void)state;
        assert_true(queue_before(&high, &low, 90));
        assert_false(queue_before(&low, &high, 90));
}

static void the_better_cached_goes_first(void **state)
{
        struct queue_item cached = item(10, 0, 900), cold = item(0, 0, 100);

        (void)state;
        assert_true(queue_before(&cached, &cold, 20));
        assert_false(queue_before(&cold, &cached, 20));
}

static void a_little_more_cached_is_not_worth_an_age(void **state)
{
        struct queue_item old = item(0, 0, 510), young = item(10, 0, 600);

        (void)state;
        assert_true(queue_before(&old, &young, 20));
}

static void nobody_starves_behind_better_cached_ones(void **state)
{
        struct queue_item cold = item(0, 0, 0), cached = item(40, 0, 1000);

        (void)state;
        assert_false(queue_before(&cold, &cached, 50));
        assert_true(queue_before(&cold, &cached, 51));
}

static void what_is_refused_early_is_not_therefore_sent_early(void **state)
{
        struct queue_item hasty = item(10, 0, 0), patient = item(0, 0, 0);

        (void)state;
        hasty.deadline = 20;
        assert_true(queue_before(&patient, &hasty, 19));
        hasty.due = 20;
        assert_true(queue_before(&hasty, &patient, 19));
}

static void the_order_is_strict(void **state)
{
        struct queue_item items[] = { item(0, 0, 0),  item(0, 0, 1000), item(30, 0, 0), item(30, 1, 0),
                                      item(49, 0, 0), item(49, 1, 600), item(60, 0, 0) };
        size_t n = sizeof(items) / sizeof(items[0]);

        (void)state;
        for (int64_t now = 60; now < 200; now += 7)
                for (size_t a = 0; a < n; a++)
                        for (size_t b = 0; b < n; b++) {
                                assert_false(queue_before(&items[a], &items[b], now) &&
                                             queue_before(&items[b], &items[a], now));
                                for (size_t c = 0; c < n; c++)
                                        if (queue_before(&items[a], &items[b], now) &&
                                            queue_before(&items[b], &items[c], now))
                                                assert_true(queue_before(&items[a], &items[c], now));
                        }
}

static void a_full_queue_refuses_but_for_a_higher_priority(void **state)
{
        struct queue_item last = item(0, 0, 0), same = item(1, 0, 1000), higher = item(1, 1, 0);

        (void)state;
        assert_int_equal(queue_admit(9, 10, &same, &last), QUEUE_ADMIT);
        assert_int_equal(queue_admit(10, 10, &same, &last), QUEUE_REFUSE);
        assert_int_equal(queue_admit(10, 10, &higher, &last), QUEUE_DISPLACE);
        assert_int_equal(queue_admit(0, 0, &higher, NULL), QUEUE_REFUSE);
}

static void retry_after_is_the_work_before_it_within_bounds(void **state)
{
        (void)state;
        assert_int_equal(queue_retry_after(0, 1000), 1);
        assert_int_equal(queue_retry_after(30000, 1000), 30);
        assert_int_equal(queue_retry_after(1e12, 1000), 120);
        assert_int_equal(queue_retry_after(1000, 0), 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(priority_goes_before_everything),
                cmocka_unit_test(the_better_cached_goes_first),
                cmocka_unit_test(a_little_more_cached_is_not_worth_an_age),
                cmocka_unit_test(nobody_starves_behind_better_cached_ones),
                cmocka_unit_test(what_is_refused_early_is_not_therefore_sent_early),
                cmocka_unit_test(the_order_is_strict),
                cmocka_unit_test(a_full_queue_refuses_but_for_a_higher_priority),
                cmocka_unit_test(retry_after_is_the_work_before_it_within_bounds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
