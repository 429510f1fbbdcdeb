/* SPDX-License-Identifier: Apache-2.0 */
/* The node: version, devices, usage, events. */
#include "daemon/api/api.h"

#include "base/text.h"
#include "daemon/store/store.h"
#include "daemon/state/events.h"
#include "daemon/state/usage.h"

#include <stdio.h>
#include <string.h>

enum {
        EVENTS_MOST = 10000, /* of one answer, whatever limit= says */
        EVENTS_DEFAULT = 1000,
};

void api_version(struct daemon *daemon, const struct api_request *request, const char *name, struct api_response *ret)
{
        (void)request;
        (void)name;
        api_json(ret, API_OK,
                 json_pack("{s:s, s:i, s:s, s:s, s:I}", "sublet", SUBLET_VERSION, "api", API_VERSION, "driver",
                           daemon->backend.release, "backend", daemon->backend.name ? daemon->backend.name : "",
                           "since", (json_int_t)(daemon->since / NSEC_PER_SEC)));
}

void api_healthz(struct daemon *daemon, const struct api_request *request, const char *name, struct api_response *ret)
{
        (void)daemon;
        (void)request;
        (void)name;
        api_json(ret, API_OK, json_pack("{s:s}", "status", "ok"));
}

void api_readyz(struct daemon *daemon, const struct api_request *request, const char *name, struct api_response *ret)
{
        unsigned int n_lost = 0;

        (void)request;
        (void)name;
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                n_lost += daemon->devices[i].is_lost;
        if (daemon->store_has_failed)
                api_error(ret, API_UNAVAILABLE, "leases and usage cannot be stored: %s",
                          daemon->store ? store_error(daemon->store) : "no store");
        else if (n_lost == daemon->n_devices)
                api_error(ret, API_UNAVAILABLE, "every device is lost");
        else
                api_json(ret, API_OK, json_pack("{s:s}", "status", "ready"));
}

/* Names as in gpu/health.def, base units; null: the device tells nothing. */
static json_t *health_json(const struct daemon *daemon, const struct device *device)
{
        static const char *const names[] = {
#define HEALTH(figure, type, help) #figure,
#include "gpu/health.def"
#undef HEALTH
        };
        const struct gpu_figures *figures = device_health(device);
        json_t *object = json_object();

        for (enum gpu_figure figure = 0; figures && figure < GPU_N_FIGURES; figure++)
                if (gpu_figure_is_known(figures, figure))
                        (void)json_object_set_new(object, names[figure], json_real(figures->of[figure]));
        if (daemon->watch)
                (void)json_object_set_new(object, "xid_errors_total", json_integer((json_int_t)device->n_xids));
        if (device->n_xids)
                (void)json_object_set_new(object, "latest_xid", json_integer((json_int_t)device->xid));
        if (json_object_size(object))
                return object;
        json_decref(object);
        return json_null();
}

/* Indices of the devices that NVLink joins it with. */
static json_t *links_json(const struct gpu_device *info)
{
        json_t *links = json_array();

        for (unsigned int i = 0; i < GPU_DEVICES_MAX; i++)
                if (info->nvlink & UINT32_C(1) << i)
                        (void)json_array_append_new(links, json_integer((json_int_t)i));
        return links;
}

/* The sum of what tenants have that the caller may not see. */
static json_t *others_json(const struct daemon *daemon, const struct api_request *request, unsigned int device)
{
        bytes held = 0, leased = 0;
        int n = 0;

        for (const struct tenant *t = daemon->tenants.first; t; t = t->next) {
                if (!tenant_has(t, device) || api_sees(request, t))
                        continue;
                held += tenant_held(t, device);
                leased += t->lease.devices[device].quota;
                n++;
        }
        return json_pack("{s:i, s:I, s:I}", "tenants", n, "held_bytes", (json_int_t)held, "leased_bytes",
                         (json_int_t)leased);
}

