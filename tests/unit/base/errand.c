/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/errand.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define PATIENCE (200 * NSEC_PER_MSEC)

enum {
        LEFT_MAX = 16,
        SOON_SEC = 30, /* on a busy machine */
};

static int ends[2]; /* what some work waits for */
static atomic_uint n_over;

struct task {
        int asked, answer;
};

static struct task *task_new(int asked)
{
        struct task *task = calloc(1, sizeof(*task));

        assert_non_null(task);
        task->asked = asked;
        return task;
}

static void answer(void *context)
{
        struct task *task = context;

        task->answer = task->asked + 1;
}

/* Three times its patience, never asleep. */
static void compute(void *context)
{
        struct task *task = context;
        nsec until = clock_now() + 3 * PATIENCE;

        while (clock_now() < until)
                task->answer++;
        task->answer = task->asked + 1;
}

/* A little, now and then: five times its patience in all. */
static void compute_at_times(void *context)
{
        struct task *task = context;
        nsec until = clock_now() + 5 * PATIENCE;

        while (clock_now() < until)
                (void)poll(NULL, 0, (int)(PATIENCE / NSEC_PER_MSEC / 20));
        task->answer = task->asked + 1;
}

static void wait_for_ever(void *context)
{
        char byte;

        (void)context;
        (void)!read(ends[0], &byte, 1);
        n_over++;
}

static void what_is_done_in_time_is_answered(void **state)
{
        struct task *task = task_new(41);

        (void)state;
        assert_int_equal(errand_run(answer, task, PATIENCE), ERRAND_DONE);
        assert_int_equal(task->answer, 42);
        free(task);
}

static void work_that_goes_on_is_waited_for_beyond_its_patience(void **state)
{
        void (*works[])(void *context) = { compute, compute_at_times };

        (void)state;
        for (size_t i = 0; i < 2; i++) {
                struct task *task = task_new(41);

                assert_int_equal(errand_run(works[i], task, PATIENCE), ERRAND_DONE);
                assert_int_equal(task->answer, 42);
                free(task);
        }
}

static bool are_over_soon(unsigned int n)
{
        for (nsec until = clock_now() + SOON_SEC * NSEC_PER_SEC; n_over != n; (void)poll(NULL, 0, 2))
                if (clock_now() > until)
                        return false;
        return true;
}

/* E1, E2: and when they have ended, others are begun. */
static void work_that_waits_is_left_behind_and_of_those_there_are_few(void **state)
{
        const nsec patience = 20 * NSEC_PER_MSEC;
        struct task *task;
        nsec since = clock_now();

        (void)state;
        assert_int_equal(pipe(ends), 0);
        for (int i = 0; i < LEFT_MAX; i++)
                assert_int_equal(errand_run(wait_for_ever, task_new(0), patience), ERRAND_E_LATE);
        assert_true(clock_now() - since >= LEFT_MAX * patience);
        assert_int_equal(errand_run(answer, task_new(41), patience), ERRAND_E_LATE);
        (void)close(ends[1]);
        assert_true(are_over_soon(LEFT_MAX));
        for (nsec until = clock_now() + SOON_SEC * NSEC_PER_SEC;;) {
                task = task_new(41);
                if (errand_run(answer, task, PATIENCE) == ERRAND_DONE)
                        break;
                assert_true(clock_now() < until); /* a moment after the work the thread counts itself out */
                (void)poll(NULL, 0, 2);
        }
        assert_int_equal(task->answer, 42);
        free(task);
        (void)close(ends[0]);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_done_in_time_is_answered),
                cmocka_unit_test(work_that_goes_on_is_waited_for_beyond_its_patience),
                cmocka_unit_test(work_that_waits_is_left_behind_and_of_those_there_are_few),
        };

        return cmocka_run_group_tests_name("base/errand", tests, NULL, NULL);
}
