/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loans, at both ends. The lender's is a hold among the exports, under a descriptor that no export has. The borrower's
 * is a memory without a charge, which waits in a list when its last holder has gone, until the lender is told.
 */
#include "lease/inside.h"

#include "base/cleanup.h"

#include <stdlib.h>

/* Exports count their descriptors from 1. */
#define LOANS (UINT64_C(1) << 63)

enum {
        CLASS_HOST = 0x3e,
        CLASS_VIDEO = 0x40,
        CLASS_FABRIC = 0xf8,
};

static struct hold *export_at(const struct ledger *ledger, uint64_t descriptor, uint32_t index)
{
        struct tree_node *at = tree_from(&ledger->exports, (struct tree_key){ descriptor, index });

        return at && at->key.high == descriptor && at->key.low == index ? OWNER_OF(at, struct hold, node) : NULL;
}

/* What is put later has a higher stamp, so the higher of two changes with each of them. 0: it is not there. */
static uint64_t stamp_of(const struct ledger *ledger, const struct ledger_source *source)
{
        const struct node *client, *node;
        const struct hold *export;

        if (!source->handle) {
                export = export_at(ledger, source->descriptor, source->index);
                return export ? export->stamp : 0;
        }
        client = map_get(&ledger->clients, source->client);
        node = ledger_node(ledger, source->client, source->handle);
        if (!client || !node)
                return 0;
        return client->stamp > node->stamp ? client->stamp : node->stamp;
}

bool ledger_stands(const struct ledger *ledger, const struct ledger_source *source, uint64_t stamp)
{
        return stamp && stamp_of(ledger, source) == stamp;
}

static bool may_lend(uint32_t class_number, const struct memory *memory)
{
        for (const struct memory *at = memory; at; at = at->below)
                if (at->loan)
                        return false;
        return memory && (class_number == CLASS_HOST || class_number == CLASS_VIDEO || class_number == CLASS_FABRIC);
}

int ledger_lend(struct ledger *ledger, struct ledger_entry *entry, uint64_t loan, const struct ledger_source *source,
                struct ledger_lent *ret)
{
        const struct node *node = source->handle ? ledger_node(ledger, source->client, source->handle) : NULL;
        const struct hold *export = source->handle ? NULL : export_at(ledger, source->descriptor, source->index);
        struct memory *memory = node ? node->memory : export ? export->memory : NULL;
        uint32_t class_number = node ? node->name.class_number : export ? export->class_number : 0;
        struct hold *hold;

        if (!may_lend(class_number, memory)) {
                (void)ledger_entry_free(ledger, entry);
                return LEDGER_E_NO_OBJECT;
        }
        hold = &TAKE(entry->first)->hold;
        *hold = (struct hold){ .memory = memory_hold(memory) };
        tree_put(&ledger->exports, &hold->node, (struct tree_key){ LOANS | loan, 0 }, 0);
        *ret = (struct ledger_lent){ .stamp = stamp_of(ledger, source),
                                     .class_number = class_number,
                                     .pages = memory->pages,
                                     .device = node ? node->name.device : export->device,
                                     .size = memory->charge.size };
        (void)ledger_entry_free(ledger, entry);
        return LEDGER_OK;
}

void ledger_loan_gone(struct ledger *ledger, uint64_t loan)
{
        ledger_export_gone(ledger, LOANS | loan);
}

void ledger_stamp_client(struct ledger *ledger, uint32_t client)
{
        struct node *node = map_get(&ledger->clients, client);

        if (node)
                node->stamp = ++ledger->stamps;
}

void ledger_stamp_exports(struct ledger *ledger, uint64_t descriptor)
{
        struct tree_node *at = tree_from(&ledger->exports, (struct tree_key){ descriptor, 0 });

        for (; at && at->key.high == descriptor; at = tree_next(at))
                OWNER_OF(at, struct hold, node)->stamp = ++ledger->stamps;
}

bool ledger_has_export(const struct ledger *ledger, uint64_t descriptor, uint32_t index)
{
        return export_at(ledger, descriptor, index);
}

void ledger_borrow(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *object, uint64_t loan,
                   bytes size)
{
        const struct node *client = ledger_client_of(ledger, entry, object->client);
        struct memory *memory = memory_new_over(ledger, entry, client->owner, (struct charge){ 0 }, NULL);
        const struct node *node;

        memory->loan = loan;
        memory->borrowed = size;
        ledger_object_put(ledger, entry, object, memory);
        node = ledger_node(ledger, object->client, object->handle);
        memory->device = node->name.device;
}

bool ledger_returned(struct ledger *ledger, uint64_t *ret)
{
        struct memory *memory;

        if (list_is_empty(&ledger->returned))
                return false;
        memory = OWNER_OF(ledger->returned.next, struct memory, all);
        *ret = memory->loan;
        list_take(&memory->all);
        free(memory);
        return true;
}

bytes ledger_borrowed(const struct ledger *ledger, int device)
{
        bytes sum = 0;

        for (const struct list *at = ledger->memories.next; at != &ledger->memories; at = at->next) {
                const struct memory *memory = OWNER_OF(at, struct memory, all);

                if (memory->loan && memory->device == device)
                        sum += memory->borrowed;
        }
        return sum;
}

bool ledger_has_borrowed(const struct ledger *ledger, uint32_t lender)
{
        for (const struct list *at = ledger->memories.next; at != &ledger->memories; at = at->next)
                if (OWNER_OF(at, struct memory, all)->loan >> 32 == lender && lender)
                        return true;
        return false;
}

static struct ledger_borrowed_row *borrowed_row(struct ledger_borrowed_row *rows, size_t *n, size_t n_room,
                                                uint32_t lender, int device)
{
        for (size_t i = 0; i < *n; i++)
                if (rows[i].lender == lender && rows[i].device == device)
                        return &rows[i];
        if (*n == n_room)
                return NULL;
        rows[*n] = (struct ledger_borrowed_row){ .lender = lender, .device = device };
        return &rows[(*n)++];
}

size_t ledger_borrowed_list(const struct ledger *ledger, struct ledger_borrowed_row *ret, size_t n_room)
{
        struct ledger_borrowed_row *row;
        size_t n = 0;

        for (const struct list *at = ledger->memories.next; at != &ledger->memories; at = at->next) {
                const struct memory *memory = OWNER_OF(at, struct memory, all);

                if (!memory->loan || memory->device < 0)
                        continue;
                row = borrowed_row(ret, &n, n_room, (uint32_t)(memory->loan >> 32), memory->device);
                if (row)
                        row->size += memory->borrowed;
        }
        return n;
}
