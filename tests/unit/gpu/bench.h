/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated machine with tenants' channels, and the backend that a daemon would have of it. */
#pragma once

#include "sim/rig.h"

#include "base/err.h"
#include "gpu/backend.h"

static inline struct gpu_backend bench_backend(const struct rig *rig)
{
        struct gpu_backend backend;
        struct err err = { 0 };

        (void)setenv("SUBLET_SIM", rig->directory, 1);
        assert_int_equal(gpu_backend_find(&backend, &err), 0);
        return backend;
}

/* Work of `msec` on the channel; the value to wait for. */
static inline uint64_t bench_launch(const struct rig *rig, uint32_t channel, uint64_t usec)
{
        static uint64_t value;
        struct sim_gpu gpu = { .op = SIM_GPU_LAUNCH,
                               .client = rig->client,
                               .object = channel,
                               .duration = usec * 1000,
                               .value = ++value };

        assert_int_equal(sim_gpu_send(rig->ctl, &gpu), 0);
        return value;
}

static inline int bench_wait(const struct rig *rig, uint32_t channel, uint64_t value, uint64_t msec)
{
        return sim_gpu_wait(rig->ctl, rig->client, channel, value, msec * 1000000, NULL);
}
