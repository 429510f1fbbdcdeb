/* SPDX-License-Identifier: Apache-2.0 */
/* Tenancies in the store. A lease is kept as the JSON that its shim gets. */
#include "daemon/store/inside.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>

static char *lease_text(const struct message_lease *lease)
{
        json_t *body = message_lease_new(lease);
        char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

        json_decref(body);
        return text;
}

int store_tenant_new(struct store *store, const struct message_lease *lease, nsec since, uint64_t *ret_id)
{
        _cleanup_(freep) char *text = lease_text(lease);
        sqlite3_stmt *s = store_use(store, STORE_TENANT_NEW);
        int r;

        store_bind_text(s, 1, lease->tenant);
        store_bind_number(s, 2, lease->owner);
        store_bind_number(s, 3, since);
        store_bind_text(s, 4, text);
        r = text ? store_run(s) : -ENOMEM;
        if (r == 0)
                *ret_id = (uint64_t)sqlite3_last_insert_rowid(store->db);
        return r;
}

int store_tenant_set(struct store *store, const struct message_lease *lease, pid_t shim)
{
        _cleanup_(freep) char *text = lease_text(lease);
        sqlite3_stmt *s = store_use(store, STORE_TENANT_SET);

        store_bind_number(s, 1, (int64_t)lease->id);
        store_bind_text(s, 2, text);
        store_bind_number(s, 3, shim);
        return text ? store_run(s) : -ENOMEM;
}

int store_tenant_adopt(struct store *store, const struct message_lease *lease, pid_t shim, nsec since)
{
        _cleanup_(freep) char *text = lease_text(lease);
        sqlite3_stmt *s = store_use(store, STORE_TENANT_ADOPT);

        store_bind_number(s, 1, (int64_t)lease->id);
        store_bind_text(s, 2, lease->tenant);
        store_bind_number(s, 3, lease->owner);
        store_bind_number(s, 4, since);
        store_bind_text(s, 5, text);
        store_bind_number(s, 6, shim);
        return text ? store_run(s) : -ENOMEM;
}

int store_tenant_end(struct store *store, uint64_t id, nsec ended, const char *report)
{
        sqlite3_stmt *s = store_use(store, STORE_TENANT_END);

        store_bind_number(s, 1, (int64_t)id);
        store_bind_number(s, 2, ended);
        store_bind_text(s, 3, report);
        return store_run(s);
}

/* Leases of a newer version that this one cannot read are left out. */
int store_tenants_living(struct store *store,
                         void (*each)(void *context, const struct message_lease *lease, pid_t shim, nsec since),
                         void *context)
{
        sqlite3_stmt *s = store_use(store, STORE_TENANTS_LIVING);
        int r = 0;

        while (store_next(s, &r)) {
                struct message_lease lease = { 0 };
                json_t *body = json_loads(store_text(s, 1), 0, NULL);

                if (json_is_object(body) && message_lease_parse(body, &lease) == 0) {
                        lease.id = (uint64_t)sqlite3_column_int64(s, 0);
                        each(context, &lease, (pid_t)sqlite3_column_int64(s, 2), sqlite3_column_int64(s, 3));
                }
                json_decref(body);
        }
        return r;
}

int store_tenants_ended(struct store *store, int64_t owner, json_t *array)
{
        sqlite3_stmt *s = store_use(store, STORE_TENANTS_ENDED);
        int r = 0;

        store_bind_number(s, 1, owner);
        store_bind_number(s, 2, STORE_ENDED);
        while (store_next(s, &r)) {
                json_t *lease = json_loads(store_text(s, 1), 0, NULL), *report = json_loads(store_text(s, 4), 0, NULL);

                (void)json_array_append_new(array, json_pack("{s:I, s:o, s:I, s:I, s:o}", "id",
                                                             (json_int_t)sqlite3_column_int64(s, 0), "lease",
                                                             lease ? lease : json_object(), "since",
                                                             (json_int_t)sqlite3_column_int64(s, 2), "ended",
                                                             (json_int_t)sqlite3_column_int64(s, 3), "report",
                                                             report ? report : json_null()));
        }
        return r;
}
