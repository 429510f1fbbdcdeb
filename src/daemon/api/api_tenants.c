/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants as JSON: living ones from the table, control blocks and schedulers; ended ones from the store. */
#include "daemon/api/api.h"

#include "daemon/store/store.h"
#include "daemon/state/events.h"
#include "daemon/state/goals.h"
#include "daemon/state/shims.h"

#include <stdio.h>
#include <string.h>

/* Those of which it has channels. */
static json_t *engines_json(const struct sched_row *row)
{
        json_t *engines = json_object();

        for (enum rm_engine engine = 1; row && engine < RM_N_ENGINES; engine++) {
                const struct sched_row_engine *on = &row->engines[engine];

                if (on->has_channels)
                        (void)json_object_set_new(engines, rm_engine_name(engine),
                                                  json_pack("{s:I, s:i, s:b}", "used_ns", (json_int_t)on->used,
                                                            "granted_permille", (int)on->granted, "is_off",
                                                            (int)on->is_disabled));
        }
        return engines;
}

static json_t *microseconds(nsec span, bool is_known)
{
        return is_known ? json_integer(span / NSEC_PER_USEC) : json_null();
}

/* How its goal is kept; null without one. */
static json_t *steps_json(const struct daemon *daemon, const struct tenant *tenant, const struct sched_row *row)
{
        const struct waits_report *waits = row ? &row->waits : NULL;
        const struct tenant *by;

        if (!tenant->lease.goal || !waits)
                return json_null();
        by = waits->late_by ? tenants_find_id(&daemon->tenants, waits->late_by) : NULL;
        return json_pack("{s:I, s:o, s:o, s:o, s:I, s:o, s:s?}", "count", (json_int_t)waits->n_steps, "p50_us",
                         microseconds(waits->p50, waits->n_steps), "p99_us", microseconds(waits->p99, waits->n_steps),
                         "longest_us", microseconds(waits->longest, waits->n_steps), "late", (json_int_t)waits->n_late,
                         "latest_late_us", microseconds(waits->latest_late, waits->n_late), "late_by",
                         by ? goals_whom(by, tenant->lease.owner) : NULL);
}

/* What is held, by kind; null where no gate tells. */
static json_t *kinds_json(const struct tenant *tenant, unsigned int device)
{
        const struct control_kinds *kinds =
                tenant->lease.enforcement == ENFORCEMENT_PRELOAD ? NULL : control_block_kinds(tenant->control, device);
        bytes held, managed, driver;

        if (!kinds)
                return json_null();
        held = tenant_held(tenant, device);
        managed = kinds->managed;
        driver = kinds->driver;
        return json_pack("{s:I, s:I, s:I}", "allocated_bytes",
                         (json_int_t)(held > managed + driver ? held - managed - driver : 0), "managed_bytes",
                         (json_int_t)managed, "driver_bytes", (json_int_t)driver);
}

static json_t *device_json(const struct daemon *daemon, const struct tenant *tenant, const struct device *device)
{
        const struct control_device *control = tenant->control ? &tenant->control->devices[device->index] : NULL;
        const struct sched_row *row = device_row(device, tenant);

        return json_pack(
                "{s:i, s:I, s:I, s:I, s:I, s:i, s:i, s:I, s:i, s:i, s:b, s:b, s:I, s:s?, s:o, s:o, s:o, s:o, s:o, s:o, "
                "s:I}",
                "index", (int)device->index, "quota_bytes", (json_int_t)tenant->lease.devices[device->index].quota,
                "held_bytes", (json_int_t)(control ? control->held : 0), "peak_bytes",
                (json_int_t)(control ? control->peak : 0), "refused", (json_int_t)(control ? control->n_refused : 0),
                "share_permille", (int)tenant->share, "cap_permille", (int)tenant->lease.cap, "used_ns",
                (json_int_t)(control ? control->used : 0), "granted_permille", row ? (int)row->granted : 0,
                "promised_permille", row ? (int)row->promised : 0, "waiting", row ? (int)row->is_waiting : 0, "is_off",
                control ? (int)control->is_disabled : 0, "slice_ns", (json_int_t)(control ? control->slice_set : 0),
                "instance", tenant->lease.mig.uuid[0] ? tenant->lease.mig.uuid : NULL, "steps",
                steps_json(daemon, tenant, row), "engines", engines_json(row), "holders",
                api_holders(tenant, device->index), "borrowed", api_loans(daemon, tenant, device->index, false), "lent",
                api_loans(daemon, tenant, device->index, true), "kinds", kinds_json(tenant, device->index),
                "swapped_bytes", (json_int_t)tenant_swapped(tenant, device->index));
}

