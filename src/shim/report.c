/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/report.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "lease/capabilities.h"

#include <errno.h>
#include <string.h>

static json_t *quota_json(const struct quota *quota)
{
        return json_pack("{s:I, s:I, s:I, s:I, s:I}", "quota_bytes", (json_int_t)quota->size, "held_bytes",
                         (json_int_t)quota->used, "peak_bytes", (json_int_t)quota->peak, "refusals",
                         (json_int_t)quota->n_refused, "largest_refused_bytes", (json_int_t)quota->largest_refused);
}

static json_t *devices_json(const struct lease *lease)
{
        json_t *devices = json_array();

        for (unsigned int i = 0; i < lease->n_devices; i++) {
                json_t *device;

                if (!lease->devices[i].is_granted)
                        continue;
                device = quota_json(&lease->devices[i].quota);
                (void)json_object_set_new(device, "device", json_integer(i));
                (void)json_object_set_new(device, "total_bytes", json_integer((json_int_t)lease->devices[i].total));
                (void)json_array_append_new(devices, device);
        }
        return devices;
}

static json_t *events_json(const struct gate_stats *stats)
{
        json_t *events = json_object();

        for (int event = 0; event < EVENT_N; event++)
                if (stats->n_events[event])
                        (void)json_object_set_new(events, gate_event_name((enum event_kind)event),
                                                  json_integer((json_int_t)stats->n_events[event]));
        return events;
}

static bool has_class(enum rm_kind kind)
{
        return kind == RM_ALLOC || kind == RM_ALLOC_SHORT || kind == RM_ALLOC_MEMORY || kind == RM_ALLOC_CONTEXT_DMA;
}

/* What a number is, for people: a control, a class, a request. */
static const char *refusal_kind(enum rm_kind kind)
{
        return kind == RM_CONTROL ? "control" : has_class(kind) ? "class" : "request";
}

static const char *refusal_name(const struct refusal *row)
{
        const char *name = row->kind == RM_CONTROL ? rm_control_name(row->number) :
                           has_class(row->kind)    ? rm_class_name(row->number) :
                                                     rm_kind_name(row->kind);

        return name && *name != '?' ? name : "";
}

static json_t *refusals_json(const struct refusals *refusals)
{
        json_t *list = json_array();
        char needs[CAPABILITIES_TEXT_MAX];

        for (size_t i = 0; i < refusals->n_rows; i++) {
                const struct refusal *row = &refusals->rows[i];

                (void)json_array_append_new(
                        list, json_pack("{s:s, s:I, s:s, s:s, s:I}", "what", refusal_kind(row->kind), "number",
                                        (json_int_t)row->number, "name", refusal_name(row), "needs",
                                        row->capability ? capabilities_format(row->capability, needs) : "", "count",
                                        (json_int_t)row->n));
        }
        if (refusals->n_others)
                (void)json_array_append_new(
                        list, json_pack("{s:s, s:I}", "what", "others", "count", (json_int_t)refusals->n_others));
        return list;
}

json_t *report_new(const struct report *report)
{
        const struct gate_stats *stats = &report->stats;

        return json_pack(
                "{s:s, s:i, s:f, s:o, s:o, s:o, s:o, s:{s:I, s:I, s:I, s:I, s:f, s:i}, s:{s:I, s:I, s:I, s:I}}",
                "tenant", report->tenant, "exit_code", report->exit_code, "elapsed_seconds",
                (double)report->elapsed / 1e9, "devices", devices_json(report->lease), "host",
                quota_json(&report->lease->host), "events", events_json(stats), "refused",
                refusals_json(&stats->refusals), "gate", "calls", (json_int_t)stats->n_calls, "performed",
                (json_int_t)stats->n_performed, "continued", (json_int_t)stats->n_continued, "denied",
                (json_int_t)stats->n_denied, "busy_seconds", (double)stats->busy / 1e9, "threads",
                (int)stats->n_threads, "audit", "comparisons", (json_int_t)stats->n_audits, "largest_under_bytes",
                (json_int_t)stats->audit_under, "largest_over_bytes", (json_int_t)stats->audit_over, "driver_bytes",
                (json_int_t)stats->audit_figure);
}

static bytes bytes_of(const json_t *object, const char *name)
{
        return (bytes)json_integer_value(json_object_get(object, name));
}

static void device_print(FILE *to, const char *tenant, const json_t *device)
{
        json_int_t n_refused = json_integer_value(json_object_get(device, "refusals"));
        char quota[BYTES_TEXT], peak[BYTES_TEXT], largest[BYTES_TEXT];

        (void)fprintf(to, "sublet: %s: device %lld: quota %s, peak %s", tenant,
                      (long long)json_integer_value(json_object_get(device, "device")),
                      bytes_format(bytes_of(device, "quota_bytes"), quota),
                      bytes_format(bytes_of(device, "peak_bytes"), peak));
        if (n_refused)
                (void)fprintf(to, ", refused %lld times (largest %s)", (long long)n_refused,
                              bytes_format(bytes_of(device, "largest_refused_bytes"), largest));
        (void)fprintf(to, "\n");
}

static void refusal_print(FILE *to, const char *tenant, const json_t *row)
{
        const char *what = json_string_value(json_object_get(row, "what")),
                   *name = json_string_value(json_object_get(row, "name")),
                   *needs = json_string_value(json_object_get(row, "needs"));
        long long number = json_integer_value(json_object_get(row, "number")),
                  n = json_integer_value(json_object_get(row, "count"));

        if (!name)
                (void)fprintf(to, "sublet: %s: refused: others: %lld times\n", tenant, n);
        else
                (void)fprintf(to, "sublet: %s: refused: %s 0x%llx%s%s: %lld times%s%s\n", tenant, what ? what : "?",
                              number, *name ? " " : "", name, n, needs && *needs ? ", needs --capabilities " : "",
                              needs ? needs : "");
}

static void text_print(FILE *to, const json_t *report)
{
        const char *tenant = json_string_value(json_object_get(report, "tenant")), *event;
        const json_t *devices = json_object_get(report, "devices"), *refused = json_object_get(report, "refused"),
                     *count;
        const json_t *part = json_object_get(report, "multiprocessors");

        for (size_t i = 0; i < json_array_size(devices); i++)
                device_print(to, tenant ? tenant : "?", json_array_get(devices, i));
        if (part)
                (void)fprintf(to, "sublet: %s: %lld of %lld multiprocessors\n", tenant ? tenant : "?",
                              (long long)json_integer_value(json_object_get(part, "given")),
                              (long long)json_integer_value(json_object_get(part, "of")));
        for (size_t i = 0; i < json_array_size(refused); i++)
                refusal_print(to, tenant ? tenant : "?", json_array_get(refused, i));
        json_object_foreach (json_object_get(report, "events"), event, count)
                if (strcmp(event, "QUOTA_REFUSED"))
                        (void)fprintf(to, "sublet: %s: %s: %lld times ('sublet explain %s')\n", tenant ? tenant : "?",
                                      event, (long long)json_integer_value(count), event);
}

int report_print(FILE *to, const json_t *report, bool is_json)
{
        _cleanup_(freep) char *text = report && is_json ? json_dumps(report, JSON_COMPACT) : NULL;

        if (!report || (is_json && !text))
                return -ENOMEM;
        if (is_json)
                (void)fprintf(to, "%s\n", text);
        else
                text_print(to, report);
        return 0;
}
