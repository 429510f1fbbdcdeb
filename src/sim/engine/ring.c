/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings: a channel's positions are in the program's own memory (USERD, Nvc36fControl): put, the entries that it has
 * written, and get, those that the device has fetched. Measured, H200, 580.159.04 (docs/time.md): put moves with each
 * launch, also while the channel is disabled; get follows as work starts.
 */
#include "sim/server/machine.h"

#include <unistd.h>

enum {
        USERD_SIZE = 512,
        USERD_GET = 0x88,
        USERD_PUT = 0x8c,
};

static void position_write(const struct channel *channel, size_t at, uint32_t value)
{
        int fd = channel->userd ? mem_fd(channel->userd) : -1;

        if (fd >= 0)
                (void)!pwrite(fd, &value, sizeof(value), (off_t)(channel->userd_at + at));
}

/* gpFifoOffset@8 gpFifoEntries@16 hVASpace@28 hUserdMemory[0]@32 userdOffset[0]@64, if the engine is at 128 */
void ring_find(struct channel *channel, const struct request *request, const struct part *params)
{
        size_t moved = request->file->machine->layout.channel_engine_at - 128;
        struct object *object = handles_get(request->client, rm_get32(params->data, params->size, 32 + moved));
        uint64_t at = rm_get64(params->data, params->size, 64 + moved);

        channel->n_entries = rm_get32(params->data, params->size, 16);
        if (!channel->n_entries || !object || !object->memory || object->memory->size < USERD_SIZE ||
            at > object->memory->size - USERD_SIZE)
                return;
        channel->userd = mem_ref(object->memory);
        channel->userd_at = at;
        channel->ring = rm_get64(params->data, params->size, 8);
        channel->client = request->client->top.handle;
        channel->space = channel->group->space;
        if (!channel->space)
                channel->space = rm_get32(params->data, params->size, 28);
        position_write(channel, USERD_GET, 0);
        position_write(channel, USERD_PUT, 0);
}

void ring_put(struct channel *channel)
{
        if (!channel->userd)
                return;
        channel->put = (channel->put + 1) % channel->n_entries;
        position_write(channel, USERD_PUT, channel->put);
}

void ring_taken(struct channel *channel)
{
        if (!channel->userd)
                return;
        channel->get = (channel->get + 1) % channel->n_entries;
        position_write(channel, USERD_GET, channel->get);
}