static json_t *device_json(struct daemon *daemon, const struct api_request *request, struct device *device)
{
        const struct sched_device *scheduled = &device->scheduled;
        bytes held = 0;

        device_read(device);
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                if (tenant_has(t, device->index))
                        held += tenant_held(t, device->index);
        return json_pack("{s:i, s:s, s:s, s:s, s:I, s:I, s:I, s:i, s:i, s:i, s:s, s:s, s:s, s:I, s:b, s:I, s:I, s:I, "
                         "s:I, s:I, s:I, s:o, s:o, s:o, s:o}",
                         "index", (int)device->index, "name", device->info.name, "uuid", device->info.uuid, "bus_id",
                         device->info.bus_id, "memory_bytes", (json_int_t)device->info.total, "leased_bytes",
                         (json_int_t)tenants_leased(&daemon->tenants, device->index, NULL), "held_bytes",
                         (json_int_t)held, "share_permille",
                         (int)tenants_promised(&daemon->tenants, device->index, NULL), "busy_permille",
                         (int)scheduled->busy, "foreign_permille", (int)scheduled->foreign, "policy",
                         turns_policy_name(daemon->settings.turns.policy), "mode",
                         tenants_mode(&daemon->tenants, device->index, NULL), "state", device->is_lost ? "lost" : "ok",
                         "period_ns", (json_int_t)scheduled->turns.period, "has_meter", (int)scheduled->has_meter,
                         "switches", (json_int_t)scheduled->n_switches, "lost_records", (json_int_t)scheduled->n_lost,
                         "tenants", (json_int_t)tenants_count(&daemon->tenants, device->index), "unexplained_bytes",
                         (json_int_t)device->balance.unexplained, "swap_bytes", (json_int_t)daemon->tenants.swap,
                         "swap_used_bytes", (json_int_t)swap_host_used(&daemon->tenants), "numa",
                         device->info.numa < 0 ? json_null() : json_integer(device->info.numa), "nvlink",
                         links_json(&device->info), "health", health_json(daemon, device), "others",
                         others_json(daemon, request, device->index));
}

void api_devices(struct daemon *daemon, const struct api_request *request, const char *name, struct api_response *ret)
{
        json_t *array = json_array();

        (void)name;
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                (void)json_array_append_new(array, device_json(daemon, request, &daemon->devices[i]));
        api_json(ret, API_OK, array);
}

static const char *tenant_argument(const struct api_request *request)
{
        const char *tenant = api_argument(request, "tenant");

        return tenant && *tenant ? tenant : NULL;
}

/* False: the error is in *ret. */
static bool usage_query(const struct api_request *request, struct store_usage_query *query, struct api_response *ret)
{
        *query = (struct store_usage_query){ .tenant = tenant_argument(request),
                                             .owner = request->sees_all ? -1 : (int64_t)request->uid,
                                             .by = api_argument(request, "by") };
        if (!api_time(request, "since", 0, &query->since, ret) || !api_time(request, "until", 0, &query->until, ret))
                return false;
        if (query->until && query->until <= query->since) {
                api_error(ret, API_BAD_REQUEST, "until=%.60s is not after since=%.60s", api_argument(request, "until"),
                          api_argument(request, "since"));
                return false;
        }
        if (query->by && !store_usage_by_is_good(query->by)) {
                api_error(ret, API_BAD_REQUEST, "by=%.80s: user, namespace or label:NAME", query->by);
                return false;
        }
        return true;
}

void api_usage(struct daemon *daemon, const struct api_request *request, const char *name, struct api_response *ret)
{
        struct store_usage_query query;
        json_t *array;
        int r = 0;

        (void)name;
        if (!usage_query(request, &query, ret))
                return;
        array = json_array();
        usage_count(daemon); /* until now */
        if (daemon->store)
                r = store_usage_list(daemon->store, &query, array);
        if (r == 0) {
                api_json(ret, API_OK, array);
                return;
        }
        json_decref(array);
        daemon_store_result(daemon, r);
        api_error(ret, API_FAILED, "usage cannot be read: %s", store_error(daemon->store));
}

/* ---- events ------------------------------------------------------------------------------------ */

