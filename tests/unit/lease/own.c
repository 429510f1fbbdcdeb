/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver takes without being asked: it is charged as long as the driver may have it. */
#include "lease/books.h"

enum {
        SPACE = 5,      /* of UVM */
        KEY = 77,       /* what a space retains */
        WHERE = 5,      /* and on which device */
        CHANNEL = 0x6f, /* class numbers */
        ADDRESSES = 0x90f1,
};

static struct ledger_object named(uint32_t parent, uint32_t handle, uint32_t class_number)
{
        return (struct ledger_object){ C, parent, handle, class_number, -1 };
}

static void device_put(struct books *books, uint32_t handle)
{
        struct ledger_object object = { C, C, handle, DEVICE, 0 };

        ledger_put(books->ledger, room(books), &object, (struct charge){ 0 });
}

static void own_put(struct books *books, uint32_t parent, uint32_t handle, uint32_t class_number, bytes size)
{
        struct ledger_object object = named(parent, handle, class_number);

        ledger_put_own(books->ledger, room(books), &object, charge_take(books, 0, size));
}

static void buffers_go_with_their_object_and_count_as_the_drivers(void **state)
{
        struct books *books = *state;

        device_put(books, 1);
        own_put(books, 1, 2, GROUP, 100);
        own_put(books, 2, 3, CHANNEL, 10);
        assert_int_equal(ledger_own(books->ledger, 0), 110);
        ledger_free(books->ledger, C, 3);
        assert_int_equal(held(books), 100);
        ledger_free(books->ledger, C, 1);
        assert_int_equal(held(books), 0);
        assert_int_equal(ledger_own(books->ledger, 0), 0);
}

static void a_space_keeps_a_group_with_all_its_channels_of_then_and_later(void **state)
{
        struct books *books = *state;

        device_put(books, 1);
        own_put(books, 1, 2, GROUP, 100);
        own_put(books, 2, 3, CHANNEL, 10);
        own_put(books, 2, 4, CHANNEL, 10);
        ledger_own_gather(books->ledger, C, 2);
        ledger_retain(books->ledger, room(books), SPACE, KEY, WHERE, C, 2);
        own_put(books, 2, 5, CHANNEL, 10);
        ledger_free(books->ledger, C, 1);
        assert_int_equal(held(books), 130);
        assert_int_equal(ledger_own(books->ledger, 0), 130);
        ledger_let_go(books->ledger, SPACE, KEY + 1);
        assert_int_equal(held(books), 130);
        ledger_let_go(books->ledger, SPACE, KEY);
        assert_int_equal(held(books), 0);
}

static void what_a_space_keeps_on_a_device_goes_together(void **state)
{
        struct books *books = *state;

        device_put(books, 1);
        own_put(books, 1, 2, GROUP, 100);
        own_put(books, 1, 3, GROUP, 10);
        own_put(books, 1, 4, GROUP, 1);
        ledger_retain(books->ledger, room(books), SPACE, KEY, WHERE + 1, C, 2);
        ledger_retain(books->ledger, room(books), SPACE, KEY + 1, WHERE, C, 3);
        ledger_retain(books->ledger, room(books), SPACE + 1, KEY, WHERE, C, 4);
        ledger_free(books->ledger, C, 1);
        assert_int_equal(held(books), 111);
        ledger_let_go_where(books->ledger, SPACE, WHERE);
        assert_int_equal(held(books), 101);
        ledger_let_go_where(books->ledger, SPACE, WHERE + 1);
        assert_int_equal(held(books), 1);
        ledger_let_go_where(books->ledger, SPACE + 1, WHERE);
        assert_int_equal(held(books), 0);
}

static void the_end_of_a_space_lets_go(void **state)
{
        struct books *books = *state;

        device_put(books, 1);
        own_put(books, 1, 2, GROUP, 100);
        ledger_retain(books->ledger, room(books), SPACE, KEY, WHERE, C, 2);
        ledger_free(books->ledger, C, 2);
        ledger_space_gone(books->ledger, SPACE);
        assert_int_equal(held(books), 0);
}

