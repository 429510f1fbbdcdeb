/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger once more, written to be obviously right: arrays, searches and recursion. It knows the
 * contract (lease/ledger.h) and nothing of the implementation. Names are numbers below N_*; a
 * memory is alive when a search finds a holder.
 */
#pragma once

#include "lease/ledger.h"

#include <string.h>

enum {
        N_CLIENTS = 6,
        N_HANDLES = 14, /* some are also clients' */
        N_OWNERS = 4,   /* 0: nobody's */
        N_QUOTAS = 3,
        N_CLASSES = 4,
        N_SPACES = 4,
        N_DESCRIPTORS = 4,
        N_PAGES = 8,
        N_MANY = 512, /* more than there ever are of anything */
        NONE = -1,
};

struct naive_object {
        uint32_t client, handle, parent, class_number;
        bool hangs_on_client;
        int device, memory;
};

struct naive_memory {
        int quota;
        bytes size;
        uint32_t owner;
};

enum naive_kind {
        MAPPING,
        EXPORT,
        MANAGED,
        RANGE,
};

/* In the order in which they were put. */
struct naive_hold {
        enum naive_kind kind;
        uint64_t place, base, length; /* place: a space or a descriptor; base: also an index */
        uint32_t owner;
        int memory;
        uint64_t where; /* of a mapping */
        int64_t put_at; /* of a managed range */
        bool is_pool;   /* of a range */
};

struct naive {
        int owners[N_CLIENTS]; /* NONE: no such client */
        struct naive_object objects[N_MANY];
        struct naive_memory memories[N_MANY];
        struct naive_hold holds[N_MANY];
        size_t n_objects, n_holds;
};

/* Removes item i, and keeps the order. */
#define NAIVE_REMOVE(array, n, i) memmove(&(array)[i], &(array)[(i) + 1], (--(n) - (i)) * sizeof((array)[0]))

static inline void naive_init(struct naive *naive)
{
        *naive = (struct naive){ 0 };
        for (size_t i = 0; i < N_CLIENTS; i++)
                naive->owners[i] = NONE;
}

static inline struct naive_object *naive_find(struct naive *naive, uint32_t client, uint32_t handle)
{
        for (size_t i = 0; i < naive->n_objects; i++)
                if (naive->objects[i].client == client && naive->objects[i].handle == handle)
                        return &naive->objects[i];
        return NULL;
}

/* Memories. */

static inline bool naive_is_held(const struct naive *naive, int memory)
{
        for (size_t i = 0; i < naive->n_objects; i++)
                if (naive->objects[i].memory == memory)
                        return true;
        for (size_t i = 0; i < naive->n_holds; i++)
                if (naive->holds[i].memory == memory)
                        return true;
        return false;
}

/* NONE for an empty charge (quota NONE). Somebody must hold it before the next is made. */
static inline int naive_memory(struct naive *naive, int quota, bytes size, uint32_t owner)
{
        int i = 0;

        if (quota == NONE)
                return NONE;
        while (naive_is_held(naive, i))
                i++;
        naive->memories[i] = (struct naive_memory){ quota, size, owner };
        return i;
}

static inline size_t naive_n_memories(const struct naive *naive)
{
        size_t n = 0;

        for (int i = 0; i < N_MANY; i++)
                n += naive_is_held(naive, i);
        return n;
}

/* owner NONE: whoever's. */
static inline bytes naive_held(const struct naive *naive, int quota, int owner)
{
        bytes sum = 0;

        for (int i = 0; i < N_MANY; i++) {
                const struct naive_memory *memory = &naive->memories[i];

                if (memory->quota == quota && (owner == NONE || (int)memory->owner == owner) && memory->size &&
                    naive_is_held(naive, i))
                        sum += memory->size;
        }
        return sum;
}

/* Objects and clients. */

static inline bool naive_free_one_that_goes_with(struct naive *naive, uint32_t client, uint32_t handle);

static inline void naive_object_gone(struct naive *naive, uint32_t client, uint32_t handle)
{
        struct naive_object *object = naive_find(naive, client, handle);

        if (!object)
                return;
        NAIVE_REMOVE(naive->objects, naive->n_objects, (size_t)(object - naive->objects));
        while (naive_free_one_that_goes_with(naive, client, handle))
                ;
}

