/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives a daemon: nothing is counted twice, and nothing is lost. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "base/err.h"
#include "daemon/state/events.h"
#include "daemon/state/usage.h"

#include <sqlite3.h>
#include <stdio.h>

static char path[64];

static int set_up(void **state)
{
        struct daemon *daemon = fake_daemon_new();
        struct err err;

        (void)strcpy(path, "/tmp/sublet-unit-store-XXXXXX");
        (void)close(mkstemp(path));
        assert_int_equal(store_open(path, &daemon->store, &err), 0);
        *state = daemon;
        return 0;
}

static int tear_down(void **state)
{
        char beside[80];

        fake_daemon_free(*state);
        (void)unlink(path);
        (void)snprintf(beside, sizeof(beside), "%s-wal", path);
        (void)unlink(beside);
        (void)snprintf(beside, sizeof(beside), "%s-shm", path);
        (void)unlink(beside);
        return 0;
}

/* As if the daemon had been killed: what was committed is there, and the table comes from the store. */
static void start_anew(struct daemon *daemon)
{
        struct err err;

        (void)store_close(daemon->store);
        assert_int_equal(store_open(path, &daemon->store, &err), 0);
}

static struct tenant *tenant_put(struct daemon *daemon, const char *name, uid_t owner)
{
        struct tenant *tenant = fake_tenant_put(daemon, name, owner, 10, 0);

        assert_int_equal(store_tenant_new(daemon->store, &tenant->lease, tenant->since, &tenant->lease.id), 0);
        usage_start(daemon, tenant);
        return tenant;
}

static double sum_of(struct daemon *daemon, const char *field, const char *tenant, int64_t owner)
{
        json_t *array = json_array(), *row;
        double sum = 0;
        size_t i;

        assert_int_equal(
                store_usage_list(daemon->store, &(struct store_usage_query){ .tenant = tenant, .owner = owner }, array),
                0);
        json_array_foreach (array, i, row)
                sum += json_number_value(json_object_get(row, field));
        json_decref(array);
        return sum;
}

static void gpu_time_is_counted_once_however_often_somebody_looks(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = tenant_put(daemon, "a", 1);

        tenant->control->devices[0].used = 3 * NSEC_PER_SEC;
        usage_count(daemon);
        usage_count(daemon);
        assert_float_equal(sum_of(daemon, "gpu_seconds", NULL, -1), 3, 1e-9);
        tenant->control->devices[0].used = 5 * NSEC_PER_SEC;
        usage_count(daemon);
        assert_float_equal(sum_of(daemon, "gpu_seconds", NULL, -1), 5, 1e-9);
}

static void a_daemon_that_comes_after_counts_on_from_the_control_block(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = tenant_put(daemon, "a", 1);

        tenant->control->devices[0].used = 3 * NSEC_PER_SEC;
        tenant->control->devices[0].n_refused = 2;
        usage_count(daemon);
        tenant->control->devices[0].used = 4 * NSEC_PER_SEC; /* not written any more: it was killed */
        start_anew(daemon);
        memset(tenant->counted, 0, sizeof(tenant->counted));
        usage_start(daemon, tenant);
        usage_count(daemon);
        assert_float_equal(sum_of(daemon, "gpu_seconds", NULL, -1), 4, 1e-9);
        assert_float_equal(sum_of(daemon, "refused", NULL, -1), 2, 1e-9);
}

/* Of the first row. */
static double engine_of(struct daemon *daemon, const char *by, const char *engine)
{
        json_t *array = json_array();
        double seconds;

        assert_int_equal(store_usage_list(daemon->store, &(struct store_usage_query){ .by = by, .owner = -1 }, array),
                         0);
        seconds =
                json_number_value(json_object_get(json_object_get(json_array_get(array, 0), "engine_seconds"), engine));
        json_decref(array);
        return seconds;
}

