/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health by NVML. Every call is optional: where a library lacks one or a device refuses it, its figures are absent.
 * Source of names and numbers: nvml.h, branches 470 to 580.
 */
#include "gpu/health.h"

#include "base/cleanup.h"
#include "gpu/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
        LINKS_MAX = 18, /* NVML_NVLINK_MAX_LINKS */

        THERMAL_REASONS = 0x20 | 0x40, /* of clocks: software and hardware thermal slowdown */
        POWER_REASONS = 0x4 | 0x80,    /* software power cap, hardware power brake */
};

static const double MILLI = 1e-3, MEGA = 1e6, PERCENT = 0.01;

#define HEALTH_CALLS(CALL)                                                                                             \
        CALL(DeviceGetTemperature, nvmlDevice_t, int, unsigned int *)                                                  \
        CALL(DeviceGetFieldValues, nvmlDevice_t, int, nvmlFieldValue_t *)                                              \
        CALL(DeviceGetPowerUsage, nvmlDevice_t, unsigned int *)                                                        \
        CALL(DeviceGetEnforcedPowerLimit, nvmlDevice_t, unsigned int *)                                                \
        CALL(DeviceGetTotalEnergyConsumption, nvmlDevice_t, unsigned long long *)                                      \
        CALL(DeviceGetClockInfo, nvmlDevice_t, int, unsigned int *)                                                    \
        CALL(DeviceGetUtilizationRates, nvmlDevice_t, nvmlUtilization_t *)                                             \
        CALL(DeviceGetTotalEccErrors, nvmlDevice_t, int, int, unsigned long long *)                                    \
        CALL(DeviceGetRemappedRows, nvmlDevice_t, unsigned int *, unsigned int *, unsigned int *, unsigned int *)      \
        CALL(DeviceGetPcieReplayCounter, nvmlDevice_t, unsigned int *)                                                 \
        CALL(DeviceGetNvLinkState, nvmlDevice_t, unsigned int, int *)                                                  \
        CALL(DeviceGetNvLinkErrorCounter, nvmlDevice_t, unsigned int, int, unsigned long long *)                       \
        CALL(DeviceGetCurrentClocksThrottleReasons, nvmlDevice_t, unsigned long long *)

struct gpu_health {
        struct nvml_calls nvml;
#define MEMBER(name, ...) nvmlReturn_t (*name)(__VA_ARGS__); /* NULL: this NVML has none */
        HEALTH_CALLS(MEMBER)
#undef MEMBER
};

/* Asks a call if there is one. */
#define TELLS(health, name, ...) ((health)->name && (health)->name(__VA_ARGS__) == NVML_SUCCESS)

