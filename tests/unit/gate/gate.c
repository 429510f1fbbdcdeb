/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate from end to end: a process under the real filter of this kernel, a gate in this one, and a
 * driver of our own (fake.h) behind it. What the tenant does is a function that runs in the child; it
 * says what went wrong by its exit status, a line number.
 */
#include "gate/rig.h"

#include "base/clock.h"
#include "gate/inside.h"
#include "gate/policy/filter.h"
#include "lease/capabilities.h"

#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void fill(void)
{
        struct handles h = client_start(2);
        uint32_t handles[17], n = 0, last;

        while ((last = memory_take(&h, STEP, &handles[n])) == RM_STATUS_OK)
                NEED(++n < 17);
        NEED(n == 16 && last == RM_STATUS_NO_MEMORY);
        NEED(memory_take(&h, 1, &handles[n]) == RM_STATUS_NO_MEMORY); /* not a byte more */
        NEED(drop(&h, handles[3]) == RM_STATUS_OK);
        NEED(memory_take(&h, STEP, &handles[3]) == RM_STATUS_OK);
        NEED(drop(&h, h.device) == RM_STATUS_OK); /* all of it */
        h.device = 0x5c000009;
        NEED(memory_take(&h, STEP, &handles[0]) == RM_STATUS_OBJECT_NOT_FOUND);
}

static void a_tenant_takes_its_quota_and_not_a_byte_more(void **state)
{
        struct rig *rig = *state;
        struct gate_stats stats;

        gate_begin(rig, fill);
        assert_int_equal(finish(rig, &stats), 0);
        assert_int_equal(rig->fake->most_held, QUOTA);
        assert_int_equal(rig->lease.devices[0].quota.peak, QUOTA);
        assert_true(stats.n_events[EVENT_QUOTA_REFUSED] >= 2);
}

static void tenant_look(void)
{
        struct handles h = client_start(2);
        uint32_t handle;

        NEED(fb_info(&h, RM_FB_TOTAL_RAM) == QUOTA / KIB);
        NEED(fb_info(&h, RM_FB_HEAP_FREE) == QUOTA / KIB);
        NEED(memory_take(&h, STEP, &handle) == RM_STATUS_OK);
        NEED(fb_info(&h, RM_FB_HEAP_FREE) == (QUOTA - STEP) / KIB);
}

static void a_tenant_sees_its_quota(void **state)
{
        gate_begin(*state, tenant_look);
        assert_int_equal(finish(*state, NULL), 0);
}

static void steer(void)
{
        struct handles h = client_start(2);
        uint8_t params[8] = { 1 };

        NEED(control(&h, h.client, RM_SET_TIMESLICE, params, 8) == RM_STATUS_OK); /* and nothing happens */
        NEED(control(&h, h.client, RM_DISABLE_CHANNELS, params, 8) == RM_STATUS_INSUFFICIENT_PERMISSIONS);
        NEED(control(&h, h.client, 0x12345678, params, 8) == RM_STATUS_NOT_SUPPORTED);
}

static void a_tenant_does_not_steer(void **state)
{
        struct rig *rig = *state;
        struct gate_stats stats;

        gate_begin(rig, steer);
        assert_int_equal(finish(rig, &stats), 0);
        assert_int_equal(rig->fake->n_timeslices, 0);
        assert_int_equal(stats.n_events[EVENT_UNKNOWN_CONTROL], 1);
        assert_int_equal(stats.n_denied, 2);
}

static struct of_the_server {
        atomic_uint client, ctl; /* that dups the server's group */
        atomic_bool is_over;
} * lent;

static void borrow_a_group(void)
{
        struct handles h = client_start(2);

        lent->ctl = (unsigned int)h.ctl;
        lent->client = h.client;
        while (!lent->is_over)
                fake_wait(1);
}

