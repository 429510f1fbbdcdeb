/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel on a copy engine: its group, the object of host memory with ring, words and count, the error notifier, the
 * memory of its positions and the doorbell. Layouts: docs/rm-abi.md, of release 580.95.05; classes of Hopper.
 */
#include "gpu/copy_inside.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
        CLASS_CHANNEL = 0xc86f,
        CLASS_DOORBELL = 0xc661,

        GROUP_SIZE = 20,
        CHANNEL_SIZE = 368,
        MEMORY_SIZE = 128,
        COPY_SIZE = 8,
        SCHEDULE_SIZE = 3,

        DOORBELL_BYTES = 0x10000,
        USERD_BYTES = 4096,
        USERD_MEMORY = 2 * MIB,
        TYPE_NOTIFIER = 13,
};

#define GET_TOKEN 0xc36f0108u
#define SCHEDULE 0xa06c0101u

/* By what they moved, best first; 13 alone is as fast as two of the others (docs/gpu.md §10). */
static const uint32_t engines[] = { 13, 11, 12, 9, 10 };

static int control(struct gpu_copy *copy, uint32_t object, uint32_t cmd, void *params, uint32_t size)
{
        return client_error(client_control(&copy->client, object, cmd, params, size));
}

/* The processor's view of an object of ours: through the device's node for what lies there, else through nvidiactl. */
static int view(struct gpu_copy *copy, uint32_t object, size_t size, bool is_host, int protection, void **ret)
{
        const struct gpu_backend *backend = copy->client.backend;
        struct rm_map map = { .client = copy->client.client,
                              .device = is_host ? copy->client.device : copy->client.subdevice,
                              .object = object,
                              .flags = protection == PROT_WRITE ? 2 : 0, /* who may: both, or to write only */
                              .size = size };
        uint8_t block[RM_BLOCK_MAX];
        char node[32] = "nvidiactl";
        int r;

        if (!is_host)
                (void)snprintf(node, sizeof(node), "nvidia%u", copy->client.info.minor);
        _cleanup_(closep) int fd = backend->open(backend->context, node);
        if (fd < 0)
                return fd;
        map.fd = fd;
        r = copy_call(copy, copy->client.ctl, RM_NR_MAP_MEMORY, block, rm_encode_map(&map, block), RM_MAP_STATUS_AT);
        return r < 0 ? r : backend->map_as(backend->context, fd, size, protection, ret);
}

static int host_memory(struct gpu_copy *copy, bytes size, uint32_t type, uint32_t *ret)
{
        uint8_t params[MEMORY_SIZE] = { 0 };

        rm_put32(params, sizeof(params), 0, copy->client.client);
        rm_put32(params, sizeof(params), 4, type);
        rm_put32(params, sizeof(params), 8, 0xc001);
        rm_put32(params, sizeof(params), 24, 0x3a000000);
        rm_put64(params, sizeof(params), 64, size);
        return client_alloc(&copy->client, copy->client.device, RM_CLASS_HOST_MEMORY, params, MEMORY_SIZE, ret);
}

static int video_memory(struct gpu_copy *copy, bytes size, uint32_t *ret)
{
        uint8_t params[MEMORY_SIZE] = { 0 };

        rm_put32(params, sizeof(params), 0, copy->client.client);
        rm_put32(params, sizeof(params), 8, 0x1c101);
        rm_put32(params, sizeof(params), 24, 0x11800000);
        rm_put32(params, sizeof(params), 28, 0x100005);
        rm_put32(params, sizeof(params), 32, 6);
        rm_put64(params, sizeof(params), 64, size);
        rm_put64(params, sizeof(params), 72, 2 * MIB);
        rm_put64(params, sizeof(params), 88, size - 1);
        return client_alloc(&copy->client, copy->client.device, RM_CLASS_VIDEO_MEMORY, params, MEMORY_SIZE, ret);
}

