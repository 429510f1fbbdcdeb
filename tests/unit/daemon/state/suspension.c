/* SPDX-License-Identifier: Apache-2.0 */
/* A suspended tenant as a state machine. */
#include "unit.h"

#include "daemon/state/suspend/suspension.h"
#include "gate/gate.h"

static struct suspension_move next(enum suspension_state state, enum suspension_input input)
{
        struct suspension_move move = suspension_next(state, input);

        assert_in_range(move.to, 0, SUSPENSION_N_STATES - 1);
        return move;
}

static void assert_move(enum suspension_state state, enum suspension_input input, enum suspension_state to,
                        enum suspension_act act, int event)
{
        struct suspension_move move = next(state, input);

        assert_int_equal(move.to, to);
        assert_int_equal(move.act, act);
        assert_int_equal(move.event, event);
}

static void it_goes_out_and_comes_back_with_one_event_each(void **state)
{
        (void)state;
        assert_move(SUSPENSION_RUNNING, SUSPENSION_ASK_SUSPEND, SUSPENSION_SUSPENDING, SUSPENSION_DO_SUSPEND, -1);
        assert_move(SUSPENSION_SUSPENDING, SUSPENSION_IS_DONE, SUSPENSION_SUSPENDED, SUSPENSION_DO_NOTHING,
                    EVENT_SUSPENDED);
        assert_move(SUSPENSION_SUSPENDED, SUSPENSION_ASK_RESUME, SUSPENSION_RESUMING, SUSPENSION_DO_RESUME, -1);
        assert_move(SUSPENSION_RESUMING, SUSPENSION_IS_DONE, SUSPENSION_RUNNING, SUSPENSION_DO_NOTHING, EVENT_RESUMED);
}

static void asking_for_what_is_so_or_on_its_way_changes_nothing(void **state)
{
        (void)state;
        assert_move(SUSPENSION_RUNNING, SUSPENSION_ASK_RESUME, SUSPENSION_RUNNING, SUSPENSION_DO_NOTHING, -1);
        assert_move(SUSPENSION_SUSPENDING, SUSPENSION_ASK_SUSPEND, SUSPENSION_SUSPENDING, SUSPENSION_DO_NOTHING, -1);
        assert_move(SUSPENSION_SUSPENDED, SUSPENSION_ASK_SUSPEND, SUSPENSION_SUSPENDED, SUSPENSION_DO_NOTHING, -1);
        assert_move(SUSPENSION_RESUMING, SUSPENSION_ASK_RESUME, SUSPENSION_RESUMING, SUSPENSION_DO_NOTHING, -1);
        assert_move(SUSPENSION_REVERTING, SUSPENSION_ASK_RESUME, SUSPENSION_REVERTING, SUSPENSION_DO_NOTHING, -1);
}

static void asking_for_the_other_way_while_it_is_moved_is_refused(void **state)
{
        (void)state;
        assert_move(SUSPENSION_SUSPENDING, SUSPENSION_ASK_RESUME, SUSPENSION_SUSPENDING, SUSPENSION_REFUSE, -1);
        assert_move(SUSPENSION_RESUMING, SUSPENSION_ASK_SUSPEND, SUSPENSION_RESUMING, SUSPENSION_REFUSE, -1);
        assert_move(SUSPENSION_REVERTING, SUSPENSION_ASK_SUSPEND, SUSPENSION_REVERTING, SUSPENSION_REFUSE, -1);
}

static void a_failure_goes_back_to_where_it_came_from(void **state)
{
        (void)state;
        assert_move(SUSPENSION_SUSPENDING, SUSPENSION_AS_BEFORE, SUSPENSION_RUNNING, SUSPENSION_DO_NOTHING,
                    EVENT_SUSPEND_FAILED);
        assert_move(SUSPENSION_RESUMING, SUSPENSION_AS_BEFORE, SUSPENSION_SUSPENDED, SUSPENSION_DO_NOTHING,
                    EVENT_RESUME_FAILED);
}

static void a_way_whose_tenant_ended_meanwhile_has_not_failed(void **state)
{
        (void)state;
        assert_move(SUSPENSION_SUSPENDING, SUSPENSION_IS_GONE, SUSPENSION_RUNNING, SUSPENSION_DO_NOTHING, -1);
        assert_move(SUSPENSION_RESUMING, SUSPENSION_IS_GONE, SUSPENSION_SUSPENDED, SUSPENSION_DO_NOTHING, -1);
        assert_move(SUSPENSION_REVERTING, SUSPENSION_IS_GONE, SUSPENSION_SUSPENDED, SUSPENSION_DO_NOTHING, -1);
}

/* However it is interrupted, and by what: helpers that die or find it lost end it after two of them. */
static void whatever_is_killed_it_settles_with_one_event(void **state)
{
        static const enum suspension_input ends[] = { SUSPENSION_IS_DONE, SUSPENSION_AS_BEFORE, SUSPENSION_IS_LOST,
                                                      SUSPENSION_DIED };
        static const enum suspension_input kills[] = { SUSPENSION_DIED, SUSPENSION_TAKEN };

        (void)state;
        for (enum suspension_state from = SUSPENSION_SUSPENDING; from <= SUSPENSION_RESUMING; from += 2)
                for (size_t kill = 0; kill < 2; kill++)
                        for (size_t end = 0; end < 4; end++) {
                                struct suspension_move move = next(from, kills[kill]);

                                assert_int_equal(move.to, SUSPENSION_REVERTING);
                                assert_int_equal(move.act, SUSPENSION_DO_RESUME);
                                assert_int_equal(move.event, -1);
                                move = next(move.to, ends[end]);
                                assert_true(suspension_is_settled(move.to));
                                assert_int_not_equal(move.event, -1);
                                assert_int_equal(move.act == SUSPENSION_DO_END, move.to == SUSPENSION_LOST);
                        }
}

static void what_is_settled_stays_when_a_new_daemon_takes_it(void **state)
{
        (void)state;
        assert_move(SUSPENSION_RUNNING, SUSPENSION_TAKEN, SUSPENSION_RUNNING, SUSPENSION_DO_NOTHING, -1);
        assert_move(SUSPENSION_SUSPENDED, SUSPENSION_TAKEN, SUSPENSION_SUSPENDED, SUSPENSION_DO_NOTHING, -1);
        assert_move(SUSPENSION_LOST, SUSPENSION_TAKEN, SUSPENSION_LOST, SUSPENSION_DO_END, -1);
}

static void nothing_moves_what_is_lost_but_its_end(void **state)
{
        (void)state;
        for (enum suspension_input input = 0; input < SUSPENSION_N_INPUTS; input++)
                assert_int_equal(next(SUSPENSION_LOST, input).to, SUSPENSION_LOST);
        assert_move(SUSPENSION_LOST, SUSPENSION_ASK_RESUME, SUSPENSION_LOST, SUSPENSION_REFUSE, -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(it_goes_out_and_comes_back_with_one_event_each),
                cmocka_unit_test(asking_for_what_is_so_or_on_its_way_changes_nothing),
                cmocka_unit_test(asking_for_the_other_way_while_it_is_moved_is_refused),
                cmocka_unit_test(a_failure_goes_back_to_where_it_came_from),
                cmocka_unit_test(a_way_whose_tenant_ended_meanwhile_has_not_failed),
                cmocka_unit_test(whatever_is_killed_it_settles_with_one_event),
                cmocka_unit_test(what_is_settled_stays_when_a_new_daemon_takes_it),
                cmocka_unit_test(nothing_moves_what_is_lost_but_its_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
