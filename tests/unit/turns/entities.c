/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "turns/inside.h"

#include <stdlib.h>

static struct turns *turns;
static struct turns_tenant tenants[8];

static int set_up(void **state)
{
        (void)state;
        turns = calloc(1, sizeof(*turns));
        if (!turns)
                return -1;
        turns->holder = turns->latest = NOBODY;
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        free(turns);
        return 0;
}

static void follow(size_t n, const uint64_t *ids)
{
        struct turns_view view = { .tenants = tenants, .n_tenants = n };

        for (size_t i = 0; i < n; i++)
                tenants[i] = (struct turns_tenant){ .id = ids[i], .used = 1000 };
        entities_follow(turns, &view);
}

static void a_new_tenant_is_always_on_and_is_not_charged_for_past_use(void **state)
{
        (void)state;
        follow(1, (const uint64_t[]){ 5 });
        assert_true(turns->entities[0].is_new);
        assert_false(turns->entities[0].is_time_sliced);
        assert_int_equal(turns->entities[0].used, 1000);
}

static void known_tenants_keep_their_accounts_in_any_order(void **state)
{
        (void)state;
        follow(3, (const uint64_t[]){ 1, 2, 3 });
        turns->entities[0].owed = 11;
        turns->entities[1].owed = 22;
        turns->entities[2].owed = 33;
        follow(4, (const uint64_t[]){ 3, 9, 1, 2 });
        assert_int_equal(turns->entities[0].owed, 33);
        assert_int_equal(turns->entities[1].owed, 0);
        assert_int_equal(turns->entities[2].owed, 11);
        assert_int_equal(turns->entities[3].owed, 22);
}

static void the_turn_stays_with_its_holder(void **state)
{
        (void)state;
        follow(3, (const uint64_t[]){ 1, 2, 3 });
        turns->holder = turns->latest = 2;
        turns->probe = (struct probe){ .is_running = true, .next = 1 };
        turns->holds[0] = (struct hold){ .from = 1, .entity = 2 };
        turns->n_holds = 1;
        follow(2, (const uint64_t[]){ 3, 2 });
        assert_int_equal(turns->holder, 0);
        assert_int_equal(turns->latest, 0);
        assert_int_equal(turns->holds[0].entity, 0);
        assert_true(turns->probe.is_running);
        assert_int_equal(turns->probe.next, 1);
}

static void a_turn_or_a_probe_ends_with_its_entity(void **state)
{
        (void)state;
        follow(3, (const uint64_t[]){ 1, 2, 3 });
        turns->holder = 0;
        turns->probe = (struct probe){ .is_running = true, .next = 1 };
        follow(2, (const uint64_t[]){ 1, 3 });
        assert_int_equal(turns->holder, 0);
        assert_false(turns->probe.is_running);
        follow(1, (const uint64_t[]){ 3 });
        assert_int_equal(turns->holder, NOBODY);
        follow(0, NULL);
        assert_int_equal(turns->n, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(a_new_tenant_is_always_on_and_is_not_charged_for_past_use),
                TEST(known_tenants_keep_their_accounts_in_any_order),
                TEST(the_turn_stays_with_its_holder),
                TEST(a_turn_or_a_probe_ends_with_its_entity),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
