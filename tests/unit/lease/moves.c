/* SPDX-License-Identifier: Apache-2.0 */
/* Which memories may leave their device, and what they are charged meanwhile: lease/moves.h. */
#include "lease/books.h"

#include "lease/moves.h"

#include <string.h>

enum {
        SPACE = 5, /* of UVM */
        BASE = 0x10000,
        SIZE = 100,
};

static const char made[] = "as the driver was told", mapped[] = "where";

/* A memory of C's that was allocated as is known. */
static void piece_put(struct books *books, uint32_t handle, bytes size)
{
        object_put(books, C, C, handle, size);
        ledger_recipe_set(books->ledger, C, handle, made, sizeof(made));
}

static void spot_put(struct books *books, uint64_t base, uint32_t handle)
{
        assert_int_equal(map(books, SPACE, base, SIZE, C, handle), LEDGER_OK);
        ledger_map_recipe_set(books->ledger, SPACE, base, GPU, mapped, sizeof(mapped));
}

static struct ledger_plan plan_of(struct books *books)
{
        struct ledger_plan plan;

        assert_int_equal(ledger_plan(books->ledger, &books->quotas[1], &plan), 0);
        return plan;
}

/* How many move; and all that stays does so for that reason. */
static size_t n_moves(struct books *books, enum ledger_stay why, size_t n_stay)
{
        struct ledger_plan plan = plan_of(books);
        size_t n = plan.n;

        for (unsigned int i = 0; i < LEDGER_N_STAYS; i++)
                assert_int_equal(plan.stays[i].n, i == (unsigned int)why ? n_stay : 0);
        ledger_plan_done(&plan);
        return n;
}

static void a_plan_has_each_memory_with_its_mappings_and_how_all_was_made(void **state)
{
        struct books *books = *state;
        struct ledger_plan plan;

        piece_put(books, 1, SIZE);
        piece_put(books, 2, 2 * SIZE);
        spot_put(books, BASE, 1);
        spot_put(books, 2 * BASE, 2);
        spot_put(books, 3 * BASE, 2);
        plan = plan_of(books);
        assert_int_equal(plan.n, 2);
        assert_int_equal(plan.n_maps, 3);
        assert_int_equal(plan.size, 3 * SIZE);
        for (size_t i = 0; i < plan.n; i++) {
                const struct ledger_move *move = &plan.moves[i];

                assert_int_equal(move->n_maps, move->object.object.handle);
                assert_int_equal(move->size, SIZE * move->object.object.handle);
                assert_memory_equal(move->object.recipe.data, made, sizeof(made));
                for (size_t k = 0; k < move->n_maps; k++) {
                        const struct ledger_move_map *at = &plan.maps[move->first_map + k];

                        assert_int_equal(at->space, SPACE);
                        assert_int_equal(at->where, GPU);
                        assert_memory_equal(at->recipe.data, mapped, sizeof(mapped));
                        assert_true(at->base == BASE ? move->object.object.handle == 1 :
                                                       move->object.object.handle == 2);
                }
        }
        ledger_plan_done(&plan);
}

static void what_was_made_in_another_way_stays(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, SIZE);
        assert_int_equal(n_moves(books, LEDGER_STAY_UNKNOWN, 1), 0);
        ledger_recipe_set(books->ledger, C, 1, made, LEDGER_RECIPE_MAX + 1); /* too long to be kept */
        assert_int_equal(n_moves(books, LEDGER_STAY_UNKNOWN, 1), 0);
}

static void what_is_pinned_stays_also_below_what_is_made_over_it(void **state)
{
        struct books *books = *state;
        struct ledger_object over = { C, C, 2, MEMORY, -1 };

        piece_put(books, 1, SIZE);
        assert_int_equal(ledger_put_over(books->ledger, room(books), &over, (struct charge){ 0 }, C, 1), LEDGER_OK);
        ledger_recipe_set(books->ledger, C, 2, made, sizeof(made));
        assert_int_equal(n_moves(books, LEDGER_N_STAYS, 0), 1);
        ledger_pin(books->ledger, C, 2);
        assert_int_equal(n_moves(books, LEDGER_STAY_PINNED, 1), 0);
}

static void what_has_children_stays(void **state)
{
        struct books *books = *state;

        piece_put(books, 1, SIZE);
        object_put(books, C, 1, 2, 0);
        assert_int_equal(n_moves(books, LEDGER_STAY_CHILDREN, 1), 0);
        ledger_free(books->ledger, C, 2);
        assert_int_equal(n_moves(books, LEDGER_N_STAYS, 0), 1);
}

