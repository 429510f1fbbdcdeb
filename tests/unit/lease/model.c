/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations on the ledger and on naive.h, which must agree. Names are few, so that they
 * collide. Calls are in flight as at a gate: reserved now, put or refused some operations later,
 * in another order.
 *
 *      SUBLET_SEED=7 unit-lease-model          one seed only, as a failure names it
 */
#include "unit.h"

#include "base/cleanup.h"
#include "lease/naive.h"
#include "lease/sound.h"

#include <stdio.h>

enum {
        N_SEEDS = 10,
        N_OPERATIONS = 30000,
        N_IN_FLIGHT = 6,
};

struct in_flight {
        struct ledger_entry *entry; /* NULL: none */
        struct charge charge;
        struct ledger_object object;
        int quota;
};

struct model {
        uint64_t random;
        struct naive naive;
        struct ledger *ledger;
        struct quota quotas[N_QUOTAS];
        struct in_flight in_flight[N_IN_FLIGHT];
        const char *wrong; /* the first disagreement */
};

static void expect(struct model *model, bool agrees, const char *what)
{
        if (!agrees && !model->wrong)
                model->wrong = what;
}

/* Random things. */

static uint32_t below(struct model *model, uint32_t bound)
{
        model->random = model->random * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)((model->random >> 32) * bound >> 32);
}

static uint64_t any_base(struct model *model)
{
        uint64_t page = below(model, N_PAGES);

        return page == 7 ? UINT64_MAX - 0xfff : page * 0x1000;
}

static uint64_t any_length(struct model *model)
{
        static const uint64_t lengths[] = { 0, 1, 0x1000, 0x1000, 0x2000, 0x4000, UINT64_MAX - 1, UINT64_MAX };

        return lengths[below(model, ARRAY_SIZE(lengths))];
}

static struct ledger_object any_object(struct model *model)
{
        struct ledger_object object = {
                .client = below(model, N_CLIENTS),
                .parent = below(model, N_HANDLES),
                .handle = below(model, N_HANDLES),
                .class_number = below(model, N_CLASSES),
                .device = (int)below(model, N_QUOTAS + 1) - 1,
        };

        return object;
}

static struct ledger_entry *room(struct model *model)
{
        struct ledger_entry *entry = NULL;

        assert_int_equal(ledger_entry_new(model->ledger, &entry), 0);
        return entry;
}

/* What is charged and not in the ledger yet. */
static bytes in_flight(const struct model *model, int quota)
{
        bytes sum = 0;

        for (size_t i = 0; i < N_IN_FLIGHT; i++)
                if (model->in_flight[i].entry && model->in_flight[i].quota == quota)
                        sum += model->in_flight[i].charge.size;
        return sum;
}

/* NONE: an empty charge, for nothing was asked or the quota is full. */
static int any_charge(struct model *model, struct charge *ret)
{
        int quota = (int)below(model, N_QUOTAS);
        bytes size = below(model, 4) ? below(model, 300) : 0;
        bytes used = naive_held(&model->naive, quota, NONE) + in_flight(model, quota);
        bool fits = !size || used + size <= model->quotas[quota].size;
        int r = quota_take(&model->quotas[quota], size, ret);

        expect(model, (r == QUOTA_OK) == fits, "whether a charge fits");
        return size && r == QUOTA_OK ? quota : NONE;
}

/* Operations. */

static void reserve(struct model *model)
{
        struct in_flight *call = &model->in_flight[below(model, N_IN_FLIGHT)];

        if (call->entry)
                return;
        call->object = any_object(model);
        call->charge = (struct charge){ 0 };
        call->quota = any_charge(model, &call->charge);
        call->entry = room(model);
}

static void finish(struct model *model)
{
        struct in_flight *call = &model->in_flight[below(model, N_IN_FLIGHT)];

        if (!call->entry)
                return;
        if (below(model, 4)) {
                naive_put(&model->naive, &call->object, call->quota, call->charge.size);
                ledger_put(model->ledger, TAKE(call->entry), &call->object, TAKE(call->charge));
        } else {
                call->entry = ledger_entry_free(model->ledger, call->entry);
                charge_drop(&call->charge);
        }
}

