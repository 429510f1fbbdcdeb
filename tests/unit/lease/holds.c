/* SPDX-License-Identifier: Apache-2.0 */
#include "lease/books.h"

#include <time.h>

/* CUDA maps every allocation so: the driver's free alone does not return the memory. */
static void a_mapping_holds_memory_after_its_object_is_freed(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        assert_int_equal(map(books, 5, 0x1000, 0x1000, C, 1), LEDGER_OK);
        ledger_free(books->ledger, C, 1);
        assert_int_equal(held(books), 10);
        unmap(books, 5, 0x1000, 0x1000);
        assert_int_equal(held(books), 0);
}

static void unmapping_alone_keeps_the_objects_memory(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        assert_int_equal(map(books, 5, 0x1000, 0x1000, C, 1), LEDGER_OK);
        unmap(books, 5, 0x1000, 0x1000);
        assert_int_equal(held(books), 10);
}

static void a_memory_may_be_mapped_often(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        for (uint64_t space = 1; space <= 3; space++)
                for (uint64_t base = 0; base < 3; base++)
                        assert_int_equal(map(books, space, base, 1, C, 1), LEDGER_OK);
        ledger_client_gone(books->ledger, C);
        ledger_space_gone(books->ledger, 1);
        ledger_space_gone(books->ledger, 2);
        unmap(books, 3, 1, 9);
        assert_int_equal(held(books), 10);
        unmap(books, 3, 0, 1);
        assert_int_equal(held(books), 0);
}

static void a_mapping_covers_those_inside_it_of_the_same_device(void **state)
{
        struct books *books = *state;

        for (uint32_t i = 0; i < 4; i++)
                object_put(books, C, C, i, 1u << i);
        assert_int_equal(map(books, 5, 100, 10, C, 0), LEDGER_OK);
        assert_int_equal(map(books, 5, 110, 10, C, 1), LEDGER_OK);
        assert_int_equal(map(books, 5, 119, 10, C, 2), LEDGER_OK);
        assert_int_equal(map(books, 5, 100, 20, C, 3), LEDGER_OK);
        ledger_client_gone(books->ledger, C);
        assert_int_equal(held(books), 4 + 8); /* one was covered in part only */
}

static int map_on(struct books *books, uint64_t where, uint32_t handle)
{
        return ledger_map(books->ledger, room(books), 5, 100, 10, where, C, handle);
}

/* Two devices may map one place; what one lets go the other still holds. */
static void mappings_of_two_devices_are_two(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 1);
        assert_int_equal(map_on(books, 7, 1), LEDGER_OK);
        assert_int_equal(map_on(books, 8, 1), LEDGER_OK);
        ledger_free(books->ledger, C, 1);
        ledger_unmap(books->ledger, 5, 100, 10, 7);
        assert_int_equal(held(books), 1);
        ledger_unmap(books->ledger, 5, 100, 10, 7);
        assert_int_equal(held(books), 1);
        ledger_unmap(books->ledger, 5, 100, 10, 8);
        assert_int_equal(held(books), 0);
}

static void a_mapping_of_several_devices_goes_with_none_of_them(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 1);
        object_put(books, C, C, 2, 2);
        assert_int_equal(map_on(books, 0, 1), LEDGER_OK);
        assert_int_equal(map_on(books, 7, 2), LEDGER_OK);
        ledger_client_gone(books->ledger, C);
        ledger_unmap(books->ledger, 5, 100, 10, 7);
        assert_int_equal(held(books), 1);
        ledger_unmap(books->ledger, 5, 100, 10, 0);
        assert_int_equal(held(books), 0);
}

static void a_range_unmaps_what_lies_wholly_inside(void **state)
{
        struct books *books = *state;
        static const struct {
                uint64_t base, length;
                bool is_inside; /* of [100, 200) */
        } mappings[] = {
                { 90, 10, false },  { 99, 2, false }, { 100, 10, true }, { 110, 0, true },  { 150, 50, true },
                { 151, 50, false }, { 199, 1, true }, { 200, 0, false }, { 200, 1, false }, { 120, UINT64_MAX, false },
        };

        for (size_t i = 0; i < ARRAY_SIZE(mappings); i++) {
                object_put(books, C, C, 1, 1);
                assert_int_equal(map(books, 5, mappings[i].base, mappings[i].length, C, 1), LEDGER_OK);
                ledger_free(books->ledger, C, 1);
                unmap(books, 5, 100, 100);
                assert_int_equal(held(books), mappings[i].is_inside ? 0 : 1);
                ledger_space_gone(books->ledger, 5);
        }
}

