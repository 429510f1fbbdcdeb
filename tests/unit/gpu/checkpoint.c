/* SPDX-License-Identifier: Apache-2.0 */
/* Which step of a checkpoint is next, from any states. */
#include "unit.h"

#include "gpu/checkpoint.h"

enum {
        N = 3,
};

/* Does a step as the driver does. */
static void act(enum checkpoint_state *state, enum checkpoint_step step)
{
        static const struct {
                enum checkpoint_state from, to;
        } steps[] = { [CHECKPOINT_LOCK] = { CHECKPOINT_RUNNING, CHECKPOINT_LOCKED },
                      [CHECKPOINT_SAVE] = { CHECKPOINT_LOCKED, CHECKPOINT_OUT },
                      [CHECKPOINT_RESTORE] = { CHECKPOINT_OUT, CHECKPOINT_LOCKED },
                      [CHECKPOINT_UNLOCK] = { CHECKPOINT_LOCKED, CHECKPOINT_RUNNING } };

        assert_int_equal(*state, steps[step].from);
        *state = steps[step].to;
}

static unsigned int count(const enum checkpoint_state *states, enum checkpoint_state state)
{
        unsigned int n = 0;

        for (size_t i = 0; i < N; i++)
                n += states[i] == state;
        return n;
}

static void from_every_state_all_arrive_and_never_run_beside_one_that_is_out(void **state)
{
        (void)state;
        for (unsigned int from = 0; from < 3 * 3 * 3; from++)
                for (int suspends = 0; suspends < 2; suspends++) {
                        enum checkpoint_state states[N] = { from % 3, from / 3 % 3, from / 9 };
                        enum checkpoint_step step;
                        size_t process, n = 0;

                        while (checkpoint_next(states, N, suspends, &process, &step)) {
                                act(&states[process], step);
                                assert_true(n++ < 2 * N);
                                if (step == CHECKPOINT_SAVE || step == CHECKPOINT_UNLOCK) /* C2 */
                                        assert_int_equal(count(states, suspends ? CHECKPOINT_RUNNING : CHECKPOINT_OUT),
                                                         0);
                        }
                        assert_int_equal(count(states, suspends ? CHECKPOINT_OUT : CHECKPOINT_RUNNING), N);
                }
}

static void what_has_gone_or_failed_is_left_alone(void **state)
{
        enum checkpoint_state states[] = { CHECKPOINT_GONE, CHECKPOINT_FAILED };
        enum checkpoint_step step;
        size_t process;

        (void)state;
        assert_false(checkpoint_next(states, 2, true, &process, &step));
        assert_false(checkpoint_next(states, 2, false, &process, &step));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(from_every_state_all_arrive_and_never_run_beside_one_that_is_out),
                cmocka_unit_test(what_has_gone_or_failed_is_left_alone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
