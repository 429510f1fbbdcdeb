/* SPDX-License-Identifier: Apache-2.0 */
/*
 * O1  The figure stands still while nothing is done: before, between the kinds, and after.
 * O2  No step makes it grow.
 * O3  Of each kind, after the first, which may pay for what all share, both rounds took the same at most.
 *
 * What does not hold is somebody else's work. The most that any one object took counts, the first included.
 */
#include "gpu/own.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "gpu/client.h"
#include "rm/numbers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
        ROUND = 8,
        OBJECTS = 2 * ROUND + 1,
        STILL_READS = 6,
        STILL_MS = 30,

        CLASS_SPACE = 0x90f1,
        ENGINE_GRAPHICS = 1,
        GET_CLASSES = 0x800292, /* n@0, classes[200]@4 */
        CLASSES_SIZE = 804,
        GET_NAME = 0x20800110, /* flags@0, name[64]@4 */
        NAME_SIZE = 132,
        GET_ARCHITECTURE = 0x20801701,
        PARAMS = 384,  /* room for those of a channel */
        RING = 0x3000, /* of a channel, in the memory below: entries, then where it stands */
        RING_USERD = 0x2000,
        RING_ENTRIES = 0x400,
};

#define MEMORY_SIZE (2 * MIB)
#define RING_ADDRESS 0x200600000ull /* the driver does not look at it until a channel runs */

struct measure {
        struct gpu_client client;
        const struct rm_device *info;
        struct gpu_client others[OBJECTS]; /* clients to be counted */
        size_t n_others;
        uint32_t space, group, share, memory, notifier, channel_class;
        unsigned int n_channels;
        struct gpu_own found;
        struct err *err;
};

static int busy(struct measure *m, const char *why)
{
        return err_say(m->err, -EBUSY, "the device is not idle: %s", why);
}

static int figure(struct measure *m, bytes *ret)
{
        struct gpu_client *client = &m->client;
        uint32_t size = client->backend->layout.fb_info_size;
        uint8_t params[2048] = { 0 };
        int64_t status;

        rm_put32(params, size, 0, 1);
        rm_put32(params, size, 4, RM_FB_HEAP_FREE);
        status = client_control(client, client->subdevice, RM_FB_GET_INFO_V2, params, size);
        if (status != RM_STATUS_OK)
                return err_set(m->err, client_error(status), "asking the driver for its free memory");
        *ret = (bytes)rm_get32(params, size, 8) * KIB;
        return 0;
}

/* O1 */
static int stands_still(struct measure *m)
{
        const struct timespec moment = { 0, STILL_MS * NSEC_PER_MSEC };
        bytes first, now;
        int r = figure(m, &first);

        for (int i = 0; r == 0 && i < STILL_READS; i++) {
                (void)nanosleep(&moment, NULL);
                r = figure(m, &now);
                if (r == 0 && now != first)
                        return busy(m, "its free memory changes by itself");
        }
        return r;
}

/* As libcuda does: parameters without a size. */
static int make(struct measure *m, uint32_t parent, uint32_t class_number, void *params, uint32_t *ret)
{
        return client_alloc(&m->client, parent, class_number, params, 0, ret);
}

static int make_space(struct measure *m)
{
        uint8_t params[PARAMS] = { 0 };

        return make(m, m->client.device, CLASS_SPACE, params, &m->space);
}

static int make_group(struct measure *m)
{
        uint8_t params[PARAMS] = { 0 };

        rm_put32(params, sizeof(params), 12, ENGINE_GRAPHICS);
        return make(m, m->client.device, RM_CLASS_GROUP, params, &m->group);
}

static int make_client(struct measure *m)
{
        struct gpu_client *other = &m->others[m->n_others];
        int r = client_open(other, m->client.backend);

        if (r < 0)
                return r;
        m->n_others++;
        return client_attach(other, m->info);
}

static int make_channel(struct measure *m)
{
        uint8_t params[PARAMS] = { 0 };
        uint32_t at = m->n_channels++ * RING, channel;

        rm_put32(params, sizeof(params), 0, m->notifier);
        rm_put32(params, sizeof(params), 4, m->memory);
        rm_put64(params, sizeof(params), 8, RING_ADDRESS + at);
        rm_put32(params, sizeof(params), 16, RING_ENTRIES);
        rm_put32(params, sizeof(params), 24, m->share);
        rm_put32(params, sizeof(params), 32, m->memory);
        rm_put64(params, sizeof(params), 64, at + RING_USERD);
        return make(m, m->group, m->channel_class, params, &channel);
}

/* The memory of rings and positions, and that of error reports. */
static int make_memories(struct measure *m)
{
        uint8_t video[128] = { 0 }, host[128] = { 0 };
        int r;

        rm_put32(video, sizeof(video), 0, m->client.client);
        rm_put32(video, sizeof(video), 8, 0x1c101);
        rm_put32(video, sizeof(video), 24, 0x18000000);
        rm_put64(video, sizeof(video), 64, MEMORY_SIZE);
        rm_put64(video, sizeof(video), 72, MEMORY_SIZE);
        r = make(m, m->client.device, RM_CLASS_VIDEO_MEMORY, video, &m->memory);
        if (r < 0)
                return r;
        rm_put32(host, sizeof(host), 0, m->client.client);
        rm_put32(host, sizeof(host), 4, 0xd); /* a notifier */
        rm_put32(host, sizeof(host), 8, 0x1c001);
        rm_put32(host, sizeof(host), 24, 0x3a000000);
        rm_put64(host, sizeof(host), 64, 4096);
        return make(m, m->client.device, RM_CLASS_HOST_MEMORY, host, &m->notifier);
}