static void what_somebody_else_holds_stays_until_he_lets_go(void **state)
{
        struct books *books = *state;

        piece_put(books, 1, SIZE);
        piece_put(books, 2, SIZE);
        piece_put(books, 3, SIZE);
        assert_int_equal(dup_of(books, D, 9, C, 1), LEDGER_OK);
        assert_int_equal(ledger_export(books->ledger, room(books), 77, 0, C, 2), LEDGER_OK);
        assert_int_equal(map(books, SPACE, BASE, SIZE, C, 3), LEDGER_OK); /* nobody knows how */
        ledger_free(books->ledger, C, 4);
        assert_int_equal(n_moves(books, LEDGER_STAY_SHARED, 3), 0);
        ledger_free(books->ledger, D, 9);
        ledger_export_gone(books->ledger, 77);
        unmap(books, SPACE, BASE, SIZE);
        assert_int_equal(n_moves(books, LEDGER_N_STAYS, 0), 3);
}

static void an_object_over_a_memory_moves_with_it_and_alone_keeps_it_here(void **state)
{
        struct books *books = *state;
        struct ledger_object over = { C, C, 2, MEMORY, -1 };
        struct ledger_plan plan;

        piece_put(books, 1, SIZE);
        assert_int_equal(ledger_put_over(books->ledger, room(books), &over, (struct charge){ 0 }, C, 1), LEDGER_OK);
        assert_int_equal(n_moves(books, LEDGER_STAY_SHARED, 1), 0);
        ledger_recipe_set(books->ledger, C, 2, made, sizeof(made));
        plan = plan_of(books);
        assert_int_equal(plan.n, 1);
        assert_int_equal(plan.moves[0].n_overs, 1);
        assert_int_equal(plan.overs[plan.moves[0].first_over].object.handle, 2);
        ledger_plan_done(&plan);
        assert_int_equal(dup_of(books, C, 3, C, 2), LEDGER_OK); /* what is over it is held by another */
        assert_int_equal(n_moves(books, LEDGER_STAY_SHARED, 1), 0);
}

static void what_is_mapped_over_other_memory_stays_and_so_does_that(void **state)
{
        struct books *books = *state;

        piece_put(books, 1, SIZE);
        piece_put(books, 2, SIZE);
        piece_put(books, 3, SIZE);
        spot_put(books, BASE, 1);
        spot_put(books, BASE + SIZE, 3); /* beside it, and no more */
        assert_int_equal(n_moves(books, LEDGER_N_STAYS, 0), 3);
        spot_put(books, BASE + SIZE / 2, 2); /* over the end of one and the beginning of the other */
        assert_int_equal(n_moves(books, LEDGER_STAY_COVERED, 3), 0);
        unmap(books, SPACE, BASE + SIZE / 2, SIZE);
        assert_int_equal(n_moves(books, LEDGER_N_STAYS, 0), 3);
}

static void what_two_devices_map_at_one_address_is_not_covered(void **state)
{
        struct books *books = *state;

        piece_put(books, 1, SIZE);
        spot_put(books, BASE, 1);
        assert_int_equal(ledger_map(books->ledger, room(books), SPACE, BASE, SIZE, GPU + 1, C, 1), LEDGER_OK);
        ledger_map_recipe_set(books->ledger, SPACE, BASE, GPU + 1, mapped, sizeof(mapped));
        assert_int_equal(n_moves(books, LEDGER_N_STAYS, 0), 1);
}

static void host_memory_and_what_the_driver_took_are_in_no_plan(void **state)
{
        struct books *books = *state;
        struct ledger_object host = { C, C, 1, MEMORY, -1 }, own = { C, C, 2, GROUP, 0 };

        ledger_put(books->ledger, room(books), &host, charge_take(books, 1, SIZE));
        ledger_put_own(books->ledger, room(books), &own, charge_take(books, 0, SIZE));
        assert_int_equal(n_moves(books, LEDGER_N_STAYS, 0), 0);
}

static void what_is_away_is_not_charged_and_is_again_when_it_is_back(void **state)
{
        struct books *books = *state;

        piece_put(books, 1, SIZE);
        ledger_away(books->ledger, C, 1);
        ledger_away(books->ledger, C, 1); /* twice is once */
        assert_true(ledger_is_away(books->ledger, C, 1));
        assert_int_equal(books->quotas[0].used, 0);
        assert_int_equal(n_moves(books, LEDGER_N_STAYS, 0), 0);
        books->quotas[0].size = SIZE / 2; /* its quota shrank: what it had is its own */
        ledger_back(books->ledger, C, 1);
        ledger_back(books->ledger, C, 1);
        assert_false(ledger_is_away(books->ledger, C, 1));
        assert_int_equal(books->quotas[0].used, SIZE);
}