static void ranges_at_the_end_of_the_numbers_do_not_wrap(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        assert_int_equal(map(books, 5, 0, 1, C, 1), LEDGER_OK);
        assert_int_equal(map(books, 5, UINT64_MAX, 1, C, 1), LEDGER_OK);
        assert_int_equal(map(books, 5, UINT64_MAX - 1, UINT64_MAX, C, 1), LEDGER_OK);
        assert_int_equal(map(books, UINT64_MAX, UINT64_MAX, UINT64_MAX, C, 1), LEDGER_OK);
        unmap(books, 5, 1, UINT64_MAX);
        assert_int_equal(ledger_totals(books->ledger).n_mappings, 3);
        unmap(books, 5, 0, UINT64_MAX);
        assert_int_equal(ledger_totals(books->ledger).n_mappings, 2);
        ledger_space_gone(books->ledger, 5);
        ledger_space_gone(books->ledger, UINT64_MAX);
        assert_int_equal(ledger_totals(books->ledger).n_mappings, 0);
}

static void a_mapping_of_an_unknown_object_is_refused_and_replaces_nothing(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        assert_int_equal(map(books, 5, 0, 1, C, 1), LEDGER_OK);
        assert_int_equal(map(books, 5, 0, 1, C, 2), LEDGER_E_NO_OBJECT);
        ledger_free(books->ledger, C, 1);
        assert_int_equal(held(books), 10);
}

static void what_holds_no_memory_can_be_mapped_and_exported(void **state)
{
        struct books *books = *state;
        struct ledger_object to = { D, D, 1, DEVICE, -1 };

        object_put(books, C, C, 1, 0);
        assert_int_equal(map(books, 5, 0, 1, C, 1), LEDGER_OK);
        assert_int_equal(ledger_export(books->ledger, room(books), 3, 0, C, 1), LEDGER_OK);
        assert_int_equal(ledger_import(books->ledger, room(books), &to, 3, 0), LEDGER_OK);
        assert_int_equal(held(books), 0);
        assert_true(is_there(books, D, 1));
}

static void an_export_holds_memory_until_its_descriptor_closes(void **state)
{
        struct books *books = *state;

        object_put(books, C, C, 1, 10);
        assert_int_equal(ledger_export(books->ledger, room(books), 3, 0, C, 1), LEDGER_OK);
        ledger_client_gone(books->ledger, C);
        assert_int_equal(held(books), 10);
        ledger_export_gone(books->ledger, 4);
        assert_int_equal(held(books), 10);
        ledger_export_gone(books->ledger, 3);
        assert_int_equal(held(books), 0);
}

static void an_import_inside_the_tenant_is_free_and_holds(void **state)
{
        struct books *books = *state;
        struct ledger_object to = { D, D, 7, MEMORY, -1 };

        object_put(books, C, C, 1, 10);
        assert_int_equal(ledger_export(books->ledger, room(books), 3, 0, C, 1), LEDGER_OK);
        assert_int_equal(ledger_import(books->ledger, room(books), &to, 3, 0), LEDGER_OK);
        assert_int_equal(held(books), 10);
        ledger_free(books->ledger, C, 1);
        ledger_export_gone(books->ledger, 3);
        assert_int_equal(held(books), 10);
        assert_int_equal(ledger_charge_of(books->ledger, D, 7), 10);
        ledger_free(books->ledger, D, 7);
        assert_int_equal(held(books), 0);
}

static void an_import_of_anothers_export_is_refused(void **state)
{
        struct books *books = *state;
        struct ledger_object to = { D, D, 7, MEMORY, -1 };

        assert_int_equal(ledger_import(books->ledger, room(books), &to, 3, 0), LEDGER_E_NO_OBJECT);
        assert_int_equal(ledger_export(books->ledger, room(books), 3, 0, C, 1), LEDGER_E_NO_OBJECT);
        assert_int_equal(ledger_import(books->ledger, room(books), &to, 3, 0), LEDGER_E_NO_OBJECT);
        assert_false(is_there(books, D, 7));
}