/* The newest class of channels that the device has. */
static int find_channel_class(struct measure *m)
{
        uint8_t params[CLASSES_SIZE] = { 0 };
        int64_t status = client_control(&m->client, m->client.device, GET_CLASSES, params, sizeof(params));

        for (uint32_t i = 0; status == RM_STATUS_OK && i < rm_get32(params, 4, 0) && i < 200; i++) {
                uint32_t class_number = rm_get32(params, sizeof(params), 4 + 4 * i);

                if (RM_CLASS_IS_CHANNEL(class_number) && class_number > m->channel_class)
                        m->channel_class = class_number;
        }
        return m->channel_class ? 0 : -ENOTSUP;
}

/* What a channel stands in: as libcuda has it, a part of a group, in a space. */
static int prepare_channels(struct measure *m)
{
        uint8_t params[PARAMS] = { 0 };
        int r;

        if ((r = find_channel_class(m)) < 0 || (r = make_memories(m)) < 0)
                return r;
        rm_put32(params, sizeof(params), 0, m->space);
        rm_put32(params, sizeof(params), 4, 1);
        return make(m, m->group, RM_CLASS_CONTEXT_SHARE, params, &m->share);
}

/* One object: what it took. A refusal is the kind's, a figure that grows somebody else's (O2). */
static int step(struct measure *m, int (*one)(struct measure *), bytes *ret)
{
        bytes before, after;
        int r;

        if ((r = figure(m, &before)) < 0)
                return r;
        r = one(m);
        if (r < 0)
                return r == -ENODEV ? err_set(m->err, r, "the device is lost") : -ENOTSUP;
        if ((r = figure(m, &after)) < 0)
                return r;
        if (after > before)
                return busy(m, "memory came back that is not ours");
        *ret = before - after;
        return 0;
}

static int measure_kind(struct measure *m, enum gpu_own_kind kind, int (*one)(struct measure *))
{
        bytes most[2] = { 0 }, first = 0, size = 0;
        int r = stands_still(m);

        for (int i = 0; r == 0 && i < OBJECTS; i++) {
                r = step(m, one, &size);
                if (r < 0)
                        break;
                if (!i)
                        first = size;
                else if (size > most[(i - 1) / ROUND])
                        most[(i - 1) / ROUND] = size;
        }
        if (r == -ENOTSUP)
                return 0; /* is_known stays false */
        if (r < 0)
                return r;
        if (most[0] != most[1])
                return busy(m, "the same objects took more one time than the other"); /* O3 */
        m->found.of[kind].is_known = true;
        m->found.of[kind].size = first > most[0] ? first : most[0];
        return 0;
}

static void identify(struct measure *m)
{
        struct gpu_client *client = &m->client;
        uint8_t name[NAME_SIZE] = { 0 }, params[16] = { 0 };

        if (client_control(client, client->subdevice, GET_NAME, name, sizeof(name)) == RM_STATUS_OK)
                (void)snprintf(m->found.name, sizeof(m->found.name), "%.63s", (const char *)name + 4);
        if (client_control(client, client->subdevice, GET_ARCHITECTURE, params, sizeof(params)) == RM_STATUS_OK)
                m->found.architecture = rm_get32(params, sizeof(params), 0);
}

static int measure_all(struct measure *m)
{
        int r;

        identify(m);
        if (!m->found.name[0] || !m->found.architecture)
                return err_say(m->err, -ENOTSUP, "the driver does not say what the device is");
        if ((r = measure_kind(m, GPU_OWN_CLIENT, make_client)) < 0 ||
            (r = measure_kind(m, GPU_OWN_SPACE, make_space)) < 0 ||
            (r = measure_kind(m, GPU_OWN_GROUP, make_group)) < 0)
                return r;
        if (m->group && m->space && prepare_channels(m) == 0 &&
            (r = measure_kind(m, GPU_OWN_CHANNEL, make_channel)) < 0)
                return r;
        return stands_still(m);
}

static int attach(struct measure *m, const struct gpu_backend *backend, unsigned int device,
                  struct rm_device devices[static RM_DEVICES_MAX])
{
        size_t n = 0;
        int r = client_open(&m->client, backend);

        if (r == 0)
                r = client_devices(&m->client, devices, &n);
        if (r == 0 && device >= n)
                r = -ENODEV;
        if (r == 0) {
                m->info = &devices[device];
                r = client_attach(&m->client, m->info);
        }
        return r < 0 ? err_set(m->err, r, "opening device %u", device) : 0;
}

int gpu_own_measure(const struct gpu_backend *backend, unsigned int device, struct gpu_own *ret, struct err *err)
{
        struct rm_device devices[RM_DEVICES_MAX];
        struct measure m = { .client = { .ctl = -1, .node = -1 }, .err = err };
        int r = attach(&m, backend, device, devices);

        if (r == 0)
                r = measure_all(&m);
        for (size_t i = 0; i < m.n_others; i++)
                client_done(&m.others[i]);
        client_done(&m.client);
        if (r == 0)
                *ret = m.found;
        return r;
}
