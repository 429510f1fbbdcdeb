/* Tenants of a simulated device for tests of the scheduler, with control blocks as their shims would keep them. */
#pragma once

#include "sim/rig.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "gpu/backend.h"
#include "sched/sched.h"

struct guest {
        struct rig rig;
        struct control_block *control;
        int fd;
        uint64_t id, value;
        uint32_t cid;
};

static inline struct sched *guests_sched(const struct rig *rig, enum turns_policy policy)
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

/* A control block as a shim would keep it. */
static inline void guest_control_block(struct guest *guest, uint32_t client)
{
        struct control_channel channel = { .client = client,
                                           .handle = CHANNEL,
                                           .group = GROUP,
                                           .cid = guest->cid,
                                           .device = 0,
                                           .is_compute = 1,
                                           .order = 1 };

        assert_int_equal(control_block_new("guest", getuid(), 1, &guest->control, &guest->fd), 0);
        assert_int_equal(control_block_channel_put(guest->control, &channel), 0);
        guest->control->shim = 999999; /* known by its contexts only */
}

static inline void guest_begin(struct guest *guest, const struct rig *rig, uint64_t id)
{
        *guest = (struct guest){ .rig = *rig, .id = id };
        rig_begin(&guest->rig, 0);
        guest->cid = rig_channel(&guest->rig, GROUP, CHANNEL);
        guest_control_block(guest, guest->rig.client);
}

static inline void guest_end(struct guest *guest)
{
        rig_end(&guest->rig);
        control_block_unmap(guest->control);
        close(guest->fd);
}

static inline void join(struct sched *sched, struct guest *guest)
{
        struct sched_tenant tenant = { .id = guest->id, .control = guest->control, .share = 500, .cap = TURNS_WHOLE };

        assert_int_equal(sched_add(sched, &tenant), 0);
}

static inline void launch(struct guest *guest, uint64_t usec)
{
        struct sim_gpu gpu = { .op = SIM_GPU_LAUNCH,
                               .client = guest->rig.client,
                               .object = CHANNEL,
                               .duration = usec * 1000,
                               .value = ++guest->value };

        assert_int_equal(sim_gpu_send(guest->rig.ctl, &gpu), 0);
}

static inline int finish(const struct guest *guest, uint64_t msec)
{
        return sim_gpu_wait(guest->rig.ctl, guest->rig.client, CHANNEL, guest->value, msec * 1000000, NULL);
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
