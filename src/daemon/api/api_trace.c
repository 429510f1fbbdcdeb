/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tenant was on a device when: as Chrome trace JSON (Perfetto, chrome://tracing), and as plain spans for the
 * page. Both read the schedulers' rings (sched/trace.h), and the current span from sched_resident.
 *
 * In the Chrome trace a device is a "process". A tenant is one of its tracks, the time its channels were disabled
 * another; on each engine beside graphics and compute it has one with its work there, and the time in which its turn
 * there was over; the daemon's driver calls and gaps in the records are tracks, too. Times are microseconds from the
 * start of the trace. A user who may not see all tenants gets the spans of its own only.
 */
#include "daemon/api/api.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        TRACE_MOST_SEC = 60,
        TIMELINE_MSEC = 2000,
        TIMELINE_MOST_MSEC = 60 * 1000,
        SPANS_AT_ONCE = 256,
        OPEN_SPANS = 1024,      /* on engines, at one moment */
        TIMELINE_SPANS = 50000, /* of an answer, more than the page can draw; the rest is left out */

        TRACK_CALLS = 1, /* track numbers of a device */
        TRACK_LOST,
        TRACK_FOREIGN,
        TRACK_TENANTS = 10,      /* then two per tenant */
        TRACK_ENGINES = 1 << 20, /* times the engine, and then one per tenant */
};

/* A tenant's index in the table, for tracks; -1: it is gone, or the caller may not see it. */
static int slot_of(const struct daemon *daemon, int64_t owner, uint64_t id, const struct tenant **ret)
{
        int slot = 0;

        for (const struct tenant *t = daemon->tenants.first; t; t = t->next, slot++)
                if (t->lease.id == id && id && (owner < 0 || (int64_t)t->lease.owner == owner)) {
                        *ret = t;
                        return slot;
                }
        return -1;
}

/* ---- Chrome trace ------------------------------------------------------------------------------ */

struct chrome {
        FILE *to;
        const struct daemon *daemon;
        const struct device *device;
        const struct api_response *response;
        nsec until;
        bool has_one;
        uint8_t *named; /* by slot: a bit for each engine that has a track of the tenant's */
};

static void name_track(struct chrome *chrome, const char *what, int track, const char *name, const char *suffix)
{
        (void)fprintf(chrome->to, "%s{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%d,\"args\":{\"name\":\"",
                      chrome->has_one ? ",\n" : "", what, chrome->device->index + 1, track);
        for (const char *at = name; *at; at++) /* a device's name may contain quotes and controls */
                if (*at != '"' && *at != '\\' && (unsigned char)*at >= ' ')
                        (void)fputc(*at, chrome->to);
        (void)fprintf(chrome->to, "%s\"}}", suffix);
        chrome->has_one = true;
}

static void name_tracks(struct chrome *chrome)
{
        char job[80];
        int slot = 0;

        name_track(chrome, "process_name", 0, chrome->device->info.name, "");
        if (chrome->response->owner < 0) {
                name_track(chrome, "thread_name", TRACK_CALLS, "sublet: driver calls", "");
                name_track(chrome, "thread_name", TRACK_LOST, "sublet: records lost", "");
                name_track(chrome, "thread_name", TRACK_FOREIGN, "not a tenant's", "");
        }
        for (const struct tenant *t = chrome->daemon->tenants.first; t; t = t->next, slot++) {
                if (!tenant_has(t, chrome->device->index) ||
                    (chrome->response->owner >= 0 && (int64_t)t->lease.owner != chrome->response->owner))
                        continue;
                if (t->lease.job[0])
                        (void)snprintf(job, sizeof(job), ", job %s", t->lease.job);
                else if (t->lease.group[0])
                        (void)snprintf(job, sizeof(job), ", group %s", t->lease.group);
                else
                        job[0] = '\0';
                name_track(chrome, "thread_name", TRACK_TENANTS + 2 * slot, t->lease.tenant, job);
                name_track(chrome, "thread_name", TRACK_TENANTS + 2 * slot + 1, t->lease.tenant, " kept off");
        }
}

static void put_event(struct chrome *chrome, int track, const char *name, const char *kind, nsec from, nsec until)
{
        nsec start = chrome->response->since;

        if (until <= start || from >= chrome->until)
                return;
        from = from > start ? from : start;
        until = until < chrome->until ? until : chrome->until;
        (void)fprintf(chrome->to,
                      "%s{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%d,\"ts\":%lld.%03d,"
                      "\"dur\":%lld.%03d}",
                      chrome->has_one ? ",\n" : "", name, kind, chrome->device->index + 1, track,
                      (long long)((from - start) / 1000), (int)((from - start) % 1000),
                      (long long)((until - from) / 1000), (int)((until - from) % 1000));
        chrome->has_one = true;
}

