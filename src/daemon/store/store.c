/* SPDX-License-Identifier: Apache-2.0 */
/* The file: schema, statements, transactions, and events. */
#include "daemon/store/inside.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
        SCHEMA = 1, /* user_version; a newer one is refused */
        OPEN_MSEC = 2000,
        BUSY_MSEC = 50,          /* for another process's lock; a failed write is tried again in a second */
        PROGRESS_STEPS = 100000, /* of SQLite's virtual machine: some milliseconds */
};

static const char *const texts[STORE_N_STATEMENTS] = {
#define ROW(name, text) text,
        STORE_STATEMENTS(ROW)
#undef ROW
};

/* A file of an earlier sublet gets the tables that it lacks. What it has is not changed by a table more, and an earlier
 * sublet does not see it: that is no new version. */
static const char schema[] =
        "CREATE TABLE IF NOT EXISTS tenants(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, owner INTEGER, "
        "since INTEGER, ended INTEGER, keeper INTEGER, lease TEXT, report TEXT);"
        "CREATE INDEX IF NOT EXISTS tenants_ended ON tenants(ended);"
        "CREATE TABLE IF NOT EXISTS usage(bucket INTEGER, tenant INTEGER, device INTEGER, gpu INTEGER, kib_ms INTEGER, "
        "refused INTEGER, peak INTEGER, PRIMARY KEY(bucket, tenant, device)) WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS counted(tenant INTEGER, device INTEGER, uuid TEXT, used INTEGER, refused INTEGER, "
        "held INTEGER, peak INTEGER, at INTEGER, PRIMARY KEY(tenant, device)) WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS engine_usage(bucket INTEGER, tenant INTEGER, device INTEGER, engine TEXT, "
        "used INTEGER, PRIMARY KEY(bucket, tenant, device, engine)) WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS engine_counted(tenant INTEGER, device INTEGER, engine TEXT, used INTEGER, "
        "PRIMARY KEY(tenant, device, engine)) WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS host_usage(bucket INTEGER, tenant INTEGER, device INTEGER, kib_ms INTEGER, "
        "PRIMARY KEY(bucket, tenant, device)) WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS host_counted(tenant INTEGER, device INTEGER, held INTEGER, "
        "PRIMARY KEY(tenant, device)) WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS events(id INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER, level TEXT, name TEXT, "
        "tenant TEXT, owner INTEGER, device INTEGER, line TEXT, detail TEXT);"
        "CREATE INDEX IF NOT EXISTS events_time ON events(time);"
        "PRAGMA user_version = 1;";

const char *store_error(struct store *store)
{
        return sqlite3_errmsg(store->db);
}

sqlite3_stmt *store_use(struct store *store, enum store_statement statement)
{
        sqlite3_stmt *s = store->statements[statement];

        (void)sqlite3_reset(s);
        (void)sqlite3_clear_bindings(s);
        return s;
}

void store_bind_number(sqlite3_stmt *statement, int at, int64_t value)
{
        (void)sqlite3_bind_int64(statement, at, value);
}

