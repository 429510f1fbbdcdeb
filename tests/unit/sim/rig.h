/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated machine for a test: a real server in a process of its own, reached through the real
 * transport, and the calls of release 580 as a program would make them. A call that must work is
 * asserted here; a status is what the block says.
 */
#pragma once

#include "unit.h"

#include "base/text.h"
#include "rm/numbers.h"
#include "sim/client/client.h"
#include "sim/client/doorbell.h"
#include "sim/server/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        DEVICE = 0x5c000002,
        SUBDEVICE = 0x5c000003,
        MEMORY = 0x5c000010,
        GROUP = 0x5c000020,
        CHANNEL = 0x5c000030,
        ATTR = 0x11800000, /* as libcuda asks for video memory */
        ATTR_HOST = 0x2a800000,
        ATTR2 = 0x100005,
};

struct rig {
        char directory[64];
        pid_t server;
        struct rm_layout layout;
        int ctl, node;
        uint32_t client;
};

static inline void rig_start_with(struct rig *rig, unsigned int n_gpus, bytes memory, const char *const *faults)
{
        struct machine_options options = { .n_gpus = n_gpus, .memory = memory, .release = MACHINE_RELEASE };
        char byte;
        int pair[2];

        strcpy(rig->directory, "/tmp/sublet-unit-XXXXXX");
        assert_non_null(mkdtemp(rig->directory));
        options.directory = rig->directory;
        assert_return_code(pipe(pair), errno);
        (void)fflush(NULL);
        rig->server = fork();
        if (rig->server == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
                close(pair[0]);
                exit(server_run(&options, faults, pair[1]) ? 1 : 0); /* a leak is seen at exit */
        }
        close(pair[1]);
        assert_int_equal(read(pair[0], &byte, 1), 1);
        close(pair[0]);
        assert_int_equal(sim_layout(rig->directory, &rig->layout), RM_OK);
}

static inline void rig_start(struct rig *rig, unsigned int n_gpus, bytes memory)
{
        static const char *const none[] = { NULL };

        rig_start_with(rig, n_gpus, memory, none);
}

/* The server must have lived, and ends well. */
static inline void rig_stop(struct rig *rig)
{
        int status = -1;

        (void)kill(rig->server, SIGTERM);
        assert_int_equal(waitpid(rig->server, &status, 0), rig->server);
        assert_int_equal(status, 0);
        machine_files_remove(rig->directory);
}

/* Orders a fault; what the machine says to it. */
static inline void rig_order_expect(const struct rig *rig, const char *fault, const char *expected)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        char answer[64] = { 0 };

        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", rig->directory);
        assert_return_code(connect(fd, (struct sockaddr *)&address, sizeof(address)), errno);
        assert_true(send(fd, fault, strlen(fault), MSG_NOSIGNAL) > 0);
        assert_true(recv(fd, answer, sizeof(answer) - 1, 0) > 0);
        assert_string_equal(answer, expected);
        close(fd);
}

static inline void rig_order(const struct rig *rig, const char *fault)
{
        rig_order_expect(rig, fault, "");
}

/* ---- calls ----------------------------------------------------------------------------------- */

static inline int rig_call(const struct rig *rig, int fd, uint32_t nr, void *block, uint32_t size)
{
        return sim_ioctl(fd, &rig->layout, (uint32_t)_IOC(_IOC_READ | _IOC_WRITE, 'F', nr, size), block);
}

static inline uint32_t rig_alloc_in(const struct rig *rig, int ctl, uint32_t client, uint32_t parent, uint32_t handle,
                                    uint32_t class_number, void *params)
{
        unsigned char block[48] = { 0 };

        rm_put32(block, sizeof(block), 0, client);
        rm_put32(block, sizeof(block), 4, parent);
        rm_put32(block, sizeof(block), 8, handle);
        rm_put32(block, sizeof(block), 12, class_number);
        rm_put64(block, sizeof(block), 16, (uintptr_t)params);
        assert_int_equal(rig_call(rig, ctl, RM_NR_ALLOC, block, sizeof(block)), 0);
        return rm_get32(block, sizeof(block), 40);
}

static inline uint32_t rig_alloc(const struct rig *rig, uint32_t parent, uint32_t handle, uint32_t class_number,
                                 void *params)
{
        return rig_alloc_in(rig, rig->ctl, rig->client, parent, handle, class_number, params);
}

