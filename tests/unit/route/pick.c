/* SPDX-License-Identifier: Apache-2.0 */
#include "route/pick.h"

#include "unit.h"

#include <string.h>

static struct pick ask(const char *policy, struct pick_replica *rows, size_t n, uint32_t prompt)
{
        struct pick_view view = {
                .replicas = rows, .n_replicas = n, .tuning = &PICK_TUNING_DEFAULT, .random = 12345, .prompt = prompt
        };
        struct pick verdict = { 0 };

        assert_non_null(pick_policy_find(policy));
        pick_decide(pick_policy_find(policy), &view, &verdict);
        return verdict;
}

static struct pick_replica up(double rate, uint32_t matched, double backlog, uint32_t inflight)
{
        return (struct pick_replica){ .rate = rate, .matched = matched, .backlog = backlog, .inflight = inflight };
}

static void every_policy_refuses_when_none_is_up(void **state)
{
        struct pick_replica rows[] = { { .state = PICK_DOWN, .rate = 1 }, { .state = PICK_DRAINING, .rate = 1 } };

        (void)state;
        for (const struct pick_policy *p = PICK_POLICIES; p->name; p++) {
                assert_int_equal(ask(p->name, rows, 2, 100).action, PICK_REFUSE);
                assert_int_equal(ask(p->name, NULL, 0, 100).action, PICK_REFUSE);
        }
}

static void every_policy_sends_only_where_it_may(void **state)
{
        (void)state;
        for (const struct pick_policy *p = PICK_POLICIES; p->name; p++) {
                struct pick_replica rows[] = {
                        { .rate = 9, .matched = 99, .state = PICK_DOWN },
                        { .rate = 9, .matched = 99, .state = PICK_DRAINING },
                        { .rate = 9, .matched = 99, .tried = 1 },
                        { .rate = 9, .matched = 99, .kv_total = 50 },
                        { .rate = 1, .inflight = 7 },
                        { .rate = 9, .matched = 99, .state = PICK_ASLEEP, .wake = 1e9 },
                };
                struct pick verdict = ask(p->name, rows, 6, 100);

                assert_int_equal(verdict.action, PICK_SEND);
                assert_int_equal(verdict.replica, 4);
        }
}

static void every_policy_holds_when_all_are_at_capacity(void **state)
{
        (void)state;
        for (const struct pick_policy *p = PICK_POLICIES; p->name; p++) {
                struct pick_replica rows[] = { { .rate = 1, .inflight = 4, .capacity = 4 },
                                               { .rate = 1, .inflight = 5, .capacity = 4 } };

                assert_int_equal(ask(p->name, rows, 2, 100).action, PICK_HOLD);
        }
}

static void every_policy_wakes_the_only_one(void **state)
{
        (void)state;
        for (const struct pick_policy *p = PICK_POLICIES; p->name; p++) {
                struct pick_replica rows[] = { { .state = PICK_DOWN }, { .state = PICK_ASLEEP, .rate = 5, .wake = 3 } };
                struct pick verdict = ask(p->name, rows, 2, 100);

                assert_int_equal(verdict.action, PICK_WAKE);
                assert_int_equal(verdict.replica, 1);
                assert_int_equal(verdict.reason, PICK_BECAUSE_ASLEEP);
        }
}

static void a_replica_that_failed_is_asked_again_only_if_none_is_left(void **state)
{
        struct pick_replica rows[] = { up(1000, 0, 0, 0), up(1000, 0, 0, 0) };

        (void)state;
        rows[0].tried = 1;
        assert_int_equal(ask("cost", rows, 2, 100).replica, 1);
        rows[1].state = PICK_DOWN;
        assert_int_equal(ask("cost", rows, 2, 100).replica, 0);
        rows[0].capacity = rows[0].inflight = 1;
        assert_int_equal(ask("cost", rows, 2, 100).action, PICK_HOLD);
}

static void cost_prefers_the_cache_when_all_else_is_equal(void **state)
{
        struct pick_replica rows[] = { up(10000, 0, 0, 3), up(10000, 4000, 0, 3), up(10000, 2000, 0, 3) };
        struct pick verdict = ask("cost", rows, 3, 5000);

        (void)state;
        assert_int_equal(verdict.replica, 1);
        assert_int_equal(verdict.reason, PICK_BECAUSE_CACHE);
        assert_int_equal(verdict.matched, 4000);
}