/* The process that has memory of an ended tenant; 0: /proc does not tell. */
static json_t *kept_by(const struct tenant *tenant)
{
        pid_t process = tenant->is_kept ? control_block_kept_by(tenant->control) : 0;

        return tenant->is_kept ? json_integer(process > 0 ? process : 0) : json_null();
}

json_t *api_tenant_json(struct daemon *daemon, struct tenant *tenant)
{
        json_t *devices = json_array();

        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                if (!tenant_has(tenant, i))
                        continue;
                device_read(&daemon->devices[i]);
                (void)json_array_append_new(devices, device_json(daemon, tenant, &daemon->devices[i]));
        }
        return json_pack(
                "{s:s, s:I, s:I, s:s, s:i, s:I, s:I, s:s, s:s, s:s, s:s, s:s?, s:i, s:I, s:I, s:o, s:o, s:s?, "
                "s:s?, s:I, s:o, s:o, s:o, s:b, s:o, s:b, s:I, s:I, s:b, s:o, s:s?, s:s?, s:o}",
                "tenant", tenant->lease.tenant, "id", (json_int_t)tenant->lease.id, "uid",
                (json_int_t)tenant->lease.owner, "command", tenant->lease.command, "keeper", (int)tenant->shim,
                "processes", (json_int_t)(tenant->control ? tenant->control->n_processes : 0), "since",
                (json_int_t)(tenant->since / NSEC_PER_SEC), "class", turns_class_name(tenant->lease.class), "mode",
                tenant->lease.mode, "state", tenant_state_name(tenant), "plane",
                enforcement_name(tenant->lease.enforcement), "attach_error",
                tenant->lease.enforcement == ENFORCEMENT_PRELOAD && tenant->attach_error ?
                        strerror(tenant->attach_error & 4095) :
                        NULL,
                "share_asked_permille", (int)tenant->lease.share, "host_quota_bytes", (json_int_t)tenant->lease.host,
                "host_held_bytes", (json_int_t)(tenant->control ? tenant->control->host_held : 0), "container",
                message_container_new(&tenant->lease.container), "devices", devices, "sms",
                tenant->lease.sms[0] ? tenant->lease.sms : NULL, "job", tenant->lease.job[0] ? tenant->lease.job : NULL,
                "refused_calls", (json_int_t)(tenant->control ? tenant->control->n_refused : 0), "labels",
                labels_new(tenant->lease.labels), "pid", api_pid(tenant), "latency_us",
                tenant->lease.goal ? json_integer(tenant->lease.goal / NSEC_PER_USEC) : json_null(), "suspended",
                (int)(tenant->suspension.state == SUSPENSION_SUSPENDED), "sleep_after_us",
                tenant->lease.sleep_after ? json_integer(tenant->lease.sleep_after / NSEC_PER_USEC) : json_null(),
                "has_waker", (int)sleep_has_waker(daemon, tenant), "swapped_bytes",
                (json_int_t)tenant_swapped_all(tenant), "ready_bytes", (json_int_t)room_ready(tenant), "swap",
                (int)tenant->lease.swap, "host_swap_bytes",
                tenant->lease.host_swap ? json_integer((json_int_t)tenant->lease.host_swap) : json_null(), "waits_for",
                swap_waits_for(tenant), "group", tenant->lease.group[0] ? tenant->lease.group : NULL, "kept_by",
                kept_by(tenant));
}

/* The entry of one device in an ended tenant's report. */
static const json_t *report_of_device(const json_t *report, int64_t index)
{
        const json_t *devices = json_object_get(report, "devices");

        for (size_t i = 0; i < json_array_size(devices); i++)
                if (message_number(json_array_get(devices, i), "device", -1) == index)
                        return json_array_get(devices, i);
        return NULL;
}