/* A track per engine and tenant that had work there. It is named when its first span comes. */
static void put_engine(struct chrome *chrome, const struct trace_span *span, int slot, const struct tenant *tenant)
{
        int track = (int)(TRACK_ENGINES * span->detail) + slot;
        char head[32];

        if (span->until <= chrome->response->since || span->from >= chrome->until)
                return;
        if (!(chrome->named[slot] & 1u << span->detail)) {
                (void)snprintf(head, sizeof(head), "%s: ", rm_engine_name((enum rm_engine)span->detail));
                name_track(chrome, "thread_name", track, head, tenant->lease.tenant);
                chrome->named[slot] = (uint8_t)(chrome->named[slot] | 1u << span->detail);
        }
        if (span->kind == TRACE_ENGINE_ON)
                put_event(chrome, track, "work", "engine", span->from, span->until);
        else
                put_event(chrome, track, "held", "engine off", span->from, span->until);
}

static void put_span(struct chrome *chrome, const struct trace_span *span)
{
        const struct tenant *tenant = NULL;
        int slot = slot_of(chrome->daemon, chrome->response->owner, span->tenant, &tenant);
        bool sees_all = chrome->response->owner < 0;

        switch (span->kind) {
        case TRACE_ON:
                if (slot >= 0)
                        put_event(chrome, TRACK_TENANTS + 2 * slot, tenant->lease.tenant, "on", span->from,
                                  span->until);
                else if (sees_all)
                        put_event(chrome, TRACK_FOREIGN, "on", "foreign", span->from, span->until);
                break;
        case TRACE_OFF:
                if (slot >= 0)
                        put_event(chrome, TRACK_TENANTS + 2 * slot + 1, "kept off", "off", span->from, span->until);
                break;
        case TRACE_ENGINE_ON:
        case TRACE_ENGINE_OFF:
                if (slot >= 0)
                        put_engine(chrome, span, slot, tenant);
                break;
        case TRACE_CALL:
                if (sees_all)
                        put_event(chrome, TRACK_CALLS, trace_call_name((enum trace_call)span->detail), "call",
                                  span->from, span->until);
                break;
        case TRACE_LOST:
                if (sees_all)
                        put_event(chrome, TRACK_LOST, "records lost", "lost", span->from, span->until);
                break;
        default:
                break;
        }
}

/* The spans that have not ended. */
static void put_present(struct chrome *chrome)
{
        struct trace_span now = { .kind = TRACE_ON }, spans[OPEN_SPANS];
        size_t n = sched_engines_now(chrome->device->sched, spans, OPEN_SPANS);

        for (size_t i = 0; i < n; i++) {
                spans[i].until = chrome->until;
                put_span(chrome, &spans[i]);
        }
        if (!sched_resident(chrome->device->sched, &now.tenant, &now.from))
                return;
        now.until = chrome->until;
        put_span(chrome, &now);
}

static void put_device(struct chrome *chrome)
{
        struct trace *trace = sched_trace(chrome->device->sched);
        struct trace_span spans[SPANS_AT_ONCE];
        uint64_t cursor = trace_seek(trace, chrome->response->since);
        size_t n;

        memset(chrome->named, 0, chrome->daemon->tenants.n);
        name_tracks(chrome);
        while ((n = trace_read(trace, &cursor, spans, SPANS_AT_ONCE)) > 0)
                for (size_t i = 0; i < n; i++)
                        put_span(chrome, &spans[i]);
        put_present(chrome);
}

void api_trace_end(struct daemon *daemon, struct api_response *response)
{
        struct chrome chrome = { .daemon = daemon, .response = response, .until = response->deadline };
        _cleanup_(freep) uint8_t *named = calloc(daemon->tenants.n + 1, 1);
        struct api_response whole;
        char *text = NULL;
        size_t size = 0;

        chrome.named = named;
        chrome.to = named ? open_memstream(&text, &size) : NULL;
        if (!chrome.to) {
                api_error(response, API_FAILED, "no memory for the trace");
                return;
        }
        (void)fprintf(chrome.to, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                chrome.device = &daemon->devices[i];
                if (chrome.device->sched)
                        put_device(&chrome);
        }
        (void)fprintf(chrome.to, "\n]}\n");
        (void)fclose(chrome.to);
        whole = (struct api_response){ 0 };
        api_text(&whole, "application/json", text, size);
        *response = whole;
}

/* A number of seconds, above 0 and up to TRACE_MOST_SEC. True also if it is absent; false: the error is in
 * *response. */