static void cost_leaves_the_cache_when_the_wait_is_longer_than_the_prefill(void **state)
{
        struct pick_replica rows[] = { up(10000, 4000, 50000, 3), up(10000, 0, 0, 3) };
        struct pick verdict = ask("cost", rows, 2, 5000);

        (void)state;
        assert_int_equal(verdict.replica, 1);
        assert_int_equal(verdict.reason, PICK_BECAUSE_LOAD);
}

static void cost_knows_how_fast_a_replica_is(void **state)
{
        struct pick_replica rows[] = { up(5000, 0, 0, 0), up(20000, 0, 0, 0), up(10000, 0, 0, 0) };

        (void)state;
        assert_int_equal(ask("cost", rows, 3, 5000).replica, 1);
        assert_int_equal(ask("cost", rows, 3, 5000).reason, PICK_BECAUSE_RATE);
        rows[1].backlog = 100000;
        assert_int_equal(ask("cost", rows, 3, 5000).replica, 2);
}

static void cost_repeats_prefill_less_the_more_it_delays(void **state)
{
        /* The holder is busy; elsewhere the prefix would have to be computed again. */
        struct pick_replica rows[] = { up(10000, 6000, 6000, 4), up(10000, 0, 0, 0) };

        (void)state;
        assert_int_equal(ask("cost", rows, 2, 6500).replica, 1);
        rows[0].inflight = rows[1].inflight = 40;
        assert_int_equal(ask("cost", rows, 2, 6500).replica, 0);
}

static void cost_sends_what_nobody_has_where_the_queue_is_shortest(void **state)
{
        struct pick_replica rows[] = { up(10000, 0, 5000, 10), up(10000, 0, 0, 20) };

        (void)state;
        assert_int_equal(ask("cost", rows, 2, 5000).replica, 1);
        rows[1].inflight = 60; /* but not at any price */
        assert_int_equal(ask("cost", rows, 2, 5000).replica, 0);
}

/* A replica of its own is worth some prefill; the ninth in company is no better off than the fortieth. */
static void cost_prefers_not_to_share_an_engine(void **state)
{
        struct pick_replica rows[] = { up(20000, 1000, 0, 8), up(20000, 0, 0, 0) };
        struct pick_replica many[] = { up(20000, 2000, 0, 40), up(20000, 0, 0, 10) };
        struct pick_replica slow[] = { up(5000, 0, 0, 0), up(20000, 0, 0, 1) };

        (void)state;
        assert_int_equal(ask("cost", rows, 2, 1100).replica, 1);
        rows[0].matched = 0;
        rows[0].inflight = 1;
        assert_int_equal(ask("cost", rows, 2, 100).replica, 1);
        assert_int_equal(ask("cost", many, 2, 2100).replica, 0);
        assert_int_equal(ask("cost", slow, 2, 2000).replica, 1); /* but not four times as long */
}

static void cost_leaves_a_replica_whose_answer_is_late(void **state)
{
        struct pick_replica rows[] = { up(10000, 4000, 0, 3), up(10000, 0, 0, 3) };

        (void)state;
        assert_int_equal(ask("cost", rows, 2, 5000).replica, 0);
        rows[0].overdue = 1;
        assert_int_equal(ask("cost", rows, 2, 5000).replica, 1);
}

static void cost_believes_no_progress_that_nobody_has_seen(void **state)
{
        struct pick_replica rows[] = { up(10000, 4000, 0, 3), up(10000, 0, 0, 3) };

        (void)state;
        rows[0].prefill = 40000; /* unanswered, though by its rate it would be done */
        assert_int_equal(ask("cost", rows, 2, 5000).replica, 1);
}

static void cost_leaves_an_engine_that_has_no_room(void **state)
{
        struct pick_replica rows[] = { up(10000, 0, 0, 3), up(10000, 0, 0, 4) };

        (void)state;
        rows[0].slot = rows[1].slot = 0.5;
        assert_int_equal(ask("cost", rows, 2, 1000).replica, 0);
        rows[0].queued = 4;
        assert_int_equal(ask("cost", rows, 2, 1000).replica, 1);
        rows[0].queued = 0;
        rows[0].kv_permille = 950;
        rows[1].kv_permille = 700;
        assert_int_equal(ask("cost", rows, 2, 1000).replica, 1);
}

