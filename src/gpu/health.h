/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health of devices, by NVML: temperature, power, clocks, errors (health.def).
 *
 *      r = gpu_health_open(&health);
 *      r = gpu_health_read(health, uuid, &figures);
 *      health = gpu_health_close(health);
 *
 * A figure that the device, the driver or this NVML does not tell is absent, never zero.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum gpu_figure {
#define HEALTH(figure, type, help) GPU_FIGURE_##figure,
#include "gpu/health.def"
#undef HEALTH
        GPU_N_FIGURES,
};

struct gpu_figures {
        uint32_t known;           /* bit N: of[N] was told */
        double of[GPU_N_FIGURES]; /* by enum gpu_figure */
};
_Static_assert(GPU_N_FIGURES <= 32, "a bit each");

static inline bool gpu_figure_is_known(const struct gpu_figures *figures, enum gpu_figure figure)
{
        return figures->known >> figure & 1;
}

/* Threads: one. Each call of NVML may block for some milliseconds, longer on a device that hangs. */
struct gpu_health;
int gpu_health_open(struct gpu_health **ret); /* 0; -ENOTSUP: no NVML; -ENOMEM */

/* What it tells now of the device of that UUID. 0, also if it tells nothing; -EIO: the device is not there or lost. */
int gpu_health_read(struct gpu_health *health, const char *uuid, struct gpu_figures *ret);
struct gpu_health *gpu_health_close(struct gpu_health *health);
