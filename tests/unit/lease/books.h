/* SPDX-License-Identifier: Apache-2.0 */
/* A ledger with two devices to test on; what is left at the end must be sound, and return. */
#pragma once

#include "unit.h"

#include "base/cleanup.h"
#include "lease/ledger.h"
#include "lease/sound.h"

#include <stdlib.h>

enum {
        MEMORY = 0x40, /* class numbers; any would do */
        DEVICE = 0x80,
        GROUP = 0xa06c,
        C = 0xc1d00001, /* a client */
        D = 0xc1d00002, /* another */
        GPU = 7,        /* where mappings are made */
};

struct books {
        struct ledger *ledger;
        struct quota quotas[2];
};

static inline struct ledger_entry *room(struct books *books)
{
        struct ledger_entry *entry;

        assert_int_equal(ledger_entry_new(books->ledger, &entry), 0);
        return entry;
}

static inline int open_books(void **state)
{
        struct books *books = calloc(1, sizeof(*books));

        if (!books || ledger_new(&books->ledger) < 0)
                return -1;
        books->quotas[0].size = books->quotas[1].size = GIB;
        ledger_client_put(books->ledger, room(books), C, 100);
        ledger_client_put(books->ledger, room(books), D, 200);
        *state = books;
        return 0;
}

static inline int close_books(void **state)
{
        struct books *books = *state;
        bool is_sound = ledger_is_sound(books->ledger);

        books->ledger = ledger_unref(books->ledger);
        is_sound = is_sound && !books->quotas[0].used && !books->quotas[1].used;
        free(books);
        return is_sound ? 0 : -1;
}

static inline struct charge charge_take(struct books *books, size_t device, bytes size)
{
        struct charge charge = { 0 };

        assert_int_equal(quota_take(&books->quotas[device], size, &charge), QUOTA_OK);
        return charge;
}

/* size 0: an object without memory. */
static inline void object_put(struct books *books, uint32_t client, uint32_t parent, uint32_t handle, bytes size)
{
        struct ledger_object object = { client, parent, handle, size ? MEMORY : DEVICE, -1 };

        ledger_put(books->ledger, room(books), &object, charge_take(books, 0, size));
}

static inline int dup_of(struct books *books, uint32_t client, uint32_t handle, uint32_t source_client,
                         uint32_t source_handle)
{
        struct ledger_object to = { client, client, handle, MEMORY, -1 };

        return ledger_dup(books->ledger, room(books), &to, source_client, source_handle);
}

static inline int map(struct books *books, uint64_t space, uint64_t base, uint64_t length, uint32_t client,
                      uint32_t handle)
{
        return ledger_map(books->ledger, room(books), space, base, length, GPU, client, handle);
}

static inline void unmap(struct books *books, uint64_t space, uint64_t base, uint64_t length)
{
        ledger_unmap(books->ledger, space, base, length, GPU);
}

static inline bool is_there(struct books *books, uint32_t client, uint32_t handle)
{
        struct ledger_object object;

        return ledger_get(books->ledger, client, handle, &object) == LEDGER_OK;
}

static inline bytes held(struct books *books)
{
        bytes size = ledger_held(books->ledger, &books->quotas[0]);

        assert_true(ledger_is_sound(books->ledger));
        assert_int_equal(size, books->quotas[0].used);
        return size;
}

#define books_test(f) cmocka_unit_test_setup_teardown(f, open_books, close_books)
