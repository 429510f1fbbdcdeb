/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls of a suspended tenant wait for, and for how long. */
#include "gate/rig.h"

#include <pthread.h>

enum {
        MANY = 64,
        MORE = 700, /* than a gate has threads */
        FEW_THREADS = 16,
};

static void ask_and_take(void)
{
        struct handles h = client_start(2);
        uint32_t handle;

        NEED(fb_info(&h, RM_FB_TOTAL_RAM) == QUOTA / KIB); /* is answered meanwhile */
        NEED(memory_take(&h, STEP, &handle) == RM_STATUS_OK);
}

static void memory_of_a_suspended_tenant_is_waited_for(void **state)
{
        struct rig *rig = *state;
        struct gate_stats stats;

        rig->is_suspendable = true;
        rig->is_away = true;
        gate_begin(rig, ask_and_take);
        while (!rig->n_waiting)
                fake_wait(1);
        fake_wait(50);
        assert_int_equal(rig->fake->most_held, 0);
        rig->is_away = false;
        assert_int_equal(finish(rig, &stats), 0);
        assert_int_equal(rig->n_waiting, 0);
        assert_int_equal(rig->fake->most_held, STEP);
        assert_int_equal(stats.n_events[EVENT_NOT_WOKEN], 0);
}

static void take_in_vain(void)
{
        struct handles h = client_start(2);
        uint32_t handle;

        NEED(memory_take(&h, STEP, &handle) == RM_STATUS_NO_MEMORY);
        NEED(fb_info(&h, RM_FB_TOTAL_RAM) == QUOTA / KIB);
}

static void a_call_of_a_suspended_tenant_does_not_wait_for_ever(void **state)
{
        struct rig *rig = *state;
        struct gate_stats stats;

        rig->is_suspendable = true;
        rig->is_away = true;
        rig->wait_most = 50 * NSEC_PER_MSEC;
        gate_begin(rig, take_in_vain);
        assert_int_equal(finish(rig, &stats), 0);
        assert_int_equal(rig->n_waiting, 0);
        assert_int_equal(stats.n_events[EVENT_NOT_WOKEN], 1);
}

/* Killed while its call waits: nothing is left of it, and the gate ends. */
static void a_suspended_tenant_that_waits_can_be_killed(void **state)
{
        struct rig *rig = *state;

        rig->is_suspendable = true;
        rig->is_away = true;
        gate_begin(rig, ask_and_take);
        while (!rig->n_waiting)
                fake_wait(1);
        assert_int_equal(kill(rig->tenant, SIGKILL), 0);
        assert_int_equal(finish(rig, NULL), -SIGKILL);
        assert_int_equal(rig->n_waiting, 0);
        assert_int_equal(rig->fake->most_held, 0);
}

static struct handles shared;

static void *take_piece(void *context)
{
        uint32_t handle = 0x5d000000u + (uint32_t)(uintptr_t)context;

        NEED(memory_take(&shared, MIB, &handle) == RM_STATUS_OK);
        return NULL;
}

static void take_with_many_threads(void)
{
        pthread_t threads[MANY];

        shared = client_start(2);
        for (uintptr_t i = 0; i < MANY; i++)
                NEED(pthread_create(&threads[i], NULL, take_piece, (void *)i) == 0);
        for (int i = 0; i < MANY; i++)
                NEED(pthread_join(threads[i], NULL) == 0);
}

/* Half a second: 64 that looked every 5 ms would look 6400 times, and eight 800 times. */
static void many_calls_that_wait_look_as_often_as_a_few(void **state)
{
        struct rig *rig = *state;
        int before;

        rig->is_suspendable = true;
        rig->is_away = true;
        gate_begin(rig, take_with_many_threads);
        while (rig->n_waiting < MANY)
                fake_wait(1);
        before = rig->n_looks;
        fake_wait(500);
        assert_in_range(rig->n_looks - before, 1, 1600);
        rig->is_away = false;
        assert_int_equal(finish(rig, NULL), 0);
        assert_int_equal(rig->fake->most_held, MANY * MIB);
}

static atomic_int *n_answered;

