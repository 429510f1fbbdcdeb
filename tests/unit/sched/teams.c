/* SPDX-License-Identifier: Apache-2.0 */
/* What the meter's records say of a team, and what its mates are billed, record by record. */
#include "unit.h"

#include "sched/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
        SERVER = 4000, /* the process of the team's MPS server */
        CONTEXT = 9,
        TEAM = 77,
        MATES = 3,
        STRANGER = 5000,
};

#define MSEC NSEC_PER_MSEC

static struct sched *sched;
static struct sched_entity mates[MATES + 1]; /* the last one is in no team */
static struct control_block *blocks;

static int set_up(void **state)
{
        (void)state;
        sched = calloc(1, sizeof(*sched));
        blocks = calloc(MATES + 1, sizeof(*blocks));
        if (!sched || !blocks || trace_new(64, &sched->trace) < 0)
                return -1;
        lock_init(&sched->lock, LOCK_SCHED);
        for (size_t i = 0; i <= MATES; i++) {
                blocks[i].devices[0].can_watch = 1;
                blocks[i].shim = (pid_t)(100 + i);
                mates[i] = (struct sched_entity){ .id = i + 1, .control = &blocks[i], .device = &blocks[i].devices[0] };
                sched->tenants[sched->n_tenants++] = &mates[i];
                if (team_join(sched, &mates[i], i < MATES ? TEAM : 0) < 0)
                        return -1;
        }
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        while (sched->n_tenants)
                team_part(sched, sched->tenants[--sched->n_tenants]);
        (void)trace_free(sched->trace);
        map_done(&sched->contexts);
        lock_done(&sched->lock);
        free(sched);
        free(blocks);
        return 0;
}

static void launches(size_t mate, nsec at)
{
        blocks[mate].devices[0].launched_at = at;
}

static void on(uint32_t process, nsec from, nsec until)
{
        struct meter_record records[2] = { { .at = from, .context = CONTEXT, .pid = process, .is_on = true },
                                           { .at = until, .context = CONTEXT, .pid = process } };

        tally_records(sched, records, until ? 2 : 1);
        if (until)
                tally_until(sched, until);
}

static void time_of_the_server_is_the_teams_and_nobody_elses(void **state)
{
        (void)state;
        assert_int_equal(sched_team_serve(sched, TEAM, SERVER), 0);
        on(SERVER, 100 * MSEC, 110 * MSEC);
        assert_int_equal(mates[0].team->used, 10 * MSEC);
        assert_int_equal(mates[0].team->n_turns, 1);
        assert_int_equal(mates[MATES].used, 0);
        assert_int_equal(sched->state.foreign_used, 0);
        assert_int_equal(sched->n_events, 0);
        on(STRANGER, 120 * MSEC, 125 * MSEC);
        assert_int_equal(mates[0].team->used, 10 * MSEC);
        assert_int_equal(sched->state.foreign_used, 5 * MSEC);
}

static void who_works_is_billed_in_equal_parts_and_the_sum_is_all_of_it(void **state)
{
        nsec sum = 0;

        (void)state;
        (void)sched_team_serve(sched, TEAM, SERVER);
        launches(0, 100 * MSEC), launches(1, 100 * MSEC);
        on(SERVER, 100 * MSEC, 110 * MSEC);
        assert_int_equal(mates[0].used, 5 * MSEC);
        assert_int_equal(mates[1].used, 5 * MSEC);
        assert_int_equal(mates[2].used, 0);
        on(SERVER, 500 * MSEC, 509 * MSEC); /* nobody shows any work: all have had it */
        assert_int_equal(mates[2].used, 3 * MSEC);
        for (int i = 0; i < 50; i++) {
                launches((size_t)i % MATES, 600 * MSEC + i * 7 * MSEC);
                on(SERVER, 600 * MSEC + i * 7 * MSEC, 600 * MSEC + i * 7 * MSEC + MSEC + i);
        }
        for (size_t i = 0; i < MATES; i++)
                sum += mates[i].used;
        assert_in_range(mates[0].team->used - sum, 0, MATES - 1);
        assert_in_range(mates[0].team->used, 69 * MSEC, 70 * MSEC);
}

