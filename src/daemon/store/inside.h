/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the store. */
#pragma once

#include "daemon/store/store.h"

#include <sqlite3.h>

/* Every statement is prepared once. */
#define STORE_STATEMENTS(ROW)                                                                                          \
        ROW(BEGIN, "BEGIN IMMEDIATE")                                                                                  \
        ROW(COMMIT, "COMMIT")                                                                                          \
        ROW(ROLLBACK, "ROLLBACK")                                                                                      \
        ROW(TENANT_NEW, "INSERT INTO tenants(name, owner, since, lease) VALUES(?1, ?2, ?3, ?4)")                       \
        ROW(TENANT_SET, "UPDATE tenants SET lease = ?2, keeper = ?3 WHERE id = ?1")                                    \
        ROW(TENANT_ADOPT, "INSERT INTO tenants(id, name, owner, since, lease, keeper) VALUES(?1, ?2, ?3, ?4, ?5, ?6) " \
                          "ON CONFLICT(id) DO UPDATE SET ended = NULL, keeper = ?6")                                   \
        ROW(TENANT_END, "UPDATE tenants SET ended = ?2, report = ?3 WHERE id = ?1 AND ended IS NULL")                  \
        ROW(TENANTS_LIVING, "SELECT id, lease, keeper, since FROM tenants WHERE ended IS NULL ORDER BY id")            \
        ROW(TENANTS_ENDED, "SELECT id, lease, since, ended, report FROM tenants WHERE ended IS NOT NULL "              \
                           "AND (?1 < 0 OR owner = ?1) ORDER BY ended DESC LIMIT ?2")                                  \
        ROW(USAGE_ADD, "INSERT INTO usage(bucket, tenant, device, gpu, kib_ms, refused, peak) "                        \
                       "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET gpu = gpu + ?4, "                 \
                       "kib_ms = kib_ms + ?5, refused = refused + ?6, peak = max(peak, ?7)")                           \
        ROW(COUNTED_SET, "INSERT INTO counted(tenant, device, uuid, used, refused, held, peak, at) "                   \
                         "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO UPDATE SET used = ?4, "                \
                         "refused = ?5, held = ?6, peak = ?7, at = ?8")                                                \
        ROW(COUNTED_GET, "SELECT c.used, c.refused, c.held, c.peak, c.at, h.held FROM counted c "                      \
                         "LEFT JOIN host_counted h USING(tenant, device) WHERE c.tenant = ?1 AND c.device = ?2")       \
        ROW(HOST_ADD, "INSERT INTO host_usage(bucket, tenant, device, kib_ms) VALUES(?1, ?2, ?3, ?4) "                 \
                      "ON CONFLICT DO UPDATE SET kib_ms = kib_ms + ?4")                                                \
        ROW(HOST_COUNTED_SET, "INSERT INTO host_counted(tenant, device, held) VALUES(?1, ?2, ?3) "                     \
                              "ON CONFLICT DO UPDATE SET held = ?3")                                                   \
        ROW(HOST_COUNTED_DROP, "DELETE FROM host_counted WHERE tenant = ?1 AND device = ?2")                           \
        ROW(HOST_HOURS_MAKE, "INSERT INTO host_usage(bucket, tenant, device, kib_ms) "                                 \
                             "SELECT bucket / 3600 * 3600 AS hour, tenant, device, sum(kib_ms) FROM host_usage "       \
                             "WHERE bucket < ?1 AND bucket % 3600 > 0 GROUP BY bucket / 3600, tenant, device "         \
                             "ON CONFLICT DO UPDATE SET kib_ms = kib_ms + excluded.kib_ms")                            \
        ROW(HOST_MINUTES_DROP, "DELETE FROM host_usage WHERE bucket < ?1 AND bucket % 3600 > 0")                       \
        ROW(USAGE_LIST,                                                                                                \
            "SELECT t.name, t.owner, u.device, c.uuid, sum(u.gpu), sum(u.kib_ms), max(u.peak), "                       \
            "sum(u.refused), min(max(u.bucket, t.since / 1000000000)), max(min(c.at, ?4)), total(h.kib_ms) FROM "      \
            "usage u "                                                                                                 \
            "JOIN tenants t ON t.id = u.tenant "                                                                       \
            "JOIN counted c ON c.tenant = u.tenant AND c.device = u.device "                                           \
            "LEFT JOIN host_usage h ON h.bucket = u.bucket AND h.tenant = u.tenant AND h.device = u.device "           \
            "WHERE u.bucket >= ?1 "                                                                                    \
            "AND u.bucket < ?5 AND (?2 IS NULL OR t.name = ?2) AND (?3 < 0 OR t.owner = ?3) "                          \
            "GROUP BY t.name, t.owner, u.device, c.uuid ORDER BY t.name, u.device")                                    \
        ROW(USAGE_BY,                                                                                                  \
            "SELECT CASE WHEN ?6 = '' THEN t.owner ELSE coalesce(json_extract(t.lease, ?6), '') END AS part, "         \
            "count(DISTINCT t.id), u.device, c.uuid, sum(u.gpu), sum(u.kib_ms), max(u.peak), "                         \
            "sum(u.refused), min(max(u.bucket, t.since / 1000000000)), max(min(c.at, ?4)), total(h.kib_ms) FROM "      \
            "usage u "                                                                                                 \
            "JOIN tenants t ON t.id = u.tenant "                                                                       \
            "JOIN counted c ON c.tenant = u.tenant AND c.device = u.device "                                           \
            "LEFT JOIN host_usage h ON h.bucket = u.bucket AND h.tenant = u.tenant AND h.device = u.device "           \
            "WHERE u.bucket >= ?1 "                                                                                    \
            "AND u.bucket < ?5 AND (?2 IS NULL OR t.name = ?2) AND (?3 < 0 OR t.owner = ?3) "                          \
            "GROUP BY part, u.device, c.uuid ORDER BY part, u.device")                                                 \
        ROW(HOURS_MAKE, "INSERT INTO usage(bucket, tenant, device, gpu, kib_ms, refused, peak) "                       \
                        "SELECT bucket / 3600 * 3600 AS hour, tenant, device, sum(gpu), sum(kib_ms), sum(refused), "   \
                        "max(peak) FROM usage WHERE bucket < ?1 AND bucket % 3600 > 0 "                                \
                        "GROUP BY bucket / 3600, tenant, device "                                                      \
                        "ON CONFLICT DO UPDATE SET gpu = gpu + excluded.gpu, kib_ms = kib_ms + excluded.kib_ms, "      \
                        "refused = refused + excluded.refused, peak = max(peak, excluded.peak)")                       \
        ROW(MINUTES_DROP, "DELETE FROM usage WHERE bucket < ?1 AND bucket % 3600 > 0")                                 \
        ROW(ENGINE_ADD, "INSERT INTO engine_usage(bucket, tenant, device, engine, used) VALUES(?1, ?2, ?3, ?4, ?5) "   \
                        "ON CONFLICT DO UPDATE SET used = used + ?5")                                                  \
        ROW(ENGINE_COUNTED_SET, "INSERT INTO engine_counted(tenant, device, engine, used) VALUES(?1, ?2, ?3, ?4) "     \
                                "ON CONFLICT DO UPDATE SET used = ?4")                                                 \
        ROW(ENGINE_COUNTED_GET, "SELECT engine, used FROM engine_counted WHERE tenant = ?1 AND device = ?2")           \
        ROW(ENGINE_LIST, "SELECT t.name, t.owner, e.device, c.uuid, e.engine, sum(e.used) FROM engine_usage e "        \
                         "JOIN tenants t ON t.id = e.tenant "                                                          \
                         "JOIN counted c ON c.tenant = e.tenant AND c.device = e.device WHERE e.bucket >= ?1 "         \
                         "AND e.bucket < ?5 AND (?2 IS NULL OR t.name = ?2) AND (?3 < 0 OR t.owner = ?3) "             \
                         "GROUP BY t.name, t.owner, e.device, c.uuid, e.engine")                                       \
        ROW(ENGINE_BY,                                                                                                 \
            "SELECT CASE WHEN ?6 = '' THEN t.owner ELSE coalesce(json_extract(t.lease, ?6), '') END AS part, "         \
            "0, e.device, c.uuid, e.engine, sum(e.used) FROM engine_usage e JOIN tenants t ON t.id = e.tenant "        \
            "JOIN counted c ON c.tenant = e.tenant AND c.device = e.device WHERE e.bucket >= ?1 "                      \
            "AND e.bucket < ?5 AND (?2 IS NULL OR t.name = ?2) AND (?3 < 0 OR t.owner = ?3) "                          \
            "GROUP BY part, e.device, c.uuid, e.engine")                                                               \
        ROW(ENGINE_HOURS_MAKE, "INSERT INTO engine_usage(bucket, tenant, device, engine, used) "                       \
                               "SELECT bucket / 3600 * 3600 AS hour, tenant, device, engine, sum(used) "               \
                               "FROM engine_usage WHERE bucket < ?1 AND bucket % 3600 > 0 "                            \
                               "GROUP BY bucket / 3600, tenant, device, engine "                                       \
                               "ON CONFLICT DO UPDATE SET used = used + excluded.used")                                \
        ROW(ENGINE_MINUTES_DROP, "DELETE FROM engine_usage WHERE bucket < ?1 AND bucket % 3600 > 0")                   \
        ROW(EVENT_PUT, "INSERT INTO events(id, time, level, name, tenant, owner, device, line, detail) "               \
                       "VALUES(?9, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")                                                   \
        ROW(EVENT_LAST, "SELECT max(seq) FROM sqlite_sequence WHERE name = 'events'")                                  \
        ROW(EVENTS_LIST, "SELECT * FROM (SELECT id, time, level, name, tenant, owner, device, line, detail "           \
                         "FROM events WHERE time >= ?1 AND (?2 IS NULL OR tenant = ?2) AND (?3 < 0 OR owner = ?3) "    \
                         "ORDER BY id DESC LIMIT ?4) ORDER BY id")                                                     \
        ROW(EVENTS_DROP, "DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?1")

