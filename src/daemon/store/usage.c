/* SPDX-License-Identifier: Apache-2.0 */
/* Usage in the store: what is added, and up to where it is counted (S1). */
#include "daemon/store/inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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

/* What was in host memory, in tables of its own: a row for those that were suspended. */
static int add_host(struct store *store, const struct store_usage *usage)
{
        sqlite3_stmt *s = store_use(store, STORE_HOST_ADD);

        if (!usage->host_kib_ms)
                return 0;
        store_bind_number(s, 1, usage->at / NSEC_PER_SEC / STORE_BUCKET * STORE_BUCKET);
        store_bind_number(s, 2, (int64_t)usage->tenant);
        store_bind_number(s, 3, usage->device);
        store_bind_number(s, 4, (int64_t)usage->host_kib_ms);
        return store_run(s);
}

static int set_host_counted(struct store *store, const struct store_usage *usage)
{
        sqlite3_stmt *s = store_use(store, usage->swapped ? STORE_HOST_COUNTED_SET : STORE_HOST_COUNTED_DROP);

        store_bind_number(s, 1, (int64_t)usage->tenant);
        store_bind_number(s, 2, usage->device);
        if (usage->swapped)
                store_bind_number(s, 3, (int64_t)usage->swapped);
        return store_run(s);
}

int store_usage_add(struct store *store, const struct store_usage *usage)
{
        int r = add_usage(store, usage);

        if (r == 0)
                r = set_counted(store, usage);
        if (r == 0)
                r = add_host(store, usage);
        if (r == 0)
                r = set_host_counted(store, usage);
        return r < 0 ? r : store_engines_add(store, usage);
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
                ret->swapped = (bytes)sqlite3_column_int64(s, 5);
        }
        return r < 0 ? r : store_engines_counted(store, ret);
}

/* The columns that every row has, from the device on. */
static void put_row(json_t *row, sqlite3_stmt *s, int at)
{
        double kib_ms = (double)sqlite3_column_int64(s, at + 3), host_kib_ms = sqlite3_column_double(s, at + 8);
        json_t *rest = json_pack(
                "{s:I, s:s, s:f, s:f, s:I, s:I, s:I, s:f, s:f}", "device", (json_int_t)sqlite3_column_int64(s, at),
                "uuid", store_text(s, at + 1), "gpu_seconds", (double)sqlite3_column_int64(s, at + 2) / 1e9,
                "gib_hours", kib_ms / 1048576 / 3.6e6, "peak_bytes", (json_int_t)sqlite3_column_int64(s, at + 4),
                "refused", (json_int_t)sqlite3_column_int64(s, at + 5), "from",
                (json_int_t)sqlite3_column_int64(s, at + 6), "to", (double)sqlite3_column_int64(s, at + 7) / 1e9,
                "host_gib_hours", host_kib_ms / 1048576 / 3.6e6);

        (void)json_object_update(row, rest);
        (void)json_object_set_new(row, "engine_seconds", store_engines_new());
        json_decref(rest);
}

static json_t *row_json(sqlite3_stmt *s, const char *by)
{
        const char *value = store_text(s, 0);
        json_t *row = by ? json_pack("{s:s, s:s?, s:I}", "by", by, "value", *value ? value : NULL, "tenants",
                                     (json_int_t)sqlite3_column_int64(s, 1)) :
                           json_pack("{s:s, s:I}", "tenant", value, "uid", (json_int_t)sqlite3_column_int64(s, 1));

        put_row(row, s, 2);
        return row;
}

enum {
        PATH_TEXT = LABEL_PART + 16,
};

/* Where in a lease it is what usage is summed by; "": not there, the owner. False: `by` is none of the three. */
static bool path_of(const char *by, char ret[static PATH_TEXT])
{
        *ret = '\0';
        if (!strcmp(by, "user"))
                return true;
        if (!strcmp(by, "namespace"))
                return snprintf(ret, PATH_TEXT, "$.container.namespace") > 0;
        if (strncmp(by, "label:", 6) != 0 || !label_word_is_good(by + 6, strlen(by + 6)))
                return false; /* a good word has no quote that would end the path */
        return snprintf(ret, PATH_TEXT, "$.labels.\"%s\"", by + 6) > 0;
}

bool store_usage_by_is_good(const char *by)
{
        char path[PATH_TEXT];

        return path_of(by, path);
}

struct span_query {
        const struct store_usage_query *query;
        char path[PATH_TEXT];
};

static void bind_query(sqlite3_stmt *s, const void *context)
{
        const struct span_query *span = context;
        const struct store_usage_query *query = span->query;
        int64_t until = query->until / NSEC_PER_SEC / STORE_BUCKET * STORE_BUCKET;

        store_bind_number(s, 1, query->since / NSEC_PER_SEC / STORE_BUCKET * STORE_BUCKET);
        store_bind_text(s, 2, query->tenant);
        store_bind_number(s, 3, query->owner);
        store_bind_number(s, 4, query->until ? until * NSEC_PER_SEC : INT64_MAX);
        store_bind_number(s, 5, query->until ? until : INT64_MAX);
        if (query->by)
                store_bind_text(s, 6, span->path);
}

int store_usage_list(struct store *store, const struct store_usage_query *query, json_t *array)
{
        sqlite3_stmt *s = store_use(store, query->by ? STORE_USAGE_BY : STORE_USAGE_LIST);
        struct span_query span = { .query = query };
        size_t first = json_array_size(array);
        int r = 0;

        if (query->by && !path_of(query->by, span.path))
                return -EINVAL;
        bind_query(s, &span);
        while (store_next(s, &r))
                (void)json_array_append_new(array, row_json(s, query->by));
        return r < 0 ? r : store_engines_list(store, query->by, bind_query, &span, array, first);
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
            (r = run_with(store, STORE_HOST_HOURS_MAKE, before)) == 0 &&
            (r = run_with(store, STORE_HOST_MINUTES_DROP, before)) == 0 &&
            (r = run_with(store, STORE_ENGINE_HOURS_MAKE, before)) == 0 &&
            (r = run_with(store, STORE_ENGINE_MINUTES_DROP, before)) == 0 &&
            (r = run_with(store, STORE_EVENTS_DROP, STORE_EVENTS)) == 0)
                return store_commit(store);
        store_rollback(store);
        return r;
}