static void each_engine_is_counted_by_itself_and_by_the_next_daemon_from_there(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = tenant_put(daemon, "a", 1);
        struct control_engine *copy, *jpeg;

        copy = control_block_engine(tenant->control, 0, RM_ENGINE_COPY);
        jpeg = control_block_engine(tenant->control, 0, RM_ENGINE_JPEG);
        copy->used = 2 * NSEC_PER_SEC;
        usage_count(daemon);
        usage_count(daemon);
        copy->used = 3 * NSEC_PER_SEC; /* alone, it is news */
        jpeg->used = NSEC_PER_SEC;
        start_anew(daemon);
        memset(tenant->counted, 0, sizeof(tenant->counted));
        usage_start(daemon, tenant);
        usage_count(daemon);
        tenant_put(daemon, "b", 1);
        assert_float_equal(engine_of(daemon, NULL, "copy"), 3, 1e-9);
        assert_float_equal(engine_of(daemon, "user", "copy"), 3, 1e-9);
        assert_float_equal(engine_of(daemon, "label:none", "jpeg"), 1, 1e-9);
        assert_float_equal(engine_of(daemon, NULL, "decoder"), 0, 1e-9);
}

static void a_file_without_tables_for_engines_is_taken_as_it_is(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = tenant_put(daemon, "a", 1);
        sqlite3 *db;

        tenant->control->devices[0].used = NSEC_PER_SEC;
        usage_count(daemon);
        daemon->store = store_close(daemon->store);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db,
                                      "DROP TABLE engine_usage; DROP TABLE engine_counted; "
                                      "DROP TABLE host_usage; DROP TABLE host_counted",
                                      NULL, NULL, NULL),
                         SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        start_anew(daemon);
        assert_float_equal(sum_of(daemon, "gpu_seconds", NULL, -1), 1, 1e-9);
        assert_float_equal(engine_of(daemon, NULL, "copy"), 0, 1e-9);
        control_block_engine(tenant->control, 0, RM_ENGINE_COPY)->used = NSEC_PER_SEC;
        usage_count(daemon);
        assert_float_equal(engine_of(daemon, NULL, "copy"), 1, 1e-9);
}

static void memory_counts_over_time(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = tenant_put(daemon, "a", 1);
        double hours;

        tenant->control->devices[0].held = 4 * GIB;
        usage_count(daemon); /* from here on it is held */
        tenant->counted_at -= 3600 * NSEC_PER_SEC;
        usage_count(daemon);
        hours = sum_of(daemon, "gib_hours", NULL, -1);
        assert_true(hours > 3.99 && hours < 4.02);
}

/* What a suspended tenant had, and has not on the device. */
static void suspend_with(struct tenant *tenant, bytes size)
{
        tenant->control->before.held[0] = tenant->control->devices[0].held + size;
        tenant->suspension.state = SUSPENSION_SUSPENDED;
}

static void memory_in_the_host_counts_apart_and_on_into_the_next_daemon(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = tenant_put(daemon, "a", 1);
        double hours;

        tenant->control->devices[0].held = GIB;
        suspend_with(tenant, 4 * GIB);
        usage_count(daemon); /* from here on it is there */
        tenant->counted_at -= 3600 * NSEC_PER_SEC;
        usage_count(daemon);
        hours = sum_of(daemon, "host_gib_hours", NULL, -1);
        assert_true(hours > 3.99 && hours < 4.02);
        hours = sum_of(daemon, "gib_hours", NULL, -1);
        assert_true(hours > 0.99 && hours < 1.02);

        start_anew(daemon); /* killed; it finds the tenant running, and counts what was until then */
        memset(tenant->counted, 0, sizeof(tenant->counted));
        usage_start(daemon, tenant);
        assert_int_equal(tenant->counted[0].swapped, 4 * GIB);
        tenant->suspension.state = SUSPENSION_RUNNING;
        tenant->counted_at -= 3600 * NSEC_PER_SEC;
        usage_count(daemon);
        hours = sum_of(daemon, "host_gib_hours", NULL, -1);
        assert_true(hours > 7.98 && hours < 8.04);
        tenant->counted_at -= 3600 * NSEC_PER_SEC;
        usage_count(daemon);
        assert_float_equal(sum_of(daemon, "host_gib_hours", NULL, -1), hours, 1e-9);
        start_anew(daemon);
        usage_start(daemon, tenant);
        assert_int_equal(tenant->counted[0].swapped, 0);
}

