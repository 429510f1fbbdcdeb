/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver small enough to be right: clients, devices and video memory on a device of a chosen size, behind
 * struct gate_driver. It stands for the real one where only the books matter; everything else of the
 * driver is the simulator's (src/sim). Its nodes are memory files; a client lives as long as the process
 * that opened the file (F_SETOWN), and while a call is made through it: our duplicate holds the file.
 */
#pragma once

#include "rm/releases.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "gate/state/driver.h"
#include "rm/numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
        FAKE_OBJECTS = 65536,
        FAKE_DEVICES = 2,
};

struct fake_object {
        bool is_there;
        uint32_t client, handle, parent, class_number;
        bytes size;
};

struct fake {
        pthread_mutex_t mutex;
        struct fake_object objects[FAKE_OBJECTS];
        size_t n_objects; /* slots ever used */
        struct {
                uint32_t handle;
                pid_t owner;          /* 0: gone */
                unsigned int n_calls; /* inside the driver */
                nsec ended;           /* when that was seen; 0: it has not */
        } clients[4096];
        size_t n_clients;
        bytes capacity; /* how much there is */
        _Atomic bytes held, most_held;
        bytes granule;         /* memory comes in multiples of this */
        atomic_uint timeslice; /* of all groups, in us */
        atomic_uint n_calls, n_timeslices, n_schedules, n_shares;
        atomic_uint n_debugs; /* reads and writes of a debugger, and their bytes */
        _Atomic uint32_t debugged;
        _Atomic uint32_t share;                              /* type and action of the last policy that came here */
        atomic_int linger_ms;                                /* between a process's end and its clients' */
        atomic_int delay_ms;                                 /* of an allocation of memory */
        atomic_uint n_inside;                                /* allocations that wait */
        int (*uvm)(int fd, uint32_t number, uint8_t *block); /* NULL: there is none */
        atomic_int free_refused_at, alloc_refused_at;        /* the n-th of memory from now on; 0: none */
};

static inline int fake_node_open(const char *name)
{
        int fd = memfd_create(name, MFD_CLOEXEC);

        if (fd >= 0)
                (void)fcntl(fd, F_SETOWN, getpid());
        return fd;
}

static inline enum rm_node fake_node(void *context, int fd, uint32_t *ret_minor)
{
        char path[64], name[128];
        ssize_t n;

        (void)context;
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, name, sizeof(name) - 1);
        name[n < 0 ? 0 : n] = '\0';
        *ret_minor = 0;
        if (!strncmp(name, "/memfd:nvidiactl", 16))
                return RM_NODE_CTL;
        if (!strncmp(name, "/memfd:nvidia-modeset", 21))
                return RM_NODE_FORBIDDEN;
        if (sscanf(name, "/memfd:nvidia%u", ret_minor) == 1)
                return RM_NODE_DEVICE;
        return RM_NODE_OTHER;
}

/* A zombie has closed its files. */
static inline bool fake_is_running(pid_t process)
{
        char path[64], text[256] = { 0 };
        int fd;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", process);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return false;
        (void)!read(fd, text, sizeof(text) - 1);
        (void)close(fd);
        return strrchr(text, ')') && strrchr(text, ')')[2] != 'Z' && strrchr(text, ')')[2] != 'X';
}

static inline void fake_drop(struct fake *fake, uint32_t client, uint32_t handle)
{
        for (size_t i = 0; i < fake->n_objects; i++) {
                struct fake_object *o = &fake->objects[i];

                if (!o->is_there || o->client != client || (handle != client && o->handle != handle))
                        continue;
                o->is_there = false;
                fake->held -= o->size;
                if (handle == client)
                        continue;
                for (size_t k = 0; k < fake->n_objects; k++)
                        if (fake->objects[k].is_there && fake->objects[k].client == client &&
                            fake->objects[k].parent == handle)
                                fake_drop(fake, client, fake->objects[k].handle);
        }
}

/* What the kernel's last close does. */
static inline bool fake_has_client(struct fake *fake, uint32_t handle)
{
        for (size_t i = 0; i < fake->n_clients; i++) {
                if (fake->clients[i].handle != handle || !fake->clients[i].owner)
                        continue;
                if (fake->clients[i].n_calls || fake_is_running(fake->clients[i].owner))
                        return true;
                if (!fake->clients[i].ended)
                        fake->clients[i].ended = clock_now();
                if (clock_now() - fake->clients[i].ended < fake->linger_ms * NSEC_PER_MSEC)
                        return true;
                fake->clients[i].owner = 0;
                fake_drop(fake, handle, handle);
        }
        return false;
}