int gpu_health_open(struct gpu_health **ret)
{
        struct gpu_health *health = calloc(1, sizeof(*health));
        void *address;

        if (!health)
                return -ENOMEM;
        if (nvml_open(&health->nvml) < 0) {
                free(health);
                return -ENOTSUP;
        }
#define FIND(name, ...)                                                                                                \
        address = dlsym(health->nvml.library, "nvml" #name);                                                           \
        memcpy(&health->name, &address, sizeof(address)); /* ISO C does not convert it */
        HEALTH_CALLS(FIND)
#undef FIND
        *ret = health;
        return 0;
}

static void figure_put(struct gpu_figures *figures, enum gpu_figure figure, double value)
{
        figures->of[figure] = value;
        figures->known |= 1u << figure;
}

static void read_heat_and_power(struct gpu_health *health, nvmlDevice_t device, struct gpu_figures *ret)
{
        nvmlFieldValue_t field = { .fieldId = NVML_FI_DEV_MEMORY_TEMP };
        unsigned long long energy;
        unsigned int value;

        if (TELLS(health, DeviceGetTemperature, device, NVML_TEMPERATURE_GPU, &value))
                figure_put(ret, GPU_FIGURE_temperature_celsius, value);
        if (TELLS(health, DeviceGetFieldValues, device, 1, &field) && field.nvmlReturn == NVML_SUCCESS &&
            field.valueType == NVML_VALUE_TYPE_UNSIGNED_INT)
                figure_put(ret, GPU_FIGURE_memory_temperature_celsius, field.value.uiVal);
        if (TELLS(health, DeviceGetPowerUsage, device, &value))
                figure_put(ret, GPU_FIGURE_power_watts, value * MILLI);
        if (TELLS(health, DeviceGetEnforcedPowerLimit, device, &value))
                figure_put(ret, GPU_FIGURE_power_limit_watts, value * MILLI);
        if (TELLS(health, DeviceGetTotalEnergyConsumption, device, &energy))
                figure_put(ret, GPU_FIGURE_energy_joules_total, (double)energy * MILLI);
}

static void read_clocks(struct gpu_health *health, nvmlDevice_t device, struct gpu_figures *ret)
{
        nvmlUtilization_t rates;
        unsigned long long reasons;
        unsigned int value;

        if (TELLS(health, DeviceGetClockInfo, device, NVML_CLOCK_SM, &value))
                figure_put(ret, GPU_FIGURE_sm_clock_hertz, value * MEGA);
        if (TELLS(health, DeviceGetClockInfo, device, NVML_CLOCK_MEM, &value))
                figure_put(ret, GPU_FIGURE_memory_clock_hertz, value * MEGA);
        if (TELLS(health, DeviceGetUtilizationRates, device, &rates)) {
                figure_put(ret, GPU_FIGURE_utilization_ratio, rates.gpu * PERCENT);
                figure_put(ret, GPU_FIGURE_memory_utilization_ratio, rates.memory * PERCENT);
        }
        if (TELLS(health, DeviceGetCurrentClocksThrottleReasons, device, &reasons)) {
                figure_put(ret, GPU_FIGURE_thermal_slowdown, (reasons & THERMAL_REASONS) != 0);
                figure_put(ret, GPU_FIGURE_power_slowdown, (reasons & POWER_REASONS) != 0);
        }
}

static void read_errors(struct gpu_health *health, nvmlDevice_t device, struct gpu_figures *ret)
{
        unsigned int corrected, uncorrected, is_pending, has_failed, value;
        unsigned long long n;

        if (TELLS(health, DeviceGetTotalEccErrors, device, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC, &n))
                figure_put(ret, GPU_FIGURE_ecc_corrected_errors_total, (double)n);
        if (TELLS(health, DeviceGetTotalEccErrors, device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &n))
                figure_put(ret, GPU_FIGURE_ecc_uncorrected_errors_total, (double)n);
        if (TELLS(health, DeviceGetRemappedRows, device, &corrected, &uncorrected, &is_pending, &has_failed)) {
                figure_put(ret, GPU_FIGURE_remapped_rows_corrected, corrected);
                figure_put(ret, GPU_FIGURE_remapped_rows_uncorrected, uncorrected);
                figure_put(ret, GPU_FIGURE_row_remap_pending, is_pending != 0);
                figure_put(ret, GPU_FIGURE_row_remap_failed, has_failed != 0);
        }
        if (TELLS(health, DeviceGetPcieReplayCounter, device, &value))
                figure_put(ret, GPU_FIGURE_pcie_replays_total, value);
}

/* A sum over links that are up; one that does not tell leaves the sum absent. */
static void read_links(struct gpu_health *health, nvmlDevice_t device, struct gpu_figures *ret)
{
        static const struct {
                int counter; /* of nvmlNvLinkErrorCounter_t */
                enum gpu_figure figure;
        } rows[] = {
                { 0, GPU_FIGURE_nvlink_replay_errors_total },
                { 1, GPU_FIGURE_nvlink_recovery_errors_total },
                { 2, GPU_FIGURE_nvlink_crc_errors_total },
        };
        bool is_up[LINKS_MAX] = { false };
        unsigned int n_up = 0, n_told = 0;
        int state;

        for (unsigned int link = 0; link < LINKS_MAX; link++) {
                if (!TELLS(health, DeviceGetNvLinkState, device, link, &state))
                        continue;
                n_told++;
                is_up[link] = state == 1;
                n_up += is_up[link];
        }
        if (!n_told)
                return;
        figure_put(ret, GPU_FIGURE_nvlinks_active, n_up);
        for (size_t i = 0; i < ARRAY_SIZE(rows) && n_up; i++) {
                unsigned long long n, sum = 0;
                bool is_told = true;

                for (unsigned int link = 0; link < LINKS_MAX && is_told; link++) {
                        if (!is_up[link])
                                continue;
                        is_told = TELLS(health, DeviceGetNvLinkErrorCounter, device, link, rows[i].counter, &n);
                        sum += is_told ? n : 0;
                }
                if (is_told)
                        figure_put(ret, rows[i].figure, (double)sum);
        }
}

int gpu_health_read(struct gpu_health *health, const char *uuid, struct gpu_figures *ret)
{
        struct gpu_figures figures = { 0 };
        nvmlDevice_t device;

        if (health->nvml.DeviceGetHandleByUUID(uuid, &device) != NVML_SUCCESS)
                return -EIO;
        read_heat_and_power(health, device, &figures);
        read_clocks(health, device, &figures);
        read_errors(health, device, &figures);
        read_links(health, device, &figures);
        *ret = figures;
        return 0;
}

struct gpu_health *gpu_health_close(struct gpu_health *health)
{
        if (!health)
                return NULL;
        nvml_close(&health->nvml);
        free(health);
        return NULL;
}