/* Both readings in one millisecond. */
static void memory_that_came_back_at_once_is_forgotten_in_the_file_too(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = tenant_put(daemon, "a", 1);

        suspend_with(tenant, GIB);
        usage_count(daemon);
        tenant->suspension.state = SUSPENSION_RUNNING;
        tenant->counted_at = clock_realtime() + NSEC_PER_SEC;
        usage_count(daemon);
        start_anew(daemon);
        usage_start(daemon, tenant);
        assert_int_equal(tenant->counted[0].swapped, 0);
}

static void a_write_that_fails_is_made_up_for(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = tenant_put(daemon, "a", 1);

        tenant->control->devices[0].used = NSEC_PER_SEC;
        assert_int_equal(store_begin(daemon->store), 0); /* so that the next one cannot begin */
        usage_count(daemon);
        assert_true(daemon->store_has_failed);
        assert_true(tenant->counted[0].used == 0);
        store_rollback(daemon->store);
        usage_count(daemon);
        assert_false(daemon->store_has_failed);
        assert_float_equal(sum_of(daemon, "gpu_seconds", NULL, -1), 1, 1e-9);
}

static void usage_is_told_apart_by_tenant_and_owner(void **state)
{
        struct daemon *daemon = *state;

        tenant_put(daemon, "a", 1)->control->devices[0].used = NSEC_PER_SEC;
        tenant_put(daemon, "b", 2)->control->devices[0].used = 2 * NSEC_PER_SEC;
        usage_count(daemon);
        assert_float_equal(sum_of(daemon, "gpu_seconds", "b", -1), 2, 1e-9);
        assert_float_equal(sum_of(daemon, "gpu_seconds", NULL, 1), 1, 1e-9);
        assert_float_equal(sum_of(daemon, "gpu_seconds", "b", 1), 0, 1e-9);
}

static void old_minutes_become_hours_and_nothing_is_lost(void **state)
{
        nsec now = 1000000 * (nsec)3600 * NSEC_PER_SEC, day = 24 * 3600 * NSEC_PER_SEC;
        struct daemon *daemon = *state;
        struct tenant *tenant = tenant_put(daemon, "a", 1);
        json_t *array = json_array();

        for (int i = 0; i < 3 * 60; i++) { /* three hours, three days ago; one of them began in the middle */
                struct store_usage usage = { .tenant = tenant->lease.id,
                                             .uuid = "GPU-a",
                                             .gpu = NSEC_PER_SEC,
                                             .kib_ms = 10,
                                             .host_kib_ms = (uint64_t)(i % 2 * 3600000),
                                             .peak = (bytes)i };

                usage.engines[RM_ENGINE_DECODER] = NSEC_PER_SEC;
                usage.at = now - 3 * day + 1800 * NSEC_PER_SEC + i * 60 * NSEC_PER_SEC;
                assert_int_equal(store_usage_add(daemon->store, &usage), 0);
        }
        assert_int_equal(store_tidy(daemon->store, now), 0);
        assert_int_equal(store_tidy(daemon->store, now), 0);
        assert_float_equal(sum_of(daemon, "gpu_seconds", NULL, -1), 180, 1e-6);
        assert_float_equal(sum_of(daemon, "peak_bytes", NULL, -1), 179, 1e-6);
        assert_float_equal(sum_of(daemon, "host_gib_hours", NULL, -1) * 1048576, 90, 1e-3);
        assert_float_equal(engine_of(daemon, NULL, "decoder"), 180, 1e-6);
        /* The second of the hours alone: a minute's bucket would be found by this, an hour's is not. */
        assert_int_equal(store_usage_list(daemon->store,
                                          &(struct store_usage_query){ .since = now - 3 * day + 3660 * NSEC_PER_SEC,
                                                                       .owner = -1 },
                                          array),
                         0);
        assert_float_equal(json_number_value(json_object_get(json_array_get(array, 0), "gpu_seconds")), 90, 1e-6);
        assert_float_equal(json_number_value(json_object_get(
                                   json_object_get(json_array_get(array, 0), "engine_seconds"), "decoder")),
                           90, 1e-6);
        json_decref(array);
}

/* The GPU-seconds of a span by something, of one value. */
static double part_of(struct daemon *daemon, struct store_usage_query query, const char *value)
{
        json_t *array = json_array(), *row;
        double sum = 0;
        size_t i;

        query.owner = -1;
        assert_int_equal(store_usage_list(daemon->store, &query, array), 0);
        json_array_foreach (array, i, row)
                if (!strcmp(message_text(row, "value", "-"), value))
                        sum += json_number_value(json_object_get(row, "gpu_seconds"));
        json_decref(array);
        return sum;
}

