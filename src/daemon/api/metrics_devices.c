/* SPDX-License-Identifier: Apache-2.0 */
/* The part of GET /metrics about devices: what is leased of them, how busy they are, and their health. */
#include "daemon/state/daemon.h"

#include "daemon/api/metrics.h"

#include "base/cleanup.h"
#include "net/metrics.h"

static double device_memory(const struct daemon *daemon, const struct device *device)
{
        (void)daemon;
        return (double)device->info.total;
}

static double device_leased(const struct daemon *daemon, const struct device *device)
{
        return (double)tenants_leased(&daemon->tenants, device->index, NULL);
}

static double device_share(const struct daemon *daemon, const struct device *device)
{
        return tenants_promised(&daemon->tenants, device->index, NULL) / 1000.0;
}

static double device_busy(const struct daemon *daemon, const struct device *device)
{
        (void)daemon;
        return device->scheduled.busy / 1000.0;
}

static double device_unexplained(const struct daemon *daemon, const struct device *device)
{
        (void)daemon;
        return (double)device->balance.unexplained;
}

static double device_switches(const struct daemon *daemon, const struct device *device)
{
        (void)daemon;
        return (double)device->scheduled.n_switches;
}

static double device_lost_records(const struct daemon *daemon, const struct device *device)
{
        (void)daemon;
        return (double)device->scheduled.n_lost;
}

static double device_is_lost(const struct daemon *daemon, const struct device *device)
{
        (void)daemon;
        return device->is_lost;
}

static const struct device_family {
        const char *name, *type, *help;
        double (*of)(const struct daemon *daemon, const struct device *device);
} device_families[] = {
        { "sublet_device_memory_bytes", "gauge", "Memory of the device.", device_memory },
        { "sublet_device_memory_leased_bytes", "gauge", "Sum of its tenants' quotas.", device_leased },
        { "sublet_device_memory_unexplained_bytes", "gauge",
          "The driver's total less what tenants and programs beside Sublet hold and what was there before.",
          device_unexplained },
        { "sublet_device_share_ratio", "gauge", "Sum of the shares that were asked for.", device_share },
        { "sublet_device_busy_ratio", "gauge", "Part of the latest second in which somebody was on the device.",
          device_busy },
        { "sublet_device_context_switches_total", "counter", "Context switches seen.", device_switches },
        { "sublet_meter_lost_records_total", "counter", "Records of context switches that the driver dropped.",
          device_lost_records },
        { "sublet_device_lost", "gauge", "1 after the device fell off the bus.", device_is_lost },
};

static void write_value(FILE *to, const char *name, const struct device *device, double value)
{
        char index[16];

        (void)snprintf(index, sizeof(index), "%u", device->index);
        metrics_value(to, name, value, "device", index, "uuid", device->info.uuid, NULL);
}

/* A family without a series is not announced: what no device tells is absent. */
static void write_figure(FILE *to, const struct daemon *daemon, enum gpu_figure figure)
{
        static const struct {
                const char *name, *type, *help;
        } rows[] = {
#define HEALTH(figure, type, help) { "sublet_device_" #figure, type, help },
#include "gpu/health.def"
#undef HEALTH
        };
        bool has_head = false;

        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                const struct gpu_figures *figures = device_health(&daemon->devices[i]);

                if (!figures || !gpu_figure_is_known(figures, figure))
                        continue;
                if (!has_head)
                        metrics_head(to, rows[figure].name, rows[figure].type, rows[figure].help);
                has_head = true;
                write_value(to, rows[figure].name, &daemon->devices[i], figures->of[figure]);
        }
}

/* From 0 on, so that the first one is an increase. Not told: there is nobody to count them. */
static void write_xids(FILE *to, const struct daemon *daemon)
{
        bool has_head = false;

        if (!daemon->watch)
                return;
        metrics_head(to, "sublet_device_xid_errors_total", "counter", "Xids since the daemon began.");
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                write_value(to, "sublet_device_xid_errors_total", &daemon->devices[i],
                            (double)daemon->devices[i].n_xids);
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                if (!daemon->devices[i].n_xids)
                        continue;
                if (!has_head)
                        metrics_head(to, "sublet_device_latest_xid", "gauge", "Number of the latest Xid.");
                has_head = true;
                write_value(to, "sublet_device_latest_xid", &daemon->devices[i], (double)daemon->devices[i].xid);
        }
}

void metrics_devices(FILE *to, const struct daemon *daemon)
{
        for (size_t i = 0; i < ARRAY_SIZE(device_families); i++) {
                const struct device_family *family = &device_families[i];

                metrics_head(to, family->name, family->type, family->help);
                for (unsigned int k = 0; k < daemon->n_devices; k++)
                        write_value(to, family->name, &daemon->devices[k], family->of(daemon, &daemon->devices[k]));
        }
        for (enum gpu_figure figure = 0; figure < GPU_N_FIGURES; figure++)
                write_figure(to, daemon, figure);
        write_xids(to, daemon);
}
