/* SPDX-License-Identifier: Apache-2.0 */
/* Usage in the store: what is added, and up to where it is counted (S1). */
#include "daemon/store/inside.h"

#include <errno.h>

enum {
        MINUTES_KEPT = 48 * 3600, /* seconds */
};

static int add_usage(struct store *store, const struct store_usage *usage)
{
        sqlite3_stmt *s = store_use(store, STORE_USAGE_ADD);

        store_bind_number(s, 1, usage->at / NSEC_PER_SEC / STORE_BUCKET * STORE_BUCKET);
        store_bind_number(s, 2, (int64_t)usage->tenant);
        store_bind_number(s, 3, usage->device);
        store_bind_number(s, 4, usage->gpu);
        store_bind_number(s, 5, (int64_t)usage->kib_ms);
        store_bind_number(s, 6, (int64_t)usage->refused);
        store_bind_number(s, 7, (int64_t)usage->peak);
        return store_run(s);
}

static int set_counted(struct store *store, const struct store_usage *usage)
{
        sqlite3_stmt *s = store_use(store, STORE_COUNTED_SET);

        store_bind_number(s, 1, (int64_t)usage->tenant);
        store_bind_number(s, 2, usage->device);
        store_bind_text(s, 3, usage->uuid);
        store_bind_number(s, 4, usage->counted_used);
        store_bind_number(s, 5, (int64_t)usage->counted_refused);
        store_bind_number(s, 6, (int64_t)usage->held);
        store_bind_number(s, 7, (int64_t)usage->peak);
        store_bind_number(s, 8, usage->at);
        return store_run(s);
}

int store_usage_add(struct store *store, const struct store_usage *usage)
{
        int r = add_usage(store, usage);

        return r < 0 ? r : set_counted(store, usage);
}

int store_usage_counted(struct store *store, uint64_t tenant, unsigned int device, struct store_usage *ret,
                        nsec *ret_at)
{
        sqlite3_stmt *s = store_use(store, STORE_COUNTED_GET);
        int r = 0;

        *ret = (struct store_usage){ .tenant = tenant, .device = device };
        *ret_at = 0;
        store_bind_number(s, 1, (int64_t)tenant);
        store_bind_number(s, 2, device);
        while (store_next(s, &r)) {
                ret->counted_used = sqlite3_column_int64(s, 0);
                ret->counted_refused = (uint64_t)sqlite3_column_int64(s, 1);
                ret->held = (bytes)sqlite3_column_int64(s, 2);
                ret->peak = (bytes)sqlite3_column_int64(s, 3);
                *ret_at = sqlite3_column_int64(s, 4);
        }
        return r;
}

static json_t *row_json(sqlite3_stmt *s)
{
        double kib_ms = (double)sqlite3_column_int64(s, 5);

        return json_pack("{s:s, s:I, s:I, s:s, s:f, s:f, s:I, s:I, s:I, s:f}", "tenant", store_text(s, 0), "uid",
                         (json_int_t)sqlite3_column_int64(s, 1), "device", (json_int_t)sqlite3_column_int64(s, 2),
                         "uuid", store_text(s, 3), "gpu_seconds", (double)sqlite3_column_int64(s, 4) / 1e9, "gib_hours",
                         kib_ms / 1048576 / 3.6e6, "peak_bytes", (json_int_t)sqlite3_column_int64(s, 6), "refused",
                         (json_int_t)sqlite3_column_int64(s, 7), "from", (json_int_t)sqlite3_column_int64(s, 8), "to",
                         (double)sqlite3_column_int64(s, 9) / 1e9);
}

int store_usage_list(struct store *store, nsec since, const char *tenant, int64_t owner, json_t *array)
{
        sqlite3_stmt *s = store_use(store, STORE_USAGE_LIST);
        int r = 0;

        store_bind_number(s, 1, since / NSEC_PER_SEC / STORE_BUCKET * STORE_BUCKET);
        store_bind_text(s, 2, tenant);
        store_bind_number(s, 3, owner);
        while (store_next(s, &r))
                (void)json_array_append_new(array, row_json(s));
        return r;
}

static int run_with(struct store *store, enum store_statement statement, int64_t value)
{
        sqlite3_stmt *s = store_use(store, statement);

        store_bind_number(s, 1, value);
        return store_run(s);
}

/* Whole hours only, so that none is split between the two kinds of bucket. */
int store_tidy(struct store *store, nsec now)
{
        int64_t before = (now / NSEC_PER_SEC - MINUTES_KEPT) / 3600 * 3600;
        int r = store_begin(store);

        if (r < 0)
                return r;
        if ((r = run_with(store, STORE_HOURS_MAKE, before)) == 0 &&
            (r = run_with(store, STORE_MINUTES_DROP, before)) == 0 &&
            (r = run_with(store, STORE_EVENTS_DROP, STORE_EVENTS)) == 0)
                return store_commit(store);
        store_rollback(store);
        return r;
}
