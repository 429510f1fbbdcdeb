/* SPDX-License-Identifier: Apache-2.0 */
#include "lease/books.h"

#define LOAN ((uint64_t)3 << 32 | 9)

static struct ledger_source of_object(uint32_t client, uint32_t handle)
{
        return (struct ledger_source){ .client = client, .handle = handle };
}

static int lend(struct books *books, uint64_t loan, struct ledger_source source, struct ledger_lent *ret)
{
        return ledger_lend(books->ledger, room(books), loan, &source, ret);
}

static void borrow(struct books *books, uint32_t handle, uint64_t loan)
{
        struct ledger_object object = { C, C, handle, MEMORY, 1 };

        ledger_borrow(books->ledger, room(books), &object, loan, 10);
}

static void what_is_lent_stays_charged_until_it_is_returned(void **state)
{
        struct books *books = *state;
        struct ledger_lent lent;

        object_put(books, C, C, 1, 10);
        assert_int_equal(lend(books, 7, of_object(C, 1), &lent), LEDGER_OK);
        assert_int_equal(lent.size, 10);
        assert_int_equal(lent.class_number, MEMORY);
        ledger_client_gone(books->ledger, C);
        assert_int_equal(held(books), 10);
        ledger_loan_gone(books->ledger, 7);
        assert_int_equal(held(books), 0);
}

static void two_loans_of_a_memory_are_two(void **state)
{
        struct books *books = *state;
        struct ledger_lent lent;

        object_put(books, C, C, 1, 10);
        assert_int_equal(lend(books, 1, of_object(C, 1), &lent), LEDGER_OK);
        assert_int_equal(lend(books, 2, of_object(C, 1), &lent), LEDGER_OK);
        ledger_free(books->ledger, C, 1);
        ledger_loan_gone(books->ledger, 1);
        assert_int_equal(held(books), 10);
        ledger_loan_gone(books->ledger, 2);
        assert_int_equal(held(books), 0);
}

static void a_loan_stands_while_the_object_is_the_same(void **state)
{
        struct books *books = *state;
        struct ledger_source source = of_object(C, 1);
        struct ledger_lent lent;

        object_put(books, C, C, 1, 10);
        assert_int_equal(lend(books, 7, source, &lent), LEDGER_OK);
        assert_true(ledger_stands(books->ledger, &source, lent.stamp));
        object_put(books, C, C, 1, 10); /* the handle again, of another memory */
        assert_false(ledger_stands(books->ledger, &source, lent.stamp));
}

static void a_loan_does_not_stand_once_its_client_is_about_to_go(void **state)
{
        struct books *books = *state;
        struct ledger_source source = of_object(C, 1);
        struct ledger_lent lent;

        object_put(books, C, C, 1, 10);
        assert_int_equal(lend(books, 7, source, &lent), LEDGER_OK);
        ledger_stamp_client(books->ledger, C);
        assert_false(ledger_stands(books->ledger, &source, lent.stamp));
        ledger_client_gone(books->ledger, C);
        assert_false(ledger_stands(books->ledger, &source, lent.stamp));
}

static void an_export_is_lent_by_its_place_until_the_place_is_exported_to_again(void **state)
{
        struct books *books = *state;
        struct ledger_source source = { .descriptor = 4, .index = 1 };
        struct ledger_lent lent;

        object_put(books, C, C, 1, 10);
        assert_int_equal(ledger_export(books->ledger, room(books), 4, 1, C, 1), LEDGER_OK);
        assert_true(ledger_has_export(books->ledger, 4, 1));
        assert_false(ledger_has_export(books->ledger, 4, 0));
        assert_int_equal(lend(books, 7, (struct ledger_source){ .descriptor = 4 }, &lent), LEDGER_E_NO_OBJECT);
        assert_int_equal(lend(books, 7, source, &lent), LEDGER_OK);
        assert_true(ledger_stands(books->ledger, &source, lent.stamp));
        ledger_stamp_exports(books->ledger, 4);
        assert_false(ledger_stands(books->ledger, &source, lent.stamp));
}

static void only_memory_of_its_own_is_lent(void **state)
{
        struct books *books = *state;
        struct ledger_object group = { C, C, 5, GROUP, -1 };
        struct ledger_lent lent;

        object_put(books, C, C, 1, 0);
        ledger_put(books->ledger, room(books), &group, charge_take(books, 0, 10));
        borrow(books, 2, LOAN);
        assert_int_equal(lend(books, 1, of_object(C, 1), &lent), LEDGER_E_NO_OBJECT); /* no memory */
        assert_int_equal(lend(books, 1, of_object(C, 5), &lent), LEDGER_E_NO_OBJECT); /* a group */
        assert_int_equal(lend(books, 1, of_object(C, 2), &lent), LEDGER_E_NO_OBJECT); /* borrowed */
        assert_int_equal(lend(books, 1, of_object(D, 1), &lent), LEDGER_E_NO_OBJECT); /* not there */
        assert_int_equal(ledger_totals(books->ledger).n_exports, 0);
}

static void what_is_borrowed_is_not_charged_and_returned_once_with_its_last_holder(void **state)
{
        struct books *books = *state;
        uint64_t loan = 0;

        borrow(books, 1, LOAN);
        assert_int_equal(held(books), 0);
        assert_int_equal(ledger_borrowed(books->ledger, 1), 10);
        assert_true(ledger_has_borrowed(books->ledger, 3));
        assert_false(ledger_has_borrowed(books->ledger, 9));
        assert_int_equal(map(books, 5, 0x1000, 0x1000, C, 1), LEDGER_OK);
        ledger_client_gone(books->ledger, C);
        assert_false(ledger_returned(books->ledger, &loan)); /* a space still maps it */
        unmap(books, 5, 0x1000, 0x1000);
        assert_true(ledger_returned(books->ledger, &loan));
        assert_true(loan == LOAN);
        assert_false(ledger_returned(books->ledger, &loan));
        assert_false(ledger_has_borrowed(books->ledger, 3));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                books_test(what_is_lent_stays_charged_until_it_is_returned),
                books_test(two_loans_of_a_memory_are_two),
                books_test(a_loan_stands_while_the_object_is_the_same),
                books_test(a_loan_does_not_stand_once_its_client_is_about_to_go),
                books_test(an_export_is_lent_by_its_place_until_the_place_is_exported_to_again),
                books_test(only_memory_of_its_own_is_lent),
                books_test(what_is_borrowed_is_not_charged_and_returned_once_with_its_last_holder),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