/* What the driver says is what another tenant's gate has set. */
static void the_own_slice_of_a_group_that_is_lent_is_the_drivers_default(void **state)
{
        struct rig *rig = *state;
        struct group group = { .handle = 0x5c000021, .is_compute = true, .is_lent = true, .is_scheduled = true };

        lent = mmap(NULL, sizeof(*lent), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true((void *)lent != MAP_FAILED);
        rig->fake->timeslice = 500;
        gate_begin(rig, borrow_a_group);
        while (!lent->client)
                fake_wait(1);
        group.client = lent->client;
        group.process = rig->tenant;
        group.theirs = (int)lent->ctl;
        assert_int_equal(channels_reserve(&rig->gate->channels, true), 0);
        {
                LOCKED(&rig->gate->channels.lock);
                channels_put_group(&rig->gate->channels, &group);
        }
        assert_int_equal(gate_timeslice_set(rig->gate, 0, 4 * NSEC_PER_MSEC), 0);
        assert_int_equal(rig->fake->timeslice, 4000);
        assert_int_equal(gate_timeslice_set(rig->gate, 0, 0), 0);
        assert_int_equal(rig->fake->timeslice, 2048);
        lent->is_over = true;
        assert_int_equal(finish(rig, NULL), 0);
        (void)munmap(lent, sizeof(*lent));
}

static void look_for_decoders(void)
{
        struct handles h = client_start(2);
        uint8_t params[16] = { 0 };

        NEED(control(&h, h.client, 0x801c02, params, 12) == RM_STATUS_NOT_SUPPORTED);
        NEED(control(&h, h.client, 0x801c02, params, 12) == RM_STATUS_NOT_SUPPORTED);
        NEED(control(&h, h.client, 0x801301, params, 16) == RM_STATUS_NOT_SUPPORTED);
}

/* As if the device had no such engine, and told once for each capability. */
static void what_a_tenant_has_no_capability_for_is_not_there(void **state)
{
        struct rig *rig = *state;
        struct gate_stats stats;

        gate_begin(rig, look_for_decoders);
        assert_int_equal(finish(rig, &stats), 0);
        assert_int_equal(stats.n_events[EVENT_CAPABILITY_MISSING], 2);
        assert_int_equal(stats.n_events[EVENT_UNKNOWN_CONTROL], 0);
        assert_int_equal(stats.n_denied, 3);
        assert_int_equal(stats.refusals.n_rows, 2);
        assert_int_equal(stats.refusals.rows[0].number, 0x801c02);
        assert_int_equal(stats.refusals.rows[0].n, 2);
}

static uint32_t channel_on(const struct handles *h, uint32_t parent, uint32_t handle, uint32_t engine)
{
        const struct rm_layout layout = layout_of(580, 159, 4);
        uint8_t params[512] = { 0 };

        rm_put32(params, sizeof(params), layout.channel_engine_at, engine);
        return alloc(h->ctl, h->client, parent, &handle, 0xc86f, params, layout.channel_params_size);
}

static uint32_t channel_of(const struct handles *h, uint32_t parent, uint32_t handle)
{
        return channel_on(h, parent, handle, 0);
}

static void schedule(void)
{
        struct handles h = client_start(2), group = h, channel = h;
        uint8_t params[20] = { 0 }, on[3] = { 1 }, off[3] = { 0 };

        group.subdevice = 0x5c000010;
        channel.subdevice = 0x5c000011;
        NEED(control(&group, h.client, 0xa06c0101, on, 3) != RM_STATUS_OK); /* it is not there */
        rm_put32(params, sizeof(params), 12, 1);
        NEED(alloc(h.ctl, h.client, h.device, &group.subdevice, RM_CLASS_GROUP, params, 20) == RM_STATUS_OK);
        NEED(channel_of(&h, group.subdevice, channel.subdevice) == RM_STATUS_OK);
        for (int i = 0; i < 100; i++) { /* one call of the driver's: 1 */
                NEED(control(&group, h.client, 0xa06c0101, on, 3) == RM_STATUS_OK);
                NEED(control(&group, h.client, 0xa06c0101, off, 3) == RM_STATUS_OK);
                NEED(control(&channel, h.client, 0xa06f0103, on, 3) == RM_STATUS_OK);
        }
        for (uint32_t i = 0; i < 2; i++) { /* a channel that came later: 2, 3 */
                channel.subdevice = 0x5c000020 + i;
                NEED(channel_of(&h, group.subdevice, channel.subdevice) == RM_STATUS_OK);
                NEED(control(i ? &group : &channel, h.client, i ? 0xa06c0101 : 0xa06f0103, on, 3) == RM_STATUS_OK);
                NEED(control(&group, h.client, 0xa06c0101, on, 3) == RM_STATUS_OK);
        }
        NEED(channel_of(&h, h.device, 0x5c000030) != RM_STATUS_OK); /* without a group none is made */
}

enum {
        GRAPHICS_ENGINE = 0x01,
        COPY_ENGINE = 0x09,
        DECODER_ENGINE = 0x13,
};

static void loose(void)
{
        struct handles h = client_start(2);
        uint32_t object = 0x5c000040;

        NEED(channel_on(&h, h.device, 0x5c000030, GRAPHICS_ENGINE) != RM_STATUS_OK);
        NEED(channel_on(&h, h.device, 0x5c000031, DECODER_ENGINE) != RM_STATUS_OK);
        NEED(channel_on(&h, h.device, 0x5c000032, COPY_ENGINE) == RM_STATUS_OK);
        NEED(alloc(h.ctl, h.client, 0x5c000032, &object, 0xcbc0, NULL, 0) != RM_STATUS_OK); /* compute */
        object = 0x5c000041;
        NEED(alloc(h.ctl, h.client, 0x5c000032, &object, 0xc8b5, NULL, 0) == RM_STATUS_OK); /* copies */
}

static void a_channel_without_a_group_copies_and_does_nothing_else(void **state)
{
        gate_begin(*state, loose);
        assert_int_equal(finish(*state, NULL), 0);
}

static void what_is_scheduled_is_not_scheduled_again(void **state)
{
        struct rig *rig = *state;

        gate_begin(rig, schedule);
        assert_int_equal(finish(rig, NULL), 0);
        assert_int_equal(rig->fake->n_schedules, 3);
}

static void reach_out(void)
{
        struct handles h = client_start(2);
        uint32_t device = 0x5c000777, handle = 0;
        uint8_t params[64] = { 0 }, block[28] = { 0 };

        NEED(control(&h, 0xc1d00001, RM_FB_GET_INFO_V2, params, 20) == RM_STATUS_INVALID_CLIENT); /* the gate's own */
        rm_put32(params, 56, 0, 2);
        rm_put32(params, 56, 8, 0xc1d00001);
        NEED(alloc(h.ctl, h.client, h.client, &device, RM_CLASS_DEVICE, params, 56) == RM_STATUS_INVALID_CLIENT);
        rm_put32(params, 56, 0, 1); /* a device that is not leased */
        rm_put32(params, 56, 8, 0);
        NEED(alloc(h.ctl, h.client, h.client, &device, RM_CLASS_DEVICE, params, 56) != RM_STATUS_OK);
        rm_put32(block, 28, 0, h.client);
        rm_put32(block, 28, 4, h.client);
        rm_put32(block, 28, 12, 0xc1d00001);
        rm_put32(block, 28, 16, 0xcaf00000);
        NEED(request(h.ctl, RM_NR_DUP, block, 28) == 0);
        NEED(rm_get32(block, 28, 24) == RM_STATUS_INVALID_OBJECT_HANDLE); /* as if it were not there */
        NEED(alloc(h.ctl, h.client, h.device, &handle, 0x1234, NULL, 0) == RM_STATUS_INVALID_CLASS);
}

static void what_is_somebody_elses_is_out_of_reach(void **state)
{
        struct gate_stats stats;

        gate_begin(*state, reach_out);
        assert_int_equal(finish(*state, &stats), 0);
        assert_int_equal(stats.n_events[EVENT_FOREIGN_OBJECT], 3);
        assert_int_equal(stats.n_events[EVENT_UNKNOWN_CLASS], 1);
}

static void use_strange_descriptors(void)
{
        struct handles h = client_start(2);
        int file = memfd_create("no-driver", MFD_CLOEXEC), forbidden = fake_node_open("nvidia-modeset"), ends[2];
        uint8_t block[48] = { 0 };
        int n = 7;

        NEED(request(file, RM_NR_ALLOC, block, 48) == -ENOTTY);
        NEED(request(999, RM_NR_ALLOC, block, 48) == -EBADF);
        NEED(request(-1, RM_NR_ALLOC, block, 48) == -EBADF);
        NEED(request(forbidden, RM_NR_ALLOC, block, 48) == -EPERM);
        NEED(request(h.ctl, 0x42, block, 56) == -EINVAL);        /* no such request */
        NEED(request(h.ctl, RM_NR_ALLOC, block, 44) == -EINVAL); /* a size that no release has */
        NEED(request(h.ctl, RM_NR_ALLOC, NULL, 48) == -EFAULT);
        NEED(pipe(ends) == 0 && write(ends[1], "abc", 3) == 3);
        NEED(ioctl(ends[0], FIONREAD, &n) == 0 && n == 3); /* not touched */
}

static void strange_descriptors_and_addresses_are_refused(void **state)
{
        gate_begin(*state, use_strange_descriptors);
        assert_int_equal(finish(*state, NULL), 0);
}

static void take_from_a_small_device(void)
{
        struct handles h = client_start(2);
        uint32_t handle;

        NEED(memory_take(&h, 128 * MIB, &handle) == RM_STATUS_OK);
        NEED(memory_take(&h, 512 * MIB, &handle) == RM_STATUS_NO_MEMORY); /* the device's word */
        NEED(fb_info(&h, RM_FB_HEAP_FREE) == 128 * MIB / KIB);            /* what the device has, not the quota */
        NEED(memory_take(&h, 128 * MIB, &handle) == RM_STATUS_OK);
}

static void what_the_driver_refuses_costs_nothing(void **state)
{
        struct rig *rig = *state;

        rig->fake->capacity = 256 * MIB;
        gate_begin(rig, take_from_a_small_device);
        assert_int_equal(finish(rig, NULL), 0);
        assert_int_equal(rig->lease.devices[0].quota.n_refused, 0);
}

static void take_more_than_asked(void)
{
        struct handles h = client_start(2);
        uint32_t handle;

        NEED(memory_take(&h, 1, &handle) == RM_STATUS_OK); /* 640 MiB, in truth */
        NEED(memory_take(&h, 1, &handle) == RM_STATUS_NO_MEMORY);
        NEED(fb_info(&h, RM_FB_HEAP_FREE) == (QUOTA - 640 * MIB) / KIB);
}

static void what_the_driver_gives_beyond_the_quota_goes_back(void **state)
{
        struct rig *rig = *state;

        rig->fake->granule = 640 * MIB;
        rig->may_hold = 2 * 640 * MIB; /* for a moment */
        gate_begin(rig, take_more_than_asked);
        assert_int_equal(finish(rig, NULL), 0);
}

/* Many threads at once, each taking and dropping: no order of calls gets past the quota. */
static struct handles shared;

static void *struggle(void *context)
{
        unsigned int seed = (unsigned int)(uintptr_t)context;
        uint32_t mine[8] = { 0 };

        for (int i = 0; i < 60; i++) {
                uint32_t *slot = &mine[rand_r(&seed) % 8];

                if (*slot) {
                        NEED(drop(&shared, *slot) == RM_STATUS_OK);
                        *slot = 0;
                } else {
                        uint32_t r = memory_take(&shared, (bytes)(rand_r(&seed) % 100 + 1) * MIB, slot);

                        NEED(r == RM_STATUS_OK || r == RM_STATUS_NO_MEMORY);
                        if (r != RM_STATUS_OK)
                                *slot = 0;
                }
        }
        return NULL;
}

static void race(void)
{
        pthread_t threads[8];

        shared = client_start(2);
        for (uintptr_t i = 0; i < 8; i++)
                NEED(pthread_create(&threads[i], NULL, struggle, (void *)(i + 1)) == 0);
        for (int i = 0; i < 8; i++)
                NEED(pthread_join(threads[i], NULL) == 0);
}

static void threads_do_not_race_past_the_quota(void **state)
{
        struct rig *rig = *state;

        gate_begin(rig, race);
        assert_int_equal(finish(rig, NULL), 0);
        assert_true(rig->lease.devices[0].quota.n_refused > 0); /* it was tight */
}

static void take_slowly(void)
{
        struct handles h = client_start(2);
        uint32_t handle;

        for (;;)
                (void)memory_take(&h, STEP, &handle);
}

/* The call is in the driver when its caller dies: the memory is there, and nobody will free it. */
static void a_tenant_killed_in_the_middle_of_a_call_leaves_nothing(void **state)
{
        struct rig *rig = *state;

        rig->fake->delay_ms = 30;
        for (int i = 0; i < 5; i++) {
                unsigned int before = rig->fake->n_inside;

                gate_begin(rig, take_slowly);
                while (rig->fake->n_inside < before + (unsigned int)i + 1)
                        fake_wait(1);
                fake_wait(i * 7);
                assert_int_equal(kill(rig->tenant, SIGKILL), 0);
                assert_int_equal(finish(rig, NULL), -SIGKILL);
        }
}

/* A tenant of many processes; they are killed at any moment, again and again. */
static void storm(void)
{
        unsigned int seed = 1;

        for (int round = 0; round < 12; round++) {
                pid_t children[6];

                for (int i = 0; i < 6; i++) {
                        children[i] = fork();
                        if (children[i] == 0)
                                take_slowly();
                }
                fake_wait(rand_r(&seed) % 12);
                for (int i = 0; i < 6; i++)
                        NEED(kill(children[i], SIGKILL) == 0);
                for (int i = 0; i < 6; i++)
                        NEED(waitpid(children[i], NULL, 0) == children[i]);
        }
        {
                struct handles h = client_start(2);
                uint32_t handle, n = 0;

                while (n < 16 && memory_take(&h, STEP, &handle) == RM_STATUS_OK)
                        n++;
                NEED(n == 16 && memory_take(&h, 1, &handle) == RM_STATUS_NO_MEMORY);
        }
}

static void a_storm_of_kills_leaves_the_whole_quota(void **state)
{
        struct rig *rig = *state;

        gate_begin(rig, storm);
        assert_int_equal(finish(rig, NULL), 0);
}

static void two_processes(void)
{
        struct handles h = client_start(2);
        uint32_t handle, n = 0;
        pid_t child;
        int status;

        NEED(memory_take(&h, 512 * MIB, &handle) == RM_STATUS_OK);
        child = fork();
        if (child == 0) {
                struct handles own = client_start(2);

                while (memory_take(&own, STEP, &handle) == RM_STATUS_OK)
                        n++;
                _exit(n == 8 ? 0 : 1);
        }
        NEED(waitpid(child, &status, 0) == child && status == 0);
        NEED(memory_take(&h, 512 * MIB, &handle) == RM_STATUS_OK);
}

/* One process after the other, and room for one: what the first had is there when its parent hears of its end. */
static void one_after_the_other(void)
{
        struct handles h = client_start(2);
        uint32_t handle;
        int status;

        for (int i = 0; i < 10; i++) {
                pid_t child = fork();

                if (child == 0) {
                        struct handles own = client_start(2);

                        NEED(memory_take(&own, QUOTA, &handle) == RM_STATUS_OK);
                        NEED(memory_take(&own, STEP, &handle) == RM_STATUS_NO_MEMORY); /* and the books are settled */
                        _exit(0);
                }
                NEED(waitpid(child, &status, 0) == child && status == 0);
                NEED(memory_take(&h, QUOTA, &handle) == RM_STATUS_OK);
                NEED(drop(&h, handle) == RM_STATUS_OK);
        }
}

static void what_has_ended_is_in_nobodys_way(void **state)
{
        struct rig *rig = *state;

        gate_begin(rig, one_after_the_other);
        assert_int_equal(finish(rig, NULL), 0);
}

static void what_the_driver_takes_down_late_is_waited_for(void **state)
{
        struct rig *rig = *state;

        rig->fake->linger_ms = 60;
        gate_begin(rig, one_after_the_other);
        assert_int_equal(finish(rig, NULL), 0);
}

static void memory_of_the_device_itself_is_waited_for(void **state)
{
        struct rig *rig = *state;

        rig->fake->linger_ms = 60;
        rig->fake->capacity = QUOTA;
        rig->lease.devices[0].quota.size = 4 * QUOTA;
        gate_begin(rig, one_after_the_other);
        assert_int_equal(finish(rig, NULL), 0);
}

/* RIGHTS for TARGET: of a client, by the kind of policy. */
static void let(const struct handles *h, uint32_t target, uint32_t rights, uint32_t type)
{
        uint8_t policy[12] = { 0 };

        rm_put32(policy, 12, 0, target);
        rm_put32(policy, 12, 4, rights);
        rm_put32(policy, 12, 8, type);
        NEED(control(h, h->client, RM_INHERITED_SHARE, policy, 12) == RM_STATUS_OK);
}

static void let_debug(void)
{
        enum { DUP = 1, DEBUG = 4, ALL = 1, CLIENT = 3 };
        struct handles app = client_start(2), debugger = client_start(2);

        let(&app, debugger.client, DUP, CLIENT);
        let(&app, debugger.client, DUP | DEBUG, CLIENT);
        let(&app, debugger.client, DEBUG, ALL);
        let(&app, 0xc1d0ffff, DEBUG, CLIENT); /* nobody of this tenant's */
        let(&app, 0, DEBUG, CLIENT);
        let(&app, debugger.client, DEBUG, CLIENT);
}

/* The driver hears of one policy of six, and as an addition to what there is. */
static void a_tenant_lets_its_own_debugger_and_nobody_else(void **state)
{
        struct rig *rig = *state;

        gate_begin(rig, let_debug);
        assert_int_equal(finish(rig, NULL), 0);
        assert_int_equal(rig->fake->n_shares, 1);
        assert_int_equal(rig->fake->share, 3 | 4 << 16);
}

enum { DEBUG_BYTES = 6 * MIB + 77 };

static void read_by_debugger(void)
{
        struct handles h = client_start(2);
        uint8_t params[24] = { 0 }, *to = malloc(DEBUG_BYTES);

        NEED(to);
        rm_put32(params, 24, 4, DEBUG_BYTES);
        rm_put64(params, 24, 8, MIB);
        rm_put64(params, 24, 16, (uintptr_t)to);
        NEED(control(&h, h.client, RM_DEBUG_READ, params, 24) == RM_STATUS_OK);
        NEED(rm_get32(params, 24, 4) == DEBUG_BYTES && rm_get64(params, 24, 8) == MIB);
        for (uint32_t i = 0; i < DEBUG_BYTES; i++)
                NEED(to[i] == (uint8_t)((MIB + i) >> 16));
        free(to);
}

static void not_by_debugger(void)
{
        struct handles h = client_start(2);
        uint8_t params[24] = { 0 };

        NEED(control(&h, h.client, RM_DEBUG_READ, params, 24) == RM_STATUS_NOT_SUPPORTED);
        NEED(control(&h, h.client, 0x83de0317, params, 8) == RM_STATUS_NOT_SUPPORTED);
}

/* libcudadebugger reads 6 MiB and 16 MiB at once. */
static void a_debugger_reads_much_at_once(void **state)
{
        struct rig *rig = *state;

        rig->lease.capabilities |= CAPABILITY_PROFILE;
        gate_begin(rig, read_by_debugger);
        assert_int_equal(finish(rig, NULL), 0);
        assert_int_equal(rig->fake->n_debugs, 7);
        assert_int_equal(rig->fake->debugged, DEBUG_BYTES);
}

static struct gate_desired nothing_desired(void *context, unsigned int device)
{
        (void)context;
        (void)device;
        return (struct gate_desired){ 0 };
}

static void nobody_debugs_whose_time_is_steered(void **state)
{
        struct rig *rig = *state;

        rig->lease.capabilities |= CAPABILITY_PROFILE;
        rig->desired = nothing_desired;
        gate_begin(rig, not_by_debugger);
        assert_int_equal(finish(rig, NULL), 0);
        assert_int_equal(rig->fake->n_debugs, 0);
}

static void processes_share_one_quota(void **state)
{
        gate_begin(*state, two_processes);
        assert_int_equal(finish(*state, NULL), 0);
}

static void take_and_wait(void)
{
        struct handles h = client_start(2);
        uint32_t handle;

        NEED(memory_take(&h, 512 * MIB, &handle) == RM_STATUS_OK);
        while (fb_info(&h, RM_FB_TOTAL_RAM) == QUOTA / KIB)
                fake_wait(1);
        NEED(fb_info(&h, RM_FB_TOTAL_RAM) == 256 * MIB / KIB);
        NEED(fb_info(&h, RM_FB_HEAP_FREE) == 0);
        NEED(memory_take(&h, 1, &handle) == RM_STATUS_NO_MEMORY);
}

static void a_quota_that_shrinks_under_use_grants_nothing(void **state)
{
        struct rig *rig = *state;

        gate_begin(rig, take_and_wait);
        while (gate_held(rig->gate, 0) < 512 * MIB)
                fake_wait(1);
        rig->lease.devices[0].quota.size = 256 * MIB;
        assert_int_equal(finish(rig, NULL), 0);
}

static void hammer(void)
{
        struct handles h = client_start(2);

        for (;;)
                (void)fb_info(&h, RM_FB_TOTAL_RAM);
}

static void do_nothing(void)
{
}

/* As `exec` into a container, again and again: while all slots are taken nobody else joins, and what has ended takes
 * none from who comes next. */
static void processes_come_in_later(void **state)
{
        enum { MOST = 128 };
        struct rig *rig = *state;
        int go[MOST], listener;
        pid_t processes[MOST];
        size_t n = 0;

        gate_begin(rig, hammer);
        for (;;) {
                assert_true(n < MOST);
                listener = under_filter(rig, do_nothing, &processes[n], &go[n]);
                if (gate_join(rig->gate, listener) < 0)
                        break;
                n++;
        }
        assert_true(n > 16);
        for (size_t i = 0; i < 16; i++) {
                assert_int_equal(gate_join(rig->gate, listener), -EBUSY);
                assert_int_equal(kill(processes[i], SIGKILL), 0);
                assert_int_equal(waitpid(processes[i], NULL, 0), processes[i]);
                assert_int_equal(gate_join(rig->gate, listener), 0);
                (void)close(go[i]);
                listener = under_filter(rig, do_nothing, &processes[i], &go[i]);
        }
        (void)close(listener);
        for (size_t i = 0; i <= n; i++) {
                assert_int_equal(kill(processes[i], SIGKILL), 0);
                assert_int_equal(waitpid(processes[i], NULL, 0), processes[i]);
                (void)close(go[i]);
        }
        assert_int_equal(kill(rig->tenant, SIGKILL), 0);
        assert_int_equal(finish(rig, NULL), -SIGKILL);
}

/* G5: errors, not a free GPU. */
static void a_gate_that_ends_leaves_errors_behind(void **state)
{
        struct rig *rig = *state;
        int status;

        gate_begin(rig, hammer);
        fake_wait(20);
        rig->gate = gate_free(rig->gate);
        assert_int_equal(waitpid(rig->tenant, &status, 0), rig->tenant);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0); /* its NEED: the request failed */
}

