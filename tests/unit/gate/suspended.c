/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls of a suspended tenant wait for, and for how long. */
#include "gate/rig.h"

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

int main(void)
{
        const struct CMUnitTest tests[] = {
                gate_test(memory_of_a_suspended_tenant_is_waited_for),
                gate_test(a_call_of_a_suspended_tenant_does_not_wait_for_ever),
                gate_test(a_suspended_tenant_that_waits_can_be_killed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