static void client_put(struct model *model)
{
        uint32_t client = below(model, N_CLIENTS), owner = below(model, N_OWNERS);

        if (below(model, 4))
                return;
        naive_client_put(&model->naive, client, owner);
        ledger_client_put(model->ledger, room(model), client, owner);
}

static void client_gone(struct model *model)
{
        uint32_t client = below(model, N_CLIENTS);

        if (below(model, 4))
                return;
        naive_client_gone(&model->naive, client);
        ledger_client_gone(model->ledger, client);
}

static void free_object(struct model *model)
{
        uint32_t client = below(model, N_CLIENTS), handle = below(model, N_HANDLES);

        if (client == handle && below(model, 4))
                return;
        naive_free(&model->naive, client, handle);
        ledger_free(model->ledger, client, handle);
}

static void dup_object(struct model *model)
{
        struct ledger_object to = any_object(model);
        uint32_t client = below(model, N_CLIENTS), handle = below(model, N_HANDLES);

        expect(model,
               ledger_dup(model->ledger, room(model), &to, client, handle) ==
                       naive_dup(&model->naive, &to, client, handle),
               "what a dup answers");
}

static void map(struct model *model)
{
        uint64_t space = below(model, N_SPACES), base = any_base(model), length = any_length(model);
        uint32_t client = below(model, N_CLIENTS), handle = below(model, N_HANDLES);
        uint64_t where = below(model, 3);

        if (naive_n_holds(&model->naive, MAPPING) >= 64)
                return;
        expect(model,
               ledger_map(model->ledger, room(model), space, base, length, where, client, handle) ==
                       naive_map(&model->naive, space, base, length, where, client, handle),
               "what a mapping answers");
}

static void unmap(struct model *model)
{
        uint64_t space = below(model, N_SPACES), base = any_base(model), length = any_length(model);

        uint64_t where = below(model, 3);

        naive_unmap(&model->naive, space, base, length, where);
        ledger_unmap(model->ledger, space, base, length, where);
}

static void range_put(struct model *model)
{
        uint64_t space = below(model, N_SPACES), base = any_base(model), length = any_length(model);
        bool is_pool = below(model, 2);

        naive_range_put(&model->naive, space, base, length, is_pool);
        ledger_range_put(model->ledger, room(model), space, base, length, is_pool, (struct charge){ 0 });
}

static void range_gone(struct model *model)
{
        uint64_t space = below(model, N_SPACES), base = any_base(model);

        naive_range_gone(&model->naive, space, base);
        ledger_range_gone(model->ledger, space, base);
}

static void space_gone(struct model *model)
{
        uint64_t space = below(model, N_SPACES);

        if (below(model, 4))
                return;
        naive_space_gone(&model->naive, space);
        ledger_space_gone(model->ledger, space);
}

static void export(struct model *model)
{
        uint64_t descriptor = below(model, N_DESCRIPTORS);
        uint32_t client = below(model, N_CLIENTS), handle = below(model, N_HANDLES);
        uint32_t index = below(model, 2);

        if (naive_n_holds(&model->naive, EXPORT) >= 32)
                return;
        expect(model,
               ledger_export(model->ledger, room(model), descriptor, index, client, handle) ==
                       naive_export(&model->naive, descriptor, index, client, handle),
               "what an export answers");
}

static void export_gone(struct model *model)
{
        uint64_t descriptor = below(model, N_DESCRIPTORS);

        naive_export_gone(&model->naive, descriptor);
        ledger_export_gone(model->ledger, descriptor);
}

static void import(struct model *model)
{
        struct ledger_object to = any_object(model);
        uint64_t descriptor = below(model, N_DESCRIPTORS);
        uint32_t index = below(model, 2);

        expect(model,
               ledger_import(model->ledger, room(model), &to, descriptor, index) ==
                       naive_import(&model->naive, &to, descriptor, index),
               "what an import answers");
}

static void managed_put(struct model *model)
{
        uint64_t space = below(model, N_SPACES), base = any_base(model);
        uint32_t owner = below(model, N_OWNERS);
        struct charge charge = { 0 };
        int quota = any_charge(model, &charge);
        bytes length = charge.size;
        int64_t now = below(model, 4);

        naive_managed_put(&model->naive, space, owner, base, length, now, quota);
        ledger_managed_put(model->ledger, room(model), space, owner, base, length, now, charge);
}

