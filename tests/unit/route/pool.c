/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "route/pool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        SIZE = 16 << 20,
};

static struct pool *pool;
static nsec now = 1000 * NSEC_PER_SEC;

static int set_up(void **state)
{
        void *memory = aligned_alloc(64, SIZE);

        *state = memory;
        memset(memory, 0, SIZE);
        return memory && pool_init(memory, SIZE, 7, &pool) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
        free(*state);
        return 0;
}

static int add(const char *name, const char *model, enum pick_state state, uint32_t capacity)
{
        struct pool_config config = {
                .rate = 20000, .state = state, .capacity = capacity, .wake_ms = 5000, .hold = true
        };

        strcpy(config.name, name);
        if (*model) {
                strcpy(config.models[0], model);
                config.n_models = 1;
        }
        return pool_set(pool, &config, now);
}

static struct pool_request asks(const char *model)
{
        return (struct pool_request){ .tokens = 1000, .model = pool_model_hash(model, strlen(model)), .wanted = -1 };
}

static struct pick decide(const char *model)
{
        struct pool_request request = asks(model);
        struct pick verdict;

        pool_decide(pool, &request, 0, now, &verdict);
        return verdict;
}

static void a_request_goes_to_a_replica_of_its_model(void **state)
{
        int b;

        (void)state;
        (void)add("a", "x", PICK_UP, 0);
        b = add("b", "y", PICK_UP, 0);
        for (int i = 0; i < 10; i++)
                assert_int_equal(decide("y").replica, b);
        assert_int_equal(decide("z").action, PICK_REFUSE);
        assert_false(pool_serves(pool, pool_model_hash("z", 1)));
}

static void all_places_are_looked_at_also_when_the_first_are_free_again(void **state)
{
        struct pool_request request = asks("last");
        struct pool_config config;
        char name[] = "r00";
        int last = -1;

        (void)state;
        for (int i = 0; i < POOL_REPLICAS; i++) {
                name[1] = (char)('0' + i / 10);
                name[2] = (char)('0' + i % 10);
                last = add(name, i == POOL_REPLICAS - 1 ? "last" : "x", PICK_UP, 0);
        }
        for (int i = 0; i < POOL_REPLICAS - 1; i++)
                pool_remove(pool, i);
        assert_true(pool_serves(pool, request.model));
        assert_true(pool_has_other(pool, &request, now));
        assert_int_equal(decide("last").replica, last);
        memset(&config, 0, sizeof(config));
        assert_true(pool_reach(pool, last, &config));
        assert_string_equal(config.name, "r63");
        assert_int_equal(config.n_models, 0);
        assert_true(pool_read(pool, last, &config));
        assert_string_equal(config.models[0], "last");
        assert_false(pool_reach(pool, 0, &config));
}

static void a_capacity_is_exact(void **state)
{
        int a = add("a", "", PICK_UP, 2);

        (void)state;
        assert_true(pool_reserve(pool, 0, a, false, now));
        assert_true(pool_reserve(pool, 1, a, false, now));
        assert_false(pool_reserve(pool, 2, a, false, now));
        assert_int_equal(pool_load(pool, a, POOL_INFLIGHT), 2);
        assert_int_equal(decide("m").action, PICK_HOLD);
        pool_count(pool, 0, a, POOL_INFLIGHT, -1);
        assert_int_equal(decide("m").action, PICK_SEND);
}

static void what_a_dead_worker_had_in_flight_is_taken_back_and_nothing_else(void **state)
{
        int a = add("a", "", PICK_UP, 0);

        (void)state;
        pool_count(pool, 3, a, POOL_INFLIGHT, 5);
        pool_count(pool, 4, a, POOL_INFLIGHT, 2);
        pool_count(pool, 3, POOL_ALL, POOL_HELD, 9);
        pool_count(pool, 3, a, POOL_WANTED_WORK, 900);
        (void)allowance_enter(&pool->keys[8], &pool->key_rows[3][8], 5, now);
        (void)allowance_enter(&pool->keys[8], &pool->key_rows[4][8], 5, now);
        pool_worker_new(pool, 3, 42);
        assert_int_equal(pool->keys[8].at_once, 1);
        assert_int_equal(pool_load(pool, a, POOL_INFLIGHT), 2);
        assert_int_equal(pool_load(pool, a, POOL_WANTED_WORK), 0);
        assert_int_equal(pool_load(pool, POOL_ALL, POOL_HELD), 0);
}

