/* SPDX-License-Identifier: Apache-2.0 */
/* When idle tenants are suspended and woken, on a clock of our own. */
#include "unit.h"

#include "daemon/state/suspend/sleeper.h"

#define SEC NSEC_PER_SEC
#define AFTER (30 * SEC)

static struct sleeper_view view_of(nsec now)
{
        return (struct sleeper_view){ .now = now, .after = AFTER, .has_waker = true };
}

/* Looks every second from `from` on, at one that does nothing. When it is put to sleep; 0: not before `until`. */
static nsec sleeps_at(struct sleeper *sleeper, nsec from, nsec until)
{
        for (nsec now = from; now < until; now += SEC) {
                struct sleeper_view view = view_of(now);

                if (sleeper_sleeps(sleeper, &view))
                        return now;
        }
        return 0;
}

static bool wakes(const struct sleeper *sleeper, nsec now, bool is_called, bool has_waker)
{
        struct sleeper_view view = { .now = now, .is_called = is_called, .has_waker = has_waker };

        return sleeper_wakes(sleeper, &view);
}

static void a_call_that_waits_wakes_at_once(void **state)
{
        struct sleeper sleeper = { 0 };

        (void)state;
        assert_true(wakes(&sleeper, 0, true, false));
        assert_true(wakes(&sleeper, 1000 * SEC, true, false));
        assert_false(wakes(&sleeper, 1000 * SEC, false, false)); /* its user has suspended it */
}

static void a_wake_that_is_refused_is_tried_less_and_less_often(void **state)
{
        struct sleeper sleeper = { 0 };
        nsec now = 1000 * SEC, last = 0;
        unsigned int n = 0;

        (void)state;
        for (nsec end = now + 600 * SEC; now < end; now += SEC / 10) {
                if (!wakes(&sleeper, now, true, false))
                        continue;
                n++;
                last = now;
                sleeper_refused(&sleeper, now);
        }
        assert_in_range(n, 12, 15); /* 2, 4, 8, 16, 32 s, then each minute */
        assert_false(wakes(&sleeper, last + 59 * SEC, true, false));
        assert_true(wakes(&sleeper, last + 60 * SEC, true, false));
        sleeper_is_up(&sleeper, last);
        assert_true(wakes(&sleeper, last, true, false));
        sleeper_refused(&sleeper, last);
        assert_true(wakes(&sleeper, last + 2 * SEC, true, false)); /* as at first */
}

static void who_does_nothing_is_put_to_sleep_after_its_time(void **state)
{
        struct sleeper sleeper = { 0 };

        (void)state;
        assert_int_equal(sleeps_at(&sleeper, 100 * SEC, 1000 * SEC), 130 * SEC);
}

static void a_sign_of_work_counts_from_when_it_was(void **state)
{
        struct sleeper sleeper = { 0 };
        struct sleeper_view view = view_of(100 * SEC);

        (void)state;
        assert_false(sleeper_sleeps(&sleeper, &view));
        view = view_of(120 * SEC);
        view.launched_at = 115 * SEC;
        assert_false(sleeper_sleeps(&sleeper, &view));
        view.now = 144 * SEC;
        assert_false(sleeper_sleeps(&sleeper, &view));
        view.n_calls = 1; /* a driver call */
        assert_false(sleeper_sleeps(&sleeper, &view));
        view.now = 173 * SEC;
        assert_false(sleeper_sleeps(&sleeper, &view));
        view.is_at_work = true;
        view.now = 500 * SEC;
        assert_false(sleeper_sleeps(&sleeper, &view));
        view.is_at_work = false;
        view.now = 529 * SEC;
        assert_false(sleeper_sleeps(&sleeper, &view));
        view.now = 530 * SEC;
        assert_true(sleeper_sleeps(&sleeper, &view));
}

