/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices on a clock of the test's own; what is on is told by switching channels off. */
#include "unit.h"

#include "sim/server/machine.h"

#include <stdlib.h>

#define MS NSEC_PER_MSEC

enum { GROUPS = 4 }; /* of the first device, the second, the first, the second */

struct world {
        struct machine machine;
        struct group groups[GROUPS];
        struct channel channels[GROUPS];
        uint64_t sent[GROUPS];
};

static int world_begin(void **state)
{
        const struct machine_options options = { .n_gpus = 2, .memory = GIB, .release = MACHINE_RELEASE };
        struct world *world = calloc(1, sizeof(*world));

        if (!world || machine_init(&world->machine, &options, 0) < 0)
                return -1;
        for (size_t i = 0; i < GROUPS; i++) {
                world->groups[i] = (struct group){ .gpu = &world->machine.gpus[i % 2] };
                runlist_add_group(&world->machine.gpus[i % 2].engines[0], &world->groups[i].run, 2 * MS);
                runlist_schedule(&world->groups[i].run, 0);
                world->channels[i].group = &world->groups[i];
                runlist_add_queue(&world->groups[i].run, &world->channels[i].run);
        }
        *state = world;
        return 0;
}

static void stop(struct world *world, size_t i)
{
        for (struct run_work *run = runlist_remove_queue(&world->channels[i].run, world->machine.now), *next; run;
             run = next) {
                struct work *work = CONTAINER(run, struct work, run);

                next = run->next;
                meeting_leave(&world->machine, work);
                free(work);
        }
}

static int world_end(void **state)
{
        struct world *world = *state;

        for (size_t i = 0; i < GROUPS; i++) {
                if (world->groups[i].run.queues)
                        stop(world, i);
                runlist_remove_group(world->groups[i].run.list, &world->groups[i].run, world->machine.now);
        }
        if (world->machine.meetings)
                return -1; /* the last member takes its meeting along */
        machine_done(&world->machine);
        free(world);
        return 0;
}

static void launch(struct world *world, size_t i, uint64_t name, nsec duration)
{
        struct work *work = calloc(1, sizeof(*work));

        assert_non_null(work);
        work->value = ++world->sent[i];
        assert_int_equal(meeting_join(&world->machine, &world->channels[i], work, name, 2, duration), 0);
        runlist_submit(&world->channels[i].run, &work->run, INT64_MAX / 4, world->machine.now);
}

/* Lets time pass; how many launches of each device are done, as 10 * of the first + of the second. */
static uint64_t done_at(struct world *world, nsec now)
{
        world->machine.now = now;
        (void)machine_advance(&world->machine);
        return 10 * world->channels[0].reached + world->channels[1].reached;
}

static void switch_channel(struct world *world, size_t i, bool is_off)
{
        runlist_set_disabled(&world->channels[i].run, is_off, world->machine.now);
}

static void members_end_together_after_the_last_has_come(void **state)
{
        struct world *world = *state;

        launch(world, 0, 7, 5 * MS);
        assert_int_equal(done_at(world, 10 * MS), 0);
        launch(world, 1, 7, 5 * MS);
        assert_int_equal(done_at(world, 15 * MS - 1), 0);
        assert_int_equal(done_at(world, 15 * MS), 11);
}

static void when_it_will_be_over_is_told(void **state)
{
        struct world *world = *state;

        launch(world, 0, 7, 5 * MS);
        launch(world, 1, 7, 5 * MS);
        world->machine.now = 1 * MS;
        assert_int_equal(machine_advance(&world->machine), 5 * MS);
}

static void one_alone_spins_and_never_ends(void **state)
{
        struct world *world = *state;

        launch(world, 0, 7, 5 * MS);
        launch(world, 1, 8, 5 * MS); /* of another name */
        assert_int_equal(done_at(world, 60 * NSEC_PER_SEC), 0);
        assert_true(world->groups[0].run.active >= 59 * NSEC_PER_SEC); /* and has used its device all the while */
}