static void what_ends_while_it_is_away_is_charged_nowhere(void **state)
{
        struct books *books = *state;

        piece_put(books, 1, SIZE);
        spot_put(books, BASE, 1);
        ledger_away(books->ledger, C, 1);
        ledger_client_gone(books->ledger, C);
        ledger_back(books->ledger, C, 1);
        assert_int_equal(books->quotas[0].used, 0);
}

static void what_took_the_place_of_an_object_or_a_mapping_is_not_it(void **state)
{
        struct books *books = *state;
        struct ledger_plan plan;

        piece_put(books, 1, SIZE);
        spot_put(books, BASE, 1);
        plan = plan_of(books);
        assert_true(ledger_move_is_there(books->ledger, &plan.moves[0].object));
        assert_true(ledger_map_is_there(books->ledger, &plan.maps[0], &plan.moves[0].object));
        unmap(books, SPACE, BASE, SIZE);
        assert_false(ledger_map_is_there(books->ledger, &plan.maps[0], &plan.moves[0].object));
        ledger_free(books->ledger, C, 1);
        piece_put(books, 1, SIZE);
        assert_false(ledger_move_is_there(books->ledger, &plan.moves[0].object));
        ledger_plan_done(&plan);
}

static void managed_put(struct books *books, uint64_t space, uint64_t base, bytes size)
{
        ledger_managed_put(books->ledger, room(books), space, 100, base, size, 0, charge_take(books, 0, size));
}

static void a_plan_has_each_managed_range_once_and_what_is_charged_for_all(void **state)
{
        struct books *books = *state;
        struct ledger_plan plan;

        managed_put(books, SPACE, 2 * BASE, SIZE);
        managed_put(books, SPACE + 1, BASE, SIZE);
        managed_put(books, SPACE, BASE, SIZE);
        managed_put(books, SPACE, BASE, 2 * SIZE); /* another device's, or a later one */
        managed_put(books, SPACE, BASE, SIZE);
        plan = plan_of(books);
        assert_int_equal(plan.n + plan.n_maps + plan.n_overs, 0);
        assert_int_equal(plan.n_ranges, 3);
        assert_int_equal(plan.managed, 6 * SIZE);
        for (size_t i = 0; i < plan.n_ranges; i++) {
                assert_int_equal(plan.ranges[i].space, i < 2 ? SPACE : SPACE + 1);
                assert_int_equal(plan.ranges[i].base, i == 1 ? 2 * BASE : BASE);
                assert_int_equal(plan.ranges[i].length, i == 0 ? 2 * SIZE : SIZE);
        }
        ledger_plan_done(&plan);
}

static void managed_memory_that_is_away_is_not_charged_and_what_comes_meanwhile_is(void **state)
{
        struct books *books = *state;

        piece_put(books, 1, SIZE);
        managed_put(books, SPACE, BASE, SIZE);
        managed_put(books, SPACE, 2 * BASE, SIZE);
        ledger_managed_away(books->ledger);
        ledger_managed_away(books->ledger); /* twice is once */
        assert_int_equal(books->quotas[0].used, SIZE);
        managed_put(books, SPACE, 3 * BASE, SIZE);
        ledger_managed_gone(books->ledger, 100, BASE);
        assert_int_equal(books->quotas[0].used, 2 * SIZE);
        books->quotas[0].size = SIZE; /* its quota shrank: what it had is its own */
        ledger_managed_back(books->ledger);
        ledger_managed_back(books->ledger);
        assert_int_equal(books->quotas[0].used, 3 * SIZE);
        ledger_managed_gone(books->ledger, 100, 2 * BASE);
        assert_int_equal(books->quotas[0].used, 2 * SIZE);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                books_test(a_plan_has_each_memory_with_its_mappings_and_how_all_was_made),
                books_test(what_was_made_in_another_way_stays),
                books_test(what_is_pinned_stays_also_below_what_is_made_over_it),
                books_test(what_has_children_stays),
                books_test(what_somebody_else_holds_stays_until_he_lets_go),
                books_test(an_object_over_a_memory_moves_with_it_and_alone_keeps_it_here),
                books_test(what_is_mapped_over_other_memory_stays_and_so_does_that),
                books_test(what_two_devices_map_at_one_address_is_not_covered),
                books_test(host_memory_and_what_the_driver_took_are_in_no_plan),
                books_test(what_is_away_is_not_charged_and_is_again_when_it_is_back),
                books_test(what_ends_while_it_is_away_is_charged_nowhere),
                books_test(what_took_the_place_of_an_object_or_a_mapping_is_not_it),
                books_test(a_plan_has_each_managed_range_once_and_what_is_charged_for_all),
                books_test(managed_memory_that_is_away_is_not_charged_and_what_comes_meanwhile_is),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
