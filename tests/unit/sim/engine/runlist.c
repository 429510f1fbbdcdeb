/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "sim/engine/runlist.h"

#include <stdlib.h>
#include <string.h>

/* Virtual time: microseconds from 0. */
#define USEC NSEC_PER_USEC
#define MSEC NSEC_PER_MSEC
#define COST (85 * USEC)

enum {
        GROUPS = 3,
        PIECES = 4096,
        EVENTS = 65536,
};

struct event {
        char kind; /* '+' on, '-' off, '.' a piece is done */
        size_t who;
        nsec at;
};

struct bench {
        struct runlist list;
        struct run_group groups[GROUPS];
        struct run_queue queues[GROUPS], second; /* of group 0 */
        struct run_work works[PIECES];
        size_t n_works;
        size_t n_done[GROUPS];
        nsec last_done[GROUPS];
        struct event events[EVENTS];
        size_t n_events;
        const struct run_work *blocked; /* is not ready */
};

static void note(struct bench *bench, char kind, size_t who, nsec at)
{
        if (bench->n_events < EVENTS)
                bench->events[bench->n_events++] = (struct event){ kind, who, at };
}

static bool is_ready(void *context, const struct run_work *work)
{
        return ((struct bench *)context)->blocked != work;
}

static void done(void *context, struct run_queue *queue, struct run_work *work, nsec at)
{
        struct bench *bench = context;
        size_t who = (size_t)(queue->group - bench->groups);

        (void)work;
        bench->n_done[who]++;
        bench->last_done[who] = at;
        note(bench, '.', who, at);
}

static void on(void *context, struct run_group *group, nsec at)
{
        note(context, '+', (size_t)(group - ((struct bench *)context)->groups), at);
}

static void off(void *context, struct run_group *group, nsec at)
{
        note(context, '-', (size_t)(group - ((struct bench *)context)->groups), at);
}

static const struct run_ops ops = { is_ready, NULL, done, on, off };

static int set_up(void **state)
{
        struct bench *bench = calloc(1, sizeof(*bench));

        if (!bench)
                return -1;
        runlist_init(&bench->list, &ops, bench, COST, 0);
        for (size_t i = 0; i < GROUPS; i++) {
                runlist_add_group(&bench->list, &bench->groups[i], 2048 * USEC);
                runlist_add_queue(&bench->groups[i], &bench->queues[i]);
                runlist_schedule(&bench->groups[i], 0);
        }
        *state = bench;
        return 0;
}

static int tear_down(void **state)
{
        free(*state);
        return 0;
}

static struct run_work *submit(struct bench *bench, size_t who, nsec duration, nsec now)
{
        struct run_work *work = &bench->works[bench->n_works++];

        assert_true(bench->n_works <= PIECES);
        runlist_submit(&bench->queues[who], work, duration, now);
        return work;
}

/* Deep queues: n pieces each. */
static void fill(struct bench *bench, size_t n_groups, size_t n, nsec duration)
{
        for (size_t i = 0; i < n; i++)
                for (size_t who = 0; who < n_groups; who++)
                        (void)submit(bench, who, duration, 0);
}

static size_t count(const struct bench *bench, char kind, size_t who)
{
        size_t n = 0;

        for (size_t i = 0; i < bench->n_events; i++)
                n += bench->events[i].kind == kind && bench->events[i].who == who;
        return n;
}

static void a_group_alone_stays_on_without_switches(void **state)
{
        struct bench *bench = *state;

        fill(bench, 1, 100, 770 * USEC);
        runlist_advance(&bench->list, 50 * 770 * USEC);
        assert_int_equal(bench->n_done[0], 50);
        assert_int_equal(count(bench, '+', 0), 1);
        assert_int_equal(count(bench, '-', 0), 0);
        runlist_advance(&bench->list, 1000 * MSEC); /* dry long since, and still resident */
        assert_int_equal(bench->n_done[0], 100);
        assert_int_equal(bench->last_done[0], 100 * 770 * USEC);
        assert_int_equal(count(bench, '-', 0), 0);
        assert_ptr_equal(bench->list.current, &bench->groups[0]);
}

