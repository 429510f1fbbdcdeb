/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/state/channels.h"

#include "rm/numbers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* NV2080_ENGINE_TYPE_GR0 to GR7. Source: cl2080_notification.h, 525.147.05 to 595.45.04. */
bool channels_is_compute(uint32_t engine)
{
        return engine >= 1 && engine <= 8;
}

void channels_init(struct channels *channels, size_t n_max, size_t n_groups_max)
{
        *channels = (struct channels){ .n_max = n_max, .n_groups_max = n_groups_max };
        lock_init(&channels->lock, LOCK_CHANNELS);
}

void channels_done(struct channels *channels)
{
        free(channels->items);
        free(channels->groups);
        lock_done(&channels->lock);
}

int array_grow(void **items, size_t *n_room, size_t n, size_t size)
{
        size_t more = *n_room ? *n_room * 2 : 32;
        void *moved;

        if (n <= *n_room)
                return 0;
        moved = realloc(*items, more * size);
        if (!moved)
                return -ENOMEM;
        *items = moved;
        *n_room = more;
        return 0;
}

static size_t *reserved(struct channels *channels, bool is_group)
{
        return is_group ? &channels->n_groups_reserved : &channels->n_reserved;
}

static size_t count_of(struct channels *channels, bool is_group, int device)
{
        size_t n = *reserved(channels, is_group);

        for (size_t i = 0; i < channels->n_groups && is_group; i++)
                n += channels->groups[i].device == device;
        for (size_t i = 0; i < channels->n && !is_group; i++)
                n += channels->items[i].is.device == (unsigned int)device;
        return n;
}

int channels_reserve(struct channels *channels, bool is_group)
{
        return channels_reserve_of(channels, is_group, -1, SIZE_MAX);
}

int channels_reserve_of(struct channels *channels, bool is_group, int device, size_t most)
{
        LOCKED(&channels->lock);
        size_t n = is_group ? channels->n_groups + channels->n_groups_reserved : channels->n + channels->n_reserved;
        int r;

        if (n >= (is_group ? channels->n_groups_max : channels->n_max))
                return -ENOSPC;
        if (most < SIZE_MAX && count_of(channels, is_group, device) >= most)
                return -EDQUOT;
        r = is_group ? array_grow((void **)&channels->groups, &channels->n_groups_room, n + 1, sizeof(struct group)) :
                       array_grow((void **)&channels->items, &channels->n_room, n + 1, sizeof(struct channel));
        if (r == 0)
                ++*reserved(channels, is_group);
        return r;
}

void channels_unreserve(struct channels *channels, bool is_group)
{
        LOCKED(&channels->lock);

        --*reserved(channels, is_group);
}

struct channel *channels_find(struct channels *channels, uint32_t client, uint32_t handle)
{
        for (size_t i = 0; i < channels->n; i++)
                if (channels->items[i].is.client == client && channels->items[i].is.handle == handle)
                        return &channels->items[i];
        return NULL;
}

void channels_put(struct channels *channels, struct channel *channel)
{
        struct channel *there = channels_find(channels, channel->is.client, channel->is.handle);

        channel->is.order = channels->n_ever++;
        *(there ? there : &channels->items[channels->n++]) = *channel;
        channels->n_reserved--;
        channels->changes++;
}

struct group *channels_group(struct channels *channels, uint32_t client, uint32_t handle)
{
        for (size_t i = 0; i < channels->n_groups; i++)
                if (channels->groups[i].client == client && channels->groups[i].handle == handle)
                        return &channels->groups[i];
        return NULL;
}

void channels_put_group(struct channels *channels, const struct group *group)
{
        struct group *there = channels_group(channels, group->client, group->handle);

        channels->n_groups_reserved--;
        *(there ? there : &channels->groups[channels->n_groups++]) = *group;
}

/* The first object counts: the driver refuses one that the channel's run list cannot serve. */
static bool note_engine(struct channels *channels, struct channel *channel, enum rm_engine engine)
{
        if (engine == RM_ENGINE_NONE || channel->is.is_compute || channel->is.engine != RM_ENGINE_NONE)
                return false;
        channel->is.engine = engine;
        channels->changes++;
        return true;
}

bool channels_note_object(struct channels *channels, struct channel *channel, uint32_t class_number)
{
        struct group *group = channels_group(channels, channel->is.client, channel->is.group);

        if (RM_CLASS_IS_FIXED_ENGINE(class_number))
                return note_engine(channels, channel, rm_engine_of_class(class_number));
        if (!group || group->is_compute)
                return false;
        group->is_compute = true;
        for (size_t i = 0; i < channels->n; i++)
                if (channels->items[i].is.client == group->client && channels->items[i].is.group == group->handle) {
                        channels->items[i].is.is_compute = true;
                        channels->items[i].is.engine = RM_ENGINE_NONE;
                }
        channels->changes++;
        return true;
}

ssize_t channels_copy(struct channels *channels, int device, uint32_t client, uint32_t group, struct channel **ret)
{
        LOCKED(&channels->lock);
        struct channel *copy = calloc(channels->n + 1, sizeof(*copy));
        ssize_t n = 0;

        if (!copy)
                return -ENOMEM;
        for (size_t i = 0; i < channels->n; i++) {
                const struct gate_channel *is = &channels->items[i].is;

                if (is->device == (unsigned int)device && (!group || (is->group == group && is->client == client)))
                        copy[n++] = channels->items[i];
        }
        *ret = copy;
        return n;
}

ssize_t channels_copy_groups(struct channels *channels, int device, struct group **ret)
{
        LOCKED(&channels->lock);
        struct group *copy = calloc(channels->n_groups + 1, sizeof(*copy));
        ssize_t n = 0;

        if (!copy)
                return -ENOMEM;
        for (size_t i = 0; i < channels->n_groups; i++)
                if (channels->groups[i].device == device && channels->groups[i].is_compute)
                        copy[n++] = channels->groups[i];
        *ret = copy;
        return n;
}