static inline uint32_t fake_put(struct fake *fake, const struct fake_object *object)
{
        for (size_t i = 0; i < FAKE_OBJECTS; i++) {
                if (fake->objects[i].is_there)
                        continue;
                fake->objects[i] = *object;
                fake->objects[i].is_there = true;
                if (!object->handle)
                        fake->objects[i].handle = 0xcaf00000u + (uint32_t)i;
                if (i == fake->n_objects)
                        fake->n_objects++;
                fake->held += object->size;
                if (fake->held > fake->most_held)
                        fake->most_held = fake->held;
                return fake->objects[i].handle;
        }
        return 0;
}

static inline bool fake_has(const struct fake *fake, uint32_t client, uint32_t handle)
{
        for (size_t i = 0; i < fake->n_objects; i++)
                if (fake->objects[i].is_there && fake->objects[i].client == client && fake->objects[i].handle == handle)
                        return true;
        return false;
}

static inline void fake_wait(int ms)
{
        struct timespec moment = { ms / 1000, (long)(ms % 1000) * 1000 * 1000 };

        (void)nanosleep(&moment, NULL);
}

static inline uint32_t fake_alloc(struct fake *fake, int fd, uint8_t *block)
{
        struct fake_object object = { .client = rm_get32(block, 48, 0),
                                      .parent = rm_get32(block, 48, 4),
                                      .handle = rm_get32(block, 48, 8),
                                      .class_number = rm_get32(block, 48, 12) };
        uint8_t *params = (uint8_t *)(uintptr_t)rm_get64(block, 48, 16);
        uint32_t client;

        if (object.class_number == RM_CLASS_CLIENT || object.class_number == RM_CLASS_ROOT) {
                client = 0xc1d00001u + (uint32_t)fake->n_clients;
                fake->clients[fake->n_clients].handle = client;
                fake->clients[fake->n_clients++].owner = fcntl(fd, F_GETOWN);
                rm_put32(block, 48, 8, client);
                return RM_STATUS_OK;
        }
        if (!fake_has_client(fake, object.client))
                return 0x33;
        if (object.parent != object.client && !fake_has(fake, object.client, object.parent))
                return RM_STATUS_OBJECT_NOT_FOUND;
        if (object.handle && fake_has(fake, object.client, object.handle))
                return 0x19;
        if (object.class_number == RM_CLASS_VIDEO_MEMORY) {
                object.size = (rm_get64(params, 128, 64) + fake->granule - 1) / fake->granule * fake->granule;
                if (!object.size || object.size > fake->capacity - fake->held)
                        return object.size ? RM_STATUS_NO_MEMORY : RM_STATUS_INVALID_ARGUMENT;
                rm_put64(params, 128, 64, object.size);
                rm_put64(params, 128, 88, object.size - 1);
        }
        rm_put32(block, 48, 8, fake_put(fake, &object));
        return RM_STATUS_OK;
}

static inline bool fake_is_file_of(const struct fake *fake, int fd, uint32_t client)
{
        for (size_t i = 0; i < fake->n_clients; i++)
                if (fake->clients[i].handle == client)
                        return fake->clients[i].owner == fcntl(fd, F_GETOWN);
        return false;
}

static inline uint32_t fake_control(struct fake *fake, int fd, uint8_t *block)
{
        uint8_t *params = (uint8_t *)(uintptr_t)rm_get64(block, 32, 16);
        uint32_t size = rm_get32(block, 32, 24);

        if (!fake_has_client(fake, rm_get32(block, 32, 0)))
                return RM_STATUS_INVALID_CLIENT;
        switch (rm_get32(block, 32, 8)) {
        case RM_GET_ID_INFO_V2:
                rm_put32(params, size, 8, rm_get32(params, size, 0) >> 8); /* the instance */
                return RM_STATUS_OK;
        case RM_GET_ATTACHED_IDS:
                return fake_is_file_of(fake, fd, rm_get32(block, 32, 0)) ? RM_STATUS_OK : RM_STATUS_INVALID_CLIENT;
        case RM_FB_GET_INFO_V2:
                for (uint32_t i = 0; i < rm_get32(params, size, 0); i++)
                        rm_put32(params, size, 8 + i * 8,
                                 (uint32_t)((rm_get32(params, size, 4 + i * 8) == RM_FB_HEAP_FREE ?
                                                     fake->capacity - fake->held :
                                                     fake->capacity) /
                                            KIB));
                return RM_STATUS_OK;
        case RM_GET_PID_INFO:
                rm_put64(params, size, 24, fake->held);
                return RM_STATUS_OK;
        case 0xa06c0101: /* GPFIFO_SCHEDULE of a group, and of a channel */
        case 0xa06f0103:
                fake->n_schedules++;
                return RM_STATUS_OK;
        case RM_DEBUG_READ: /* each byte is the lowest of its offset in pieces of 64 KiB */
                fake->n_debugs++;
                fake->debugged += rm_get32(params, size, 4);
                for (uint32_t i = 0; i < rm_get32(params, size, 4); i++)
                        ((uint8_t *)(uintptr_t)rm_get64(params, size, 16))[i] =
                                (uint8_t)((rm_get64(params, size, 8) + i) >> 16);
                return RM_STATUS_OK;
        case RM_INHERITED_SHARE:
                fake->n_shares++;
                fake->share = rm_get32(params, size, 8);
                return RM_STATUS_OK;
        case RM_SET_TIMESLICE:
                fake->n_timeslices++;
                fake->timeslice = rm_get32(params, size, 0);
                return RM_STATUS_OK;
        case RM_GET_TIMESLICE: /* what anybody has set last */
                rm_put64(params, size, 0, fake->timeslice);
                return RM_STATUS_OK;
        default:
                return RM_STATUS_NOT_SUPPORTED;
        }
}