static void equal_slices_share_equally_and_a_switch_costs_85_microseconds(void **state)
{
        struct bench *bench = *state;
        nsec cycle = 2 * (2048 * USEC + COST);

        fill(bench, 2, 2000, 770 * USEC);
        runlist_advance(&bench->list, 1000 * MSEC);
        assert_in_range(bench->groups[0].active / MSEC, 478, 482);
        assert_in_range(bench->groups[1].active / MSEC, 478, 482);
        assert_in_range(bench->list.n_switches, 2000 * MSEC / cycle - 1, 2000 * MSEC / cycle + 2);
        for (size_t i = 0; i + 1 < bench->n_events; i++)
                if (bench->events[i].kind == '-')
                        assert_int_equal(bench->events[i + 1].at - bench->events[i].at, COST);
}

static void slices_of_1_to_4_share_20_to_80(void **state)
{
        struct bench *bench = *state;

        runlist_set_slice(&bench->groups[0], 1 * MSEC, 0);
        runlist_set_slice(&bench->groups[1], 4 * MSEC, 0);
        fill(bench, 2, 2000, 770 * USEC);
        runlist_advance(&bench->list, 1000 * MSEC);
        assert_in_range(bench->groups[1].active * 1000 / bench->groups[0].active, 3950, 4050);
}

static void long_work_is_preempted_in_the_middle_and_ends_later(void **state)
{
        struct bench *bench = *state;

        (void)submit(bench, 0, 77 * MSEC, 0);
        (void)submit(bench, 1, 1 * MSEC, 0);
        runlist_advance(&bench->list, 200 * MSEC);
        assert_int_equal(bench->last_done[1], 2048 * USEC + COST + 1 * MSEC);
        assert_int_equal(bench->last_done[0], 77 * MSEC + 1 * MSEC + 2 * COST);
        assert_int_equal(bench->groups[0].active, 77 * MSEC);
}

static void who_comes_on_needs_a_ramp(void **state)
{
        struct bench *bench = *state;

        bench->list.ramp = 130 * USEC;
        (void)submit(bench, 0, 4 * MSEC, 0);
        (void)submit(bench, 1, 1 * MSEC, 0);
        runlist_advance(&bench->list, 200 * MSEC);
        assert_int_equal(bench->last_done[1], 2048 * USEC + COST + 1 * MSEC + 130 * USEC);
        assert_int_equal(bench->last_done[0], 5 * MSEC + 2 * COST + 3 * 130 * USEC);
}

static void a_preempted_group_gives_way_at_once(void **state)
{
        struct bench *bench = *state;

        (void)submit(bench, 0, 4 * MSEC, 0);
        (void)submit(bench, 1, 1 * MSEC, 0);
        runlist_preempt(&bench->groups[0], 500 * USEC);
        runlist_preempt(&bench->groups[1], 510 * USEC); /* not on yet: nothing */
        runlist_advance(&bench->list, 200 * MSEC);
        assert_int_equal(bench->last_done[1], 500 * USEC + COST + 1 * MSEC);
}

static void a_group_that_runs_dry_gives_its_slice_away(void **state)
{
        struct bench *bench = *state;

        (void)submit(bench, 0, 100 * USEC, 0);
        (void)submit(bench, 1, 100 * USEC, 0);
        runlist_advance(&bench->list, 10 * MSEC);
        assert_int_equal(bench->last_done[1], 200 * USEC + COST);
}

static void who_comes_later_waits_for_the_rest_of_a_slice(void **state)
{
        struct bench *bench = *state;

        (void)submit(bench, 0, 100 * MSEC, 0);
        (void)submit(bench, 1, 1 * MSEC, 5 * MSEC); /* in the third slice */
        runlist_advance(&bench->list, 200 * MSEC);
        assert_int_equal(bench->last_done[1], 3 * 2048 * USEC + COST + 1 * MSEC);
}

static void a_new_slice_counts_at_once_also_downward(void **state)
{
        struct bench *bench = *state;

        runlist_set_slice(&bench->groups[0], 20 * MSEC, 0);
        (void)submit(bench, 0, 100 * MSEC, 0);
        (void)submit(bench, 1, 1 * MSEC, 0);
        runlist_set_slice(&bench->groups[0], 1 * MSEC, 5 * MSEC);
        runlist_advance(&bench->list, 5 * MSEC + COST + 1 * MSEC);
        assert_int_equal(bench->n_done[1], 1);
        assert_int_equal(bench->last_done[1], 5 * MSEC + COST + 1 * MSEC);
}