static void managed_gone(struct model *model)
{
        uint32_t owner = below(model, N_OWNERS);
        uint64_t base = any_base(model);

        if (below(model, 8)) {
                naive_managed_gone(&model->naive, owner, &base);
                ledger_managed_gone(model->ledger, owner, base);
        } else {
                naive_managed_gone(&model->naive, owner, NULL);
                ledger_owner_managed_gone(model->ledger, owner);
        }
}

static void managed_gone_before(struct model *model)
{
        uint32_t owner = below(model, N_OWNERS);
        uint64_t base = any_base(model);
        uint64_t length = below(model, 4) ? UINT64_MAX : any_length(model);
        int64_t before = below(model, 5);
        bool is_left = naive_managed_gone_before(&model->naive, owner, base, length, before);
        size_t n_gone;

        expect(model, ledger_managed_gone_before(model->ledger, owner, base, length, before, &n_gone) == is_left,
               "whether a managed range is left");
}

static void resize_quota(struct model *model)
{
        model->quotas[below(model, N_QUOTAS)].size = below(model, 4000);
}

static const struct {
        const char *name;
        void (*run)(struct model *model);
        uint32_t weight;
} operations[] = {
        { "reserve", reserve, 30 },
        { "finish", finish, 30 },
        { "client put", client_put, 2 },
        { "client gone", client_gone, 2 },
        { "free", free_object, 10 },
        { "dup", dup_object, 8 },
        { "map", map, 8 },
        { "unmap", unmap, 6 },
        { "space gone", space_gone, 2 },
        { "export", export, 4 },
        { "export gone", export_gone, 2 },
        { "import", import, 3 },
        { "managed put", managed_put, 5 },
        { "managed gone", managed_gone, 3 },
        { "managed gone before", managed_gone_before, 3 },
        { "range put", range_put, 4 },
        { "range gone", range_gone, 4 },
        { "quota", resize_quota, 2 },
};

static size_t any_operation(struct model *model)
{
        uint32_t all = 0, at;
        size_t i;

        for (i = 0; i < ARRAY_SIZE(operations); i++)
                all += operations[i].weight;
        at = below(model, all);
        for (i = 0; at >= operations[i].weight; i++)
                at -= operations[i].weight;
        return i;
}

/* Comparisons. */

static void compare_totals(struct model *model)
{
        const struct naive *naive = &model->naive;
        struct ledger_totals totals = ledger_totals(model->ledger);
        size_t n_clients = 0;

        for (size_t i = 0; i < N_CLIENTS; i++)
                n_clients += naive->owners[i] != NONE;
        expect(model, totals.n_clients == n_clients, "the number of clients");
        expect(model, totals.n_objects == naive->n_objects, "the number of objects");
        expect(model, totals.n_memories == naive_n_memories(naive), "the number of memories");
        expect(model, totals.n_mappings == naive_n_holds(naive, MAPPING), "... of mappings");
        expect(model, totals.n_exports == naive_n_holds(naive, EXPORT), "... of exports");
        expect(model, totals.n_managed == naive_n_holds(naive, MANAGED), "... of managed ranges");
}

static void compare_quotas(struct model *model)
{
        for (int i = 0; i < N_QUOTAS; i++) {
                struct quota *quota = &model->quotas[i];
                bytes held = naive_held(&model->naive, i, NONE);

                expect(model, ledger_held(model->ledger, quota) == held, "what a quota holds");
                expect(model, quota->used == held + in_flight(model, i), "what a quota has used");
                for (int owner = 0; owner < N_OWNERS; owner++)
                        expect(model,
                               ledger_held_by(model->ledger, quota, (uint32_t)owner) ==
                                       naive_held(&model->naive, i, owner),
                               "what an owner holds");
        }
}

static void compare_object(struct model *model, uint32_t client, uint32_t handle)
{
        const struct naive_object *naive = naive_find(&model->naive, client, handle);
        bytes charge = ledger_charge_of(model->ledger, client, handle);
        struct ledger_object object;
        int r = ledger_get(model->ledger, client, handle, &object);

        expect(model, (r == LEDGER_OK) == (naive != NULL), "whether an object is there");
        if (!naive || r != LEDGER_OK) {
                expect(model, charge == 0, "the charge of nothing");
                return;
        }
        expect(model, object.client == client && object.handle == handle, "an object's name");
        expect(model, object.parent == naive->parent, "an object's parent");
        expect(model, object.class_number == naive->class_number, "an object's class");
        expect(model, object.device == naive->device, "an object's device");
        expect(model, charge == (naive->memory == NONE ? 0 : model->naive.memories[naive->memory].size),
               "an object's charge");
}

