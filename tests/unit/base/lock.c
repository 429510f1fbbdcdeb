/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/lock.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef NDEBUG
#define IS_DEBUG false
#else
#define IS_DEBUG true
#endif

static struct lock orders[] = { LOCK_INIT(LOCK_CLIENT), LOCK_INIT(LOCK_CLIENT) };
static struct lock ledger = LOCK_INIT(LOCK_LEDGER), events = LOCK_INIT(LOCK_EVENTS);

static void locks_are_taken_downward(void **state)
{
        (void)state;
        for (int i = 0; i < 2; i++) {
                lock_take(&orders[0]);
                lock_take(&ledger);
                lock_take(&events);
                lock_drop(&ledger); /* not the last taken */
                lock_drop(&events);
                lock_drop(&orders[0]);
        }
}

static void two_of_one_rank_may_be_held_and_dropped_in_any_order(void **state)
{
        (void)state;
        for (int i = 0; i < 4; i++) {
                lock_take(&orders[0]);
                lock_take_second(&orders[1]);
                lock_take(&ledger);
                lock_drop(&ledger);
                lock_drop(&orders[i % 2]);
                if (i % 2)
                        lock_take_second(&orders[1]);
                if (i % 2)
                        lock_drop(&orders[0]);
                lock_drop(&orders[1]);
        }
}

static void scope_drops_a_lock(void **state)
{
        (void)state;
        for (int i = 0; i < 3; i++) {
                LOCKED(&ledger);

                assert_int_not_equal(pthread_mutex_trylock(&ledger.mutex), 0);
        }
        assert_int_equal(pthread_mutex_trylock(&ledger.mutex), 0);
        assert_int_equal(pthread_mutex_unlock(&ledger.mutex), 0);
}

static void a_made_lock_works_like_a_static_one(void **state)
{
        struct lock lock;

        (void)state;
        lock_init(&lock, LOCK_PROCESSES);
        lock_take(&lock);
        lock_drop(&lock);
        lock_done(&lock);
}

static void *take_ledger(void *data)
{
        (void)data;
        lock_take(&ledger);
        lock_drop(&ledger);
        return NULL;
}

static void what_one_thread_holds_is_nothing_to_another(void **state)
{
        pthread_t thread;

        (void)state;
        lock_take(&events);
        assert_int_equal(pthread_create(&thread, NULL, take_ledger, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        lock_drop(&events);
}

static int n_counted;

static void *count(void *data)
{
        (void)data;
        for (int i = 0; i < 10000; i++) {
                LOCKED(&ledger);

                n_counted++;
        }
        return NULL;
}

static void a_lock_excludes(void **state)
{
        pthread_t threads[4];

        (void)state;
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, count, NULL), 0);
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(n_counted, 40000);
}

/* Whether it ends a process of its own by SIGABRT, as a debug build must. */
static bool is_caught(void (*mistake)(void))
{
        int status = 0;
        pid_t child;

        (void)fflush(NULL);
        child = fork();
        if (child == 0) {
                (void)signal(SIGABRT, SIG_DFL);
                (void)freopen("/dev/null", "w", stderr);
                mistake();
                _exit(0);
        }
        assert_true(child > 0 && waitpid(child, &status, 0) == child);
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void take_upward(void)
{
        lock_take(&ledger);
        lock_take(&orders[0]);
}

static void take_two_of_a_rank(void)
{
        lock_take(&orders[0]);
        lock_take(&orders[1]);
}

static void take_a_rank_after_dropping_one_of_two(void)
{
        lock_take(&orders[0]);
        lock_take_second(&orders[1]);
        lock_drop(&orders[1]);
        lock_take(&orders[1]);
}

static void take_a_second_alone(void)
{
        lock_take_second(&orders[0]);
}

static void take_a_second_below_another(void)
{
        lock_take(&orders[0]);
        lock_take(&ledger);
        lock_take_second(&orders[1]);
}

static void take_a_third(void)
{
        struct lock order3 = LOCK_INIT(LOCK_CLIENT);

        lock_take(&orders[0]);
        lock_take_second(&orders[1]);
        lock_take_second(&order3);
}

static void a_debug_build_catches_every_wrong_order(void **state)
{
        (void)state;
        if (!IS_DEBUG)
                skip();
        assert_true(is_caught(take_upward));
        assert_true(is_caught(take_two_of_a_rank));
        assert_true(is_caught(take_a_rank_after_dropping_one_of_two));
        assert_true(is_caught(take_a_second_alone));
        assert_true(is_caught(take_a_second_below_another));
        assert_true(is_caught(take_a_third));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(locks_are_taken_downward),
                cmocka_unit_test(two_of_one_rank_may_be_held_and_dropped_in_any_order),
                cmocka_unit_test(scope_drops_a_lock),
                cmocka_unit_test(a_made_lock_works_like_a_static_one),
                cmocka_unit_test(what_one_thread_holds_is_nothing_to_another),
                cmocka_unit_test(a_lock_excludes),
                cmocka_unit_test(a_debug_build_catches_every_wrong_order),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
