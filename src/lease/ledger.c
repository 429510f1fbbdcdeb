/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree: clients and their objects.
 *
 * A free moves the node into a queue, and then the children of whatever is in it: a tenant's chain of a million
 * parents is a loop of a million steps and no stack.
 */
#include "lease/inside.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t key_of(uint32_t client, uint32_t handle)
{
        return (uint64_t)client << 32 | handle;
}

struct node *ledger_node(const struct ledger *ledger, uint32_t client, uint32_t handle)
{
        return map_get(&ledger->objects, key_of(client, handle));
}

static void node_free(struct ledger *ledger, struct node *node)
{
        if (node->parent) {
                (void)map_take(&ledger->objects, key_of(node->name.client, node->name.handle));
                bounds_count(ledger, node->name.class_number, false);
        } else {
                (void)map_take(&ledger->clients, node->name.handle);
        }
        memory_drop(ledger, node->memory);
        pool_drop(ledger, node);
        free(node->recipe);
        free(node);
}

/* L2 */
static void free_queued(struct ledger *ledger, struct list *queue)
{
        while (!list_is_empty(queue)) {
                struct node *node = OWNER_OF(queue->next, struct node, siblings);

                while (!list_is_empty(&node->children))
                        list_move(queue, node->children.next);
                list_take(&node->siblings);
                node_free(ledger, node);
        }
}

static void node_gone(struct ledger *ledger, struct node *node)
{
        struct list queue;

        if (!node)
                return;
        list_init(&queue);
        list_move(&queue, &node->siblings);
        free_queued(ledger, &queue);
}

void ledger_free(struct ledger *ledger, uint32_t client, uint32_t handle)
{
        if (handle == client)
                ledger_client_gone(ledger, client);
        else
                node_gone(ledger, ledger_node(ledger, client, handle));
}

/* The ledger and its entries. */

int ledger_new(struct ledger **ret)
{
        struct ledger *ledger = calloc(1, sizeof(*ledger));

        if (!ledger)
                return -ENOMEM;
        list_init(&ledger->memories);
        list_init(&ledger->returned);
        *ret = ledger;
        return 0;
}

struct ledger *ledger_unref(struct ledger *ledger)
{
        struct node *client;
        struct list queue;
        uint64_t loan;

        if (!ledger)
                return NULL;
        list_init(&queue);
        for (size_t i = 0; (client = map_next(&ledger->clients, &i)) != NULL;)
                list_move(&queue, &client->siblings);
        free_queued(ledger, &queue);
        holds_done(ledger);
        while (ledger_returned(ledger, &loan))
                ;
        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++)
                charge_drop(&ledger->tables[i].charge);
        map_done(&ledger->clients);
        map_done(&ledger->objects);
        free(ledger);
        return NULL;
}

struct ledger_totals ledger_totals(const struct ledger *ledger)
{
        return (struct ledger_totals){
                .n_clients = ledger->clients.n_used,
                .n_objects = ledger->objects.n_used,
                .n_memories = ledger->n_memories,
                .n_mappings = ledger->mappings.n_nodes,
                .n_exports = ledger->exports.n_nodes,
                .n_managed = ledger->managed.n_nodes,
        };
}

/* Frees what a put has left of it. */
static void entry_discard(struct ledger_entry *entry)
{
        free(entry->first);
        free(entry->client);
        free(entry->memory);
        free(entry);
}

int ledger_entry_new(struct ledger *ledger, struct ledger_entry **ret)
{
        struct ledger_entry *entry;
        size_t n = ledger->n_entries + 1;

        if (map_reserve(&ledger->clients, n) < 0 || map_reserve(&ledger->objects, n) < 0)
                return -ENOMEM;
        entry = calloc(1, sizeof(*entry));
        if (!entry)
                return -ENOMEM;
        entry->first = malloc(sizeof(*entry->first));
        entry->client = malloc(sizeof(*entry->client));
        entry->memory = malloc(sizeof(*entry->memory));
        if (!entry->first || !entry->client || !entry->memory) {
                entry_discard(entry);
                return -ENOMEM;
        }
        ledger->n_entries = n;
        *ret = entry;
        return 0;
}

struct ledger_entry *ledger_entry_free(struct ledger *ledger, struct ledger_entry *entry)
{
        if (!entry)
                return NULL;
        ledger->n_entries--;
        entry_discard(entry);
        return NULL;
}

/* Clients. */

static void node_init(struct node *node, const struct ledger_object *name, struct node *parent, struct memory *memory)
{
        *node = (struct node){ .name = *name, .parent = parent, .memory = memory_hold(memory) };
        list_init(&node->children);
        list_init(&node->siblings);
}

static struct node *client_put(struct ledger *ledger, struct node *node, uint32_t client, uint32_t owner)
{
        struct ledger_object name = { client, client, client, 0, -1 };

        node_init(node, &name, NULL, NULL);
        node->owner = owner;
        node->stamp = ++ledger->stamps;
        (void)map_put(&ledger->clients, client, node); /* L4 */
        return node;
}

void ledger_client_put(struct ledger *ledger, struct ledger_entry *entry, uint32_t client, uint32_t owner)
{
        ledger_client_gone(ledger, client);
        (void)client_put(ledger, TAKE(entry->client), client, owner);
        (void)ledger_entry_free(ledger, entry);
}