static void what_was_on_before_the_server_was_known_is_the_teams(void **state)
{
        (void)state;
        on(SERVER, 100 * MSEC, 0);
        assert_null(sched->team);
        assert_int_equal(sched_team_serve(sched, TEAM, SERVER), 0);
        tally_until(sched, 130 * MSEC);
        assert_int_equal(mates[1].team->used, 30 * MSEC);
        assert_int_equal(mates[0].team->started_at, 100 * MSEC);
        assert_int_equal(sched_team_serve(sched, TEAM + 1, SERVER), -ENOENT);
}

static void a_context_of_its_own_is_billed_to_its_mate_and_counts_for_the_team(void **state)
{
        (void)state;
        on(101, 100 * MSEC, 104 * MSEC); /* the second mate's shim */
        assert_int_equal(mates[1].used, 4 * MSEC);
        assert_int_equal(mates[0].used, 0);
        assert_int_equal(mates[0].team->used, 4 * MSEC);
}

static void what_a_team_has_used_never_falls_when_mates_leave(void **state)
{
        struct turns_view view = { .now = NSEC_PER_SEC, .tenants = sched->view };

        (void)state;
        (void)sched_team_serve(sched, TEAM, SERVER);
        on(SERVER, 100 * MSEC, 130 * MSEC);
        team_part(sched, &mates[0]);
        memmove(&sched->tenants[0], &sched->tenants[1], MATES * sizeof(sched->tenants[0]));
        sched->n_tenants--;
        on(SERVER, 200 * MSEC, 210 * MSEC);
        for (size_t i = 0; i < sched->n_tenants; i++)
                sched->view[i] = (struct turns_tenant){ .id = sched->tenants[i]->id,
                                                        .team = sched->tenants[i]->team ? TEAM : 0,
                                                        .share = 100 };
        view.n_tenants = sched->n_tenants;
        teams_view(sched, &view);
        assert_int_equal(sched->teams.view.n_tenants, 2);
        assert_int_equal(sched->teams.tenants[0].used, 40 * MSEC);
        assert_int_equal(sched->teams.tenants[0].share, 200);
        assert_int_equal(sched->teams.tenants[0].n_groups, 1);
        assert_int_equal(sched->teams.tenants[1].used, 0);
}

static void a_team_that_shows_no_work_is_kicked_and_one_that_works_or_shares_is_not(void **state)
{
        (void)state;
        (void)sched_team_serve(sched, TEAM, SERVER);
        on(SERVER, 100 * MSEC, 0);
        launches(1, 180 * MSEC);
        tally_until(sched, 200 * MSEC);
        assert_null(team_kick(sched, 200 * MSEC)); /* it has just launched */
        tally_until(sched, 260 * MSEC);
        blocks[2].devices[0].n_pending = 1;
        assert_null(team_kick(sched, 260 * MSEC));
        blocks[2].devices[0].n_pending = 0;
        assert_ptr_equal(team_kick(sched, 260 * MSEC), mates[0].team);
        mates[0].team->kicked_at = 260 * MSEC;
        assert_null(team_kick(sched, 300 * MSEC));
        blocks[0].devices[0].can_watch = 0; /* whose launches are not seen is kicked, too */
        on(SERVER, 261 * MSEC, 0);          /* it was at work all the same: the next one comes later */
        assert_int_equal(mates[0].team->kick_after, 2 * KICK_FIRST);
        tally_until(sched, 400 * MSEC);
        assert_null(team_kick(sched, 400 * MSEC));
        tally_until(sched, 600 * MSEC);
        assert_ptr_equal(team_kick(sched, 600 * MSEC), mates[0].team);
        on(STRANGER, 610 * MSEC, 0);
        assert_null(team_kick(sched, 900 * MSEC));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(time_of_the_server_is_the_teams_and_nobody_elses),
                TEST(who_works_is_billed_in_equal_parts_and_the_sum_is_all_of_it),
                TEST(what_was_on_before_the_server_was_known_is_the_teams),
                TEST(a_context_of_its_own_is_billed_to_its_mate_and_counts_for_the_team),
                TEST(a_team_that_shows_no_work_is_kicked_and_one_that_works_or_shares_is_not),
                TEST(what_a_team_has_used_never_falls_when_mates_leave),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
