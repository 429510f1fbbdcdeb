/* SPDX-License-Identifier: Apache-2.0 */
/* A process under the real filter of this kernel, a gate in this one, and a driver of our own (fake.h) behind it. */
#pragma once

#include "unit.h"

#include "gate/gate.h"
#include "gate/fake.h"

#include "base/clock.h"
#include "gate/policy/filter.h"
#include "lease/capabilities.h"

#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define gate_test(f) cmocka_unit_test_setup_teardown(f, open_rig, close_rig)

#define STEP (64 * MIB)
#define QUOTA GIB

struct rig {
        struct fake *fake;
        struct lease lease;
        struct sock_fprog filter;
        struct gate *gate;
        pid_t tenant;
        bytes may_hold; /* the driver, at any moment */
        struct gate_desired (*desired)(void *context, unsigned int device);
        bool is_suspendable;
        bool has_child; /* that calls, too */
        atomic_bool is_away;
        atomic_int n_waiting, n_looks; /* looks: whether it is away */
        nsec wait_most;
        const struct gate_copier *copier; /* NULL: nothing moves */
};

/* The tenant's side. */

#define NEED(what)                                                                                                     \
        do {                                                                                                           \
                if (!(what))                                                                                           \
                        _exit(__LINE__ % 250 + 1);                                                                     \
        } while (0)

struct handles {
        int ctl;
        uint32_t client, device, subdevice;
};

static inline int request(int fd, uint32_t nr, void *block, uint32_t size)
{
        return ioctl(fd, (unsigned long)3 << 30 | size << 16 | (uint32_t)'F' << 8 | nr, block) < 0 ? -errno : 0;
}

static inline uint32_t alloc(int fd, uint32_t client, uint32_t parent, uint32_t *handle, uint32_t class_number,
                             void *params, uint32_t params_size)
{
        uint8_t block[48] = { 0 };

        rm_put32(block, 48, 0, client);
        rm_put32(block, 48, 4, parent);
        rm_put32(block, 48, 8, *handle);
        rm_put32(block, 48, 12, class_number);
        rm_put64(block, 48, 16, (uintptr_t)params);
        rm_put32(block, 48, 32, params_size);
        if (request(fd, RM_NR_ALLOC, block, 48) < 0)
                return UINT32_MAX;
        *handle = rm_get32(block, 48, 8);
        return rm_get32(block, 48, 40);
}

static inline struct handles client_start(uint32_t instance)
{
        struct handles h = { .ctl = fake_node_open("nvidiactl"), .device = 0x5c000001, .subdevice = 0x5c000002 };
        uint8_t params[56] = { 0 };

        NEED(h.ctl >= 0);
        NEED(alloc(h.ctl, 0, 0, &h.client, RM_CLASS_CLIENT, NULL, 0) == RM_STATUS_OK && h.client);
        rm_put32(params, 56, 0, instance);
        NEED(alloc(h.ctl, h.client, h.client, &h.device, RM_CLASS_DEVICE, params, 56) == RM_STATUS_OK);
        rm_put32(params, 56, 0, 0);
        NEED(alloc(h.ctl, h.client, h.device, &h.subdevice, RM_CLASS_SUBDEVICE, params, 4) == RM_STATUS_OK);
        return h;
}

static inline uint32_t memory_take(const struct handles *h, bytes size, uint32_t *ret_handle)
{
        uint8_t params[128] = { 0 };
        uint32_t r;

        *ret_handle = 0;
        rm_put32(params, 128, 0, 1);
        rm_put32(params, 128, 24, 2u << 23);
        rm_put64(params, 128, 64, size);
        r = alloc(h->ctl, h->client, h->device, ret_handle, RM_CLASS_VIDEO_MEMORY, params, 128);
        NEED(r != RM_STATUS_OK || rm_get64(params, 128, 64) >= size);
        return r;
}

static inline uint32_t drop(const struct handles *h, uint32_t handle)
{
        uint8_t block[16] = { 0 };

        rm_put32(block, 16, 0, h->client);
        rm_put32(block, 16, 8, handle);
        NEED(request(h->ctl, RM_NR_FREE, block, 16) == 0);
        return rm_get32(block, 16, 12);
}

static inline uint32_t control(const struct handles *h, uint32_t client, uint32_t cmd, void *params, uint32_t size)
{
        uint8_t block[32] = { 0 };

        rm_put32(block, 32, 0, client);
        rm_put32(block, 32, 4, h->subdevice);
        rm_put32(block, 32, 8, cmd);
        rm_put64(block, 32, 16, (uintptr_t)params);
        rm_put32(block, 32, 24, size);
        NEED(request(h->ctl, RM_NR_CONTROL, block, 32) == 0);
        return rm_get32(block, 32, 28);
}

