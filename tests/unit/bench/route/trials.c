/* SPDX-License-Identifier: Apache-2.0 */
/* The loads that the policy is judged on are what their rows say, and so is what happens to the replicas. */
#include "simulator/trials.h"

#include "base/cleanup.h"

#include "unit.h"

#include <string.h>

static void a_mix_is_a_function_of_its_seed(void **state)
{
        (void)state;
        for (const struct trial *t = TRIALS; t->name; t++) {
                _cleanup_(load_done) struct load a = { 0 }, b = { 0 }, c = { 0 };

                assert_int_equal(trial_load(t, 5, &a), 0);
                assert_int_equal(trial_load(t, 5, &b), 0);
                assert_int_equal(trial_load(t, 6, &c), 0);
                assert_true(a.n_requests > 1000);
                assert_int_equal(a.n_requests, b.n_requests);
                assert_memory_equal(a.requests, b.requests, a.n_requests * sizeof(*a.requests));
                assert_memory_equal(a.keys, b.keys, a.n_keys * sizeof(*a.keys));
                assert_int_not_equal(a.requests[0].at, c.requests[0].at);
        }
}

static void requests_are_in_the_order_of_time_and_have_their_keys(void **state)
{
        (void)state;
        for (const struct trial *t = TRIALS; t->name; t++) {
                _cleanup_(load_done) struct load load = { 0 };

                assert_int_equal(trial_load(t, 1, &load), 0);
                for (size_t i = 0; i < load.n_requests; i++) {
                        const struct load_request *r = &load.requests[i];

                        assert_true(i == 0 || load.requests[i - 1].at <= r->at);
                        assert_true(r->input > 0 && r->output > 0);
                        assert_true(r->keys + r->input / LOAD_BLOCK <= load.n_keys);
                }
        }
}

/* How many blocks two requests have in common at their beginning. */
static uint32_t n_common(const struct load *load, size_t a, size_t b)
{
        const struct load_request *x = &load->requests[a], *y = &load->requests[b];
        uint32_t n = 0;

        while (n < x->input / LOAD_BLOCK && n < y->input / LOAD_BLOCK &&
               load->keys[x->keys + n] == load->keys[y->keys + n])
                n++;
        return n;
}

static void a_turn_begins_with_the_turn_before_it(void **state)
{
        static const struct load_mix one = { .seconds = 500,
                                             .qps = 0.001,
                                             .turns = { 4, 4 },
                                             .pause = 1,
                                             .own = { 2048, 2048 },
                                             .more = { 700, 700 },
                                             .answer = { 10, 10 } };
        _cleanup_(load_done) struct load load = { 0 };

        (void)state;
        for (uint64_t seed = 1; load.n_requests != 4; seed++) { /* one session */
                load_done(&load);
                assert_int_equal(mix_make(&one, seed, &load), 0);
        }
        assert_int_equal(n_common(&load, 0, 1), 4);
        assert_int_equal(n_common(&load, 2, 3), load.requests[2].input / LOAD_BLOCK);
        assert_int_equal(load.requests[3].input, 2048 + 3 * 710);
}

static void tenants_share_their_beginning_and_nothing_else(void **state)
{
        static const struct load_mix alike = { .seconds = 100,
                                               .qps = 5,
                                               .tenants = 1,
                                               .common = { 1024, 1024 },
                                               .own = { 2048, 2048 } },
                                     apart = { .seconds = 100, .qps = 5, .own = { 2048, 2048 } };
        _cleanup_(load_done) struct load shared = { 0 }, unshared = { 0 };

        (void)state;
        assert_int_equal(mix_make(&alike, 1, &shared), 0);
        assert_int_equal(mix_make(&apart, 1, &unshared), 0);
        assert_int_equal(n_common(&shared, 0, 1), 2);
        assert_int_equal(n_common(&unshared, 0, 1), 0);
}

static void bursts_have_the_rate_that_they_say(void **state)
{
        static const struct load_mix mix = {
                .seconds = 2000, .qps = 2, .shape = MIX_BURSTS, .peak = 5, .period = 10, .part = 0.2, .own = { 10, 10 }
        };
        _cleanup_(load_done) struct load load = { 0 };
        size_t n_in = 0;

        (void)state;
        assert_int_equal(mix_make(&mix, 1, &load), 0);
        for (size_t i = 0; i < load.n_requests; i++)
                n_in += load.requests[i].at % (10 * NSEC_PER_SEC) < 2 * NSEC_PER_SEC;
        assert_in_range(n_in, 3800, 4200);                   /* 400 s of 10 a second */
        assert_in_range(load.n_requests - n_in, 3000, 3400); /* 1,600 s of 2 */
}