static void reserve(struct books *books, uint32_t space, uint32_t handle, bytes size, bytes most)
{
        struct ledger_object object = named(1, handle, 0x50a0);
        struct ledger_reservation reservation = { space, size, most };
        bytes need = ledger_pool_need(books->ledger, C, space, size);

        ledger_pool_put(books->ledger, room(books), &object, &reservation, charge_take(books, 0, need));
}

static void a_space_keeps_the_most_that_was_reserved_in_it(void **state)
{
        struct books *books = *state;

        device_put(books, 1);
        own_put(books, 1, 2, ADDRESSES, 64);
        reserve(books, 2, 3, 1000, 1000);
        reserve(books, 2, 4, 500, 500);
        assert_int_equal(held(books), 1564);
        ledger_free(books->ledger, C, 3);
        assert_int_equal(held(books), 1564);
        reserve(books, 2, 5, 800, 800); /* of what is there */
        assert_int_equal(held(books), 1564);
        reserve(books, 2, 6, 300, 300);
        assert_int_equal(held(books), 1664);
        ledger_free(books->ledger, C, 2);
        assert_int_equal(held(books), 1664); /* reservations are still there */
        for (uint32_t handle = 4; handle <= 6; handle++)
                ledger_free(books->ledger, C, handle);
        assert_int_equal(held(books), 0);
}

static void a_device_has_a_space_of_its_own(void **state)
{
        struct books *books = *state;

        device_put(books, 1);
        reserve(books, 1, 2, 1000, 1000);
        ledger_free(books->ledger, C, 2);
        assert_int_equal(held(books), 1000);
        ledger_free(books->ledger, C, 1);
        assert_int_equal(held(books), 0);
}

static void a_lazy_reservation_grows_to_its_most(void **state)
{
        struct books *books = *state;
        bytes need;

        device_put(books, 1);
        own_put(books, 1, 2, ADDRESSES, 64);
        reserve(books, 2, 3, 10, 100);
        assert_int_equal(ledger_pool_room(books->ledger, C, 3, 60, &need), 60);
        assert_int_equal(need, 60);
        ledger_pool_grow(books->ledger, C, 3, 60, charge_take(books, 0, need));
        assert_int_equal(held(books), 134);
        assert_int_equal(ledger_pool_room(books->ledger, C, 3, 60, &need), 30);
        ledger_pool_grow(books->ledger, C, 3, 30, charge_take(books, 0, need));
        assert_int_equal(ledger_pool_room(books->ledger, C, 3, 60, &need), 0);
        assert_int_equal(held(books), 164);
        assert_int_equal(dup_of(books, C, 9, C, 3), LEDGER_OK);
        ledger_free(books->ledger, C, 3);
        assert_int_equal(ledger_pool_need(books->ledger, C, 2, 1), 1); /* the dup has all of it */
}

static void a_dup_of_a_lazy_reservation_grows_as_well(void **state)
{
        struct books *books = *state;
        bytes need;

        device_put(books, 1);
        own_put(books, 1, 2, ADDRESSES, 64);
        reserve(books, 2, 3, 10, 100);
        assert_int_equal(dup_of(books, C, 9, C, 3), LEDGER_OK);
        assert_int_equal(ledger_pool_room(books->ledger, C, 9, 200, &need), 90);
        assert_true(need >= 90);
}

static bytes tables(struct books *books, uint64_t base, bytes size)
{
        bytes more = ledger_tables_want(books->ledger, 0, size);

        ledger_tables_pay(books->ledger, 0, charge_take(books, 0, more));
        ledger_map_nothing(books->ledger, room(books), SPACE, base, 1);
        ledger_tables_put(books->ledger, SPACE, base, size, 1);
        return more;
}

static void page_tables_are_charged_by_the_piece_and_keep_it_until_few_are_left(void **state)
{
        struct books *books = *state;

        assert_int_equal(tables(books, 0, 4 * KIB), 2 * MIB);
        assert_int_equal(tables(books, 1, 2 * MIB), 2 * MIB);
        assert_int_equal(tables(books, 2, 2 * MIB - 4 * KIB), 0);
        unmap(books, SPACE, 1, 2);
        assert_int_equal(held(books), 4 * MIB); /* one table may keep each piece */
        ledger_space_gone(books->ledger, SPACE);
        assert_int_equal(held(books), 0);
}

