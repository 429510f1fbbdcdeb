/* SPDX-License-Identifier: Apache-2.0 */
/* What the router promises about its policy, in small: the report has the large runs. */
#include "simulator/run.h"

#include "base/cleanup.h"

#include "unit.h"

static struct sim_result simulate(const struct load *load, const char *policy, uint32_t capacity, const double speed[8])
{
        struct sim_setup setup = { .load = load,
                                   .policy = pick_policy_find(policy),
                                   .tuning = PICK_TUNING_DEFAULT,
                                   .n_replicas = 8,
                                   .blocks = speed[7] < 1 ? 840 : 420,
                                   .capacity = capacity,
                                   .knows_share = true };
        struct sim_result result;

        for (size_t i = 0; i < 8; i++)
                setup.speed[i] = speed[i];
        assert_int_equal(sim_run(&setup, &result), 0);
        return result;
}

static const double EQUAL[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
static const double SHARES[8] = { 1, 1, .5, .5, .5, .5, .25, .25 };

static int make_load(void **state)
{
        static struct load load;
        struct load_shared kind = {
                .n = 6000, .qps = 40, .prefixes = 150, .prefix = 6144, .own = 1200, .output = 150, .seed = 7
        };

        *state = &load;
        return load_shared(&kind, &load);
}

static int free_load(void **state)
{
        load_done(*state);
        return 0;
}

static void affinity_does_not_collapse_when_not_all_prefixes_fit_everywhere(void **state)
{
        assert_true(simulate(*state, "cost", 0, EQUAL).ttft_mean < 0.3);
        assert_true(simulate(*state, "lmetric", 0, EQUAL).ttft_mean > 10); /* the load can show it */
}

static void affinity_does_not_collapse_when_capacity_binds(void **state)
{
        assert_true(simulate(*state, "cost", 24, EQUAL).ttft_mean < 2);
        assert_true(simulate(*state, "cost", 16, EQUAL).hit > 0.75);
        assert_true(simulate(*state, "llm-d", 24, EQUAL).ttft_mean > 10);
}

static void nothing_is_lost_while_held(void **state)
{
        struct sim_result result = simulate(*state, "cost", 4, EQUAL);
        size_t n = 0;

        for (size_t i = 0; i < 8; i++)
                n += result.n_sent[i];
        assert_int_equal(n, 6000);
        assert_int_equal(result.n_refused, 0);
        assert_true(result.n_held > 3000);
}

static void faster_replicas_get_more(void **state)
{
        struct load load = *(struct load *)*state;
        struct sim_result result;

        load.n_requests /= 4;
        result = simulate(&load, "cost", 0, SHARES);
        assert_true(result.n_sent[0] > result.n_sent[2] && result.n_sent[2] > result.n_sent[6]);
}

static void sleepers_are_woken_as_they_are_needed(void **state)
{
        struct load load = *(struct load *)*state;
        struct sim_setup setup = { .load = &load,
                                   .policy = pick_policy_find("cost"),
                                   .tuning = PICK_TUNING_DEFAULT,
                                   .n_replicas = 8,
                                   .blocks = 420,
                                   .n_asleep = 8,
                                   .wake = 5,
                                   .knows_share = true };
        struct sim_result many, one;

        for (size_t i = 0; i < 8; i++)
                setup.speed[i] = 1;
        assert_int_equal(sim_run(&setup, &many), 0);
        assert_int_equal(many.n_refused, 0);
        assert_int_equal(many.n_woken, 8);
        load.n_requests = 1;
        assert_int_equal(sim_run(&setup, &one), 0);
        assert_int_equal(one.n_refused, 0);
        assert_int_equal(one.n_woken, 1);
        assert_true(one.ttft_mean > 5 && one.ttft_mean < 5.5);
}

static void a_run_gives_the_same_each_time(void **state)
{
        struct sim_result a = simulate(*state, "cost", 0, EQUAL), b = simulate(*state, "cost", 0, EQUAL);

        assert_true(a.ttft_mean == b.ttft_mean && a.goodput == b.goodput);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(affinity_does_not_collapse_when_not_all_prefixes_fit_everywhere),
                cmocka_unit_test(affinity_does_not_collapse_when_capacity_binds),
                cmocka_unit_test(nothing_is_lost_while_held),
                cmocka_unit_test(faster_replicas_get_more),
                cmocka_unit_test(sleepers_are_woken_as_they_are_needed),
                cmocka_unit_test(a_run_gives_the_same_each_time),
        };

        return cmocka_run_group_tests(tests, make_load, free_load);
}
