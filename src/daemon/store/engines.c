/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage of the engines beside graphics and compute, in tables of their own: a row per engine that had work. An engine
 * is in the file by its name.
 */
#include "daemon/store/inside.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add(struct store *store, const struct store_usage *usage, enum rm_engine engine)
{
        sqlite3_stmt *s = store_use(store, STORE_ENGINE_ADD);

        store_bind_number(s, 1, usage->at / NSEC_PER_SEC / STORE_BUCKET * STORE_BUCKET);
        store_bind_number(s, 2, (int64_t)usage->tenant);
        store_bind_number(s, 3, usage->device);
        store_bind_text(s, 4, rm_engine_name(engine));
        store_bind_number(s, 5, usage->engines[engine]);
        return store_run(s);
}

static int set_counted(struct store *store, const struct store_usage *usage, enum rm_engine engine)
{
        sqlite3_stmt *s = store_use(store, STORE_ENGINE_COUNTED_SET);

        store_bind_number(s, 1, (int64_t)usage->tenant);
        store_bind_number(s, 2, usage->device);
        store_bind_text(s, 3, rm_engine_name(engine));
        store_bind_number(s, 4, usage->counted_engines[engine]);
        return store_run(s);
}

int store_engines_add(struct store *store, const struct store_usage *usage)
{
        int r = 0;

        for (enum rm_engine engine = 1; engine < RM_N_ENGINES && r == 0; engine++) {
                if (!usage->engines[engine])
                        continue;
                r = add(store, usage, engine);
                if (r == 0)
                        r = set_counted(store, usage, engine);
        }
        return r;
}

int store_engines_counted(struct store *store, struct store_usage *ret)
{
        sqlite3_stmt *s = store_use(store, STORE_ENGINE_COUNTED_GET);
        int r = 0;

        store_bind_number(s, 1, (int64_t)ret->tenant);
        store_bind_number(s, 2, ret->device);
        while (store_next(s, &r))
                for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++)
                        if (!strcmp(store_text(s, 0), rm_engine_name(engine)))
                                ret->counted_engines[engine] = sqlite3_column_int64(s, 1);
        return r;
}

json_t *store_engines_new(void)
{
        json_t *engines = json_object();

        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++)
                (void)json_object_set_new(engines, rm_engine_name(engine), json_real(0));
        return engines;
}

/* Which row of the answer an engine's belongs to: as the statements group them. NULL: no memory. */
static char *key_new(const char *who, int64_t owner, int64_t device, const char *uuid)
{
        char *key;

        return asprintf(&key, "%lld %lld %s %s", (long long)owner, (long long)device, uuid, who) < 0 ? NULL : key;
}

/* Rows by their keys; borrowed by none. */
static json_t *index_new(const char *by, const json_t *array, size_t first)
{
        json_t *index = json_object();

        for (size_t i = first; i < json_array_size(array); i++) {
                json_t *row = json_array_get(array, i);
                _cleanup_(freep) char *key = key_new(
                        message_text(row, by ? "value" : "tenant", ""), by ? 0 : (int64_t)message_number(row, "uid", 0),
                        (int64_t)message_number(row, "device", 0), message_text(row, "uuid", ""));

                if (!key || json_object_set(index, key, row) < 0) {
                        json_decref(index);
                        return NULL;
                }
        }
        return index;
}

int store_engines_list(struct store *store, const char *by, void (*bind)(sqlite3_stmt *s, const void *context),
                       const void *context, json_t *array, size_t first)
{
        sqlite3_stmt *s = store_use(store, by ? STORE_ENGINE_BY : STORE_ENGINE_LIST);
        json_t *index = index_new(by, array, first);
        int r = index ? 0 : -ENOMEM;

        if (index)
                bind(s, context);
        while (index && store_next(s, &r)) {
                _cleanup_(freep) char *key = key_new(store_text(s, 0), sqlite3_column_int64(s, 1),
                                                     sqlite3_column_int64(s, 2), store_text(s, 3));
                json_t *row = key ? json_object_get(index, key) : NULL;

                if (row)
                        (void)json_object_set_new(json_object_get(row, "engine_seconds"), store_text(s, 4),
                                                  json_real((double)sqlite3_column_int64(s, 5) / 1e9));
        }
        json_decref(index);
        return r;
}