static void gates_leave_no_descriptor_behind(void **state)
{
        int before = dup(0), after;

        (void)state;
        (void)close(before);
        for (int i = 0; i < 3; i++) {
                void *rig;

                assert_int_equal(open_rig(&rig), 0);
                gate_begin(rig, tenant_look);
                assert_int_equal(finish(rig, NULL), 0);
                assert_int_equal(close_rig(&rig), 0);
        }
        after = dup(0);
        (void)close(after);
        assert_int_equal(after, before);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                gate_test(a_tenant_takes_its_quota_and_not_a_byte_more),
                gate_test(a_tenant_sees_its_quota),
                gate_test(a_tenant_does_not_steer),
                gate_test(what_a_tenant_has_no_capability_for_is_not_there),
                gate_test(what_is_scheduled_is_not_scheduled_again),
                gate_test(a_channel_without_a_group_copies_and_does_nothing_else),
                gate_test(what_is_somebody_elses_is_out_of_reach),
                gate_test(strange_descriptors_and_addresses_are_refused),
                gate_test(what_the_driver_refuses_costs_nothing),
                gate_test(what_the_driver_gives_beyond_the_quota_goes_back),
                gate_test(threads_do_not_race_past_the_quota),
                gate_test(a_tenant_killed_in_the_middle_of_a_call_leaves_nothing),
                gate_test(a_storm_of_kills_leaves_the_whole_quota),
                gate_test(a_tenant_lets_its_own_debugger_and_nobody_else),
                gate_test(a_debugger_reads_much_at_once),
                gate_test(nobody_debugs_whose_time_is_steered),
                gate_test(the_own_slice_of_a_group_that_is_lent_is_the_drivers_default),
                gate_test(processes_share_one_quota),
                gate_test(what_has_ended_is_in_nobodys_way),
                gate_test(what_the_driver_takes_down_late_is_waited_for),
                gate_test(memory_of_the_device_itself_is_waited_for),
                gate_test(a_quota_that_shrinks_under_use_grants_nothing),
                gate_test(processes_come_in_later),
                gate_test(a_gate_that_ends_leaves_errors_behind),
                cmocka_unit_test(gates_leave_no_descriptor_behind),
        };

        return cmocka_run_group_tests_name("gate/gate", tests, NULL, NULL);
}