static void nobody_sleeps_without_a_time_or_without_somebody_who_wakes_it(void **state)
{
        struct sleeper sleeper = { 0 };
        struct sleeper_view view;

        (void)state;
        for (nsec now = SEC; now < 1000 * SEC; now += SEC) {
                view = view_of(now);
                view.after = 0;
                assert_false(sleeper_sleeps(&sleeper, &view));
                view = view_of(now);
                view.has_waker = false;
                assert_false(sleeper_sleeps(&sleeper, &view));
        }
        view.has_waker = true; /* it has been idle all the time */
        assert_true(sleeper_sleeps(&sleeper, &view));
}

static void who_is_left_asleep_by_all_is_woken(void **state)
{
        struct sleeper sleeper = { 0 };

        (void)state;
        assert_int_equal(sleeps_at(&sleeper, 100 * SEC, 1000 * SEC), 130 * SEC);
        assert_false(wakes(&sleeper, 200 * SEC, false, true));
        assert_true(wakes(&sleeper, 200 * SEC, false, false));
        sleeper_refused(&sleeper, 200 * SEC);
        assert_false(wakes(&sleeper, 201 * SEC, false, false));
        assert_true(wakes(&sleeper, 202 * SEC, false, false));

        sleeper_is_kept(&sleeper); /* its user wants it so, too */
        assert_false(wakes(&sleeper, 2000 * SEC, false, false));
        assert_true(wakes(&sleeper, 2000 * SEC, true, false));

        sleeper = (struct sleeper){ 0 };
        sleeper_is_down(&sleeper, 5 * SEC); /* the daemon before has put it to sleep */
        assert_true(wakes(&sleeper, 20 * SEC, false, false));
}

/* A minute of work every 31 s of idleness: it would be moved to and fro all the time. */
static void who_is_woken_again_and_again_sleeps_less_and_less(void **state)
{
        struct sleeper sleeper = { 0 };
        nsec now = 100 * SEC, end = now + 24 * 3600 * SEC, idle = 0;
        unsigned int n = 0;

        (void)state;
        while (now < end) {
                nsec at = sleeps_at(&sleeper, now, end);

                if (!at)
                        break;
                n++;
                assert_true(at - now >= idle); /* never sooner than before */
                idle = at - now;
                sleeper_is_up(&sleeper, at + SEC);
                now = at + SEC;
        }
        assert_in_range(n, 20, 40); /* 30 s, 1, 2, 4 min ..., then about each hour */
        assert_in_range(idle, 3600 * SEC, SLEEPER_REST_MOST + AFTER + SEC);

        now = sleeps_at(&sleeper, now, now + 7200 * SEC); /* and sleeps for long */
        sleeper_is_up(&sleeper, now + 3 * 3600 * SEC);
        now += 3 * 3600 * SEC;
        assert_int_equal(sleeps_at(&sleeper, now, now + 100 * SEC), now + AFTER);
}

static void who_cannot_be_suspended_is_let_alone(void **state)
{
        struct sleeper sleeper = { 0 };
        nsec now = 100 * SEC, end = now + 24 * 3600 * SEC;
        unsigned int n = 0;

        (void)state;
        while ((now = sleeps_at(&sleeper, now, end))) {
                n++;
                sleeper_failed(&sleeper, now);
                assert_false(wakes(&sleeper, now, false, false));
        }
        assert_in_range(n, 20, 30);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_call_that_waits_wakes_at_once),
                cmocka_unit_test(a_wake_that_is_refused_is_tried_less_and_less_often),
                cmocka_unit_test(who_does_nothing_is_put_to_sleep_after_its_time),
                cmocka_unit_test(a_sign_of_work_counts_from_when_it_was),
                cmocka_unit_test(nobody_sleeps_without_a_time_or_without_somebody_who_wakes_it),
                cmocka_unit_test(who_is_left_asleep_by_all_is_woken),
                cmocka_unit_test(who_is_woken_again_and_again_sleeps_less_and_less),
                cmocka_unit_test(who_cannot_be_suspended_is_let_alone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