static void compare_clients(struct model *model, uint32_t asked)
{
        uint32_t client, owner;
        size_t n = 0, n_expected = 0;

        for (size_t i = 0; ledger_client_next(model->ledger, asked, &i, &client, &owner); n++)
                expect(model, client < N_CLIENTS && model->naive.owners[client] == (int)owner, "a client's owner");
        for (size_t i = 0; i < N_CLIENTS; i++)
                n_expected += model->naive.owners[i] != NONE && (!asked || model->naive.owners[i] == (int)asked);
        expect(model, n == n_expected, "the visit of an owner's clients");
}

static bool is_managed(const struct naive *naive, uint32_t owner, uint64_t base)
{
        for (size_t i = 0; i < naive->n_holds; i++)
                if (naive->holds[i].kind == MANAGED && naive->holds[i].owner == owner && naive->holds[i].base == base)
                        return true;
        return false;
}

static void compare_managed(struct model *model, uint32_t owner)
{
        uint64_t space, base, length;
        size_t i = 0;

        for (uint64_t page = 0; page < N_PAGES; page++) {
                uint64_t at = page == 7 ? UINT64_MAX - 0xfff : page * 0x1000;

                if (is_managed(&model->naive, owner, at))
                        expect(model,
                               ledger_managed_next(model->ledger, owner, &i, &space, &base, &length) && base == at,
                               "the visit of managed ranges");
        }
        expect(model, !ledger_managed_next(model->ledger, owner, &i, &space, &base, &length),
               "the end of a visit of managed ranges");
}

static void compare_pools(struct model *model)
{
        uint64_t base = any_base(model), length = any_length(model);

        for (uint64_t space = 0; space < N_SPACES; space++)
                expect(model,
                       ledger_has_pool(model->ledger, space, base, length) ==
                               naive_has_pool(&model->naive, space, base, length),
                       "a pool");
}

static void compare_everything(struct model *model)
{
        compare_totals(model);
        compare_quotas(model);
        compare_pools(model);
        for (uint32_t client = 0; client < N_CLIENTS; client++)
                for (uint32_t handle = 0; handle < N_HANDLES; handle++)
                        compare_object(model, client, handle);
        for (uint32_t owner = 0; owner < N_OWNERS; owner++) {
                compare_clients(model, owner);
                compare_managed(model, owner);
        }
        expect(model, ledger_is_sound(model->ledger), "soundness");
}

/* Every operation is followed by the sums, every fourth by a look at everything. */
static void model_run(uint64_t seed)
{
        static struct model model;

        model = (struct model){ .random = seed };
        naive_init(&model.naive);
        assert_int_equal(ledger_new(&model.ledger), 0);
        for (size_t i = 0; i < N_QUOTAS; i++)
                model.quotas[i].size = 2000;

        for (size_t i = 0; i < N_OPERATIONS; i++) {
                size_t operation = any_operation(&model);

                operations[operation].run(&model);
                if (i % 4 == 0)
                        compare_everything(&model);
                else
                        compare_quotas(&model);
                if (model.wrong)
                        fail_msg("SUBLET_SEED=%llu, operation %zu (%s): not agreed on %s", (unsigned long long)seed, i,
                                 operations[operation].name, model.wrong);
        }

        for (size_t i = 0; i < N_IN_FLIGHT; i++) {
                (void)ledger_entry_free(model.ledger, model.in_flight[i].entry);
                if (model.in_flight[i].entry)
                        charge_drop(&model.in_flight[i].charge);
        }
        (void)ledger_unref(model.ledger);
        for (size_t i = 0; i < N_QUOTAS; i++)
                assert_int_equal(model.quotas[i].used, 0);
}

static void the_ledger_agrees_with_a_naive_one(void **state)
{
        const char *seed = getenv("SUBLET_SEED");

        (void)state;
        if (seed) {
                model_run(strtoull(seed, NULL, 0));
                return;
        }
        for (uint64_t i = 1; i <= N_SEEDS; i++)
                model_run(i);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_ledger_agrees_with_a_naive_one),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