static void a_descriptor_keeps_several_by_index(void **state)
{
        struct books *books = *state;
        struct ledger_object to = { D, D, 7, MEMORY, -1 };

        object_put(books, C, C, 1, 10);
        object_put(books, C, C, 2, 20);
        object_put(books, C, C, 3, 40);
        for (uint32_t i = 0; i < 2; i++)
                assert_int_equal(ledger_export(books->ledger, room(books), 3, i, C, i + 1), LEDGER_OK);
        assert_int_equal(ledger_export(books->ledger, room(books), 3, 1, C, 3), LEDGER_OK);
        ledger_client_gone(books->ledger, C);
        assert_int_equal(held(books), 50); /* what was there before is let go */
        assert_int_equal(ledger_import(books->ledger, room(books), &to, 3, 2), LEDGER_E_NO_OBJECT);
        assert_int_equal(ledger_import(books->ledger, room(books), &to, 3, 0), LEDGER_OK);
        assert_int_equal(ledger_charge_of(books->ledger, D, 7), 10);
        assert_int_equal(ledger_import(books->ledger, room(books), &to, 3, 1), LEDGER_OK);
        ledger_export_gone(books->ledger, 3);
        assert_int_equal(held(books), 40); /* the latest of its index */
}

static void manage(struct books *books, uint64_t space, uint32_t owner, uint64_t base, size_t device, bytes size)
{
        ledger_managed_put(books->ledger, room(books), space, owner, base, size, 0, charge_take(books, device, size));
}

static void a_managed_range_is_charged_until_it_is_gone(void **state)
{
        struct books *books = *state;

        manage(books, 5, 100, 0x1000, 0, 64);
        assert_int_equal(held(books), 64);
        assert_int_equal(ledger_held_by(books->ledger, &books->quotas[0], 100), 64);
        ledger_managed_gone(books->ledger, 100, 0x2000);
        ledger_managed_gone(books->ledger, 200, 0x1000);
        unmap(books, 5, 0x1000, 64);
        assert_int_equal(held(books), 64);
        ledger_managed_gone(books->ledger, 100, 0x1000);
        assert_int_equal(held(books), 0);
}

static void a_managed_range_may_be_charged_on_every_device(void **state)
{
        struct books *books = *state;
        uint64_t space, base, length;
        size_t i = 0;

        manage(books, 5, 100, 0x1000, 0, 64);
        manage(books, 5, 100, 0x1000, 1, 64);
        assert_int_equal(books->quotas[0].used, 64);
        assert_int_equal(books->quotas[1].used, 64);
        for (unsigned int device = 0; device < 2; device++) {
                assert_int_equal(ledger_kinds(books->ledger, &books->quotas[device], device).managed, 64);
                assert_int_equal(ledger_kinds(books->ledger, &books->quotas[device], device).driver, 0);
        }
        assert_true(ledger_managed_next(books->ledger, 100, &i, &space, &base, &length));
        assert_false(ledger_managed_next(books->ledger, 100, &i, &space, &base, &length));
        ledger_managed_gone(books->ledger, 100, 0x1000);
        assert_int_equal(books->quotas[0].used, 0);
        assert_int_equal(books->quotas[1].used, 0);
}

static void a_managed_range_at_the_same_place_is_charged_besides(void **state)
{
        struct books *books = *state;

        for (size_t device = 0; device < 2; device++) {
                manage(books, 5, 100, 0x1000, device, 64);
                manage(books, 5, 200, 0x1000, device, 64);
        }
        for (size_t device = 0; device < 2; device++)
                manage(books, 6, 100, 0x1000, device, 1);
        assert_int_equal(held(books), 129);
        assert_int_equal(books->quotas[1].used, 129);
        ledger_space_gone(books->ledger, 5);
        assert_int_equal(held(books), 1);
}

static void managed_ranges_go_with_their_owner_or_space(void **state)
{
        struct books *books = *state;

        manage(books, 5, 100, 0x1000, 0, 1);
        manage(books, 5, 100, 0x2000, 0, 2);
        manage(books, 6, 100, 0x3000, 0, 4);
        manage(books, 7, 200, 0x1000, 0, 8);
        ledger_space_gone(books->ledger, 5);
        assert_int_equal(held(books), 12);
        ledger_owner_managed_gone(books->ledger, 100);
        assert_int_equal(held(books), 8);
        ledger_owner_managed_gone(books->ledger, 1);
        assert_int_equal(held(books), 8);
}