static void take_with_more_threads_than_a_gate_has(void)
{
        pthread_attr_t small;
        pthread_t threads[MORE];
        struct handles other;

        shared = client_start(2);
        (void)pthread_attr_init(&small);
        (void)pthread_attr_setstacksize(&small, 64 << 10);
        for (uintptr_t i = 0; i < MORE; i++)
                NEED(pthread_create(&threads[i], &small, take_piece, (void *)i) == 0);
        other = client_start(2); /* answered meanwhile, whoever waits */
        for (; *n_answered < MORE; ++*n_answered)
                NEED(fb_info(&other, RM_FB_TOTAL_RAM) == QUOTA / KIB);
        for (int i = 0; i < MORE; i++)
                NEED(pthread_join(threads[i], NULL) == 0);
}

/* Positive control: with a thread for each they are 512, and half of them are told that there is no memory. */
static void calls_that_wait_take_no_threads_and_none_fails(void **state)
{
        struct rig *rig = *state;
        struct gate_stats stats;

        n_answered = mmap(NULL, sizeof(*n_answered), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true((void *)n_answered != MAP_FAILED);
        rig->is_suspendable = true;
        rig->is_away = true;
        gate_begin(rig, take_with_more_threads_than_a_gate_has);
        while (rig->n_waiting < MORE || *n_answered < MORE)
                fake_wait(1);
        gate_stats(rig->gate, &stats);
        assert_in_range(stats.n_threads, 1, FEW_THREADS);
        rig->is_away = false;
        assert_int_equal(finish(rig, &stats), 0);
        assert_int_equal(rig->n_waiting, 0);
        assert_int_equal(rig->fake->most_held, MORE * MIB);
        assert_int_equal(stats.n_events[EVENT_NOT_WOKEN], 0);
        (void)munmap(n_answered, sizeof(*n_answered));
}

enum {
        DEAD = 1000,
};

static struct deaths {
        atomic_int may_die, n_dead, may_end;
} * deaths;

static void take_and_wait_for_the_end(void)
{
        pthread_attr_t small;
        pthread_t threads[DEAD];

        shared = client_start(2);
        (void)pthread_attr_init(&small);
        (void)pthread_attr_setstacksize(&small, 64 << 10);
        for (uintptr_t i = 0; i < DEAD; i++)
                NEED(pthread_create(&threads[i], &small, take_piece, (void *)i) == 0);
        (void)pause();
}

static void a_child_that_waits_is_killed(void)
{
        pid_t child = fork();

        NEED(child >= 0);
        if (child == 0)
                take_and_wait_for_the_end();
        while (!deaths->may_die)
                fake_wait(1);
        NEED(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
        deaths->n_dead = DEAD;
        while (!deaths->may_end)
                fake_wait(1);
}

/* Eight each 4 ms, as those that have a caller are looked at, would take half a second. */
static void calls_of_a_process_that_has_ended_are_forgotten_at_once(void **state)
{
        struct rig *rig = *state;
        nsec since;

        deaths = mmap(NULL, sizeof(*deaths), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true((void *)deaths != MAP_FAILED);
        rig->is_suspendable = true;
        rig->is_away = true;
        rig->has_child = true;
        gate_begin(rig, a_child_that_waits_is_killed);
        while (rig->n_waiting < DEAD)
                fake_wait(1);
        deaths->may_die = 1;
        while (!deaths->n_dead)
                fake_wait(1);
        since = clock_now();
        while (rig->n_waiting)
                fake_wait(1);
        assert_true(clock_now() - since < NSEC_PER_SEC / 4);
        deaths->may_end = 1;
        assert_int_equal(finish(rig, NULL), 0);
        (void)munmap(deaths, sizeof(*deaths));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                gate_test(memory_of_a_suspended_tenant_is_waited_for),
                gate_test(a_call_of_a_suspended_tenant_does_not_wait_for_ever),
                gate_test(a_suspended_tenant_that_waits_can_be_killed),
                gate_test(many_calls_that_wait_look_as_often_as_a_few),
                gate_test(calls_that_wait_take_no_threads_and_none_fails),
                gate_test(calls_of_a_process_that_has_ended_are_forgotten_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