static void what_a_dead_worker_had_is_taken_back_once_and_not_from_who_came_after_it(void **state)
{
        int a = add("a", "", PICK_UP, 0);

        (void)state;
        pool_worker_new(pool, 3, 41);
        pool_count(pool, 3, a, POOL_INFLIGHT, 5);
        (void)allowance_enter(&pool->keys[8], &pool->key_rows[3][8], 5, now);
        assert_true(pool_worker_ended(pool, 3, 41));
        assert_int_equal(pool_load(pool, a, POOL_INFLIGHT), 0);
        assert_int_equal(pool->keys[8].at_once, 0);
        pool_worker_new(pool, 3, 42);
        pool_count(pool, 3, a, POOL_INFLIGHT, 2);
        assert_false(pool_worker_ended(pool, 3, 41)); /* told again, late */
        assert_int_equal(pool_load(pool, a, POOL_INFLIGHT), 2);
}

static void a_replica_that_refuses_is_out_until_one_try_succeeds(void **state)
{
        int a = add("a", "", PICK_UP, 0);

        (void)state;
        assert_true(pool_answered(pool, a, ANSWER_REFUSED, now));
        assert_false(pool_answered(pool, a, ANSWER_REFUSED, now)); /* known */
        assert_true(pool_is_out(pool, a));
        assert_int_equal(decide("m").action, PICK_REFUSE);
        now += 6 * NSEC_PER_SEC;
        assert_int_equal(decide("m").action, PICK_SEND);
        assert_true(pool_reserve(pool, 0, a, false, now)); /* the one that tries ... */
        assert_int_equal(decide("m").action, PICK_REFUSE);
        assert_false(pool_reserve(pool, 1, a, false, now));
        assert_false(pool_answered(pool, a, ANSWER_GOOD, now));
        assert_int_equal(decide("m").action, PICK_SEND);
}

static void failures_count_only_in_a_row(void **state)
{
        int a = add("a", "", PICK_UP, 0);

        (void)state;
        for (int i = 0; i < 10; i++) {
                assert_false(pool_answered(pool, a, ANSWER_ERROR, now));
                assert_false(pool_answered(pool, a, ANSWER_ERROR, now));
                assert_false(pool_answered(pool, a, ANSWER_GOOD, now));
        }
        assert_false(pool_answered(pool, a, ANSWER_ERROR, now));
        assert_false(pool_answered(pool, a, ANSWER_ERROR, now));
        assert_true(pool_answered(pool, a, ANSWER_ERROR, now));
}

static int n_retries(void)
{
        int n = 0;

        while (pool_may_retry(pool, now))
                n++;
        return n;
}

static void retries_are_a_part_of_the_requests_and_some_each_second(void **state)
{
        (void)state;
        assert_int_equal(n_retries(), 10);
        assert_int_equal(n_retries(), 0);
        for (int i = 0; i < 1000; i++)
                pool_earn(pool, now);
        assert_int_equal(n_retries(), 100);
        now += NSEC_PER_SEC / 2;
        assert_int_equal(n_retries(), 5);
        now += 3600 * NSEC_PER_SEC; /* nothing is saved up for hours */
        assert_int_equal(n_retries(), 10);
        pool->settings.retry_permille = 0;
        now += NSEC_PER_SEC;
        pool_earn(pool, now);
        assert_int_equal(n_retries(), 0);
}