static bool seconds_argument(const struct api_request *request, const char *name, nsec *ret,
                             struct api_response *response)
{
        const char *text = api_argument(request, name);
        json_t *number = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
        double seconds = json_is_number(number) ? json_number_value(number) : -1;

        json_decref(number);
        if (!text)
                return true;
        if (!(seconds > 0 && seconds <= TRACE_MOST_SEC)) {
                api_error(response, API_BAD_REQUEST, "%s=%.40s: seconds, more than 0 and up to %d", name, text,
                          TRACE_MOST_SEC);
                return false;
        }
        *ret = (nsec)(seconds * 1e9);
        return true;
}

/* for=5: the next 5 s; last=5: the past 5 s. */
void api_trace(struct daemon *daemon, const struct api_request *request, const char *name, struct api_response *ret)
{
        nsec now = clock_now(), ahead = 0, back = 0;

        (void)daemon;
        (void)name;
        if (!seconds_argument(request, "for", &ahead, ret) || !seconds_argument(request, "last", &back, ret))
                return;
        if (!ahead && !back)
                ahead = NSEC_PER_SEC;
        *ret = (struct api_response){ .status = API_OK,
                                      .wait = API_WAIT_TIME,
                                      .since = now - back,
                                      .deadline = now + ahead,
                                      .owner = request->sees_all ? -1 : (int64_t)request->uid };
        if (!ahead)
                api_trace_end(daemon, ret);
}

/* ---- timeline ---------------------------------------------------------------------------------- */

static void append_span(json_t *spans, int slot, nsec from, nsec until, nsec first, nsec last)
{
        if (slot < 0 || until <= first || from >= last || json_array_size(spans) >= TIMELINE_SPANS)
                return;
        (void)json_array_append_new(spans, json_pack("[i, I, I]", slot, (json_int_t)(from > first ? from : first),
                                                     (json_int_t)(until < last ? until : last)));
}

static json_t *spans_json(const struct daemon *daemon, const struct device *device, int64_t owner, nsec from,
                          nsec until)
{
        struct trace *trace = sched_trace(device->sched);
        uint64_t cursor = trace_seek(trace, from), resident;
        struct trace_span spans[SPANS_AT_ONCE];
        const struct tenant *tenant;
        json_t *array = json_array();
        nsec since;
        size_t n;

        while ((n = trace_read(trace, &cursor, spans, SPANS_AT_ONCE)) > 0)
                for (size_t i = 0; i < n; i++)
                        if (spans[i].kind == TRACE_ON)
                                append_span(array, slot_of(daemon, owner, spans[i].tenant, &tenant), spans[i].from,
                                            spans[i].until, from, until);
        if (sched_resident(device->sched, &resident, &since))
                append_span(array, slot_of(daemon, owner, resident, &tenant), since, until, from, until);
        return array;
}

/* In the table's order, which the spans index; other users' tenants have no name. */
static json_t *names_json(const struct daemon *daemon, const struct api_request *request)
{
        json_t *names = json_array();

        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                (void)json_array_append_new(names, json_string(api_sees(request, t) ? t->lease.tenant : ""));
        return names;
}

static bool number_argument(const struct api_request *request, const char *name, uint64_t most, uint64_t *ret,
                            struct api_response *response)
{
        const char *text = api_argument(request, name);

        if (!text || (number_parse(text, ret) == 0 && *ret <= most))
                return true;
        api_error(response, API_BAD_REQUEST, "%s=%.40s: a number up to %llu", name, text, (unsigned long long)most);
        return false;
}

void api_timeline(struct daemon *daemon, const struct api_request *request, const char *name, struct api_response *ret)
{
        uint64_t index = 0, span = TIMELINE_MSEC;
        int64_t owner = request->sees_all ? -1 : (int64_t)request->uid;
        struct device *device;
        nsec until, from;

        (void)name;
        if (!number_argument(request, "device", UINT32_MAX, &index, ret) ||
            !number_argument(request, "for_ms", TIMELINE_MOST_MSEC, &span, ret))
                return;
        if (index >= daemon->n_devices) {
                api_error(ret, API_NOT_FOUND, "there is no device %llu", (unsigned long long)index);
                return;
        }
        device = &daemon->devices[index];
        device_read(device);
        until = device->sched && device->scheduled.metered_until ? device->scheduled.metered_until : clock_now();
        from = until - (nsec)span * NSEC_PER_MSEC;
        api_json(ret, API_OK,
                 json_pack("{s:I, s:I, s:o, s:o}", "from_ns", (json_int_t)from, "to_ns", (json_int_t)until, "spans",
                           device->sched ? spans_json(daemon, device, owner, from, until) : json_array(), "tenants",
                           names_json(daemon, request)));
}