static void managed_ranges_are_visited_in_order_also_while_they_go(void **state)
{
        struct books *books = *state;
        uint64_t space, base, length, last = 0;
        size_t i = 0, n = 0;

        for (uint64_t at = 10; at > 0; at--)
                manage(books, 5, 100, at * 0x1000, 0, at);
        manage(books, 5, 101, 0x1000, 0, 1);
        while (ledger_managed_next(books->ledger, 100, &i, &space, &base, &length)) {
                assert_true(base > last);
                assert_int_equal(space, 5);
                assert_int_equal(length * 0x1000, base);
                ledger_managed_gone(books->ledger, 100, base);
                last = base;
                n++;
        }
        assert_int_equal(n, 10);
        assert_int_equal(held(books), 1);
}

static void a_visit_ends_also_at_the_end_of_the_numbers(void **state)
{
        struct books *books = *state;
        uint64_t space, base, length;
        size_t i = 0, n = 0;

        manage(books, 5, UINT32_MAX, UINT64_MAX, 0, 1);
        manage(books, 5, UINT32_MAX, UINT64_MAX - 1, 0, 1);
        while (ledger_managed_next(books->ledger, UINT32_MAX, &i, &space, &base, &length))
                n++;
        assert_int_equal(n, 1);
        ledger_owner_managed_gone(books->ledger, UINT32_MAX);
        assert_int_equal(held(books), 0);
}

static void a_managed_range_may_be_free_of_charge(void **state)
{
        struct books *books = *state;

        manage(books, 5, 100, 0x1000, 0, 0);
        assert_int_equal(ledger_totals(books->ledger).n_managed, 1);
        assert_int_equal(held(books), 0);
}

static bool gone_before(struct books *books, uint32_t owner, uint64_t base, uint64_t length, int64_t before)
{
        bytes was = held(books);
        size_t n;
        bool is_left = ledger_managed_gone_before(books->ledger, owner, base, length, before, &n);

        assert_true((held(books) < was) == (n > 0));
        return is_left;
}

static void what_was_put_just_now_is_not_yet_missing(void **state)
{
        struct books *books = *state;

        for (size_t device = 0; device < 2; device++)
                ledger_managed_put(books->ledger, room(books), 5, 100, 0x1000, 64, 1000,
                                   charge_take(books, device, 64));
        assert_true(gone_before(books, 100, 0x1000, 64, 1000));
        assert_false(gone_before(books, 100, 0x0fff, 64, 2000));
        assert_false(gone_before(books, 200, 0x1000, 64, 2000));
        assert_int_equal(held(books), 64);
        assert_false(gone_before(books, 100, 0x1000, 64, 1001));
        assert_int_equal(held(books), 0);
        assert_int_equal(books->quotas[1].used, 0);
}

static void only_what_was_put_before_is_missing(void **state)
{
        struct books *books = *state;
        uint64_t space, base, length;
        size_t i = 0;

        ledger_managed_put(books->ledger, room(books), 5, 100, 0x1000, 64, 1000, charge_take(books, 0, 64));
        ledger_managed_put(books->ledger, room(books), 5, 100, 0x1000, 16, 2000, charge_take(books, 0, 16));
        assert_true(ledger_managed_next(books->ledger, 100, &i, &space, &base, &length));
        assert_int_equal(length, 64);
        assert_true(gone_before(books, 100, 0x1000, 63, 2000)); /* the driver was asked about a shorter one */
        assert_int_equal(held(books), 80);
        assert_true(gone_before(books, 100, 0x1000, 64, 2000));
        assert_int_equal(held(books), 16);
        assert_false(gone_before(books, 100, 0x1000, 64, 2001));
        assert_int_equal(held(books), 0);
}

static void owners_are_visited_each_once(void **state)
{
        struct books *books = *state;
        uint32_t owner = 0;

        assert_false(ledger_managed_owner_next(books->ledger, &owner));
        manage(books, 5, 7, 0x1000, 0, 1);
        manage(books, 5, 7, 0x2000, 0, 1);
        manage(books, 6, UINT32_MAX, 0x1000, 0, 1);
        assert_true(ledger_managed_owner_next(books->ledger, &owner));
        assert_int_equal(owner, 7);
        assert_true(ledger_managed_owner_next(books->ledger, &owner));
        assert_int_equal(owner, UINT32_MAX);
        assert_false(ledger_managed_owner_next(books->ledger, &owner));
}

static void range(struct books *books, uint64_t space, uint64_t base, uint64_t length, bool is_pool)
{
        ledger_range_put(books->ledger, room(books), space, base, length, is_pool, (struct charge){ 0 });
}