static void usage_is_summed_by_user_namespace_and_label(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *a = fake_tenant_put(daemon, "a", 1, 10, 0), *b = fake_tenant_put(daemon, "b", 1, 10, 0),
                      *c = fake_tenant_put(daemon, "c", 2, 10, 0);

        (void)strcpy(a->lease.labels, "team=video,a.b/c=x");
        (void)strcpy(b->lease.labels, "team=search");
        (void)strcpy(c->lease.labels, "team=video");
        (void)strcpy(c->lease.container.id, "id");
        (void)strcpy(c->lease.container.namespace, "prod");
        for (struct tenant *t = daemon->tenants.first; t; t = t->next) {
                assert_int_equal(store_tenant_new(daemon->store, &t->lease, t->since, &t->lease.id), 0);
                usage_start(daemon, t);
        }
        a->control->devices[0].used = 1 * NSEC_PER_SEC;
        b->control->devices[0].used = 2 * NSEC_PER_SEC;
        c->control->devices[0].used = 4 * NSEC_PER_SEC;
        usage_count(daemon);
        assert_float_equal(part_of(daemon, (struct store_usage_query){ .by = "user" }, "1"), 3, 1e-9);
        assert_float_equal(part_of(daemon, (struct store_usage_query){ .by = "user" }, "2"), 4, 1e-9);
        assert_float_equal(part_of(daemon, (struct store_usage_query){ .by = "namespace" }, "prod"), 4, 1e-9);
        assert_float_equal(part_of(daemon, (struct store_usage_query){ .by = "namespace" }, "-"), 3, 1e-9);
        assert_float_equal(part_of(daemon, (struct store_usage_query){ .by = "label:team" }, "video"), 5, 1e-9);
        assert_float_equal(part_of(daemon, (struct store_usage_query){ .by = "label:team" }, "search"), 2, 1e-9);
        assert_float_equal(part_of(daemon, (struct store_usage_query){ .by = "label:a.b/c" }, "x"), 1, 1e-9);
        assert_float_equal(part_of(daemon, (struct store_usage_query){ .by = "label:none" }, "-"), 7, 1e-9);
        assert_false(store_usage_by_is_good("label:"));
        assert_false(store_usage_by_is_good("label:a\"b"));
        assert_false(store_usage_by_is_good("color"));
}

static void spans_that_touch_count_every_second_once(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = tenant_put(daemon, "a", 1);
        nsec now = clock_realtime() / NSEC_PER_SEC / 60 * 60 * NSEC_PER_SEC, minute = 60 * NSEC_PER_SEC;
        nsec middle = now - 5 * minute + 30 * NSEC_PER_SEC; /* of a minute */
        double before, after;

        for (int i = 0; i < 10; i++) {
                struct store_usage usage = { .tenant = tenant->lease.id, .uuid = "GPU-a", .gpu = NSEC_PER_SEC };

                usage.at = now - i * minute;
                assert_int_equal(store_usage_add(daemon->store, &usage), 0);
        }
        before = part_of(daemon, (struct store_usage_query){ .by = "user", .until = middle }, "1");
        after = part_of(daemon, (struct store_usage_query){ .by = "user", .since = middle }, "1");
        assert_float_equal(before, 4, 1e-9);
        assert_float_equal(after, 6, 1e-9);
}

static void count_living(void *context, const struct message_lease *lease, pid_t shim, nsec since)
{
        (void)since;
        assert_string_equal(lease->tenant, "a");
        assert_int_equal(shim, 77);
        assert_int_equal(lease->share, 300);
        ++*(int *)context;
}

static void the_living_are_known_to_the_next_daemon_as_they_were_changed(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *a = tenant_put(daemon, "a", 1), *b = tenant_put(daemon, "b", 1);
        uint64_t again;
        int n = 0;

        a->lease.share = 300;
        assert_int_equal(store_tenant_set(daemon->store, &a->lease, 77), 0);
        assert_int_equal(store_tenant_end(daemon->store, b->lease.id, 9, "{\"exit_code\":3}"), 0);
        start_anew(daemon);
        assert_int_equal(store_tenants_living(daemon->store, count_living, &n), 0);
        assert_int_equal(n, 1);
        assert_int_equal(store_tenant_new(daemon->store, &b->lease, 1, &again), 0);
        assert_true(again > b->lease.id); /* a number is never used again */
}

