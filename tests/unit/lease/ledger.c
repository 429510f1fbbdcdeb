/* SPDX-License-Identifier: Apache-2.0 */
#include "lease/books.h"

static void an_object_holds_its_charge_until_it_is_freed(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        assert_int_equal(held(books), 10);
        assert_int_equal(ledger_charge_of(books->ledger, C, 1), 10);
        ledger_free(books->ledger, C, 1);
        assert_int_equal(held(books), 0);
        assert_false(is_there(books, C, 1));
}

static void an_unused_entry_leaves_no_trace(void **state)
{
        struct books *books = *state;
        struct ledger_entry *entries[40];

        for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
                entries[i] = room(books);
        assert_true(ledger_is_sound(books->ledger));
        for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
                assert_null(ledger_entry_free(books->ledger, entries[i]));
        assert_null(ledger_entry_free(books->ledger, NULL));
        assert_int_equal(ledger_totals(books->ledger).n_objects, 0);
}

/* L4: a thousand threads between reserve and put; the last to reserve is the first to put. */
static void outstanding_entries_are_all_honoured(void **state)
{
        struct books *books = *state;
        struct ledger_entry *entries[1000];

        for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
                entries[i] = room(books);
        for (size_t i = ARRAY_SIZE(entries); i-- > 0;) {
                struct ledger_object object = { C, C, (uint32_t)i, (uint32_t)i, 0 };

                ledger_put(books->ledger, entries[i], &object, charge_take(books, 0, 1));
                if (i % 100 == 0)
                        assert_true(ledger_is_sound(books->ledger));
        }
        assert_int_equal(held(books), 1000);
}

static void a_free_takes_children_and_theirs_along(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 0);
        object_put(books, C, 1, 2, 0);
        object_put(books, C, 2, 3, 10);
        object_put(books, C, 2, 4, 20);
        object_put(books, C, 1, 5, 40);
        object_put(books, C, C, 6, 80);
        ledger_free(books->ledger, C, 2);
        assert_int_equal(held(books), 120);
        ledger_free(books->ledger, C, 1);
        assert_int_equal(held(books), 80);
        assert_int_equal(ledger_totals(books->ledger).n_objects, 1);
}

static void a_free_of_the_client_takes_all_of_it_and_nothing_else(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        object_put(books, C, 1, 2, 10);
        object_put(books, D, D, 1, 5);
        ledger_free(books->ledger, C, C);
        assert_int_equal(held(books), 5);
        assert_false(ledger_has_client(books->ledger, C));
        assert_true(ledger_has_client(books->ledger, D));
}

static void frees_of_the_unknown_change_nothing(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        ledger_free(books->ledger, C, 2);
        ledger_free(books->ledger, D, 1);
        ledger_free(books->ledger, 7, 1);
        ledger_free(books->ledger, 7, 7);
        ledger_client_gone(books->ledger, 7);
        assert_int_equal(held(books), 10);
}

static void the_same_handle_under_two_clients_is_two_objects(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        object_put(books, D, D, 1, 20);
        assert_int_equal(ledger_charge_of(books->ledger, C, 1), 10);
        assert_int_equal(ledger_charge_of(books->ledger, D, 1), 20);
}

static void a_handle_put_again_replaces_what_was_there(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        object_put(books, C, 1, 2, 20);
        object_put(books, C, C, 1, 5);
        assert_int_equal(held(books), 5);
        assert_false(is_there(books, C, 2));
}

static void a_handle_put_again_below_its_own_child_hangs_on_the_client(void **state)
{
        struct books *books = *state;
        struct ledger_object object;

        object_put(books, C, C, 1, 10);
        object_put(books, C, 1, 2, 20);
        object_put(books, C, 2, 1, 5);
        assert_int_equal(ledger_get(books->ledger, C, 1, &object), LEDGER_OK);
        assert_int_equal(object.parent, C);
        assert_int_equal(held(books), 5);
}

static void an_object_may_name_itself_as_parent(void **state)
{
        struct books *books = *state;

        object_put(books, C, 9, 9, 10);
        object_put(books, C, 9, 9, 20);
        assert_int_equal(held(books), 20);
        ledger_free(books->ledger, C, 9);
        assert_int_equal(held(books), 0);
}

static void an_object_may_have_the_handle_of_its_client(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, C, 10);
        object_put(books, C, C, 1, 20);
        object_put(books, C, C, C, 30);
        assert_int_equal(held(books), 50);
        ledger_free(books->ledger, C, C);
        assert_int_equal(held(books), 0);
}

static void an_object_of_an_unknown_parent_hangs_on_its_client(void **state)
{
        struct books *books = *state;
        struct ledger_object object;

        object_put(books, D, D, 77, 1);
        object_put(books, C, 77, 1, 10);
        assert_int_equal(ledger_get(books->ledger, C, 1, &object), LEDGER_OK);
        assert_int_equal(object.parent, C);
        ledger_free(books->ledger, D, 77);
        assert_int_equal(held(books), 10);
}