bool ledger_has_client(const struct ledger *ledger, uint32_t client)
{
        return map_get(&ledger->clients, client) != NULL;
}

void ledger_client_gone(struct ledger *ledger, uint32_t client)
{
        node_gone(ledger, map_get(&ledger->clients, client));
}

bool ledger_client_next(const struct ledger *ledger, uint32_t owner, size_t *i, uint32_t *ret_client,
                        uint32_t *ret_owner)
{
        const struct node *client;

        do {
                client = map_next(&ledger->clients, i);
                if (!client)
                        return false;
        } while (owner && client->owner != owner);
        *ret_client = client->name.handle;
        *ret_owner = client->owner;
        return true;
}

/* Objects. */

struct node *ledger_client_of(struct ledger *ledger, struct ledger_entry *entry, uint32_t client)
{
        struct node *node = map_get(&ledger->clients, client);

        return node ? node : client_put(ledger, TAKE(entry->client), client, 0);
}

static struct node *parent_of(struct ledger *ledger, struct node *client, const struct ledger_object *object)
{
        struct node *parent = NULL;

        if (object->parent != object->client)
                parent = ledger_node(ledger, object->client, object->parent);
        return parent ? parent : client;
}

/* Uses up the entry. What bore the handle is freed first: it may be the parent that the caller names, and the object
 * is then its client's. */
void ledger_object_put(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *object,
                       struct memory *memory)
{
        struct node *client = ledger_client_of(ledger, entry, object->client);
        struct node *node = &TAKE(entry->first)->node, *parent;

        node_gone(ledger, ledger_node(ledger, object->client, object->handle));
        parent = parent_of(ledger, client, object);
        node_init(node, object, parent, memory);
        node->name.parent = parent->name.handle;
        node->stamp = ++ledger->stamps;
        if (object->device < 0)
                node->name.device = parent->name.device;
        list_put(&parent->children, &node->siblings);
        bounds_count(ledger, object->class_number, true);
        (void)map_put(&ledger->objects, key_of(object->client, object->handle), node); /* L4 */
        (void)ledger_entry_free(ledger, entry);
}

void ledger_put(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *object,
                struct charge charge)
{
        const struct node *client = ledger_client_of(ledger, entry, object->client);

        ledger_object_put(ledger, entry, object, memory_new(ledger, entry, client->owner, charge));
}

int ledger_get(const struct ledger *ledger, uint32_t client, uint32_t handle, struct ledger_object *ret)
{
        const struct node *node = ledger_node(ledger, client, handle);

        if (!node)
                return LEDGER_E_NO_OBJECT;
        *ret = node->name;
        return LEDGER_OK;
}

bytes ledger_charge_of(const struct ledger *ledger, uint32_t client, uint32_t handle)
{
        const struct node *node = ledger_node(ledger, client, handle);

        return node && node->memory ? node->memory->charge.size : 0;
}

const struct quota *ledger_quota_of(const struct ledger *ledger, uint32_t client, uint32_t handle)
{
        const struct node *node = ledger_node(ledger, client, handle);

        return node && node->memory ? node->memory->charge.quota : NULL;
}

/* Holds the memory meanwhile: what the object replaces may be its last holder. */
static void alias_put(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *to,
                      struct memory *memory)
{
        (void)memory_hold(memory);
        ledger_object_put(ledger, entry, to, memory);
        memory_drop(ledger, memory);
}

int ledger_dup(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *to,
               uint32_t source_client, uint32_t source_handle)
{
        const struct node *source = ledger_node(ledger, source_client, source_handle);
        struct memory *pool;
        struct node *node;
        bytes tables, most;

        if (!source) {
                (void)ledger_entry_free(ledger, entry);
                return LEDGER_E_NO_OBJECT;
        }
        pool_ref(ledger, source->pool, source->tables); /* the source may be what `to` replaces */
        pool = source->pool;
        tables = source->tables;
        most = source->tables_most;
        alias_put(ledger, entry, to, source->memory);
        node = ledger_node(ledger, to->client, to->handle);
        node->pool = pool;
        node->tables = tables;
        node->tables_most = most; /* what is mapped through the dup is mapped */
        return LEDGER_OK;
}

int ledger_put_over(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *object,
                    struct charge charge, uint32_t source_client, uint32_t source_handle)
{
        const struct node *source = ledger_node(ledger, source_client, source_handle), *client;

        if (!source) {
                charge_drop(&charge);
                (void)ledger_entry_free(ledger, entry);
                return LEDGER_E_NO_OBJECT;
        }
        client = ledger_client_of(ledger, entry, object->client);
        ledger_object_put(ledger, entry, object, memory_new_over(ledger, entry, client->owner, charge, source->memory));
        return LEDGER_OK;
}

int ledger_import(struct ledger *ledger, struct ledger_entry *entry, const struct ledger_object *to,
                  uint64_t descriptor, uint32_t index)
{
        const struct tree_node *at = tree_from(&ledger->exports, (struct tree_key){ descriptor, index });

        if (!at || at->key.high != descriptor || at->key.low != index) {
                (void)ledger_entry_free(ledger, entry);
                return LEDGER_E_NO_OBJECT;
        }
        alias_put(ledger, entry, to, OWNER_OF(at, struct hold, node)->memory);
        return LEDGER_OK;
}