static void slice_0_is_off_and_another_brings_it_back(void **state)
{
        struct bench *bench = *state;

        (void)submit(bench, 0, 10 * MSEC, 0);
        runlist_set_slice(&bench->groups[0], 0, 1 * MSEC);
        assert_null(bench->list.current);
        runlist_advance(&bench->list, 100 * MSEC);
        assert_int_equal(bench->n_done[0], 0);
        runlist_set_slice(&bench->groups[0], 1 * MSEC, 100 * MSEC);
        runlist_advance(&bench->list, 200 * MSEC);
        assert_int_equal(bench->last_done[0], 100 * MSEC + COST + 9 * MSEC);
}

static void a_channel_switched_off_is_preempted_at_once(void **state)
{
        struct bench *bench = *state;

        (void)submit(bench, 0, 10 * MSEC, 0);
        (void)submit(bench, 1, 1 * MSEC, 0);
        runlist_set_disabled(&bench->queues[0], true, 500 * USEC);
        runlist_advance(&bench->list, 50 * MSEC);
        assert_int_equal(bench->last_done[1], 500 * USEC + COST + 1 * MSEC);
        assert_int_equal(bench->n_done[0], 0);
        assert_int_equal(bench->groups[0].active, 500 * USEC);
        runlist_set_disabled(&bench->queues[0], false, 50 * MSEC);
        runlist_advance(&bench->list, 100 * MSEC);
        assert_int_equal(bench->n_done[0], 1);
}

/* As on an H100: movefacts switch. */
static void disables_are_counted_and_enables_too_many_are_not(void **state)
{
        struct bench *bench = *state;

        (void)submit(bench, 0, 1 * MSEC, 0);
        runlist_set_disabled(&bench->queues[0], true, 0);
        runlist_retire(&bench->queues[0], 0);
        runlist_set_disabled(&bench->queues[0], false, 0);
        runlist_advance(&bench->list, 50 * MSEC);
        assert_int_equal(bench->n_done[0], 0);
        runlist_set_disabled(&bench->queues[0], false, 50 * MSEC);
        runlist_set_disabled(&bench->queues[0], false, 50 * MSEC);
        runlist_advance(&bench->list, 100 * MSEC);
        assert_int_equal(bench->n_done[0], 1);
        runlist_set_disabled(&bench->queues[0], true, 100 * MSEC);
        (void)submit(bench, 0, 1 * MSEC, 100 * MSEC);
        runlist_advance(&bench->list, 150 * MSEC);
        assert_int_equal(bench->n_done[0], 1);
}

static void a_channel_that_is_retired_ends_what_it_does_and_does_not_return(void **state)
{
        struct bench *bench = *state;

        (void)submit(bench, 0, 1 * MSEC, 0);
        (void)submit(bench, 0, 1 * MSEC, 0);
        (void)submit(bench, 1, 1 * MSEC, 0);
        runlist_retire(&bench->queues[0], 500 * USEC);
        runlist_advance(&bench->list, 50 * MSEC);
        assert_int_equal(bench->n_done[0], 1);
        assert_int_equal(bench->last_done[0], 1 * MSEC);
        assert_int_equal(bench->last_done[1], 2 * MSEC + COST);
        runlist_set_disabled(&bench->queues[0], false, 50 * MSEC);
        runlist_advance(&bench->list, 100 * MSEC);
        assert_int_equal(bench->n_done[0], 2);
}

static void a_retired_channel_that_is_switched_off_stops_at_once(void **state)
{
        struct bench *bench = *state;

        (void)submit(bench, 0, 10 * MSEC, 0);
        runlist_retire(&bench->queues[0], 1 * MSEC);
        runlist_set_disabled(&bench->queues[0], true, 2 * MSEC);
        runlist_advance(&bench->list, 50 * MSEC);
        assert_int_equal(bench->groups[0].active, 2 * MSEC);
}

static void a_group_stays_while_one_channel_of_it_is_on(void **state)
{
        struct bench *bench = *state;

        runlist_add_queue(&bench->groups[0], &bench->second);
        (void)submit(bench, 0, 10 * MSEC, 0);
        runlist_set_disabled(&bench->queues[0], true, 1 * MSEC);
        assert_ptr_equal(bench->list.current, &bench->groups[0]);
        assert_int_equal(count(bench, '-', 0), 0);
        runlist_set_disabled(&bench->second, true, 2 * MSEC);
        assert_null(bench->list.current);
        assert_int_equal(count(bench, '-', 0), 1);
}