static void an_object_of_an_unknown_client_is_charged_all_the_same(void **state)
{
        struct books *books = *state;
        uint32_t client, owner = 1;
        size_t i = 0, n = 0;

        object_put(books, 0, 5, 1, 10);
        assert_true(ledger_has_client(books->ledger, 0));
        while (ledger_client_next(books->ledger, 0, &i, &client, &owner))
                n += client == 0 && owner == 0;
        assert_int_equal(n, 1);
        assert_int_equal(ledger_held_by(books->ledger, &books->quotas[0], 0), 10);
        ledger_client_gone(books->ledger, 0);
        assert_int_equal(held(books), 0);
}

static void the_device_is_inherited(void **state)
{
        struct books *books = *state;
        struct ledger_object objects[] = { { C, C, 1, DEVICE, 3 },
                                           { C, 1, 2, MEMORY, -1 },
                                           { C, 2, 3, MEMORY, -1 },
                                           { C, 1, 4, MEMORY, 5 },
                                           { C, C, 5, MEMORY, -1 } };
        int devices[] = { 3, 3, 3, 5, -1 };

        for (size_t i = 0; i < ARRAY_SIZE(objects); i++) {
                struct ledger_object object;

                ledger_put(books->ledger, room(books), &objects[i], (struct charge){ 0 });
                assert_int_equal(ledger_get(books->ledger, C, objects[i].handle, &object), LEDGER_OK);
                assert_int_equal(object.device, devices[i]);
        }
}

static void a_client_put_again_is_a_new_one(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        ledger_client_put(books->ledger, room(books), C, 300);
        assert_int_equal(held(books), 0);
        object_put(books, C, C, 1, 10);
        assert_int_equal(ledger_held_by(books->ledger, &books->quotas[0], 300), 10);
        assert_int_equal(ledger_held_by(books->ledger, &books->quotas[0], 100), 0);
}

static void clients_are_visited_by_owner(void **state)
{
        struct books *books = *state;
        uint32_t client, owner;
        size_t i = 0, n = 0;

        ledger_client_put(books->ledger, room(books), 3, 100);
        while (ledger_client_next(books->ledger, 100, &i, &client, &owner)) {
                assert_int_equal(owner, 100);
                assert_true(client == C || client == 3);
                n++;
        }
        assert_int_equal(n, 2);
        for (i = n = 0; ledger_client_next(books->ledger, 0, &i, &client, &owner);)
                n++;
        assert_int_equal(n, 3);
        i = 0;
        assert_false(ledger_client_next(books->ledger, 999, &i, &client, &owner));
}

static void a_dup_shares_one_charge_until_the_last_is_gone(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        assert_int_equal(dup_of(books, D, 1, C, 1), LEDGER_OK);
        assert_int_equal(dup_of(books, C, 2, D, 1), LEDGER_OK);
        assert_int_equal(held(books), 10);
        ledger_free(books->ledger, C, 1);
        ledger_client_gone(books->ledger, D);
        assert_int_equal(held(books), 10);
        assert_int_equal(ledger_held_by(books->ledger, &books->quotas[0], 100), 10);
        ledger_free(books->ledger, C, 2);
        assert_int_equal(held(books), 0);
}

static void a_dup_of_an_unknown_object_is_refused_and_changes_nothing(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        assert_int_equal(dup_of(books, C, 1, C, 2), LEDGER_E_NO_OBJECT);
        assert_int_equal(dup_of(books, C, 1, 7, 1), LEDGER_E_NO_OBJECT);
        assert_int_equal(held(books), 10);
}

static void a_dup_onto_itself_keeps_the_memory(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        object_put(books, C, 1, 2, 20);
        assert_int_equal(dup_of(books, C, 1, C, 1), LEDGER_OK);
        assert_int_equal(held(books), 10);
        object_put(books, C, 1, 2, 20);
        assert_int_equal(dup_of(books, C, 1, C, 2), LEDGER_OK);
        assert_int_equal(held(books), 20);
}

static void what_holds_no_memory_can_be_dupped(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 0);
        assert_int_equal(dup_of(books, D, 2, C, 1), LEDGER_OK);
        assert_true(is_there(books, D, 2));
        assert_int_equal(ledger_charge_of(books->ledger, D, 2), 0);
        assert_int_equal(ledger_totals(books->ledger).n_memories, 0);
}

static int over(struct books *books, uint32_t handle, size_t quota, bytes size, uint32_t source)
{
        struct ledger_object object = { C, C, handle, 0xf8, 0 };

        return ledger_put_over(books->ledger, room(books), &object, charge_take(books, quota, size), C, source);
}

/* Whoever frees first: the memory goes with the last of the two. */
static void what_is_made_over_memory_keeps_it(void **state)
{
        struct books *books = *state;

        for (uint32_t first = 1; first <= 2; first++) {
                object_put(books, C, C, 1, 10);
                assert_int_equal(over(books, 2, 1, 4, 1), LEDGER_OK);
                assert_int_equal(held(books), 10);
                assert_int_equal(books->quotas[1].used, 4);
                ledger_free(books->ledger, C, first);
                assert_int_equal(held(books), 10);
                assert_int_equal(books->quotas[1].used, first == 1 ? 4 : 0);
                ledger_free(books->ledger, C, 3 - first);
                assert_int_equal(held(books), 0);
                assert_int_equal(books->quotas[1].used, 0);
        }
}