/* What happened at a replica whose KV cache was full, while others had a quarter free: each that came saved 50 ms of
 * prefill by one cached block, and waited for seconds. */
static void cost_goes_past_a_cached_block_where_prompts_wait_for_room(void **state)
{
        struct pick_replica rows[] = { up(10000, 512, 0, 60), up(10000, 0, 0, 52) };

        (void)state;
        rows[0].slot = rows[1].slot = 0.27;
        rows[0].held = rows[1].held = 55000;
        rows[0].kv_permille = 900;
        rows[1].kv_permille = 750;
        assert_int_equal(ask("cost", rows, 2, 1000).replica, 0);
        rows[0].kv_permille = 1000;
        rows[0].prefill = 1300;
        assert_int_equal(ask("cost", rows, 2, 1000).replica, 1);
        rows[1].kv_permille = 1000; /* there they would wait as well */
        rows[1].prefill = 1300;
        assert_int_equal(ask("cost", rows, 2, 1000).replica, 0);
}

static void the_kv_cache_in_use_follows_what_is_in_flight(void **state)
{
        (void)state;
        assert_int_equal(pick_kv_now(800, 50000, 50000), 800);
        assert_int_equal(pick_kv_now(800, 60000, 50000), 960);
        assert_int_equal(pick_kv_now(800, 25000, 50000), 400);
        assert_int_equal(pick_kv_now(800, UINT32_MAX, 1), 1000);
        assert_int_equal(pick_kv_now(800, 50000, 0), 800); /* others fill it: nothing is known of them */
}

static void cost_waits_for_a_place_where_the_prefix_is(void **state)
{
        struct pick_replica rows[] = { up(10000, 6000, 0, 8), up(10000, 0, 0, 7) };

        (void)state;
        rows[0].capacity = rows[1].capacity = 8;
        rows[0].slot = 0.2;
        assert_int_equal(ask("cost", rows, 2, 6500).action, PICK_HOLD);
        assert_int_equal(ask("cost", rows, 2, 6500).replica, 0);
        assert_int_equal(ask("cost", rows, 2, 6500).reason, PICK_BECAUSE_FULL);
        rows[0].slot = 30;
        assert_int_equal(ask("cost", rows, 2, 6500).action, PICK_SEND);
        assert_int_equal(ask("cost", rows, 2, 6500).replica, 1);
}

static void cost_wakes_a_sleeper_only_when_that_is_sooner(void **state)
{
        struct pick_replica rows[] = { up(10000, 0, 20000, 2), up(10000, 0, 0, 0) };

        (void)state;
        rows[1].state = PICK_ASLEEP;
        rows[1].wake = 7.5;
        assert_int_equal(ask("cost", rows, 2, 1000).action, PICK_SEND);
        rows[0].backlog = 200000;
        assert_int_equal(ask("cost", rows, 2, 1000).action, PICK_WAKE);
        assert_int_equal(ask("cost", rows, 2, 1000).replica, 1);
}

static void equals_share_the_requests(void **state)
{
        struct pick_replica rows[5];
        unsigned int n[5] = { 0 };
        uint64_t random = 1;

        (void)state;
        for (size_t i = 0; i < 5; i++)
                rows[i] = up(10000, 0, 0, 0);
        for (int i = 0; i < 5000; i++) {
                struct pick_view view = { .replicas = rows,
                                          .n_replicas = 5,
                                          .tuning = &PICK_TUNING_DEFAULT,
                                          .random = random = random * 6364136223846793005u + 1442695040888963407u,
                                          .prompt = 500 };
                struct pick verdict;

                pick_decide(pick_policy_find("cost"), &view, &verdict);
                n[verdict.replica]++;
        }
        for (size_t i = 0; i < 5; i++)
                assert_in_range(n[i], 850, 1150);
}

