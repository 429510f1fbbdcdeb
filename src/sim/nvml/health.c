/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health of the simulated devices, from a file of the machine that may be written at any time (server/files.c makes
 * it): a line each, a name and a whole number in NVML's unit. What has no line is not supported.
 */
#include "sim/nvml/state.h"

#include <stdio.h>
#include <string.h>

/* A link's figures are named link<N> (1: up) and link<N>_replays, _recoveries, _crc. */
enum {
        LINKS_MAX = 18,
        N_COUNTERS = 3,
};

static nvmlReturn_t figure_read(nvmlDevice_t device, const char *name, unsigned long long *ret)
{
        const struct nv_device_info *info;
        unsigned long long value;
        nvmlReturn_t r = nvml_enter(device);
        char path[96], found[64];
        FILE *file;

        if (r != NVML_SUCCESS)
                return r;
        if (!ret)
                return NVML_ERROR_INVALID_ARGUMENT;
        info = &device->info;
        (void)snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%04x:%02x:%02x.0/health", info->domain, info->bus,
                       info->slot);
        file = fopen(path, "re");
        r = NVML_ERROR_NOT_SUPPORTED;
        while (file && r != NVML_SUCCESS && fscanf(file, "%63s %llu", found, &value) == 2)
                if (!strcmp(found, name)) {
                        *ret = value;
                        r = NVML_SUCCESS;
                }
        if (file)
                (void)fclose(file);
        return r;
}

static nvmlReturn_t small_figure(nvmlDevice_t device, const char *name, unsigned int *ret)
{
        LOCKED_NVML;
        unsigned long long value = 0;
        nvmlReturn_t r = ret ? figure_read(device, name, &value) : NVML_ERROR_INVALID_ARGUMENT;

        if (r == NVML_SUCCESS)
                *ret = (unsigned int)value;
        return r;
}

static nvmlReturn_t large_figure(nvmlDevice_t device, const char *name, unsigned long long *ret)
{
        LOCKED_NVML;

        return figure_read(device, name, ret);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int *celsius)
{
        return sensor == NVML_TEMPERATURE_GPU ? small_figure(device, "temperature", celsius) :
                                                NVML_ERROR_INVALID_ARGUMENT;
}

/* The temperature of memory alone. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
        if (!values || count <= 0)
                return NVML_ERROR_INVALID_ARGUMENT;
        for (int i = 0; i < count; i++) {
                values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
                values[i].nvmlReturn = values[i].fieldId == NVML_FI_DEV_MEMORY_TEMP ?
                                               small_figure(device, "memory_temperature", &values[i].value.uiVal) :
                                               NVML_ERROR_NOT_SUPPORTED;
        }
        return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts)
{
        return small_figure(device, "power", milliwatts);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *milliwatts)
{
        return small_figure(device, "power_limit", milliwatts);
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *millijoules)
{
        return large_figure(device, "energy", millijoules);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int clock, unsigned int *megahertz)
{
        if (clock != NVML_CLOCK_SM && clock != NVML_CLOCK_MEM)
                return NVML_ERROR_NOT_SUPPORTED;
        return small_figure(device, clock == NVML_CLOCK_SM ? "sm_clock" : "memory_clock", megahertz);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int error, int counter, unsigned long long *count)
{
        if (counter != NVML_VOLATILE_ECC)
                return NVML_ERROR_NOT_SUPPORTED;
        return large_figure(device, error == NVML_MEMORY_ERROR_TYPE_CORRECTED ? "ecc_corrected" : "ecc_uncorrected",
                            count);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,
                                       unsigned int *pending, unsigned int *failed)
{
        nvmlReturn_t r = small_figure(device, "rows_corrected", corrected);

        if (r == NVML_SUCCESS)
                r = small_figure(device, "rows_uncorrected", uncorrected);
        if (r == NVML_SUCCESS)
                r = small_figure(device, "remap_pending", pending);
        return r == NVML_SUCCESS ? small_figure(device, "remap_failed", failed) : r;
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int *count)
{
        return small_figure(device, "pcie_replays", count);
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, int *is_active)
{
        unsigned int state = 0;
        char name[16];
        nvmlReturn_t r;

        if (link >= LINKS_MAX || !is_active)
                return NVML_ERROR_INVALID_ARGUMENT;
        (void)snprintf(name, sizeof(name), "link%u", link);
        r = small_figure(device, name, &state);
        if (r == NVML_SUCCESS)
                *is_active = state != 0;
        return r;
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, int counter,
                                             unsigned long long *count)
{
        static const char *const counters[N_COUNTERS] = { "replays", "recoveries", "crc" };
        char name[32];

        if (link >= LINKS_MAX || counter < 0 || counter >= N_COUNTERS)
                return NVML_ERROR_INVALID_ARGUMENT;
        (void)snprintf(name, sizeof(name), "link%u_%s", link, counters[counter]);
        return large_figure(device, name, count);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
        return large_figure(device, "clock_reasons", reasons);
}