static void all_that_a_replica_had_in_hand_may_go_elsewhere_once(void **state)
{
        int a = add("a", "", PICK_UP, 0);

        (void)state;
        pool_count(pool, 0, a, POOL_UNANSWERED, 300);
        (void)n_retries();
        assert_true(pool_answered(pool, a, ANSWER_REFUSED, now));
        assert_int_equal(n_retries(), 300);
        assert_false(pool_answered(pool, a, ANSWER_REFUSED, now));
        assert_int_equal(n_retries(), 0);
        (void)add("a", "", PICK_UP, 0);
        (void)add("a", "", PICK_DOWN, 0); /* told by the agent */
        assert_int_equal(n_retries(), 300);
}

static void errors_of_one_that_is_put_out_for_them_are_paid_by_it(void **state)
{
        int a = add("a", "", PICK_UP, 0);

        (void)state;
        pool_count(pool, 0, a, POOL_UNANSWERED, 30);
        (void)n_retries();
        assert_false(pool_answered(pool, a, ANSWER_ERROR, now));
        assert_false(pool_answered(pool, a, ANSWER_ERROR, now));
        assert_int_equal(n_retries(), 0);
        assert_true(pool_answered(pool, a, ANSWER_ERROR, now));
        assert_int_equal(n_retries(), 30);
        assert_false(pool_answered(pool, a, ANSWER_ERROR, now));
        assert_int_equal(n_retries(), 0);
}

static void who_was_let_back_is_out_again_at_its_next_failure(void **state)
{
        int a = add("a", "", PICK_UP, 0);

        (void)state;
        for (int i = 0; i < 3; i++)
                (void)pool_answered(pool, a, ANSWER_ERROR, now);
        assert_int_equal(pool_state(pool, a, now), PICK_DOWN);
        assert_false(pool_is_out(pool, a)); /* it answers: what it has in hand stays */
        (void)add("a", "", PICK_UP, 7);     /* a new figure lets nobody back */
        assert_int_equal(pool_state(pool, a, now), PICK_DOWN);
        pool_told(pool, a, PICK_UP);
        assert_int_equal(pool_state(pool, a, now), PICK_UP);
        assert_true(pool_answered(pool, a, ANSWER_ERROR, now));
}

static void a_busy_one_gets_no_more_than_it_has_for_a_while(void **state)
{
        int a = add("a", "", PICK_UP, 0);

        (void)state;
        for (int i = 0; i < 3; i++)
                assert_true(pool_reserve(pool, 0, a, false, now));
        pool_busy(pool, a, NSEC_PER_SEC, now); /* it took two, and not the third */
        assert_int_equal(decide("m").action, PICK_HOLD);
        pool_count(pool, 0, a, POOL_INFLIGHT, -1);
        assert_int_equal(decide("m").action, PICK_HOLD);
        assert_false(pool_reserve(pool, 0, a, false, now));
        pool_count(pool, 0, a, POOL_INFLIGHT, -1);
        assert_int_equal(decide("m").action, PICK_SEND);
        pool_count(pool, 0, a, POOL_INFLIGHT, -1);
        pool_busy(pool, a, NSEC_PER_SEC, now); /* it took none */
        assert_int_equal(decide("m").action, PICK_HOLD);
        now += NSEC_PER_SEC;
        assert_int_equal(decide("m").action, PICK_SEND);
        assert_int_equal(pool->replicas[a].failures, 0);
}

static void what_is_cached_is_found_until_it_is_forgotten(void **state)
{
        int a = add("a", "", PICK_UP, 0);
        uint64_t chain[20];
        struct pool_request request = asks("m");
        struct pick verdict;

        (void)state;
        (void)add("b", "", PICK_UP, 0);
        for (size_t i = 0; i < ARRAY_SIZE(chain); i++)
                chain[i] = (i + 1) * 0x9e3779b97f4a7c15u;
        request.chain = chain;
        request.n_blocks = ARRAY_SIZE(chain);
        request.tokens = 4000;
        index_put(pool->index, (unsigned int)a, chain, ARRAY_SIZE(chain));
        pool_decide(pool, &request, 0, now, &verdict);
        assert_int_equal(verdict.replica, a);
        assert_int_equal(verdict.matched, (8 * 256 + 12 * 1024) / 4);
        pool_forget(pool, a, now);
        pool_decide(pool, &request, 0, now, &verdict);
        assert_int_equal(verdict.matched, 0);
        for (int i = 0; i < 1000; i++)
                pool_tick(pool);
        pool_decide(pool, &request, 0, now, &verdict);
        assert_int_equal(verdict.matched, 0);
        assert_int_equal(index_count(pool->index, (unsigned int)a), 0);
}