static void what_was_not_made_is_returned(void **state)
{
        struct books *books = *state;
        bytes more = ledger_tables_want(books->ledger, 0, 3 * MIB);

        assert_int_equal(more, 4 * MIB);
        ledger_tables_return(books->ledger, 0, 3 * MIB, more);
        assert_int_equal(ledger_tables_want(books->ledger, 0, MIB), 2 * MIB);
        ledger_tables_return(books->ledger, 0, MIB, 2 * MIB);
        assert_int_equal(held(books), 0);
}

static void a_kind_of_object_has_a_bound(void **state)
{
        struct books *books = *state;
        uint32_t most;

        assert_null(ledger_bound(books->ledger, ADDRESSES, &most));
        for (uint32_t i = 0; i < most; i++)
                own_put(books, C, 10 + i, ADDRESSES, 0);
        assert_string_equal(ledger_bound(books->ledger, ADDRESSES, &most), "address spaces");
        assert_null(ledger_bound(books->ledger, 0x9067, &most));
        ledger_free(books->ledger, C, 10);
        assert_null(ledger_bound(books->ledger, ADDRESSES, &most));
}

static void what_is_being_made_counts(void **state)
{
        struct books *books = *state;
        struct ledger_entry *entry;
        uint32_t most;

        assert_null(ledger_bound(books->ledger, ADDRESSES, &most));
        for (uint32_t i = 0; i < most - 1; i++)
                own_put(books, C, 10 + i, ADDRESSES, 0);
        assert_null(ledger_bound(books->ledger, ADDRESSES, &most));
        assert_int_equal(ledger_entry_new(books->ledger, &entry), 0); /* by another thread */
        assert_string_equal(ledger_bound(books->ledger, ADDRESSES, &most), "address spaces");
        (void)ledger_entry_free(books->ledger, entry);
        assert_null(ledger_bound(books->ledger, ADDRESSES, &most));
}

static void ranges_have_a_bound_that_grows_with_the_quota(void **state)
{
        struct books *books = *state;
        struct ledger_entry *entry;
        uint32_t most, more;

        assert_true(ledger_has_room_for_range(books->ledger, 0, &most));
        assert_true(ledger_has_room_for_range(books->ledger, 16 * MIB, &more));
        assert_int_equal(more, most + 16);
        assert_true(ledger_has_room_for_range(books->ledger, UINT64_MAX, &more));
        for (uint32_t i = 0; i < most - 1; i++)
                ledger_range_put(books->ledger, room(books), 1, i * 4096ull, 4096, false, (struct charge){ 0 });
        assert_true(ledger_has_room_for_range(books->ledger, 0, &most));
        assert_int_equal(ledger_entry_new(books->ledger, &entry), 0); /* by another thread */
        assert_false(ledger_has_room_for_range(books->ledger, 0, &most));
        assert_true(ledger_has_room_for_range(books->ledger, MIB, &more));
        (void)ledger_entry_free(books->ledger, entry);
        ledger_range_gone(books->ledger, 1, 0);
        ledger_range_put(books->ledger, room(books), 2, 0, 4096, false, (struct charge){ 0 });
        assert_true(ledger_has_room_for_range(books->ledger, 0, &most));
        ledger_range_put(books->ledger, room(books), 2, 4096, 4096, false, (struct charge){ 0 });
        assert_false(ledger_has_room_for_range(books->ledger, 0, &most));
        ledger_space_gone(books->ledger, 1);
        assert_true(ledger_has_room_for_range(books->ledger, 0, &most));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                books_test(buffers_go_with_their_object_and_count_as_the_drivers),
                books_test(a_space_keeps_a_group_with_all_its_channels_of_then_and_later),
                books_test(what_a_space_keeps_on_a_device_goes_together),
                books_test(the_end_of_a_space_lets_go),
                books_test(a_space_keeps_the_most_that_was_reserved_in_it),
                books_test(a_device_has_a_space_of_its_own),
                books_test(a_lazy_reservation_grows_to_its_most),
                books_test(a_dup_of_a_lazy_reservation_grows_as_well),
                books_test(page_tables_are_charged_by_the_piece_and_keep_it_until_few_are_left),
                books_test(what_was_not_made_is_returned),
                books_test(a_kind_of_object_has_a_bound),
                books_test(what_is_being_made_counts),
                books_test(ranges_have_a_bound_that_grows_with_the_quota),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