static inline uint32_t rig_free_in(const struct rig *rig, int ctl, uint32_t client, uint32_t handle)
{
        unsigned char block[16] = { 0 };

        rm_put32(block, sizeof(block), 0, client);
        rm_put32(block, sizeof(block), 8, handle);
        assert_int_equal(rig_call(rig, ctl, RM_NR_FREE, block, sizeof(block)), 0);
        return rm_get32(block, sizeof(block), 12);
}

static inline uint32_t rig_free(const struct rig *rig, uint32_t handle)
{
        return rig_free_in(rig, rig->ctl, rig->client, handle);
}

static inline uint32_t rig_control(const struct rig *rig, uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
        unsigned char block[32] = { 0 };

        rm_put32(block, sizeof(block), 0, rig->client);
        rm_put32(block, sizeof(block), 4, object);
        rm_put32(block, sizeof(block), 8, cmd);
        rm_put64(block, sizeof(block), 16, (uintptr_t)params);
        rm_put32(block, sizeof(block), 24, size);
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_CONTROL, block, sizeof(block)), 0);
        return rm_get32(block, sizeof(block), 28);
}

static inline uint32_t rig_dup(const struct rig *rig, int ctl, uint32_t client, uint32_t parent, uint32_t handle,
                               uint32_t source_client, uint32_t source)
{
        unsigned char block[28] = { 0 };

        rm_put32(block, sizeof(block), 0, client);
        rm_put32(block, sizeof(block), 4, parent);
        rm_put32(block, sizeof(block), 8, handle);
        rm_put32(block, sizeof(block), 12, source_client);
        rm_put32(block, sizeof(block), 16, source);
        assert_int_equal(rig_call(rig, ctl, RM_NR_DUP, block, sizeof(block)), 0);
        return rm_get32(block, sizeof(block), 24);
}

/* A new client of the connection, with a device and a subdevice. */
static inline uint32_t rig_client(const struct rig *rig, int ctl, uint32_t gpu)
{
        unsigned char block[48] = { 0 }, device[56] = { 0 }, root[4], subdevice[4] = { 0 };
        uint32_t client;

        rm_put32(block, sizeof(block), 12, RM_CLASS_CLIENT);
        rm_put64(block, sizeof(block), 16, (uintptr_t)root);
        assert_int_equal(rig_call(rig, ctl, RM_NR_ALLOC, block, sizeof(block)), 0);
        assert_int_equal(rm_get32(block, sizeof(block), 40), RM_STATUS_OK);
        client = rm_get32(block, sizeof(block), 8);
        rm_put32(device, sizeof(device), 0, gpu);
        assert_int_equal(rig_alloc_in(rig, ctl, client, client, DEVICE, RM_CLASS_DEVICE, device), RM_STATUS_OK);
        assert_int_equal(rig_alloc_in(rig, ctl, client, DEVICE, SUBDEVICE, RM_CLASS_SUBDEVICE, subdevice),
                         RM_STATUS_OK);
        return client;
}

static inline int rig_open(const struct rig *rig, const char *node)
{
        int fd = sim_open(rig->directory, node, O_CLOEXEC);

        assert_true(fd >= 0);
        return fd;
}

/* The beginning of every program. */
static inline void rig_begin(struct rig *rig, uint32_t gpu)
{
        char node[16];
        int32_t ctl;

        (void)snprintf(node, sizeof(node), "nvidia%u", gpu);
        rig->ctl = rig_open(rig, "nvidiactl");
        rig->node = rig_open(rig, node);
        ctl = rig->ctl;
        assert_int_equal(rig_call(rig, rig->node, RM_NR_REGISTER_FD, &ctl, sizeof(ctl)), 0);
        rig->client = rig_client(rig, rig->ctl, gpu);
}

static inline void rig_end(struct rig *rig)
{
        close(rig->node);
        close(rig->ctl);
}

static inline uint32_t rig_memory_as(const struct rig *rig, uint32_t handle, uint32_t class_number, bytes size,
                                     uint32_t attr)
{
        unsigned char params[128] = { 0 };

        rm_put32(params, sizeof(params), 0, rig->client);
        rm_put32(params, sizeof(params), 24, attr);
        rm_put32(params, sizeof(params), 28, ATTR2);
        rm_put64(params, sizeof(params), 64, size);
        return rig_alloc(rig, DEVICE, handle, class_number, params);
}