static void a_group_that_was_never_scheduled_does_not_run(void **state)
{
        struct bench *bench = *state;
        struct run_group group;
        struct run_queue queue;
        struct run_work work;

        runlist_add_group(&bench->list, &group, 1 * MSEC);
        runlist_add_queue(&group, &queue);
        runlist_submit(&queue, &work, 1 * USEC, 0);
        runlist_advance(&bench->list, 10 * MSEC);
        assert_int_equal(group.active, 0);
        assert_ptr_equal(runlist_remove_queue(&queue, 10 * MSEC), &work);
        runlist_remove_group(&bench->list, &group, 10 * MSEC);
}

static void work_of_one_group_runs_in_the_order_of_submission(void **state)
{
        struct bench *bench = *state;
        struct run_work other;

        runlist_add_queue(&bench->groups[0], &bench->second);
        (void)submit(bench, 0, 1 * MSEC, 0);
        runlist_submit(&bench->second, &other, 5 * MSEC, 0);
        (void)submit(bench, 0, 1 * MSEC, 0);
        runlist_advance(&bench->list, 6 * MSEC);
        assert_int_equal(bench->n_done[0], 2);
        runlist_advance(&bench->list, 7 * MSEC);
        assert_int_equal(bench->n_done[0], 3);
}

static void work_that_waits_for_something_lets_others_pass(void **state)
{
        struct bench *bench = *state;
        struct run_work other;

        runlist_add_queue(&bench->groups[0], &bench->second);
        runlist_advance(&bench->list, 0);
        bench->blocked = &other;
        runlist_submit(&bench->second, &other, 1 * MSEC, 0);
        (void)submit(bench, 0, 1 * MSEC, 0);
        runlist_advance(&bench->list, 10 * MSEC);
        assert_int_equal(bench->n_done[0], 1);
        assert_int_equal(bench->last_done[0], 1 * MSEC);
        assert_int_equal(runlist_next(&bench->list), RUN_NEVER);
        bench->blocked = NULL;
        runlist_advance(&bench->list, 10 * MSEC);
        runlist_advance(&bench->list, 20 * MSEC);
        assert_int_equal(bench->last_done[0], 11 * MSEC);
}

static void a_piece_of_no_time_is_done_in_its_turn_and_takes_none(void **state)
{
        struct bench *bench = *state;

        (void)submit(bench, 0, 1 * MSEC, 0);
        (void)submit(bench, 0, 0, 0);
        runlist_advance(&bench->list, 1 * MSEC - 1);
        assert_int_equal(bench->n_done[0], 0);
        runlist_advance(&bench->list, 1 * MSEC);
        assert_int_equal(bench->n_done[0], 2);
        assert_int_equal(bench->last_done[0], 1 * MSEC);
}

static void what_a_removed_channel_had_left_comes_back(void **state)
{
        struct bench *bench = *state;
        struct run_work *first = submit(bench, 0, 10 * MSEC, 0), *second = submit(bench, 0, 10 * MSEC, 0);

        assert_ptr_equal(runlist_remove_queue(&bench->queues[0], 5 * MSEC), first);
        assert_int_equal(first->left, 5 * MSEC);
        assert_ptr_equal(first->next, second);
        runlist_remove_group(&bench->list, &bench->groups[0], 5 * MSEC);
        assert_null(bench->list.current);
        assert_int_equal(count(bench, '-', 0), 1);
        (void)submit(bench, 1, 1 * MSEC, 5 * MSEC);
        runlist_advance(&bench->list, 10 * MSEC);
        assert_int_equal(bench->last_done[1], 5 * MSEC + COST + 1 * MSEC);
}