void store_bind_text(sqlite3_stmt *statement, int at, const char *text)
{
        (void)sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

const char *store_text(sqlite3_stmt *statement, int column)
{
        const unsigned char *text = sqlite3_column_text(statement, column);

        return text ? (const char *)text : "";
}

int store_run(sqlite3_stmt *statement)
{
        int r = sqlite3_step(statement);

        (void)sqlite3_reset(statement);
        return r == SQLITE_DONE ? 0 : -EIO;
}

bool store_next(sqlite3_stmt *statement, int *ret_r)
{
        int r = sqlite3_step(statement);

        if (r == SQLITE_ROW)
                return true;
        (void)sqlite3_reset(statement);
        *ret_r = r == SQLITE_DONE ? 0 : -EIO;
        return false;
}

/* Schema versions are only ever added to. */
static int check_version(struct store *store, const char *path, struct err *err)
{
        sqlite3_stmt *ask = NULL;
        int version = 0;

        if (sqlite3_prepare_v2(store->db, "PRAGMA user_version", -1, &ask, NULL) == SQLITE_OK &&
            sqlite3_step(ask) == SQLITE_ROW)
                version = sqlite3_column_int(ask, 0);
        (void)sqlite3_finalize(ask);
        if (version > SCHEMA)
                return err_say(err, -EPROTO, "%s was written by a newer sublet (schema %d, this one knows %d)", path,
                               version, SCHEMA);
        return 0;
}

static int prepare(struct store *store, const char *path, struct err *err)
{
        char *said = NULL;
        int r;

        (void)sqlite3_busy_timeout(store->db, OPEN_MSEC);
        if (sqlite3_exec(store->db,
                         "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0;", NULL,
                         NULL, &said) != SQLITE_OK)
                r = err_say(err, -EIO, "opening %s: %s", path, said ? said : "no memory");
        else if ((r = check_version(store, path, err)) == 0 &&
                 sqlite3_exec(store->db, schema, NULL, NULL, &said) != SQLITE_OK)
                r = err_say(err, -EIO, "opening %s: %s", path, said ? said : "no memory");
        sqlite3_free(said);
        for (size_t i = 0; i < STORE_N_STATEMENTS && r == 0; i++)
                if (sqlite3_prepare_v3(store->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &store->statements[i],
                                       NULL) != SQLITE_OK)
                        r = err_say(err, -EIO, "opening %s: %s", path, sqlite3_errmsg(store->db));
        (void)sqlite3_busy_timeout(store->db, BUSY_MSEC);
        return r;
}

int store_open(const char *path, struct store **ret, struct err *err)
{
        struct store *store = calloc(1, sizeof(*store));
        mode_t mask;
        int r;

        if (!store)
                return err_set(err, -ENOMEM, "opening %s", path);
        mask = umask(0077); /* usage is for root's eyes only */
        r = sqlite3_open_v2(path, &store->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
        if (r != SQLITE_OK)
                r = err_say(err, -EIO, "opening %s: %s", path, store->db ? sqlite3_errmsg(store->db) : "no memory");
        else if ((r = prepare(store, path, err)) == 0 && (r = store_log_start(path, &store->log)) < 0)
                r = err_set(err, r, "opening %s", path);
        (void)umask(mask);
        if (r < 0) {
                (void)store_close(store);
                return r;
        }
        *ret = store;
        return 0;
}

struct store *store_close(struct store *store)
{
        if (!store)
                return NULL;
        for (size_t i = 0; i < STORE_N_STATEMENTS; i++)
                (void)sqlite3_finalize(store->statements[i]);
        store->log = store_log_stop(store->log);
        (void)sqlite3_close(store->db);
        free(store);
        return NULL;
}

static int on_progress(void *context)
{
        const struct store *store = context;

        store->on_progress(store->context);
        return 0;
}

void store_on_progress(struct store *store, void (*call)(void *context), void *context)
{
        store->on_progress = call;
        store->context = context;
        sqlite3_progress_handler(store->db, PROGRESS_STEPS, on_progress, store);
}

int store_begin(struct store *store)
{
        return store_run(store_use(store, STORE_BEGIN));
}

int store_commit(struct store *store)
{
        int r = store_run(store_use(store, STORE_COMMIT));

        if (r < 0)
                store_rollback(store);
        return r;
}

void store_rollback(struct store *store)
{
        (void)store_run(store_use(store, STORE_ROLLBACK));
}

/* ---- events ------------------------------------------------------------------------------------ */

uint64_t store_event_last(struct store *store)
{
        sqlite3_stmt *s = store_use(store, STORE_EVENT_LAST);
        uint64_t last = 0;
        int r;

        while (store_next(s, &r))
                last = (uint64_t)sqlite3_column_int64(s, 0);
        return last;
}

int store_event_put(struct store *store, const struct store_event *event)
{
        sqlite3_stmt *s = store_use(store, STORE_EVENT_PUT);

        store_bind_number(s, 1, event->time);
        store_bind_text(s, 2, event->level);
        store_bind_text(s, 3, event->name);
        store_bind_text(s, 4, event->tenant);
        store_bind_number(s, 5, event->owner);
        store_bind_number(s, 6, event->device);
        store_bind_text(s, 7, event->line);
        store_bind_text(s, 8, event->detail);
        store_bind_number(s, 9, (int64_t)event->id);
        return store_run(s);
}

int store_events_list(struct store *store, nsec since, const char *tenant, int64_t owner, unsigned int most,
                      void (*each)(void *context, const struct store_event *event), void *context)
{
        sqlite3_stmt *s = store_use(store, STORE_EVENTS_LIST);
        int r = 0;

        store_bind_number(s, 1, since);
        store_bind_text(s, 2, tenant);
        store_bind_number(s, 3, owner);
        store_bind_number(s, 4, most);
        while (store_next(s, &r))
                each(context, &(struct store_event){
                                      .id = (uint64_t)sqlite3_column_int64(s, 0),
                                      .time = sqlite3_column_int64(s, 1),
                                      .level = store_text(s, 2),
                                      .name = store_text(s, 3),
                                      .tenant = store_text(s, 4),
                                      .owner = sqlite3_column_int64(s, 5),
                                      .device = sqlite3_column_int64(s, 6),
                                      .line = store_text(s, 7),
                                      .detail = store_text(s, 8),
                              });
        return r;
}