/* The driver's free of a range names its base only; the range knows how far it goes. */
static void a_range_takes_the_mappings_inside_along(void **state)
{
        struct books *books = *state;

        for (uint32_t i = 0; i < 4; i++)
                object_put(books, C, C, i, 1u << i);
        range(books, 5, 100, 100, false);
        assert_int_equal(map(books, 5, 100, 10, C, 0), LEDGER_OK);
        assert_int_equal(map(books, 5, 190, 10, C, 1), LEDGER_OK);
        assert_int_equal(map(books, 5, 200, 10, C, 2), LEDGER_OK);
        assert_int_equal(map(books, 4, 100, 10, C, 3), LEDGER_OK);
        ledger_client_gone(books->ledger, C);
        ledger_range_gone(books->ledger, 5, 99);
        ledger_range_gone(books->ledger, 5, 101);
        ledger_range_gone(books->ledger, 4, 100);
        assert_int_equal(held(books), 15);
        ledger_range_gone(books->ledger, 5, 100);
        assert_int_equal(held(books), 4 + 8);
}

static void a_pool_is_found_exactly_where_it_is(void **state)
{
        struct books *books = *state;

        range(books, 5, 100, 100, true);
        range(books, 5, 300, 100, false);
        range(books, UINT64_MAX, UINT64_MAX, UINT64_MAX, true);
        for (uint64_t space = 0; space <= 5; space += 5) {
                assert_true(ledger_has_pool(books->ledger, space, 100, 100));
                assert_false(ledger_has_pool(books->ledger, space, 100, 99));
                assert_false(ledger_has_pool(books->ledger, space, 99, 101));
                assert_false(ledger_has_pool(books->ledger, space, 150, 10));
                assert_false(ledger_has_pool(books->ledger, space, 300, 100));
        }
        assert_false(ledger_has_pool(books->ledger, 6, 100, 100));
        assert_true(ledger_has_pool(books->ledger, 0, UINT64_MAX, UINT64_MAX));
        range(books, 5, 100, 100, false); /* another one */
        assert_false(ledger_has_pool(books->ledger, 0, 100, 100));
        ledger_space_gone(books->ledger, UINT64_MAX);
        assert_false(ledger_has_pool(books->ledger, 0, UINT64_MAX, UINT64_MAX));
}

static void the_gaps_are_what_neither_kind_of_range_has(void **state)
{
        struct books *books = *state;
        uint64_t at = 0x1000, length;

        range(books, 1, 0x2000, 0x1000, true);
        manage(books, 1, 100, 0x3000, 0, 0x1000); /* touches the pool */
        manage(books, 1, 100, 0x6000, 0, 0x2000);
        manage(books, 1, 200, 0x6000, 0, 0x1000); /* put again, shorter */
        range(books, 2, 0x4000, 0x1000, false);   /* another space's */

        assert_true(ledger_gap_next(books->ledger, 1, &at, 0x9000, &length));
        assert_true(at == 0x1000 && length == 0x1000);
        at += length;
        assert_true(ledger_gap_next(books->ledger, 1, &at, 0x9000, &length));
        assert_true(at == 0x4000 && length == 0x2000);
        at += length;
        assert_true(ledger_gap_next(books->ledger, 1, &at, 0x9000, &length));
        assert_true(at == 0x8000 && length == 0x1000);
        at = 0x6800; /* within one, and the end too */
        assert_false(ledger_gap_next(books->ledger, 1, &at, 0x7000, &length));
        at = UINT64_MAX - 0xfff;
        manage(books, 1, 100, at, 0, 0x1000); /* up to the last address */
        assert_false(ledger_gap_next(books->ledger, 1, &at, UINT64_MAX, &length));
}

/* Not charged: as a range that lies over the quota. */
static void lay(struct books *books, uint64_t space, uint32_t owner, uint64_t base, uint64_t length)
{
        ledger_managed_put(books->ledger, room(books), space, owner, base, length, 0, (struct charge){ 0 });
}

/* One huge range, and as many small ones as a tenant cares to make: neither a walk over what lies at an address nor one
 * over what lies nowhere looks at the others. By processor time: fifty times what it takes; a look at each would take
 * longer still. */
