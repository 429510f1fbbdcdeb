/* SPDX-License-Identifier: Apache-2.0 */
/* Fake tenants of the scheduler: tenants of a simulated device, with control blocks as their shims would write them. */
#pragma once

#include "sim/rig.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "gpu/backend.h"
#include "sched/sched.h"

struct fake_tenant {
        struct rig rig;
        struct control_block *control;
        int fd;
        uint64_t id, value;
        uint32_t cid;
};

static inline struct sched *fake_sched(const struct rig *rig, enum turns_policy policy)
{
        static struct gpu_backend backend;
        struct sched_settings settings = { .turns.policy = policy };
        struct sched *sched;
        struct err err = { 0 };

        (void)setenv("SUBLET_SIM", rig->directory, 1);
        assert_int_equal(gpu_backend_find(&backend, &err), 0);
        assert_int_equal(sched_start(&backend, 0, &settings, &sched, &err), 0);
        return sched;
}

/* As a shim would write it. */
static inline void fake_tenant_control_block(struct fake_tenant *fake, uint32_t client)
{
        struct control_channel channel = { .client = client,
                                           .handle = CHANNEL,
                                           .group = GROUP,
                                           .cid = fake->cid,
                                           .device = 0,
                                           .is_compute = 1,
                                           .order = 1 };

        assert_int_equal(control_block_new("guest", getuid(), 1, &fake->control, &fake->fd), 0);
        assert_int_equal(control_block_channel_put(fake->control, &channel), 0);
        fake->control->shim = 999999; /* no process of ours: the meter finds it by its contexts only */
}

static inline void fake_tenant_begin(struct fake_tenant *fake, const struct rig *rig, uint64_t id)
{
        *fake = (struct fake_tenant){ .rig = *rig, .id = id };
        rig_begin(&fake->rig, 0);
        fake->cid = rig_channel(&fake->rig, GROUP, CHANNEL);
        fake_tenant_control_block(fake, fake->rig.client);
}

static inline void fake_tenant_end(struct fake_tenant *fake)
{
        rig_end(&fake->rig);
        control_block_unmap(fake->control);
        close(fake->fd);
}

static inline void join(struct sched *sched, struct fake_tenant *fake)
{
        struct sched_tenant tenant = { .id = fake->id, .control = fake->control, .share = 500, .cap = TURNS_WHOLE };

        assert_int_equal(sched_add(sched, &tenant), 0);
}

static inline void launch(struct fake_tenant *fake, uint64_t usec)
{
        struct sim_gpu gpu = { .op = SIM_GPU_LAUNCH,
                               .client = fake->rig.client,
                               .object = CHANNEL,
                               .duration = usec * 1000,
                               .value = ++fake->value };

        assert_int_equal(sim_gpu_send(fake->rig.ctl, &gpu), 0);
}

static inline int finish(const struct fake_tenant *fake, uint64_t msec)
{
        return sim_gpu_wait(fake->rig.ctl, fake->rig.client, CHANNEL, fake->value, msec * 1000000, NULL);
}

static inline struct sched_row row_of(struct sched *sched, uint64_t id)
{
        struct sched_row rows[TURNS_TENANTS_MAX];
        size_t n = sched_read(sched, NULL, rows, ARRAY_SIZE(rows));

        for (size_t i = 0; i < n; i++)
                if (rows[i].id == id)
                        return rows[i];
        fail();
        return rows[0];
}