static json_t *ended_devices(const json_t *lease, const json_t *report)
{
        const json_t *devices = json_object_get(lease, "devices");
        json_t *array = json_array();

        for (size_t i = 0; i < json_array_size(devices); i++) {
                const json_t *device = json_array_get(devices, i);
                int64_t index = message_number(device, "index", 0);
                const json_t *was = report_of_device(report, index);

                (void)json_array_append_new(
                        array,
                        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "index", (json_int_t)index, "quota_bytes",
                                  (json_int_t)message_number(device, "quota_bytes", 0), "held_bytes", (json_int_t)0,
                                  "peak_bytes", (json_int_t)message_number(was, "peak_bytes", 0), "refused",
                                  (json_int_t)message_number(was, "refusals", 0), "share_permille",
                                  (json_int_t)message_number(lease, "share", 0), "cap_permille",
                                  (json_int_t)message_number(lease, "cap", TURNS_WHOLE)));
        }
        return array;
}

static json_int_t refused_calls(const json_t *report)
{
        json_int_t sum = 0;
        const json_t *row;
        size_t i;

        json_array_foreach (json_object_get(report, "refused"), i, row)
                sum += json_integer_value(json_object_get(row, "count"));
        return sum;
}

/* The fields of a living tenant, as far as they are known. */
static json_t *ended_json(const json_t *row)
{
        json_t *lease = json_object_get(row, "lease"), *report = json_object_get(row, "report");

        return json_pack("{s:s, s:I, s:I, s:s, s:i, s:i, s:I, s:I, s:s, s:s, s:s, s:s, s:O?, s:o, s:O, s:I, s:O?}",
                         "tenant", message_text(lease, "tenant", ""), "id", (json_int_t)message_number(row, "id", 0),
                         "uid", (json_int_t)message_number(lease, "owner", 0), "command",
                         message_text(lease, "command", ""), "keeper", 0, "processes", 0, "since",
                         (json_int_t)(message_number(row, "since", 0) / NSEC_PER_SEC), "ended",
                         (json_int_t)(message_number(row, "ended", 0) / NSEC_PER_SEC), "class",
                         message_text(lease, "class", "normal"), "mode", message_text(lease, "mode", "time"), "state",
                         "ended", "plane", message_text(lease, "plane", "gate"), "container",
                         json_object_get(lease, "container"), "devices", ended_devices(lease, report), "report", report,
                         "refused_calls", refused_calls(report), "labels", json_object_get(lease, "labels"));
}

static void append_ended(struct daemon *daemon, const struct api_request *request, json_t *array)
{
        json_t *rows = json_array(), *row;
        size_t i;

        daemon_store_result(daemon,
                            store_tenants_ended(daemon->store, request->sees_all ? -1 : (int64_t)request->uid, rows));
        json_array_foreach (rows, i, row)
                (void)json_array_append_new(array, ended_json(row));
        json_decref(rows);
}

void api_tenants(struct daemon *daemon, const struct api_request *request, const char *name, struct api_response *ret)
{
        const char *all = api_argument(request, "all"), *minute = api_argument(request, "minute");
        json_t *array = json_array(), *body;

        (void)name;
        for (struct tenant *t = daemon->tenants.first; t; t = t->next) {
                if (!api_sees(request, t))
                        continue;
                body = api_tenant_json(daemon, t);
                if (minute && strcmp(minute, "0") != 0)
                        api_minute_put(t, body);
                (void)json_array_append_new(array, body);
        }
        if (all && strcmp(all, "0") != 0 && daemon->store)
                append_ended(daemon, request, array);
        api_json(ret, API_OK, array);
}

struct tenant *api_tenant_of(struct daemon *daemon, const struct api_request *request, const char *name,
                             struct api_response *ret)
{
        struct tenant *tenant = tenants_find(&daemon->tenants, name);

        if (!tenant)
                api_error(ret, API_NOT_FOUND, "there is no tenant '%.100s' ('sublet ps' lists them)", name);
        else if (!api_sees(request, tenant))
                api_error(ret, API_FORBIDDEN, "tenant '%.100s' is another user's", name);
        else
                return tenant;
        return NULL;
}

void api_tenant(struct daemon *daemon, const struct api_request *request, const char *name, struct api_response *ret)
{
        struct tenant *tenant = api_tenant_of(daemon, request, name, ret);

        if (tenant)
                api_json(ret, API_OK, api_tenant_json(daemon, tenant));
}
