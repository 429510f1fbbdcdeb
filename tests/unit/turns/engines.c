/* SPDX-License-Identifier: Apache-2.0 */
/* Turns on one engine, on a virtual clock: who is enabled and wants divides the engine with the others that do. */
#include "unit.h"

#include "turns/engines.h"

#include <string.h>

#define STEP (NSEC_PER_MSEC / 2)

enum {
        N = 4,
};

static struct engine_turns *turns;
static struct engine_tenant tenants[N];
static bool is_off[N];
static nsec now, had[N], calls_at;

static int set_up(void **state)
{
        const struct turns_settings settings = { .policy = TURNS_POLICY_AUTO };

        (void)state;
        memset(tenants, 0, sizeof(tenants));
        memset(is_off, 0, sizeof(is_off));
        memset(had, 0, sizeof(had));
        now = NSEC_PER_SEC;
        calls_at = now;
        for (uint64_t i = 0; i < N; i++)
                tenants[i] = (struct engine_tenant){ .id = i + 1, .share = 250, .cap = TURNS_WHOLE };
        return engine_turns_new(&settings, &turns);
}

static int tear_down(void **state)
{
        (void)state;
        turns = engine_turns_free(turns);
        return 0;
}

static void pass(nsec span)
{
        for (nsec until = now + span; now < until; now += STEP) {
                nsec n_on = 0;

                if (now >= calls_at)
                        calls_at = engine_turns_next(turns, now, tenants, N, is_off);
                for (size_t i = 0; i < N; i++)
                        n_on += tenants[i].wants && !is_off[i];
                for (size_t i = 0; i < N; i++) {
                        nsec some = tenants[i].wants && !is_off[i] ? STEP / n_on : 0;

                        tenants[i].used += some;
                        had[i] += some;
                }
        }
}

static int percent_of(size_t i, nsec span)
{
        return (int)((had[i] * 100 + span / 2) / span);
}

static void an_engine_is_divided_by_shares(void **state)
{
        (void)state;
        tenants[0].share = 800, tenants[1].share = 200;
        tenants[0].wants = tenants[1].wants = true;
        pass(NSEC_PER_SEC);
        memset(had, 0, sizeof(had));
        pass(NSEC_PER_SEC);
        assert_in_range(percent_of(0, NSEC_PER_SEC), 79, 81);
        assert_in_range(percent_of(1, NSEC_PER_SEC), 19, 21);
}

static void all_four_have_their_parts_and_the_engine_does_not_rest(void **state)
{
        (void)state;
        tenants[0].share = 400, tenants[1].share = 300, tenants[2].share = 200, tenants[3].share = 100;
        for (size_t i = 0; i < N; i++)
                tenants[i].wants = true;
        pass(2 * NSEC_PER_SEC);
        for (size_t i = 0; i < N; i++)
                assert_in_range(percent_of(i, 2 * NSEC_PER_SEC), 40 - 10 * i - 1, 40 - 10 * i + 1);
        assert_int_equal(had[0] + had[1] + had[2] + had[3], 2 * NSEC_PER_SEC);
}

static void one_alone_has_all_of_it(void **state)
{
        (void)state;
        tenants[1].wants = true;
        tenants[1].share = 100;
        pass(NSEC_PER_SEC);
        assert_int_equal(had[1], NSEC_PER_SEC);
}

static void what_a_holder_does_not_want_is_lent_at_once(void **state)
{
        (void)state;
        tenants[0].share = 900, tenants[1].share = 100;
        tenants[0].wants = tenants[1].wants = true;
        pass(NSEC_PER_SEC);
        tenants[0].wants = false;
        memset(had, 0, sizeof(had));
        pass(NSEC_PER_SEC);
        assert_in_range(percent_of(1, NSEC_PER_SEC), 99, 100);
        assert_false(is_off[0]); /* E4 */
}

static void a_cap_holds_also_for_one_that_is_alone(void **state)
{
        (void)state;
        tenants[2].wants = true;
        tenants[2].cap = 300;
        pass(NSEC_PER_SEC);
        memset(had, 0, sizeof(had));
        pass(2 * NSEC_PER_SEC);
        assert_in_range(percent_of(2, 2 * NSEC_PER_SEC), 29, 31);
}

static void metered_only_keeps_nobody_off(void **state)
{
        const struct turns_settings settings = { .policy = TURNS_POLICY_NONE };

        (void)state;
        turns = engine_turns_free(turns);
        assert_int_equal(engine_turns_new(&settings, &turns), 0);
        for (size_t i = 0; i < N; i++)
                tenants[i].wants = true;
        pass(NSEC_PER_SEC);
        for (size_t i = 0; i < N; i++)
                assert_false(is_off[i]);
}

static void a_holder_that_leaves_is_forgotten(void **state)
{
        (void)state;
        tenants[0].wants = tenants[1].wants = true;
        (void)engine_turns_next(turns, now, tenants, N, is_off);
        for (size_t i = 0; i < 2; i++) {
                if (is_off[i])
                        continue;
                tenants[i].id = 9;
                tenants[i].wants = false;
                tenants[i].used = 0;
                (void)engine_turns_next(turns, now + STEP, tenants, N, is_off);
                assert_false(is_off[0] || is_off[1]);
                return;
        }
        fail();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(an_engine_is_divided_by_shares, set_up, tear_down),
                cmocka_unit_test_setup_teardown(all_four_have_their_parts_and_the_engine_does_not_rest, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(one_alone_has_all_of_it, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_a_holder_does_not_want_is_lent_at_once, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_cap_holds_also_for_one_that_is_alone, set_up, tear_down),
                cmocka_unit_test_setup_teardown(metered_only_keeps_nobody_off, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_holder_that_leaves_is_forgotten, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
