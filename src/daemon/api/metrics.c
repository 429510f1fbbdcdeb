/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics for Prometheus, text format 0.0.4: names, units and types by its conventions (base units, _total for
 * counters, ratios from 0 to 1). A family is a row with a function of one tenant on one device. */
#include "daemon/api/api.h"
#include "daemon/api/metrics.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "net/metrics.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* One tenant on one device. row: NULL before its shim's hello. */
struct sample {
        const struct tenant *tenant;
        const struct device *device;
        const struct control_device *control; /* NULL, too */
        const struct sched_row *row;
};

static double gpu_seconds(const struct sample *s)
{
        return s->control ? (double)s->control->used / 1e9 : 0;
}

static double memory(const struct sample *s)
{
        return s->control ? (double)s->control->held : 0;
}

static double peak(const struct sample *s)
{
        return s->control ? (double)s->control->peak : 0;
}

static double quota(const struct sample *s)
{
        return (double)s->tenant->lease.devices[s->device->index].quota;
}

static double swapped(const struct sample *s)
{
        return (double)tenant_swapped(s->tenant, s->device->index);
}

static double refusals(const struct sample *s)
{
        return s->control ? (double)s->control->n_refused : 0;
}

static double share(const struct sample *s)
{
        return s->tenant->share / 1000.0;
}

static double cap(const struct sample *s)
{
        return s->tenant->lease.cap / 1000.0;
}

static double granted(const struct sample *s)
{
        return s->row ? s->row->granted / 1000.0 : 0;
}

static double promised(const struct sample *s)
{
        return s->row ? s->row->promised / 1000.0 : 0;
}

static double waiting(const struct sample *s)
{
        return s->row && s->row->is_waiting;
}

static double goal(const struct sample *s)
{
        return (double)s->tenant->lease.goal / NSEC_PER_SEC;
}

static double step_p99(const struct sample *s)
{
        return s->row ? (double)s->row->waits.p99 / NSEC_PER_SEC : 0;
}

static double late(const struct sample *s)
{
        return s->row ? (double)s->row->waits.n_late : 0;
}

static double suspended(const struct sample *s)
{
        return s->tenant->suspension.state == SUSPENSION_SUSPENDED;
}

static const struct family {
        const char *name, *type, *help;
        double (*of)(const struct sample *sample);
} tenant_families[] = {
        { "sublet_tenant_gpu_seconds_total", "counter", "Time on the device, metered.", gpu_seconds },
        { "sublet_tenant_memory_bytes", "gauge", "Device memory held.", memory },
        { "sublet_tenant_memory_peak_bytes", "gauge", "The most device memory held since the tenant began.", peak },
        { "sublet_tenant_memory_swapped_bytes", "gauge", "Device memory moved out to host memory by a suspension.",
          swapped },
        { "sublet_tenant_memory_quota_bytes", "gauge", "The bound of device memory.", quota },
        { "sublet_tenant_memory_refusals_total", "counter", "Allocations refused by the quota.", refusals },
        { "sublet_tenant_share_ratio", "gauge", "Guaranteed part of GPU time.", share },
        { "sublet_tenant_cap_ratio", "gauge", "Upper bound of GPU time; 1 is none.", cap },
        { "sublet_tenant_granted_ratio", "gauge", "Part of GPU time metered over the latest second.", granted },
        { "sublet_tenant_promised_ratio", "gauge",
          "Part of GPU time that its share entitled it to in that second, as far as it wanted.", promised },
        { "sublet_tenant_waiting", "gauge", "1 while it has work and is not on the device.", waiting },
        { "sublet_tenant_suspended", "gauge", "1 while what it held is in host memory.", suspended },
        { "sublet_tenant_latency_goal_seconds", "gauge", "The goal for the p99 of its steps; 0 is none.", goal },
        { "sublet_tenant_step_latency_seconds", "gauge",
          "Of a tenant with a goal: the p99 of its steps of the latest half to whole minute; 0 is not known.",
          step_p99 },
        { "sublet_tenant_steps_late_total", "counter", "Steps that took longer than the goal.", late },
};

enum {
        LABELS_MAX = 8,
};

/* Who a tenant is and where, as every series about it says; uncut. The texts live as long as `ret`. */
struct identity {
        struct metrics_label labels[LABELS_MAX];
        size_t n;
        char user[16], index[16];
};

/* The user is a number: asking for its name could keep the loop waiting. Empty labels are written, so that those of the
 * scraped target do not take their place (honor_labels). */
static void identify(const struct tenant *tenant, const struct device *device, struct identity *ret)
{
        const struct message_container *container = &tenant->lease.container;
        const struct metrics_label labels[] = {
                { "tenant", tenant->lease.tenant },
                { "device", device ? ret->index : NULL },
                { "uuid", device ? device->info.uuid : NULL },
                { "namespace", container->namespace },
                { "pod", container->name },
                { "container", container->container },
                { "user", ret->user },
        };

        (void)snprintf(ret->user, sizeof(ret->user), "%u", (unsigned int)tenant->lease.owner);
        (void)snprintf(ret->index, sizeof(ret->index), "%u", device ? device->index : 0);
        memcpy(ret->labels, labels, sizeof(labels));
        ret->n = ARRAY_SIZE(labels);
}

static void write_single(FILE *to, const char *name, const char *type, const char *help, double value)
{
        metrics_head(to, name, type, help);
        metrics_value(to, name, value, NULL);
}

static void write_tenants(FILE *to, struct daemon *daemon, const struct api_request *request,
                          const struct family *family)
{
        struct identity who;

        metrics_head(to, family->name, family->type, family->help);
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                for (unsigned int i = 0; i < daemon->n_devices; i++) {
                        const struct device *device = &daemon->devices[i];
                        struct sample sample = { t, device, t->control ? &t->control->devices[i] : NULL, NULL };

                        if (!tenant_has(t, i) || !api_sees(request, t))
                                continue;
                        sample.row = device_row(device, t);
                        identify(t, device, &who);
                        metrics_series(to, family->name, family->of(&sample), who.labels, who.n);
                }
}