static void a_place_is_given_again_when_nothing_is_left_there(void **state)
{
        char name[8];
        int a = add("a", "", PICK_UP, 0);

        (void)state;
        for (int i = 1; i < POOL_REPLICAS; i++) {
                (void)snprintf(name, sizeof(name), "r%d", i);
                assert_true(add(name, "", PICK_UP, 0) >= 0);
        }
        assert_int_equal(add("one-more", "", PICK_UP, 0), -ENOSPC);
        pool_count(pool, 0, a, POOL_INFLIGHT, 1);
        pool_remove(pool, a);
        assert_int_equal(pool_find(pool, "a"), -1);
        for (int i = 0; i < 1000; i++)
                pool_tick(pool);
        assert_int_equal(add("one-more", "", PICK_UP, 0), -ENOSPC);
        pool_count(pool, 0, a, POOL_INFLIGHT, -1);
        assert_int_equal(add("one-more", "", PICK_UP, 0), a);
}

static void a_sleeper_is_woken_unless_it_is_not_to_be(void **state)
{
        struct pool_config config = { .name = "a", .state = PICK_ASLEEP, .wake_ms = 100, .hold = true };

        (void)state;
        (void)pool_set(pool, &config, now);
        assert_int_equal(decide("m").action, PICK_WAKE);
        config.hold = false;
        (void)pool_set(pool, &config, now);
        assert_int_equal(decide("m").action, PICK_REFUSE);
}

static void what_sleeps_or_goes_after_it_was_chosen_gets_nothing(void **state)
{
        static const enum pick_state AWAY[] = { PICK_ASLEEP, PICK_DOWN, PICK_DRAINING };
        int a = add("a", "m", PICK_UP, 0);

        (void)state;
        for (size_t i = 0; i < sizeof(AWAY) / sizeof(AWAY[0]); i++) {
                assert_int_equal(decide("m").action, PICK_SEND);
                (void)add("a", "m", AWAY[i], 0);
                assert_false(pool_reserve(pool, 0, a, false, now));
                assert_false(pool_reserve(pool, 0, a, true, now)); /* a retry neither */
                assert_int_equal(pool_load(pool, a, POOL_INFLIGHT), 0);
                (void)add("a", "m", PICK_UP, 0);
        }
        pool_remove(pool, a);
        assert_false(pool_reserve(pool, 0, a, false, now));
}

static void hear_inflight(int replica, uint64_t inflight, nsec until)
{
        struct heard sum = { 0 };

        sum.value[HEARD_INFLIGHT] = inflight;
        pool_hear(pool, replica, &sum, until);
}

static void what_others_have_there_counts_until_it_is_old(void **state)
{
        int a = add("a", "m", PICK_UP, 4);
        int b = add("b", "m", PICK_UP, 4);

        (void)state;
        hear_inflight(a, 3, now + NSEC_PER_SEC);
        assert_int_equal(decide("m").replica, b); /* equal, but for what others have at a */
        assert_true(pool_reserve(pool, 0, a, false, now));
        assert_false(pool_reserve(pool, 0, a, false, now));
        assert_true(pool_reserve(pool, 0, a, false, now + NSEC_PER_SEC));
        assert_int_equal(pool_elsewhere(pool, a, HEARD_INFLIGHT, now), 3);
        assert_int_equal(pool_elsewhere(pool, a, HEARD_INFLIGHT, now + NSEC_PER_SEC), 0);
        assert_int_equal(pool_load(pool, a, POOL_INFLIGHT), 2);
}