static void a_group_removed_while_it_is_switched_in_is_gone(void **state)
{
        struct bench *bench = *state;

        (void)submit(bench, 0, 1 * MSEC, 0);
        (void)submit(bench, 1, 1 * MSEC, 0);
        (void)submit(bench, 2, 1 * MSEC, 0);
        runlist_advance(&bench->list, 1 * MSEC + COST / 2);
        assert_ptr_equal(bench->list.incoming, &bench->groups[1]);
        (void)runlist_remove_queue(&bench->queues[1], bench->list.now);
        runlist_remove_group(&bench->list, &bench->groups[1], bench->list.now);
        runlist_advance(&bench->list, 10 * MSEC);
        assert_int_equal(bench->n_done[1], 0);
        assert_int_equal(bench->n_done[2], 1);
        assert_int_equal(count(bench, '+', 1), 0);
}

static void a_stuck_engine_does_nothing_until_it_is_freed(void **state)
{
        struct bench *bench = *state;

        (void)submit(bench, 0, 1 * MSEC, 0);
        bench->list.is_stuck = true;
        runlist_set_disabled(&bench->queues[0], true, 500 * USEC);
        assert_ptr_equal(bench->list.current, &bench->groups[0]);
        assert_int_equal(runlist_next(&bench->list), RUN_NEVER);
        bench->list.is_stuck = false;
        runlist_advance(&bench->list, 600 * USEC);
        assert_null(bench->list.current);
}

static void three_groups_take_turns_in_a_ring(void **state)
{
        struct bench *bench = *state;

        fill(bench, 3, 100, 1 * MSEC);
        runlist_advance(&bench->list, 60 * MSEC);
        for (size_t i = 0, turn = 0; i < bench->n_events; i++)
                if (bench->events[i].kind == '+')
                        assert_int_equal(bench->events[i].who, turn++ % 3);
        assert_true(count(bench, '+', 2) >= 8);
}

/* However time is cut into steps, and with the steps that runlist_next asks for, the same happens.
 */
static void how_time_is_cut_changes_nothing(void **state)
{
        struct bench *bench = *state, *other;
        void *fresh;
        nsec now = 0;

        assert_int_equal(set_up(&fresh), 0);
        other = fresh;
        for (size_t i = 0; i < 300; i++)
                for (size_t who = 0; who < GROUPS; who++) {
                        nsec duration = (nsec)((i * 7919 + who * 104729) % 3000) * USEC;

                        (void)submit(bench, who, duration, 0);
                        (void)submit(other, who, duration, 0);
                }
        runlist_advance(&bench->list, 400 * MSEC);
        while ((now = runlist_next(&other->list)) < 400 * MSEC) {
                runlist_advance(&other->list, now - now % 7); /* sometimes too early */
                runlist_advance(&other->list, now);
        }
        runlist_advance(&other->list, 400 * MSEC);
        assert_int_equal(bench->n_events, other->n_events);
        assert_memory_equal(bench->events, other->events, bench->n_events * sizeof(struct event));
        assert_true(bench->n_events > 500);
        (void)tear_down(&fresh);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(a_group_alone_stays_on_without_switches),
                TEST(equal_slices_share_equally_and_a_switch_costs_85_microseconds),
                TEST(slices_of_1_to_4_share_20_to_80),
                TEST(long_work_is_preempted_in_the_middle_and_ends_later),
                TEST(who_comes_on_needs_a_ramp),
                TEST(a_preempted_group_gives_way_at_once),
                TEST(a_group_that_runs_dry_gives_its_slice_away),
                TEST(who_comes_later_waits_for_the_rest_of_a_slice),
                TEST(a_new_slice_counts_at_once_also_downward),
                TEST(slice_0_is_off_and_another_brings_it_back),
                TEST(a_channel_switched_off_is_preempted_at_once),
                TEST(disables_are_counted_and_enables_too_many_are_not),
                TEST(a_channel_that_is_retired_ends_what_it_does_and_does_not_return),
                TEST(a_retired_channel_that_is_switched_off_stops_at_once),
                TEST(a_group_stays_while_one_channel_of_it_is_on),
                TEST(a_group_that_was_never_scheduled_does_not_run),
                TEST(work_of_one_group_runs_in_the_order_of_submission),
                TEST(work_that_waits_for_something_lets_others_pass),
                TEST(a_piece_of_no_time_is_done_in_its_turn_and_takes_none),
                TEST(what_a_removed_channel_had_left_comes_back),
                TEST(a_group_removed_while_it_is_switched_in_is_gone),
                TEST(a_stuck_engine_does_nothing_until_it_is_freed),
                TEST(three_groups_take_turns_in_a_ring),
                TEST(how_time_is_cut_changes_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