static struct sim_result run(const struct load *load, const struct sim_change *changes, size_t n_changes)
{
        struct sim_setup setup = { .load = load,
                                   .policy = pick_policy_find("round-robin"),
                                   .tuning = PICK_TUNING_DEFAULT,
                                   .n_replicas = 2,
                                   .speed = { 1, 1 },
                                   .blocks = 400,
                                   .changes = changes,
                                   .n_changes = n_changes };
        struct sim_result result;

        assert_int_equal(sim_run(&setup, &result), 0);
        return result;
}

static void a_newcomer_gets_nothing_before_it_is_there(void **state)
{
        static const struct load_mix mix = { .seconds = 100, .qps = 10, .own = { 100, 100 } };
        static const struct sim_change join = { .at = 50, .replica = 1, .what = SIM_JOIN },
                                       never = { .at = 1e6, .replica = 1, .what = SIM_JOIN };
        _cleanup_(load_done) struct load load = { 0 };

        (void)state;
        assert_int_equal(mix_make(&mix, 1, &load), 0);
        assert_in_range(run(&load, &join, 1).n_sent[1], 200, 300); /* half of the last 500 */
        assert_int_equal(run(&load, &never, 1).n_sent[1], 0);
}

static void a_cold_replica_is_late_once_and_a_stalled_one_while_it_stalls(void **state)
{
        static const struct load_mix mix = { .seconds = 100, .qps = 1, .own = { 100, 100 } };
        static const struct sim_change cold = { .at = 50, .replica = 1, .what = SIM_COLD, .seconds = 6 }, stall[] = {
                { .at = 50, .replica = 1, .speed = 1e-4 },
                { .at = 70, .replica = 1, .speed = 1 },
        };
        _cleanup_(load_done) struct load load = { 0 };
        double quiet;

        (void)state;
        assert_int_equal(mix_make(&mix, 1, &load), 0);
        quiet = run(&load, NULL, 0).ttft_mean * (double)load.n_requests;
        assert_true(run(&load, &cold, 1).ttft_mean * (double)load.n_requests > quiet + 5.9);
        assert_true(run(&load, &cold, 1).ttft_mean * (double)load.n_requests < quiet + 30);
        assert_true(run(&load, stall, 2).ttft_mean * (double)load.n_requests > quiet + 50);
        assert_true(run(&load, stall, 2).ttft_p99 < 20.1);
}

static struct sim_result run_trial(const char *name, double *ret_n)
{
        _cleanup_(load_done) struct load load = { 0 };
        const struct trial *t = TRIALS;
        struct sim_result result;
        struct sim_setup setup;

        while (t->name && strcmp(t->name, name) != 0)
                t++;
        assert_non_null(t->name);
        assert_int_equal(trial_load(t, 1, &load), 0);
        setup = trial_setup(t, &load, 1);
        setup.policy = pick_policy_find("cost");
        assert_int_equal(sim_run(&setup, &result), 0);
        *ret_n = (double)load.n_requests / (double)t->n_replicas;
        return result;
}

/* Of 240 s they are there for 180 and 120. */
static void newcomers_get_what_the_others_get(void **state)
{
        double n;
        struct sim_result result = run_trial("newcomers", &n);

        (void)state;
        assert_true((double)result.n_sent[6] > 0.6 * n);
        assert_true((double)result.n_sent[7] > 0.35 * n);
}

static void who_was_cold_is_not_shunned(void **state)
{
        double n;
        struct sim_result result = run_trial("cold", &n);

        (void)state;
        assert_true((double)result.n_sent[2] > 0.75 * n);
        assert_true((double)result.n_sent[5] > 0.75 * n);
}

/* 20 of 240 s it stands still. */
static void who_stalled_is_left_alone_and_used_again(void **state)
{
        double n;
        struct sim_result result = run_trial("stalls", &n);

        (void)state;
        assert_true((double)result.n_sent[3] > 0.7 * n);
        assert_true((double)result.n_sent[5] > 0.7 * n);
        assert_true(result.ttft_p99 < 0.6);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_mix_is_a_function_of_its_seed),
                cmocka_unit_test(requests_are_in_the_order_of_time_and_have_their_keys),
                cmocka_unit_test(a_turn_begins_with_the_turn_before_it),
                cmocka_unit_test(tenants_share_their_beginning_and_nothing_else),
                cmocka_unit_test(bursts_have_the_rate_that_they_say),
                cmocka_unit_test(a_newcomer_gets_nothing_before_it_is_there),
                cmocka_unit_test(a_cold_replica_is_late_once_and_a_stalled_one_while_it_stalls),
                cmocka_unit_test(newcomers_get_what_the_others_get),
                cmocka_unit_test(who_was_cold_is_not_shunned),
                cmocka_unit_test(who_stalled_is_left_alone_and_used_again),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