json_t *api_event_json(const struct event *event)
{
        return json_pack("{s:I, s:f, s:s, s:s, s:o, s:o, s:s, s:s}", "id", (json_int_t)event->id, "time",
                         (double)event->time / 1e9, "level", event->level, "name", event->name, "tenant",
                         event->tenant[0] ? json_string(event->tenant) : json_null(), "device",
                         event->device >= 0 ? json_integer(event->device) : json_null(), "line", event->line, "detail",
                         event->detail);
}

static void append_event(void *context, const struct store_event *row)
{
        struct event event = { .id = row->id,
                               .time = row->time,
                               .level = row->level,
                               .name = row->name,
                               .line = row->line,
                               .owner = row->owner,
                               .device = (int)row->device };

        (void)snprintf(event.tenant, sizeof(event.tenant), "%s", row->tenant);
        (void)snprintf(event.detail, sizeof(event.detail), "%s", row->detail);
        (void)json_array_append_new(context, api_event_json(&event));
}

/* One object per line. */
static void write_lines(struct api_response *ret, json_t *array)
{
        size_t size = 0, i;
        char *text = NULL;
        json_t *event;
        FILE *to = open_memstream(&text, &size);

        if (!to)
                return;
        json_array_foreach (array, i, event) {
                (void)json_dumpf(event, to, JSON_COMPACT);
                (void)fputc('\n', to);
        }
        (void)fclose(to);
        ret->body = text;
        ret->size = size;
}

static void start_follower(const struct daemon *daemon, const struct api_request *request, json_t *before,
                           struct api_response *ret)
{
        const char *tenant = tenant_argument(request);

        *ret = (struct api_response){ .status = API_OK,
                                      .type = "application/x-ndjson",
                                      .wait = API_WAIT_EVENTS,
                                      .event_id = daemon->event_id,
                                      .owner = request->sees_all ? -1 : (int64_t)request->uid };
        (void)snprintf(ret->only, sizeof(ret->only), "%s", tenant ? tenant : "");
        write_lines(ret, before);
        json_decref(before);
}

static unsigned int limit_argument(const struct api_request *request)
{
        const char *text = api_argument(request, "limit");
        uint64_t most;

        if (!text || number_parse(text, &most) < 0)
                return EVENTS_DEFAULT;
        return most < EVENTS_MOST ? (unsigned int)most : EVENTS_MOST;
}

/* Without since=: all events in the store; for a follower only those to come. */
void api_events(struct daemon *daemon, const struct api_request *request, const char *name, struct api_response *ret)
{
        const char *follows = api_argument(request, "follow");
        bool is_follower = follows && strcmp(follows, "0") != 0;
        json_t *array = json_array();
        nsec since;

        (void)name;
        if (!api_time(request, "since", 0, &since, ret)) {
                json_decref(array);
                return;
        }
        if (daemon->store && (!is_follower || since))
                daemon_store_result(daemon, store_events_list(daemon->store, since, tenant_argument(request),
                                                              request->sees_all ? -1 : (int64_t)request->uid,
                                                              limit_argument(request), append_event, array));
        if (is_follower)
                start_follower(daemon, request, array, ret);
        else
                api_json(ret, API_OK, array);
}

static bool is_event_for(const struct api_response *response, const struct event *event)
{
        return (response->owner < 0 || response->owner == event->owner) &&
               (!response->only[0] || !strcmp(response->only, event->tenant));
}

size_t api_follow(struct daemon *daemon, struct api_response *response, char *buffer, size_t room)
{
        const struct event *event;
        size_t n = 0;

        while ((event = event_after(daemon, response->event_id))) {
                json_t *body = is_event_for(response, event) ? api_event_json(event) : NULL;
                size_t size = body ? json_dumpb(body, buffer + n, room - n, JSON_COMPACT) : 0;

                json_decref(body);
                if (body && size + 1 > room - n)
                        break;
                if (body) {
                        n += size;
                        buffer[n++] = '\n';
                }
                response->event_id = event->id;
        }
        return n;
}