static void many_ranges_are_no_matter_for_one(void **state)
{
        enum { SMALL = 40000, CALLS = 20000 };
        struct books *books = *state;
        uint64_t base, length;
        clock_t began;

        lay(books, 1, 100, 0x1000, 1ull << 46);
        for (uint64_t i = 0; i < SMALL; i++)
                lay(books, 2, 100, 0x10000 + i * 0x2000, 0x1000);
        began = clock();
        for (uint64_t i = 0; i < CALLS; i++) {
                uint64_t at = 0x11000 + i * 0x2000;
                size_t from = 0;

                assert_true(ledger_managed_over(books->ledger, 100, &from, at, 0x1000, &base, &length));
                assert_true(base == 0x1000 && length == 1ull << 46);
                assert_false(ledger_managed_over(books->ledger, 100, &from, at, 0x1000, &base, &length));
                assert_true(ledger_gap_next(books->ledger, 2, &at, UINT64_MAX, &length));
                assert_true(at == 0x11000 + i * 0x2000 && length == 0x1000);
        }
        assert_true(clock() - began < 5 * CLOCKS_PER_SEC);
}

static void a_walk_over_ranges_without_a_gap_is_made_in_parts(void **state)
{
        struct books *books = *state;
        uint64_t at = 0x1000, length = 1;
        unsigned int n = 0;

        for (uint64_t i = 0; i < 3 * LEDGER_GAP_WALK; i++)
                lay(books, 1, 100, 0x1000 + i * 0x1000, 0x1000);
        while (ledger_gap_next(books->ledger, 1, &at, UINT64_MAX, &length) && !length)
                n++;
        assert_in_range(n, 2, 4);
        assert_true(at == 0x1000 + 3ull * LEDGER_GAP_WALK * 0x1000 && length == UINT64_MAX - at);
}

static void totals_count_everything(void **state)
{
        struct books *books = *state;
        struct ledger_totals totals;

        object_put(books, C, C, 1, 0);
        object_put(books, C, 1, 2, 10);
        assert_int_equal(dup_of(books, D, 2, C, 2), LEDGER_OK);
        assert_int_equal(map(books, 1, 1, 1, C, 2), LEDGER_OK);
        assert_int_equal(ledger_export(books->ledger, room(books), 3, 0, C, 2), LEDGER_OK);
        manage(books, 1, 100, 1, 1, 5);
        totals = ledger_totals(books->ledger);
        assert_int_equal(totals.n_clients, 2);
        assert_int_equal(totals.n_objects, 3);
        assert_int_equal(totals.n_memories, 2);
        assert_int_equal(totals.n_mappings, 1);
        assert_int_equal(totals.n_exports, 1);
        assert_int_equal(totals.n_managed, 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                books_test(a_mapping_holds_memory_after_its_object_is_freed),
                books_test(unmapping_alone_keeps_the_objects_memory),
                books_test(a_memory_may_be_mapped_often),
                books_test(a_mapping_covers_those_inside_it_of_the_same_device),
                books_test(mappings_of_two_devices_are_two),
                books_test(a_mapping_of_several_devices_goes_with_none_of_them),
                books_test(a_range_unmaps_what_lies_wholly_inside),
                books_test(ranges_at_the_end_of_the_numbers_do_not_wrap),
                books_test(a_mapping_of_an_unknown_object_is_refused_and_replaces_nothing),
                books_test(what_holds_no_memory_can_be_mapped_and_exported),
                books_test(an_export_holds_memory_until_its_descriptor_closes),
                books_test(an_import_inside_the_tenant_is_free_and_holds),
                books_test(an_import_of_anothers_export_is_refused),
                books_test(a_descriptor_keeps_several_by_index),
                books_test(a_managed_range_is_charged_until_it_is_gone),
                books_test(a_managed_range_may_be_charged_on_every_device),
                books_test(a_managed_range_at_the_same_place_is_charged_besides),
                books_test(managed_ranges_go_with_their_owner_or_space),
                books_test(managed_ranges_are_visited_in_order_also_while_they_go),
                books_test(a_visit_ends_also_at_the_end_of_the_numbers),
                books_test(a_managed_range_may_be_free_of_charge),
                books_test(what_was_put_just_now_is_not_yet_missing),
                books_test(only_what_was_put_before_is_missing),
                books_test(owners_are_visited_each_once),
                books_test(a_range_takes_the_mappings_inside_along),
                books_test(a_pool_is_found_exactly_where_it_is),
                books_test(the_gaps_are_what_neither_kind_of_range_has),
                books_test(many_ranges_are_no_matter_for_one),
                books_test(a_walk_over_ranges_without_a_gap_is_made_in_parts),
                books_test(totals_count_everything),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