static void an_ended_tenant_keeps_its_report_for_its_owner(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *a = tenant_put(daemon, "a", 5);
        json_t *array = json_array();

        assert_int_equal(store_tenant_end(daemon->store, a->lease.id, 9, "{\"exit_code\":3}"), 0);
        assert_int_equal(store_tenants_ended(daemon->store, 6, array), 0);
        assert_int_equal(json_array_size(array), 0);
        assert_int_equal(store_tenants_ended(daemon->store, 5, array), 0);
        assert_int_equal(json_array_size(array), 1);
        assert_int_equal(message_number(json_object_get(json_array_get(array, 0), "report"), "exit_code", 0), 3);
        json_decref(array);
}

static void count_event(void *context, const struct store_event *event)
{
        int *n = context;

        n[0]++;
        n[1] += !strcmp(event->name, "EVENTS_DROPPED");
}

static void nobody_fills_the_disk_with_events(void **state)
{
        struct daemon *daemon = *state;
        int n[2] = { 0 };

        for (int i = 0; i < 10 * EVENTS_A_SECOND; i++)
                event_emit(daemon, event_find("LEASE_REFUSED"), NULL, -1, "%d", i);
        event_emit(daemon, event_find("XID"), NULL, 0, "what matters is kept");
        daemon->stored_since -= 2 * NSEC_PER_SEC;
        event_emit(daemon, event_find("LEASE_REFUSED"), NULL, -1, "a second later");
        assert_int_equal(store_events_list(daemon->store, 0, NULL, -1, 10000, count_event, n), 0);
        assert_int_equal(n[0], EVENTS_A_SECOND + 3);
        assert_int_equal(n[1], 1);
        start_anew(daemon);
        assert_int_equal(store_event_last(daemon->store), daemon->event_id);
}

static void a_file_of_a_newer_version_is_refused(void **state)
{
        struct daemon *daemon = *state;
        struct store *store;
        struct err err;
        FILE *file;

        daemon->store = store_close(daemon->store);
        file = fopen(path, "r+"); /* the version is a big-endian number at 60: SQLite's file format */
        assert_int_equal(fseek(file, 60, SEEK_SET), 0);
        assert_int_equal(fwrite("\0\0\0\x63", 1, 4, file), 4);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(store_open(path, &store, &err), -EPROTO);
        assert_non_null(strstr(err.text, "newer"));
}

static void what_is_no_store_is_refused_in_one_line(void **state)
{
        struct store *store;
        struct err err;
        FILE *file;
        struct daemon *daemon = *state;

        daemon->store = store_close(daemon->store);
        file = fopen(path, "w");
        for (int i = 0; i < 1000; i++)
                (void)fputs("no database at all", file);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(store_open(path, &store, &err), -EIO);
        assert_non_null(strstr(err.text, path));
        assert_null(strchr(err.text, '\n'));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(usage_is_summed_by_user_namespace_and_label),
                TEST(spans_that_touch_count_every_second_once),
                TEST(gpu_time_is_counted_once_however_often_somebody_looks),
                TEST(a_daemon_that_comes_after_counts_on_from_the_control_block),
                TEST(each_engine_is_counted_by_itself_and_by_the_next_daemon_from_there),
                TEST(a_file_without_tables_for_engines_is_taken_as_it_is),
                TEST(memory_counts_over_time),
                TEST(memory_in_the_host_counts_apart_and_on_into_the_next_daemon),
                TEST(memory_that_came_back_at_once_is_forgotten_in_the_file_too),
                TEST(a_write_that_fails_is_made_up_for),
                TEST(usage_is_told_apart_by_tenant_and_owner),
                TEST(old_minutes_become_hours_and_nothing_is_lost),
                TEST(the_living_are_known_to_the_next_daemon_as_they_were_changed),
                TEST(an_ended_tenant_keeps_its_report_for_its_owner),
                TEST(nobody_fills_the_disk_with_events),
                TEST(a_file_of_a_newer_version_is_refused),
                TEST(what_is_no_store_is_refused_in_one_line),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