static inline uint32_t rig_memory(const struct rig *rig, uint32_t handle, bytes size)
{
        return rig_memory_as(rig, handle, RM_CLASS_VIDEO_MEMORY, size, ATTR);
}

/* What memory info says is free. */
/* What UVM takes of a device for the first space that uses it (tests/gpu/ownmem.sh). */
#define RIG_REGISTERED (3264 * KIB)

static inline bytes rig_heap_free(const struct rig *rig)
{
        unsigned char params[1028] = { 0 };

        rm_put32(params, sizeof(params), 0, 1);
        rm_put32(params, sizeof(params), 4, RM_FB_HEAP_FREE);
        assert_int_equal(rig_control(rig, SUBDEVICE, RM_FB_GET_INFO_V2, params, sizeof(params)), RM_STATUS_OK);
        return (bytes)rm_get32(params, sizeof(params), 8) * KIB;
}

/* The server learns of a close a moment later. */
static inline void rig_expect_free(const struct rig *rig, bytes size)
{
        for (int i = 0; i < 1000 && rig_heap_free(rig) != size; i++)
                (void)usleep(1000);
        assert_int_equal(rig_heap_free(rig), size);
}

/* A channel group with one channel, scheduled. The channel's number. */
static inline uint32_t rig_channel_of(const struct rig *rig, uint32_t group, uint32_t channel, uint32_t engine)
{
        unsigned char params[368] = { 0 }, schedule[3] = { 1 };

        rm_put32(params, 20, 12, engine);
        assert_int_equal(rig_alloc(rig, DEVICE, group, RM_CLASS_GROUP, params), RM_STATUS_OK);
        memset(params, 0, sizeof(params));
        rm_put32(params, sizeof(params), 128, engine);
        assert_int_equal(rig_alloc(rig, group, channel, 0xc86f, params), RM_STATUS_OK);
        assert_int_equal(rig_control(rig, group, 0xa06c0101, schedule, sizeof(schedule)), RM_STATUS_OK);
        return rm_get32(params, sizeof(params), 132);
}

static inline uint32_t rig_channel(const struct rig *rig, uint32_t group, uint32_t channel)
{
        return rig_channel_of(rig, group, channel, 1);
}

/* Prepares a mapping on a descriptor of its own and makes it. */
static inline void *rig_map(const struct rig *rig, uint32_t memory, size_t length)
{
        unsigned char block[56] = { 0 };
        int fd = rig_open(rig, "nvidiactl");
        bool is_uvm = true;
        intptr_t at;

        rm_put32(block, sizeof(block), 0, rig->client);
        rm_put32(block, sizeof(block), 4, DEVICE);
        rm_put32(block, sizeof(block), 8, memory);
        rm_put64(block, sizeof(block), 24, length);
        rm_put32(block, sizeof(block), 48, (uint32_t)fd);
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_MAP_MEMORY, block, sizeof(block)), 0);
        assert_int_equal(rm_get32(block, sizeof(block), 40), RM_STATUS_OK);
        at = sim_mmap(fd, NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, 0, &is_uvm);
        close(fd);
        assert_true(at > 0 && !is_uvm);
        return (void *)at;
}

/* Runs a child that must end well. */
#define rig_in_child(...)                                                                                              \
        do {                                                                                                           \
                int status_ = -1;                                                                                      \
                pid_t child_ = fork();                                                                                 \
                                                                                                                       \
                if (child_ == 0) {                                                                                     \
                        __VA_ARGS__;                                                                                   \
                        _exit(0);                                                                                      \
                }                                                                                                      \
                assert_int_equal(waitpid(child_, &status_, 0), child_);                                                \
                assert_int_equal(status_, 0);                                                                          \
        } while (0)

static inline int rig_set_up(void **state)
{
        struct rig *rig = calloc(1, sizeof(*rig));

        if (!rig)
                return -1;
        rig_start(rig, 2, 1 * GIB);
        rig_begin(rig, 0);
        *state = rig;
        return 0;
}

static inline int rig_tear_down(void **state)
{
        rig_end(*state);
        rig_stop(*state);
        free(*state);
        return 0;
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)