static inline void fake_device_infos(uint8_t *infos)
{
        for (uint32_t i = 0; i < FAKE_DEVICES; i++) {
                uint8_t *capacity = infos + 72 * i;

                capacity[0] = 1;
                rm_put32(capacity, 72, 8, 0x10 - i); /* by PCI order the second one is first */
                rm_put32(capacity, 72, 16, (i + 1) << 8);
                rm_put32(capacity, 72, 56, i);
        }
}

static inline void fake_count(struct fake *fake, uint32_t client, int more)
{
        (void)pthread_mutex_lock(&fake->mutex);
        for (size_t i = 0; i < fake->n_clients; i++)
                if (fake->clients[i].handle == client)
                        fake->clients[i].n_calls += (unsigned int)more;
        (void)pthread_mutex_unlock(&fake->mutex);
}

/* Counts down; true: it is this one. */
static inline bool fake_is_now(atomic_int *count)
{
        return *count > 0 && atomic_fetch_sub(count, 1) == 1;
}

static inline int fake_ioctl(void *context, int fd, uint32_t request, void *block)
{
        struct fake *fake = context;
        uint32_t nr = request & 0xff, client = rm_get32(block, 4, 0);
        bool is_uvm = request >> 8 == 0;
        bool is_memory = nr == RM_NR_ALLOC && rm_get32(block, 48, 12) == RM_CLASS_VIDEO_MEMORY;

        if (is_uvm && fake->uvm)
                return fake->uvm(fd, request, block);
        if (is_memory && fake->delay_ms) {
                fake_count(fake, client, 1);
                fake->n_inside++;
                fake_wait(fake->delay_ms);
                fake_count(fake, client, -1);
        }
        (void)pthread_mutex_lock(&fake->mutex);
        fake->n_calls++;
        switch (nr) {
        case RM_NR_CARD_INFO:
                fake_device_infos(block);
                break;
        case RM_NR_ALLOC:
                rm_put32(block, 48, 40,
                         is_memory && fake_is_now(&fake->alloc_refused_at) ? RM_STATUS_NO_MEMORY :
                                                                             fake_alloc(fake, fd, block));
                break;
        case RM_NR_FREE:
                if (fake_is_now(&fake->free_refused_at)) {
                        rm_put32(block, 16, 12, RM_STATUS_INSUFFICIENT_RESOURCES);
                        break;
                }
                fake_drop(fake, client, rm_get32(block, 16, 8));
                rm_put32(block, 16, 12, RM_STATUS_OK);
                break;
        case RM_NR_DUP: /* the question whether a client is there */
                rm_put32(block, 28, 24,
                         fake_has_client(fake, rm_get32(block, 28, 12)) ? RM_STATUS_OBJECT_NOT_FOUND : 0x33);
                break;
        case RM_NR_CONTROL:
                rm_put32(block, 32, 28, fake_control(fake, fd, block));
                break;
        }
        (void)pthread_mutex_unlock(&fake->mutex);
        return 0;
}

static inline int fake_open(void *context, const char *node)
{
        int fd = fake_node_open(node);

        (void)context;
        return fd < 0 ? -errno : fd;
}

static inline struct fake *fake_new(bytes capacity)
{
        struct fake *fake = calloc(1, sizeof(*fake));

        assert_non_null(fake);
        (void)pthread_mutex_init(&fake->mutex, NULL);
        fake->capacity = capacity;
        fake->granule = 64 * KIB;
        return fake;
}

static inline struct gate_driver fake_driver(struct fake *fake)
{
        return (struct gate_driver){ fake, fake_node, fake_ioctl, fake_open, NULL };
}