static inline uint32_t fb_info(const struct handles *h, uint32_t index)
{
        uint8_t params[1028] = { 0 };

        rm_put32(params, sizeof(params), 0, 1);
        rm_put32(params, sizeof(params), 4, index);
        NEED(control(h, h->client, RM_FB_GET_INFO_V2, params, sizeof(params)) == RM_STATUS_OK);
        return rm_get32(params, sizeof(params), 8);
}

/* Ours. */

static inline int open_rig(void **state)
{
        struct rig *rig = calloc(1, sizeof(*rig));

        *state = rig;
        if (!rig)
                return -1;
        rig->fake = fake_new(16 * GIB);
        rig->may_hold = QUOTA;
        rig->lease.n_devices = 1;
        rig->lease.devices[0] = (struct lease_device){ .is_granted = true, .instance = 2, .gpu_id = 0x200, .minor = 1 };
        rig->lease.devices[0].quota.size = QUOTA;
        rig->lease.host.size = QUOTA;
        rig->lease.groups_max = rig->lease.channels_max = 64;
        return filter_build(&rig->filter);
}

static inline int close_rig(void **state)
{
        struct rig *rig = *state;

        free(rig->filter.filter);
        free(rig->fake);
        free(rig);
        return 0;
}

/* A process under the filter; it does not begin before a byte is written to *ret_go. Its listener, ours. */
static inline int under_filter(struct rig *rig, void (*tenant)(void), pid_t *ret_process, int *ret_go)
{
        int said[2], go[2], listener = -1, ours, pidfd;
        char byte = 0;

        assert_int_equal(pipe2(said, O_CLOEXEC), 0);
        assert_int_equal(pipe2(go, O_CLOEXEC), 0);
        *ret_process = fork();
        if (*ret_process == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                listener = filter_install(&rig->filter);
                (void)!write(said[1], &listener, sizeof(listener));
                (void)close(go[1]);
                NEED(read(go[0], &byte, 1) == 1);
                (void)close(listener); /* ours would keep the tenant "alive" in the kernel's eyes */
                tenant();
                _exit(0);
        }
        assert_int_equal(read(said[0], &listener, sizeof(listener)), sizeof(listener));
        if (listener < 0) {
                print_message("# the filter cannot be installed here: %s\n", strerror(-listener));
                skip();
        }
        pidfd = (int)syscall(SYS_pidfd_open, *ret_process, 0);
        ours = (int)syscall(SYS_pidfd_getfd, pidfd, listener, 0);
        assert_true(ours >= 0);
        (void)close(pidfd);
        (void)close(said[0]);
        (void)close(said[1]);
        (void)close(go[0]);
        *ret_go = go[1];
        return ours;
}

static inline bool on_away(void *context, pid_t process)
{
        struct rig *rig = context;

        (void)process;
        rig->n_looks++;
        return rig->is_away;
}

static inline void on_waits(void *context, pid_t process, bool begins)
{
        struct rig *rig = context;

        if (!rig->has_child)
                assert_int_equal(process, rig->tenant);
        rig->n_waiting += begins ? 1 : -1;
}

/* A process under the filter, and a gate for it. */
static inline void gate_begin(struct rig *rig, void (*tenant)(void))
{
        struct gate_options options = { .lease = &rig->lease,
                                        .layout = layout_of(580, 159, 4),
                                        .driver = fake_driver(rig->fake),
                                        .is_away = rig->is_suspendable ? on_away : NULL,
                                        .waits = on_waits,
                                        .wait_most = rig->wait_most,
                                        .copier = rig->copier,
                                        .node_context = rig,
                                        .desired = rig->desired };
        int go, listener = under_filter(rig, tenant, &rig->tenant, &go);

        assert_int_equal(gate_new(&options, listener, &rig->gate), 0);
        assert_int_equal(gate_start(rig->gate), 0);
        assert_int_equal(write(go, "", 1), 1);
        (void)close(go);
}

/* Waits for the tenant; returns its status. Then the books must be empty, and the driver too. */
static inline int finish(struct rig *rig, struct gate_stats *ret)
{
        nsec deadline = clock_now() + 10 * NSEC_PER_SEC;
        struct gate_stats stats;
        int status;

        assert_int_equal(waitpid(rig->tenant, &status, 0), rig->tenant);
        assert_true(gate_wait(rig->gate, 10 * NSEC_PER_SEC));
        /* A call that its caller did not live to see is still being answered, perhaps. */
        while ((gate_settle(rig->gate) || gate_held(rig->gate, 0)) && clock_now() < deadline)
                fake_wait(1);
        gate_stats(rig->gate, &stats);
        assert_int_equal(gate_held(rig->gate, 0), 0);
        assert_int_equal(stats.holds.n_clients + stats.holds.n_objects + stats.holds.n_memories, 0);
        assert_int_equal(stats.n_events[EVENT_AUDIT_MISMATCH] + stats.n_events[EVENT_GATE_FAILED], 0);
        assert_int_equal(rig->fake->held, 0);
        assert_true(rig->fake->most_held <= rig->may_hold);
        rig->gate = gate_free(rig->gate);
        if (ret)
                *ret = stats;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