static inline bool naive_free_one_that_goes_with(struct naive *naive, uint32_t client, uint32_t handle)
{
        for (size_t i = 0; i < naive->n_objects; i++) {
                struct naive_object *object = &naive->objects[i];

                if (object->client == client && object->parent == handle && !object->hangs_on_client) {
                        naive_object_gone(naive, client, object->handle);
                        return true;
                }
        }
        return false;
}

static inline void naive_client_gone(struct naive *naive, uint32_t client)
{
        for (uint32_t handle = 0; handle < N_HANDLES; handle++)
                naive_object_gone(naive, client, handle);
        naive->owners[client] = NONE;
}

static inline void naive_client_put(struct naive *naive, uint32_t client, uint32_t owner)
{
        naive_client_gone(naive, client);
        naive->owners[client] = (int)owner;
}

static inline void naive_free(struct naive *naive, uint32_t client, uint32_t handle)
{
        if (client == handle)
                naive_client_gone(naive, client);
        else
                naive_object_gone(naive, client, handle);
}

static inline int naive_device(struct naive *naive, const struct ledger_object *name, const struct naive_object *parent)
{
        (void)naive;
        if (name->device >= 0)
                return name->device;
        return parent ? parent->device : -1;
}

static inline void naive_object_put(struct naive *naive, const struct ledger_object *name, int memory)
{
        const struct naive_object *parent;

        if (naive->owners[name->client] == NONE)
                naive->owners[name->client] = 0;
        naive_object_gone(naive, name->client, name->handle);
        parent = name->parent == name->client ? NULL : naive_find(naive, name->client, name->parent);
        naive->objects[naive->n_objects] = (struct naive_object){
                .client = name->client,
                .handle = name->handle,
                .parent = parent ? name->parent : name->client,
                .hangs_on_client = !parent,
                .class_number = name->class_number,
                .device = naive_device(naive, name, parent),
                .memory = memory,
        };
        naive->n_objects++;
}

static inline void naive_put(struct naive *naive, const struct ledger_object *name, int quota, bytes size)
{
        int owner = naive->owners[name->client];
        int memory;

        naive_object_gone(naive, name->client, name->handle);
        memory = naive_memory(naive, quota, size, owner == NONE ? 0 : (uint32_t)owner);
        naive_object_put(naive, name, memory);
}

static inline int naive_dup(struct naive *naive, const struct ledger_object *to, uint32_t source_client,
                            uint32_t source_handle)
{
        const struct naive_object *source = naive_find(naive, source_client, source_handle);

        if (!source)
                return LEDGER_E_NO_OBJECT;
        naive_object_put(naive, to, source->memory);
        return LEDGER_OK;
}

/* Holds. */

static inline void naive_hold_gone(struct naive *naive, size_t i)
{
        NAIVE_REMOVE(naive->holds, naive->n_holds, i);
}

static inline bool naive_is_inside(const struct naive_hold *hold, uint64_t base, uint64_t length)
{
        unsigned __int128 end = (unsigned __int128)base + length;

        return hold->base >= base && hold->base < end && (unsigned __int128)hold->base + hold->length <= end;
}

static inline void naive_unmap(struct naive *naive, uint64_t space, uint64_t base, uint64_t length, uint64_t where)
{
        for (size_t i = naive->n_holds; i-- > 0;)
                if (naive->holds[i].kind == MAPPING && naive->holds[i].place == space &&
                    naive_is_inside(&naive->holds[i], base, length) && (!where || naive->holds[i].where == where))
                        naive_hold_gone(naive, i);
}

static inline int naive_map(struct naive *naive, uint64_t space, uint64_t base, uint64_t length, uint64_t where,
                            uint32_t client, uint32_t handle)
{
        const struct naive_object *object = naive_find(naive, client, handle);

        if (!object)
                return LEDGER_E_NO_OBJECT;
        if (where)
                naive_unmap(naive, space, base, length, where);
        naive->holds[naive->n_holds++] = (struct naive_hold){ .kind = MAPPING,
                                                              .place = space,
                                                              .base = base,
                                                              .length = length,
                                                              .memory = object->memory,
                                                              .where = where };
        return LEDGER_OK;
}

static inline void naive_range_gone(struct naive *naive, uint64_t space, uint64_t base)
{
        for (size_t i = naive->n_holds; i-- > 0;) {
                struct naive_hold hold = naive->holds[i];

                if (hold.kind == RANGE && hold.place == space && hold.base == base) {
                        naive_hold_gone(naive, i);
                        naive_unmap(naive, space, base, hold.length, 0);
                        return;
                }
        }
}