/* Ring, words and count, the error notifier, positions and the doorbell. */
static int channel_memory(struct gpu_copy *copy, struct copy_channel *channel)
{
        uint8_t params[2] = { 1 }; /* through BAR1, as libcuda's */
        void *at = NULL;
        int r;

        if ((r = host_memory(copy, COPY_OBJECT_BYTES, 0, &channel->memory)) < 0 ||
            (r = host_memory(copy, USERD_BYTES, TYPE_NOTIFIER, &channel->error)) < 0 ||
            (r = video_memory(copy, USERD_MEMORY, &channel->positions)) < 0 ||
            (r = client_alloc(&copy->client, copy->client.subdevice, CLASS_DOORBELL, params, 2, &channel->bell)) < 0 ||
            (r = view(copy, channel->memory, COPY_OBJECT_BYTES, true, PROT_READ | PROT_WRITE, &at)) < 0)
                return r;
        channel->host = at;
        if ((r = view(copy, channel->positions, USERD_BYTES, false, PROT_READ | PROT_WRITE, &at)) < 0)
                return r;
        channel->userd = at;
        if ((r = view(copy, channel->bell, DOORBELL_BYTES, false, PROT_WRITE, &at)) < 0)
                return r;
        channel->doorbell = at;
        memset(channel->host, 0, COPY_OBJECT_BYTES);
        for (size_t i = 0; i < USERD_BYTES / 8; i++) /* 512 bytes are the channel's */
                channel->userd[i] = 0;
        return copy_map(copy, channel->memory, COPY_OBJECT_BYTES, true, &channel->at);
}

static int channel_make(struct gpu_copy *copy, struct copy_channel *channel, uint32_t engine)
{
        uint8_t params[CHANNEL_SIZE] = { 0 };
        uint32_t object;
        int r;

        rm_put32(params, sizeof(params), 8, copy->space);
        rm_put32(params, sizeof(params), 12, engine);
        r = client_alloc(&copy->client, copy->client.device, RM_CLASS_GROUP, params, GROUP_SIZE, &channel->group);
        if (r < 0)
                return r;
        memset(params, 0, sizeof(params));
        rm_put32(params, sizeof(params), 0, channel->error);
        rm_put64(params, sizeof(params), 8, channel->at);
        rm_put32(params, sizeof(params), 16, COPY_ENTRIES);
        rm_put32(params, sizeof(params), 32, channel->positions);
        r = client_alloc(&copy->client, channel->group, CLASS_CHANNEL, params, CHANNEL_SIZE, &channel->handle);
        if (r < 0)
                return r;
        memset(params, 0, sizeof(params));
        rm_put32(params, sizeof(params), 0, 1); /* version: what follows is the engine */
        rm_put32(params, sizeof(params), 4, engine);
        r = client_alloc(&copy->client, channel->handle, COPY_CLASS, params, COPY_SIZE, &object);
        if (r < 0)
                return r;
        memset(params, 0, sizeof(params));
        r = control(copy, channel->handle, GET_TOKEN, params, 4);
        if (r < 0)
                return r;
        channel->token = rm_get32(params, sizeof(params), 0);
        memset(params, 0, sizeof(params));
        params[0] = 1;
        return control(copy, channel->group, SCHEDULE, params, SCHEDULE_SIZE);
}

void copy_channel_end(struct gpu_copy *copy)
{
        struct copy_channel *channel = &copy->channel;

        (void)copy_free(copy, channel->group);
        if (channel->host)
                (void)munmap(channel->host, COPY_OBJECT_BYTES);
        if (channel->userd)
                (void)munmap((void *)(uintptr_t)channel->userd, USERD_BYTES);
        if (channel->doorbell)
                (void)munmap((void *)(uintptr_t)channel->doorbell, DOORBELL_BYTES);
        if (channel->at)
                copy_unmap(copy, channel->memory, channel->at, COPY_OBJECT_BYTES);
        (void)copy_free(copy, channel->bell);
        (void)copy_free(copy, channel->positions);
        (void)copy_free(copy, channel->error);
        (void)copy_free(copy, channel->memory);
        *channel = (struct copy_channel){ 0 };
}

int copy_channel_begin(struct gpu_copy *copy)
{
        int r = -ENOTSUP;

        if (copy->channel.handle)
                return 0;
        for (size_t i = 0; i < ARRAY_SIZE(engines) && r < 0 && r != -ENODEV; i++) {
                copy_channel_end(copy);
                r = channel_memory(copy, &copy->channel);
                if (r < 0)
                        break;
                r = channel_make(copy, &copy->channel, engines[i]);
        }
        return r;
}