enum store_statement {
#define ROW(name, text) STORE_##name,
        STORE_STATEMENTS(ROW)
#undef ROW
                STORE_N_STATEMENTS,
};

struct store_log; /* the thread that copies the write-ahead log */

struct store {
        sqlite3 *db;
        sqlite3_stmt *statements[STORE_N_STATEMENTS];
        struct store_log *log;
        void (*on_progress)(void *context);
        void *context;
};

/* Ready to be bound. */
sqlite3_stmt *store_use(struct store *store, enum store_statement statement);

void store_bind_number(sqlite3_stmt *statement, int at, int64_t value);
void store_bind_text(sqlite3_stmt *statement, int at, const char *text); /* NULL; borrowed until the next use */
const char *store_text(sqlite3_stmt *statement, int column);             /* never NULL */

/* Runs a statement without rows. 0; -EIO. */
int store_run(sqlite3_stmt *statement);

/* The next row: true. At the end, or on a failure (*ret_r -EIO): false. */
bool store_next(sqlite3_stmt *statement, int *ret_r);

/* engines.c: what store_usage_add, _counted and _list do for the engines. bind: the parameters that both lists have. */
int store_engines_add(struct store *store, const struct store_usage *usage);
int store_engines_counted(struct store *store, struct store_usage *ret);
json_t *store_engines_new(void); /* every engine with 0 */
int store_engines_list(struct store *store, const char *by, void (*bind)(sqlite3_stmt *s, const void *context),
                       const void *context, json_t *array, size_t first);

int store_log_start(const char *path, struct store_log **ret); /* 0; -errno; -EIO */
struct store_log *store_log_stop(struct store_log *log);       /* copies a last time; NULL is fine */