static inline void naive_range_put(struct naive *naive, uint64_t space, uint64_t base, uint64_t length, bool is_pool)
{
        naive_range_gone(naive, space, base);
        naive->holds[naive->n_holds++] = (struct naive_hold){
                .kind = RANGE, .place = space, .base = base, .length = length, .memory = NONE, .is_pool = is_pool
        };
}

static inline bool naive_has_pool(const struct naive *naive, uint64_t space, uint64_t base, uint64_t length)
{
        for (size_t i = 0; i < naive->n_holds; i++) {
                const struct naive_hold *hold = &naive->holds[i];

                if (hold->is_pool && (!space || hold->place == space) && hold->base == base && hold->length == length)
                        return true;
        }
        return false;
}

static inline void naive_space_gone(struct naive *naive, uint64_t space)
{
        for (size_t i = naive->n_holds; i-- > 0;)
                if (naive->holds[i].kind != EXPORT && naive->holds[i].place == space)
                        naive_hold_gone(naive, i);
}

static inline int naive_export(struct naive *naive, uint64_t descriptor, uint32_t index, uint32_t client,
                               uint32_t handle)
{
        const struct naive_object *object = handle ? naive_find(naive, client, handle) : NULL;

        if (!object && handle)
                return LEDGER_E_NO_OBJECT;
        for (size_t i = naive->n_holds; i-- > 0;)
                if (naive->holds[i].kind == EXPORT && naive->holds[i].place == descriptor &&
                    naive->holds[i].base == index)
                        naive_hold_gone(naive, i);
        if (!object)
                return LEDGER_OK;
        naive->holds[naive->n_holds++] =
                (struct naive_hold){ .kind = EXPORT, .place = descriptor, .base = index, .memory = object->memory };
        return LEDGER_OK;
}

static inline void naive_export_gone(struct naive *naive, uint64_t descriptor)
{
        for (size_t i = naive->n_holds; i-- > 0;)
                if (naive->holds[i].kind == EXPORT && naive->holds[i].place == descriptor)
                        naive_hold_gone(naive, i);
}

static inline int naive_import(struct naive *naive, const struct ledger_object *to, uint64_t descriptor, uint32_t index)
{
        for (size_t i = naive->n_holds; i-- > 0;) {
                if (naive->holds[i].kind == EXPORT && naive->holds[i].place == descriptor &&
                    naive->holds[i].base == index) {
                        naive_object_put(naive, to, naive->holds[i].memory);
                        return LEDGER_OK;
                }
        }
        return LEDGER_E_NO_OBJECT;
}

static inline int naive_quota_of(const struct naive *naive, int memory)
{
        return memory == NONE ? NONE : naive->memories[memory].quota;
}

static inline void naive_managed_put(struct naive *naive, uint64_t space, uint32_t owner, uint64_t base,
                                     uint64_t length, int64_t now, int quota)
{
        naive->holds[naive->n_holds] = (struct naive_hold){ .kind = MANAGED,
                                                            .place = space,
                                                            .base = base,
                                                            .length = length,
                                                            .owner = owner,
                                                            .memory = NONE,
                                                            .put_at = now };
        naive->holds[naive->n_holds].memory = naive_memory(naive, quota, length, owner);
        naive->n_holds++;
}

/* Whether one is left that was put at `before` or later. */
static inline bool naive_managed_gone_before(struct naive *naive, uint32_t owner, uint64_t base, uint64_t length,
                                             int64_t before)
{
        bool is_left = false;

        for (size_t i = naive->n_holds; i-- > 0;) {
                const struct naive_hold *hold = &naive->holds[i];

                if (hold->kind != MANAGED || hold->owner != owner || hold->base != base)
                        continue;
                if (hold->put_at >= before || hold->length > length)
                        is_left = true;
                else
                        naive_hold_gone(naive, i);
        }
        return is_left;
}

/* base NULL: all of the owner's. */
static inline void naive_managed_gone(struct naive *naive, uint32_t owner, const uint64_t *base)
{
        for (size_t i = naive->n_holds; i-- > 0;) {
                const struct naive_hold *hold = &naive->holds[i];

                if (hold->kind == MANAGED && hold->owner == owner && (!base || hold->base == *base))
                        naive_hold_gone(naive, i);
        }
}

static inline size_t naive_n_holds(const struct naive *naive, enum naive_kind kind)
{
        size_t n = 0;

        for (size_t i = 0; i < naive->n_holds; i++)
                n += naive->holds[i].kind == kind;
        return n;
}