/* A dup, a mapping and an export of it do, too, and the memory is charged once for all. */
static void what_holds_it_keeps_the_memory_below(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        assert_int_equal(over(books, 2, 1, 4, 1), LEDGER_OK);
        assert_int_equal(dup_of(books, D, 3, C, 2), LEDGER_OK);
        assert_int_equal(ledger_map(books->ledger, room(books), 5, 0x1000, 0x1000, GPU, C, 2), LEDGER_OK);
        assert_int_equal(ledger_export(books->ledger, room(books), 9, 0, C, 2), LEDGER_OK);
        ledger_free(books->ledger, C, 1);
        ledger_free(books->ledger, C, 2);
        assert_int_equal(held(books), 10);
        assert_true(ledger_is_sound(books->ledger));
        ledger_free(books->ledger, D, 3);
        assert_int_equal(held(books), 10);
        ledger_unmap(books->ledger, 5, 0x1000, 0x1000, GPU);
        assert_int_equal(held(books), 10);
        ledger_export_gone(books->ledger, 9);
        assert_int_equal(held(books), 0);
        assert_int_equal(books->quotas[1].used, 0);
}

static void over_what_is_not_there_nothing_is_made(void **state)
{
        struct books *books = *state;

        assert_int_equal(over(books, 2, 1, 4, 1), LEDGER_E_NO_OBJECT);
        assert_int_equal(books->quotas[1].used, 0);
        assert_false(is_there(books, C, 2));
        object_put(books, C, C, 1, 10);
        assert_int_equal(over(books, 1, 1, 0, 1), LEDGER_OK); /* in the place of what it is made over */
        assert_int_equal(held(books), 10);
        ledger_free(books->ledger, C, 1);
        assert_int_equal(held(books), 0);
}

static void devices_are_told_apart(void **state)
{
        struct books *books = *state;
        struct ledger_object object = { C, C, 1, MEMORY, 1 };

        ledger_put(books->ledger, room(books), &object, charge_take(books, 1, 7));
        object_put(books, C, C, 2, 10);
        assert_int_equal(ledger_held(books->ledger, &books->quotas[1]), 7);
        assert_int_equal(held(books), 10);
        ledger_free(books->ledger, C, 1);
        assert_int_equal(books->quotas[1].used, 0);
}

/* A tenant may build this; a recursion would end the daemon. */
static void a_million_deep_chain_of_parents_is_freed(void **state)
{
        struct books *books = *state;

        for (uint32_t i = 1; i <= 1000000; i++)
                object_put(books, C, i - 1, i, 1);
        assert_int_equal(held(books), 1000000);
        ledger_free(books->ledger, C, 2);
        assert_int_equal(held(books), 1);
}

/* Not timed: at O(n^2) it would be noticed. */
static void a_device_with_half_a_million_children_is_freed(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 0);
        for (uint32_t i = 2; i <= 500000; i++)
                object_put(books, C, 1, i, 1);
        ledger_free(books->ledger, C, 1);
        assert_int_equal(held(books), 0);
        for (uint32_t i = 0; i < 1000000; i++) {
                object_put(books, C, C, i & 1023, 1);
                ledger_free(books->ledger, C, i & 1023);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                books_test(an_object_holds_its_charge_until_it_is_freed),
                books_test(an_unused_entry_leaves_no_trace),
                books_test(what_is_made_over_memory_keeps_it),
                books_test(what_holds_it_keeps_the_memory_below),
                books_test(over_what_is_not_there_nothing_is_made),
                books_test(outstanding_entries_are_all_honoured),
                books_test(a_free_takes_children_and_theirs_along),
                books_test(a_free_of_the_client_takes_all_of_it_and_nothing_else),
                books_test(frees_of_the_unknown_change_nothing),
                books_test(the_same_handle_under_two_clients_is_two_objects),
                books_test(a_handle_put_again_replaces_what_was_there),
                books_test(a_handle_put_again_below_its_own_child_hangs_on_the_client),
                books_test(an_object_may_name_itself_as_parent),
                books_test(an_object_may_have_the_handle_of_its_client),
                books_test(an_object_of_an_unknown_parent_hangs_on_its_client),
                books_test(an_object_of_an_unknown_client_is_charged_all_the_same),
                books_test(the_device_is_inherited),
                books_test(a_client_put_again_is_a_new_one),
                books_test(clients_are_visited_by_owner),
                books_test(a_dup_shares_one_charge_until_the_last_is_gone),
                books_test(a_dup_of_an_unknown_object_is_refused_and_changes_nothing),
                books_test(a_dup_onto_itself_keeps_the_memory),
                books_test(what_holds_no_memory_can_be_dupped),
                books_test(devices_are_told_apart),
                books_test(a_million_deep_chain_of_parents_is_freed),
                books_test(a_device_with_half_a_million_children_is_freed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