static void what_is_said_is_what_is_here(void **state)
{
        int a = add("a", "m", PICK_UP, 0);
        struct rate_ticket ticket;
        struct heard said;

        (void)state;
        hear_inflight(a, 3, now + NSEC_PER_SEC);
        pool_count(pool, 0, a, POOL_INFLIGHT, 2);
        pool_count(pool, 0, a, POOL_PREFILL, 700);
        rate_send(&pool->replicas[a].rate, 5000, now, &ticket);
        pool_say(pool, a, now, &said);
        assert_int_equal(said.value[HEARD_INFLIGHT], 2);
        assert_int_equal(said.value[HEARD_PREFILL], 700);
        assert_int_equal(said.value[HEARD_BACKLOG], 5000);
}

static void who_another_router_put_out_is_out_until_it_answers_here(void **state)
{
        int a = add("a", "m", PICK_UP, 0);
        uint64_t serial = pool->serial;

        (void)state;
        pool_hear_trip(pool, a, now);
        assert_int_equal(pool_state(pool, a, now), PICK_DOWN);
        assert_false(pool_is_out(pool, a)); /* what it has in hand stays */
        assert_int_equal(pool->replicas[a].trips, 0);
        assert_int_not_equal(pool->serial, serial); /* the agent is told */
        (void)pool_answered(pool, a, ANSWER_GOOD, now);
        assert_int_equal(pool_state(pool, a, now), PICK_UP);
        (void)pool_answered(pool, a, ANSWER_REFUSED, now);
        assert_int_equal(pool->replicas[a].trips, 1);
        assert_false(pool->replicas[a].is_hearsay);
}

static void what_came_since_the_engine_was_asked_counts_in_its_kv_cache(void **state)
{
        struct pool_config a = { .name = "a", .kv_permille = 800 }, b = { .name = "b", .kv_permille = 800 };

        (void)state;
        pool_count(pool, 1, 0, POOL_CONTEXT, 40000);
        pool_count(pool, 1, 1, POOL_CONTEXT, 40000);
        pool->replicas[pool_set(pool, &a, now)].rate.gap = NSEC_PER_SEC;
        pool->replicas[pool_set(pool, &b, now)].rate.gap = NSEC_PER_SEC;
        assert_int_equal(decide("m").replica, 1); /* equal: by the random number */
        pool_count(pool, 1, 1, POOL_CONTEXT, 10000);
        assert_int_equal(decide("m").replica, 0);
}

static void too_little_memory_is_refused(void **state)
{
        struct pool *none = NULL;

        (void)state;
        assert_int_equal(pool_init(pool, 4096, 1, &none), -ENOSPC);
        assert_null(none);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(a_request_goes_to_a_replica_of_its_model),
                TEST(all_places_are_looked_at_also_when_the_first_are_free_again),
                TEST(a_capacity_is_exact),
                TEST(what_sleeps_or_goes_after_it_was_chosen_gets_nothing),
                TEST(what_a_dead_worker_had_in_flight_is_taken_back_and_nothing_else),
                TEST(what_a_dead_worker_had_is_taken_back_once_and_not_from_who_came_after_it),
                TEST(a_replica_that_refuses_is_out_until_one_try_succeeds),
                TEST(failures_count_only_in_a_row),
                TEST(retries_are_a_part_of_the_requests_and_some_each_second),
                TEST(all_that_a_replica_had_in_hand_may_go_elsewhere_once),
                TEST(errors_of_one_that_is_put_out_for_them_are_paid_by_it),
                TEST(who_was_let_back_is_out_again_at_its_next_failure),
                TEST(a_busy_one_gets_no_more_than_it_has_for_a_while),
                TEST(what_is_cached_is_found_until_it_is_forgotten),
                TEST(a_place_is_given_again_when_nothing_is_left_there),
                TEST(a_sleeper_is_woken_unless_it_is_not_to_be),
                TEST(what_others_have_there_counts_until_it_is_old),
                TEST(what_is_said_is_what_is_here),
                TEST(who_another_router_put_out_is_out_until_it_answers_here),
                TEST(what_came_since_the_engine_was_asked_counts_in_its_kv_cache),
                TEST(too_little_memory_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
