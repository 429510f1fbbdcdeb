#include "node/report.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <jansson.h>

void report_text(FILE *to, const struct report *report)
{
        for (unsigned int i = 0; i < report->lease->n_devices; i++) {
                const struct lease_device *device = &report->lease->devices[i];
                char quota[BYTES_TEXT], peak[BYTES_TEXT], largest[BYTES_TEXT];

                if (!device->is_granted)
                        continue;
                (void)fprintf(to, "sublet: %s: device %u: quota %s, peak %s", report->tenant, i,
                              bytes_format(device->quota.size, quota), bytes_format(device->quota.peak, peak));
                if (device->quota.n_refused)
                        (void)fprintf(to, ", refused %llu times (largest %s)",
                                      (unsigned long long)device->quota.n_refused,
                                      bytes_format(device->quota.largest_refused, largest));
                (void)fprintf(to, "\n");
        }
        for (int event = 0; event < GATE_N_EVENTS; event++)
                if (report->stats.n_events[event] && event != GATE_QUOTA_REFUSED)
                        (void)fprintf(to, "sublet: %s: %s: %llu times ('sublet explain %s')\n", report->tenant,
                                      gate_event_name((enum gate_event)event),
                                      (unsigned long long)report->stats.n_events[event],
                                      gate_event_name((enum gate_event)event));
}

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

        for (int event = 0; event < GATE_N_EVENTS; event++)
                if (stats->n_events[event])
                        (void)json_object_set_new(events, gate_event_name((enum gate_event)event),
                                                  json_integer((json_int_t)stats->n_events[event]));
        return events;
}

int report_json(FILE *to, const struct report *report)
{
        const struct gate_stats *stats = &report->stats;
        json_t *root = json_pack(
                "{s:s, s:i, s:f, s:o, s:o, s:o, s:{s:I, s:I, s:I, s:I, s:f, s:i}, s:{s:I, s:I, s:I, s:I}}", "tenant",
                report->tenant, "exit_code", report->exit_code, "elapsed_seconds", (double)report->elapsed / 1e9,
                "devices", devices_json(report->lease), "host", quota_json(&report->lease->host), "events",
                events_json(stats), "gate", "calls", (json_int_t)stats->n_calls, "performed",
                (json_int_t)stats->n_performed, "continued", (json_int_t)stats->n_continued, "denied",
                (json_int_t)stats->n_denied, "busy_seconds", (double)stats->busy / 1e9, "threads",
                (int)stats->n_threads, "audit", "comparisons", (json_int_t)stats->n_audits, "largest_under_bytes",
                (json_int_t)stats->audit_under, "largest_over_bytes", (json_int_t)stats->audit_over, "driver_bytes",
                (json_int_t)stats->audit_figure);
        _cleanup_(freep) char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

        json_decref(root);
        if (!text)
                return -ENOMEM;
        (void)fprintf(to, "%s\n", text);
        return 0;
}
