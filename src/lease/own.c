/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver takes without being asked: memories of objects that may grow, and the page tables of UVM. */
#include "lease/inside.h"

enum {
        PIECE = 2 * MIB, /* what UVM takes for page tables at a time (uvm_pmm_gpu.c: a root chunk) */
        TABLE = 256,     /* the smallest page table: it may keep a piece */
};

/* ---- of an object ------------------------------------------------------------------------------------ */

static void make_own(struct ledger *ledger, struct node *node, bytes live)
{
        struct memory *memory = node->memory;

        if (!memory || node->name.device < 0)
                return;
        memory->device = node->name.device;
        memory->live = live ? live : 1;
        ledger->own[memory->device] += memory->charge.size;
}

static bool is_own(const struct memory *memory)
{
        return memory && memory->live;
}

/* The charge becomes part of a memory of that kind. */
static void own_join(struct ledger *ledger, struct memory *memory, struct charge charge)
{
        ledger->own[memory->device] += charge.size;
        charge_join(&memory->charge, charge);
}

/* A space, or a dup, keeps the parent's memory: what is made for its children it keeps, too. */
static struct memory *gathers(const struct ledger *ledger, const struct ledger_object *object)
{
        const struct node *parent = ledger_node(ledger, object->client, object->parent);

        return parent && is_own(parent->memory) && parent->memory->n_holders > 1 ? parent->memory : NULL;
}

void ledger_put_own(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *object,
                    struct charge charge)
{
        const struct node *client = ledger_client_of(ledger, entry, object->client);
        struct memory *with = gathers(ledger, object);

        if (with && with->charge.quota == charge.quota) {
                own_join(ledger, with, charge);
                ledger_object_put(ledger, entry, object, NULL);
                return;
        }
        ledger_object_put(ledger, entry, object, memory_new(ledger, entry, client->owner, charge));
        make_own(ledger, ledger_node(ledger, object->client, object->handle), charge.size);
}

void ledger_own_gather(struct ledger *ledger, uint32_t client, uint32_t handle)
{
        struct node *node = ledger_node(ledger, client, handle);
        struct list *at;

        if (!node || !is_own(node->memory))
                return;
        for (at = node->children.next; at != &node->children; at = at->next) {
                struct node *child = OWNER_OF(at, struct node, siblings);
                struct memory *memory = child->memory;

                if (!is_own(memory) || memory->n_holders > 1 || memory->charge.quota != node->memory->charge.quota)
                        continue;
                own_join(ledger, node->memory, memory->charge);
                ledger->own[memory->device] -= memory->charge.size;
                memory->charge = (struct charge){ 0 };
                memory->live = 0;
                memory_drop(ledger, memory);
                child->memory = NULL;
        }
}

bytes ledger_own(const struct ledger *ledger, unsigned int device)
{
        return ledger->own[device] + ledger->tables[device].charge.size;
}

/* ---- of a reservation ---------------------------------------------------------------------------------- */

void pool_ref(struct ledger *ledger, struct memory *pool, bytes tables)
{
        (void)ledger;
        (void)memory_hold(pool);
        if (pool)
                pool->live += tables;
}

void pool_drop(struct ledger *ledger, struct node *node)
{
        if (!node->pool)
                return;
        node->pool->live -= node->tables; /* what it began with is left */
        memory_drop(ledger, node->pool);
}

static bytes need_of(const struct memory *pool, bytes size)
{
        bytes live = size > UINT64_MAX - pool->live ? UINT64_MAX : pool->live + size;

        return live > pool->charge.size ? live - pool->charge.size : 0;
}

bytes ledger_pool_need(const struct ledger *ledger, uint32_t client, uint32_t space, bytes size)
{
        const struct node *node = ledger_node(ledger, client, space);

        return node && is_own(node->memory) ? need_of(node->memory, size) : size;
}