static void it_stands_still_while_one_is_off(void **state)
{
        struct world *world = *state;

        launch(world, 0, 7, 5 * MS);
        launch(world, 1, 7, 5 * MS);
        assert_int_equal(done_at(world, 2 * MS), 0);
        switch_channel(world, 0, true);
        assert_int_equal(done_at(world, 30 * MS), 0);
        switch_channel(world, 0, false);
        assert_int_equal(done_at(world, 33 * MS - 1), 0);
        assert_int_equal(done_at(world, 34 * MS), 11);
}

/* What made 110 and 3.5 of 273 steps a second: each device takes turns of its own. */
static void devices_that_are_never_on_together_get_nowhere(void **state)
{
        struct world *world = *state;

        switch_channel(world, 1, true);
        launch(world, 0, 7, 5 * MS);
        launch(world, 1, 7, 5 * MS);
        for (nsec at = 10 * MS; at < 2000 * MS; at += 10 * MS) {
                assert_int_equal(done_at(world, at), 0);
                switch_channel(world, 0, at / (10 * MS) % 2);
                switch_channel(world, 1, !(at / (10 * MS) % 2));
        }
}

/* Two devices that keep the same time would stay out of step: one of them has the first job whenever the other has the
 * second. */
static void two_jobs_out_of_step_both_come_to_their_end(void **state)
{
        struct world *world = *state;

        launch(world, 0, 7, 1 * MS);
        launch(world, 3, 8, 1 * MS);
        launch(world, 1, 7, 1 * MS);
        launch(world, 2, 8, 1 * MS);
        assert_int_equal(done_at(world, 4 * MS), 0); /* out of step */
        assert_int_equal(done_at(world, 2000 * MS), 11);
        assert_int_equal(world->channels[2].reached + world->channels[3].reached, 2);
}

static void the_next_launch_belongs_to_the_next_meeting(void **state)
{
        struct world *world = *state;

        launch(world, 0, 7, 5 * MS);
        launch(world, 0, 7, 5 * MS);
        launch(world, 1, 7, 5 * MS);
        assert_int_equal(done_at(world, 20 * MS), 11);
        launch(world, 1, 7, 3 * MS);
        assert_int_equal(done_at(world, 25 * MS), 22);
}

static void the_others_of_a_member_that_was_stopped_never_end(void **state)
{
        struct world *world = *state;

        launch(world, 0, 7, 5 * MS);
        launch(world, 1, 7, 5 * MS);
        assert_int_equal(done_at(world, 2 * MS), 0);
        stop(world, 1);
        assert_int_equal(done_at(world, 2000 * MS), 0);
}

static void too_many_ranks_are_refused(void **state)
{
        struct world *world = *state;
        struct work work = { 0 };

        assert_true(meeting_join(&world->machine, &world->channels[0], &work, 7, 0, MS) < 0);
        assert_true(meeting_join(&world->machine, &world->channels[0], &work, 7, MEETING_MAX + 1, MS) < 0);
        assert_null(work.meeting);
}

int main(void)
{
#define WORLD_TEST(f) cmocka_unit_test_setup_teardown(f, world_begin, world_end)
        const struct CMUnitTest tests[] = {
                WORLD_TEST(members_end_together_after_the_last_has_come),
                WORLD_TEST(when_it_will_be_over_is_told),
                WORLD_TEST(one_alone_spins_and_never_ends),
                WORLD_TEST(it_stands_still_while_one_is_off),
                WORLD_TEST(devices_that_are_never_on_together_get_nowhere),
                WORLD_TEST(two_jobs_out_of_step_both_come_to_their_end),
                WORLD_TEST(the_next_launch_belongs_to_the_next_meeting),
                WORLD_TEST(the_others_of_a_member_that_was_stopped_never_end),
                WORLD_TEST(too_many_ranks_are_refused),
        };

        return cmocka_run_group_tests_name("meetings", tests, NULL, NULL);
}