static void an_unknown_rate_is_no_division_by_zero(void **state)
{
        struct pick_replica rows[] = { up(0, 0, 0, 0), up(-1, 0, 5, 0) };
        struct pick verdict = ask("cost", rows, 2, 5000);

        (void)state;
        assert_int_equal(verdict.action, PICK_SEND);
        assert_true(verdict.prefill > 0 && verdict.prefill < 1e9);
}

static void round_robin_takes_turns(void **state)
{
        struct pick_replica rows[] = { up(1, 0, 0, 0), up(1, 0, 0, 0), up(1, 0, 0, 0) };

        (void)state;
        for (uint64_t turn = 0; turn < 9; turn++) {
                struct pick_view view = {
                        .replicas = rows, .n_replicas = 3, .tuning = &PICK_TUNING_DEFAULT, .turn = turn, .prompt = 10
                };
                struct pick verdict;

                pick_decide(pick_policy_find("round-robin"), &view, &verdict);
                assert_int_equal(verdict.replica, turn % 3);
        }
}

static void prefix_hash_is_faithful_until_overloaded(void **state)
{
        struct pick_replica rows[] = { up(1, 0, 0, 2), up(1, 0, 0, 2), up(1, 0, 0, 2), up(1, 0, 0, 2) };
        uint32_t home = ask("prefix-hash", rows, 4, 10).replica;

        (void)state;
        assert_int_equal(ask("prefix-hash", rows, 4, 99).replica, home);
        rows[home].inflight = 9;
        assert_int_not_equal(ask("prefix-hash", rows, 4, 10).replica, home);
}

static void work_grows_with_the_context(void **state)
{
        (void)state;
        assert_true(pick_work(0, 1000, 0) == 1000);
        assert_true(pick_work(10, 5, 0) == 0);
        assert_true(pick_work(0, 1000, 32768) < pick_work(30000, 31000, 32768));
        assert_true(pick_work(0, 500, 32768) + pick_work(500, 1000, 32768) - pick_work(0, 1000, 32768) < 1e-6);
}

static void names_are_found(void **state)
{
        (void)state;
        assert_string_equal(PICK_POLICIES[0].name, "cost");
        assert_null(pick_policy_find("best"));
        for (int r = PICK_BECAUSE_ONLY; r <= PICK_BECAUSE_NONE; r++)
                assert_non_null(pick_reason_name((enum pick_reason)r));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_policy_refuses_when_none_is_up),
                cmocka_unit_test(every_policy_sends_only_where_it_may),
                cmocka_unit_test(every_policy_holds_when_all_are_at_capacity),
                cmocka_unit_test(every_policy_wakes_the_only_one),
                cmocka_unit_test(a_replica_that_failed_is_asked_again_only_if_none_is_left),
                cmocka_unit_test(cost_prefers_the_cache_when_all_else_is_equal),
                cmocka_unit_test(cost_leaves_the_cache_when_the_wait_is_longer_than_the_prefill),
                cmocka_unit_test(cost_knows_how_fast_a_replica_is),
                cmocka_unit_test(cost_repeats_prefill_less_the_more_it_delays),
                cmocka_unit_test(cost_sends_what_nobody_has_where_the_queue_is_shortest),
                cmocka_unit_test(cost_prefers_not_to_share_an_engine),
                cmocka_unit_test(cost_leaves_a_replica_whose_answer_is_late),
                cmocka_unit_test(cost_believes_no_progress_that_nobody_has_seen),
                cmocka_unit_test(cost_leaves_an_engine_that_has_no_room),
                cmocka_unit_test(cost_goes_past_a_cached_block_where_prompts_wait_for_room),
                cmocka_unit_test(the_kv_cache_in_use_follows_what_is_in_flight),
                cmocka_unit_test(cost_waits_for_a_place_where_the_prefix_is),
                cmocka_unit_test(cost_wakes_a_sleeper_only_when_that_is_sooner),
                cmocka_unit_test(equals_share_the_requests),
                cmocka_unit_test(an_unknown_rate_is_no_division_by_zero),
                cmocka_unit_test(round_robin_takes_turns),
                cmocka_unit_test(prefix_hash_is_faithful_until_overloaded),
                cmocka_unit_test(work_grows_with_the_context),
                cmocka_unit_test(names_are_found),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