void ledger_pool_put(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *object,
                     const struct ledger_reservation *reservation, struct charge charge)
{
        const struct node *client = ledger_client_of(ledger, entry, object->client);
        struct node *space = ledger_node(ledger, object->client, reservation->space), *node;
        struct memory *memory = NULL;

        if (!space || (!is_own(space->memory) && space->memory)) /* the reservation keeps it */
                memory = memory_new(ledger, entry, client->owner, charge);
        else if (is_own(space->memory))
                own_join(ledger, space->memory, charge);
        else {
                space->memory = memory_hold(memory_new(ledger, entry, client->owner, charge));
                make_own(ledger, space, 1);
        }
        ledger_object_put(ledger, entry, object, memory);
        node = ledger_node(ledger, object->client, object->handle);
        space = ledger_node(ledger, object->client, reservation->space); /* may have been what it replaced */
        if (memory)
                make_own(ledger, node, charge.size);
        else if (space && is_own(space->memory)) {
                pool_ref(ledger, space->memory, reservation->size);
                node->pool = space->memory;
                node->tables = reservation->size;
                node->tables_most = reservation->most;
        }
}

bytes ledger_pool_room(const struct ledger *ledger, uint32_t client, uint32_t handle, bytes more, bytes *ret_need)
{
        const struct node *node = ledger_node(ledger, client, handle);
        bytes left = node && node->pool && node->tables < node->tables_most ? node->tables_most - node->tables : 0;

        more = more < left ? more : left;
        *ret_need = more ? need_of(node->pool, more) : 0;
        return more;
}

void ledger_pool_grow(struct ledger *ledger, uint32_t client, uint32_t handle, bytes more, struct charge charge)
{
        struct node *node = ledger_node(ledger, client, handle);

        if (!node || !node->pool) {
                charge_drop(&charge);
                return;
        }
        own_join(ledger, node->pool, charge);
        node->pool->live += more;
        node->tables += more;
}

/* ---- pages --------------------------------------------------------------------------------------------- */

void ledger_pages_set(struct ledger *ledger, uint32_t client, uint32_t handle, uint32_t pages)
{
        struct node *node = ledger_node(ledger, client, handle);

        if (node && node->memory)
                node->memory->pages = pages;
}

uint32_t ledger_pages(const struct ledger *ledger, uint32_t client, uint32_t handle)
{
        const struct node *node = ledger_node(ledger, client, handle);

        return node && node->memory ? node->memory->pages : 0;
}

/* ---- page tables of UVM -------------------------------------------------------------------------------- */

static bytes pieces(bytes size)
{
        return size > UINT64_MAX - PIECE ? UINT64_MAX : (size + PIECE - 1) / PIECE * PIECE;
}

bytes ledger_tables_want(struct ledger *ledger, unsigned int device, bytes size)
{
        struct tables *tables = &ledger->tables[device];
        bytes wanted, more;

        tables->live = size > UINT64_MAX - tables->live ? UINT64_MAX : tables->live + size;
        wanted = pieces(tables->live);
        more = wanted > tables->wanted ? wanted - tables->wanted : 0;
        tables->wanted += more;
        return more;
}

void ledger_tables_pay(struct ledger *ledger, unsigned int device, struct charge charge)
{
        charge_join(&ledger->tables[device].charge, charge);
}

/* What is left may lie in as many pieces as there are tables. */
static void shrink(struct tables *tables)
{
        bytes most = tables->live > UINT64_MAX / PIECE ? UINT64_MAX : (tables->live + TABLE - 1) / TABLE * PIECE;

        if (tables->wanted != tables->charge.size || most >= tables->wanted)
                return;
        (void)charge_resize(&tables->charge, most);
        tables->wanted = most;
}

void ledger_tables_return(struct ledger *ledger, unsigned int device, bytes size, bytes unpaid)
{
        struct tables *tables = &ledger->tables[device];

        tables->live -= size < tables->live ? size : tables->live;
        tables->wanted -= unpaid;
        shrink(tables);
}

void tables_gone(struct ledger *ledger, bytes size, uint32_t devices)
{
        for (unsigned int i = 0; size && i < LEASE_DEVICES_MAX; i++)
                if (devices >> i & 1)
                        ledger_tables_return(ledger, i, size, 0);
}