static void write_engines(FILE *to, const struct daemon *daemon, const struct api_request *request)
{
        static const char *const name = "sublet_tenant_engine_seconds_total";

        struct identity who;

        metrics_head(to, name, "counter", "Time with work on an engine beside graphics and compute.");
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                for (unsigned int i = 0; i < daemon->n_devices; i++) {
                        const struct device *device = &daemon->devices[i];
                        const struct sched_row *row = device_row(device, t);

                        if (!tenant_has(t, i) || !row || !api_sees(request, t))
                                continue;
                        identify(t, device, &who);
                        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++) {
                                if (!row->engines[engine].has_channels)
                                        continue;
                                who.labels[who.n] = (struct metrics_label){ "engine", rm_engine_name(engine) };
                                metrics_series(to, name, (double)row->engines[engine].used / 1e9, who.labels,
                                               who.n + 1);
                        }
                }
}

static double cpu_seconds(void)
{
        struct rusage used;

        (void)getrusage(RUSAGE_SELF, &used);
        return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* The runtime's number of a container is new with each start, so only this family has it. */
static void write_containers(FILE *to, const struct daemon *daemon, const struct api_request *request)
{
        metrics_head(to, "sublet_tenant_container_info", "gauge", "Which container a tenant is; always 1.");
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next) {
                const struct message_container *container = &t->lease.container;

                if (!container->id[0] || !api_sees(request, t))
                        continue;
                metrics_value(to, "sublet_tenant_container_info", 1, "tenant", t->lease.tenant, "namespace",
                              container->namespace, "pod", container->name, "container", container->container,
                              "container_id", container->id, NULL);
        }
}

static void write_jobs(FILE *to, const struct daemon *daemon, const struct api_request *request)
{
        metrics_head(to, "sublet_tenant_job_info", "gauge", "Which job a tenant is a part of; always 1.");
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                if (t->lease.job[0] && api_sees(request, t))
                        metrics_value(to, "sublet_tenant_job_info", 1, "tenant", t->lease.tenant, "job", t->lease.job,
                                      NULL);
}

static void write_groups(FILE *to, const struct daemon *daemon, const struct api_request *request)
{
        metrics_head(to, "sublet_tenant_group_info", "gauge", "Which trust group a tenant is a part of; always 1.");
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                if (t->lease.group[0] && api_sees(request, t))
                        metrics_value(to, "sublet_tenant_group_info", 1, "tenant", t->lease.tenant, "group",
                                      t->lease.group, NULL);
}

/* One series a label: its name may have bytes that a label of Prometheus may not. */
static void write_labels(FILE *to, const struct daemon *daemon, const struct api_request *request)
{
        metrics_head(to, "sublet_tenant_label_info", "gauge", "A label of a tenant; always 1.");
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next) {
                json_t *labels = api_sees(request, t) ? labels_new(t->lease.labels) : NULL, *value;
                const char *label;

                json_object_foreach (labels, label, value)
                        metrics_value(to, "sublet_tenant_label_info", 1, "tenant", t->lease.tenant, "label", label,
                                      "value", json_string_value(value), NULL);
                json_decref(labels);
        }
}

static void write_refused(FILE *to, const struct daemon *daemon, const struct api_request *request)
{
        static const char name[] = "sublet_tenant_refused_calls_total";
        struct identity who;

        metrics_head(to, name, "counter", "Driver calls refused because they have no rule or want another capability.");
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                if (t->control && api_sees(request, t)) {
                        identify(t, NULL, &who);
                        metrics_series(to, name, (double)t->control->n_refused, who.labels, who.n);
                }
}

static void write_daemon(FILE *to, const struct daemon *daemon, const struct api_request *request)
{
        size_t n = 0;

        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                n += api_sees(request, t);
        write_single(to, "sublet_tenants", "gauge", "Living tenants.", (double)n);
        write_single(to, "sublet_daemon_cpu_seconds_total", "counter", "Processor time of the daemon.", cpu_seconds());
        write_single(to, "sublet_daemon_descriptors_stuck", "gauge",
                     "Descriptors that were sent to it and do not close.",
                     (double)descriptors_stuck(DESCRIPTORS_ALL, NULL));
        write_single(to, "sublet_daemon_start_time_seconds", "gauge", "When the daemon began, since the epoch.",
                     (double)daemon->since / 1e9);
        metrics_head(to, "sublet_build_info", "gauge", "Versions; always 1.");
        metrics_value(to, "sublet_build_info", 1, "version", SUBLET_VERSION, "driver", daemon->backend.release, NULL);
}

void api_metrics(struct daemon *daemon, const struct api_request *request, const char *name, struct api_response *ret)
{
        char *text = NULL;
        size_t size = 0;
        FILE *to = open_memstream(&text, &size);

        (void)name;
        if (!to) {
                api_error(ret, API_FAILED, "no memory");
                return;
        }
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                device_read(&daemon->devices[i]);
        for (size_t i = 0; i < ARRAY_SIZE(tenant_families); i++)
                write_tenants(to, daemon, request, &tenant_families[i]);
        metrics_devices(to, daemon);
        write_engines(to, daemon, request);
        write_containers(to, daemon, request);
        write_jobs(to, daemon, request);
        write_groups(to, daemon, request);
        write_labels(to, daemon, request);
        write_refused(to, daemon, request);
        write_daemon(to, daemon, request);
        (void)fclose(to);
        api_text(ret, METRICS_TYPE, text, size);
}
