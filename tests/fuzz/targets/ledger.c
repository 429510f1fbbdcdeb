/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes are operations on a ledger: a code, then a byte for each operand; what is missing is zero.
 * After each, the ledger is sound, and a quota has used what is held and what is under way.
 */
#include "../../unit/lease/sound.h"

#include "base/cleanup.h"
#include "lease/ledger.h"

#include <stdlib.h>

enum {
        N_OPERATIONS_MAX = 2000, /* each is followed by a walk of everything */
        N_KEPT = 4,
};

struct books {
        const uint8_t *data;
        size_t size;
        struct ledger *ledger;
        struct quota quota;
        struct ledger_entry *kept[N_KEPT]; /* reserved, to be used in any order */
};

static uint8_t next(struct books *books)
{
        if (!books->size)
                return 0;
        books->size--;
        return *books->data++;
}

/* The ends of the numbers, and what is near them and near zero. */
static uint64_t next_number(struct books *books)
{
        uint8_t byte = next(books);

        return byte < 128 ? byte : UINT64_MAX - (255 - byte);
}

static uint32_t next_client(struct books *books)
{
        return next(books) & 7;
}

static struct ledger_object next_object(struct books *books)
{
        struct ledger_object object = { .client = next_client(books) };

        object.parent = next(books);
        object.handle = next(books);
        object.class_number = object.handle & 3;
        object.device = (int)(object.parent & 3) - 1;
        return object;
}

static struct charge next_charge(struct books *books)
{
        struct charge charge = { 0 };
        bytes size = next(books), bound = books->quota.size;

        if (size & 128)
                books->quota.size = UINT64_MAX; /* the bound may have been set below what is used */
        (void)quota_take(&books->quota, size, &charge);
        books->quota.size = bound;
        return charge;
}

/* A new entry, or one kept since earlier. */
static struct ledger_entry *next_entry(struct books *books)
{
        uint8_t byte = next(books);
        struct ledger_entry *entry = NULL;

        if (byte & 1)
                entry = TAKE(books->kept[byte / 2 % N_KEPT]);
        if (!entry && ledger_entry_new(books->ledger, &entry) < 0)
                abort();
        return entry;
}

static void keep(struct books *books)
{
        struct ledger_entry **kept = &books->kept[next(books) % N_KEPT];

        *kept = ledger_entry_free(books->ledger, *kept);
        if (ledger_entry_new(books->ledger, kept) < 0)
                abort();
}

static void charge_put(struct books *books)
{
        struct ledger_entry *entry = next_entry(books);
        struct ledger_object object = next_object(books);

        ledger_put(books->ledger, entry, &object, next_charge(books));
}

static void dup_object(struct books *books)
{
        struct ledger_entry *entry = next_entry(books);
        struct ledger_object to = next_object(books);
        uint32_t client = next_client(books);

        (void)ledger_dup(books->ledger, entry, &to, client, next(books));
}

static void import(struct books *books)
{
        struct ledger_entry *entry = next_entry(books);
        struct ledger_object to = next_object(books);
        uint64_t descriptor = next_number(books);

        (void)ledger_import(books->ledger, entry, &to, descriptor, next(books) & 1);
}

static void change_tree(struct books *books, uint8_t code)
{
        uint32_t client = next_client(books), number = next(books);

        switch (code) {
        case 0:
                ledger_client_put(books->ledger, next_entry(books), client, number);
                break;
        case 1:
                ledger_client_gone(books->ledger, client);
                break;
        default:
                ledger_free(books->ledger, client, number);
                break;
        }
}

static void change_holds(struct books *books, uint8_t code)
{
        uint64_t place = next_number(books), base = next_number(books), length = next_number(books);
        uint32_t client = next_client(books), number = next(books);

        switch (code) {
        case 0:
                (void)ledger_map(books->ledger, next_entry(books), place, base, length, number & 3, client, number);
                break;
        case 1:
                ledger_unmap(books->ledger, place, base, length, number & 3);
                break;
        case 2:
                ledger_space_gone(books->ledger, place);
                break;
        case 3:
                (void)ledger_export(books->ledger, next_entry(books), place, base & 1, client, number);
                break;
        case 4:
                ledger_export_gone(books->ledger, place);
                break;
        case 5:
                ledger_managed_put(books->ledger, next_entry(books), place, client, base, length, (int64_t)number,
                                   next_charge(books));
                break;
        case 6:
                ledger_managed_gone(books->ledger, client, base);
                break;
        default:
                ledger_owner_managed_gone(books->ledger, client);
                break;
        }
}

static void change_ranges(struct books *books, uint8_t code)
{
        size_t n_gone;
        uint64_t space = next_number(books), base = next_number(books), length = next_number(books);

        switch (code) {
        case 27:
                ledger_range_put(books->ledger, next_entry(books), space, base, length, length & 1,
                                 (struct charge){ 0 });
                if (ledger_has_pool(books->ledger, space, base, length) != (length & 1))
                        abort();
                break;
        case 28:
                ledger_range_gone(books->ledger, space, base);
                break;
        default:
                (void)ledger_managed_gone_before(books->ledger, (uint32_t)space & 7, base, length, (int64_t)length,
                                                 &n_gone);
                break;
        }
}

static void change(struct books *books)
{
        uint8_t code = next(books) & 31;

        switch (code) {
        case 0:
                keep(books);
                break;
        case 1 ... 7:
                charge_put(books);
                break;
        case 8 ... 11:
                dup_object(books);
                break;
        case 12:
                import(books);
                break;
        case 13 ... 17:
                change_tree(books, code - 13);
                break;
        case 18:
                books->quota.size = next_number(books) * 16;
                break;
        case 27 ... 29:
                change_ranges(books, code);
                break;
        default:
                change_holds(books, (code - 19) & 7);
                break;
        }
}

static void check(const struct books *books)
{
        if (!ledger_is_sound(books->ledger))
                abort();
        if (ledger_held(books->ledger, &books->quota) != books->quota.used)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct books books = { .data = data, .size = size, .quota.size = 1000 };

        if (ledger_new(&books.ledger) < 0)
                abort();
        for (size_t i = 0; books.size && i < N_OPERATIONS_MAX; i++) {
                change(&books);
                check(&books);
        }
        for (size_t i = 0; i < N_KEPT; i++)
                books.kept[i] = ledger_entry_free(books.ledger, books.kept[i]);
        check(&books);
        (void)ledger_unref(books.ledger);
        if (books.quota.used)
                abort();
        return 0;
}
