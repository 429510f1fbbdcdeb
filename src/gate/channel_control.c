/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channel control: the tenant's channels are noted here as they are made, and brought to their desired state.
 *
 * A channel that is made or scheduled while the desired state is "disabled" must not run. The scheduler writes the
 * desired state, then reads the channels; we publish the channel, then read the desired state (wire/control_block.h).
 * So one of the two sees the other. What both do counts twice, and whoever enables learns of that (tell_again). A
 * desired state that changes during our call is read again after it.
 *
 * Channels are disabled and enabled through the gate's own client: the driver does not ask whose they are. A slice is
 * set on the tenant's descriptor, got at that moment: one that we kept would keep the driver's client alive after its
 * owner has died. Whether it is the client's the driver says: for another file it answers INVALID_CLIENT (measured,
 * H200, 580.159.04), and the next is tried.
 */
#include "gate/books.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
        GROUP_ENGINE_AT = 12, /* NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS, 525 to 595 */
        USERD_AT = 32,        /* hUserd[0], userdOffset[0] of a channel; with the fields after them from 610 on */
        USERD_OFFSET_AT = 64,
        ENGINE_AT = 128,     /* where the layout has it that these belong to */
        DEFAULT_USEC = 2048, /* slice of a compute group, as measured: docs/gpu.md 3 */
        TRIES = 8,           /* of a desired state that changes while we follow it */
};

static bool is_group(uint32_t class_number)
{
        return class_number == RM_CLASS_GROUP;
}

/* ---- what there is ------------------------------------------------------------------------------- */

static void put_group(struct request *request, const struct ledger_object *object, int device)
{
        struct group group = { .client = object->client,
                               .handle = object->handle,
                               .is_compute = channels_is_compute(
                                       rm_get32(request->params, request->params_size, GROUP_ENGINE_AT)),
                               .device = device,
                               .process = request->process->id,
                               .theirs = request->theirs };

        channels_put_group(&request->gate->channels, &group);
}

static void put_channel(struct request *request, const struct ledger_object *object, int device)
{
        struct gate *gate = request->gate;
        const struct rm_layout *layout = &gate->options.layout;
        const struct group *group = channels_group(&gate->channels, object->client, object->parent);
        uint32_t moved = layout->channel_engine_at - ENGINE_AT;
        struct channel channel = {
                .is = { .client = object->client,
                        .handle = object->handle,
                        .group = object->parent,
                        .cid = rm_get32(request->params, request->params_size, layout->channel_id_at),
                        .device = (unsigned int)device,
                        .is_compute = group && group->is_compute },
                .userd = rm_get32(request->params, request->params_size, USERD_AT + moved),
                .userd_at = rm_get64(request->params, request->params_size, USERD_OFFSET_AT + moved),
        };

        channels_put(&gate->channels, &channel);
        if (gate->options.channel)
                gate->options.channel(gate->options.node_context, &channel.is, true);
}

static bool is_of_group(const struct channel *channel, const struct channel *other)
{
        return channel->is.client == other->is.client && channel->is.group == other->is.group;
}

/* An object of a channel shows its engine, or what its group may use, and the scheduler learns it. */
static void note_object(struct gate *gate, const struct ledger_object *object)
{
        LOCKED(&gate->channels.lock);
        struct channels *channels = &gate->channels;
        struct channel *channel = channels_find(channels, object->client, object->parent);

        if (!channel || !channels_note_object(channels, channel, object->class_number) || !gate->options.channel)
                return;
        for (size_t i = 0; i < channels->n; i++)
                if (&channels->items[i] == channel ||
                    (channel->is.is_compute && is_of_group(&channels->items[i], channel)))
                        gate->options.channel(gate->options.node_context, &channels->items[i].is, true);
}

void channel_control_begun(struct request *request, const struct ledger_object *object)
{
        struct gate *gate = request->gate;
        uint32_t class_number = request->call.class_or_cmd;
        int device;

        if (!is_group(class_number) && !RM_CLASS_IS_CHANNEL(class_number)) {
                if (object)
                        note_object(gate, object);
                return;
        }
        if (!object) {
                channels_unreserve(&gate->channels, is_group(class_number));
                return;
        }

        LOCKED(&gate->channels.lock);
        device = object_device(gate, object->client, object->handle);
        if (is_group(class_number))
                put_group(request, object, device);
        else
                put_channel(request, object, device);
}

static void forget_gone(struct gate *gate)
{
        struct channels *channels = &gate->channels;
        struct ledger_object object;

        for (size_t i = 0; i < channels->n;) {
                struct channel *channel = &channels->items[i];

                if (object_get(gate, channel->is.client, channel->is.handle, &object)) {
                        i++;
                        continue;
                }
                if (gate->options.channel)
                        gate->options.channel(gate->options.node_context, &channel->is, false);
                *channel = channels->items[--channels->n];
                channels->changes++;
        }
        for (size_t i = 0; i < channels->n_groups;)
                if (object_get(gate, channels->groups[i].client, channels->groups[i].handle, &object))
                        i++;
                else
                        channels->groups[i] = channels->groups[--channels->n_groups];
}

/* A second handle of ours would keep the memory. */
static void forget_userd(struct channels *channels, uint32_t client, uint32_t handle)
{
        for (size_t i = 0; i < channels->n; i++)
                if (channels->items[i].userd == handle && channels->items[i].is.client == client) {
                        channels->items[i].userd = 0;
                        channels->changes++;
                }
}

void channel_control_gone(struct gate *gate, uint32_t class_number, uint32_t client, uint32_t handle)
{
        LOCKED(&gate->channels.lock);

        if (class_number == RM_CLASS_VIDEO_MEMORY || class_number == RM_CLASS_HOST_MEMORY)
                forget_userd(&gate->channels, client, handle);
        else
                forget_gone(gate);
}

/* ---- enabled and disabled ---------------------------------------------------------------------------------- */

static int set_channels(struct gate *gate, unsigned int device, const struct channel *channels, size_t n,
                        bool is_disabled)
{
        struct probe_channel list[PROBE_CHANNELS];
        int r = 0;

        while (n) {
                size_t some = n < PROBE_CHANNELS ? n : PROBE_CHANNELS;
                int one;

                for (size_t i = 0; i < some; i++)
                        list[i] = (struct probe_channel){ channels[i].is.client, channels[i].is.handle };
                one = probe_channels_set(&gate->probe, device, list, some, is_disabled);
                r = one < 0 ? one : r;
                channels += some;
                n -= some;
        }
        return r;
}

int channels_switch(struct gate *gate, unsigned int device, bool is_disabled)
{
        _cleanup_(freep) struct channel *channels = NULL;
        ssize_t n = channels_copy(&gate->channels, (int)device, 0, 0, &channels);

        return n < 0 ? (int)n : set_channels(gate, device, channels, (size_t)n, is_disabled);
}

/* The driver counts disables (gpu/control.c), and a newborn channel may have one of ours and one of a daemon's: so what
 * is enabled is enabled twice. While memory is away nothing is switched here: the channels are off, and move/stop.c
 * enables what is owed then (T2): what was to be undone here, a daemon's that has died, say. */
int gate_channels_set(struct gate *gate, unsigned int device, bool is_disabled)
{
        LOCKED(&gate->moving.switch_lock);
        int r, again;

        if (gate->moving.is_off) {
                gate->moving.n_owed[device] += !is_disabled;
                return 0;
        }
        r = channels_switch(gate, device, is_disabled);
        again = is_disabled ? 0 : channels_switch(gate, device, false);
        return r < 0 ? r : again;
}

static struct gate_desired desired_of(const struct gate *gate, int device)
{
        if (gate->moving.is_off || !gate->options.desired || device < 0)
                return (struct gate_desired){ .is_disabled = gate->moving.is_off };
        return gate->options.desired(gate->options.node_context, (unsigned int)device);
}

/* Its row is written again, so that whoever reads the rows knows of a change: our disable, besides its own (sched). */
static void tell_again(struct gate *gate, const struct channel *channel)
{
        LOCKED(&gate->channels.lock);

        for (size_t i = 0; gate->options.channel && i < gate->channels.n; i++) {
                const struct channel *at = &gate->channels.items[i];

                if (at->is.client == channel->is.client && at->is.handle == channel->is.handle) {
                        gate->options.channel(gate->options.node_context, &at->is, true);
                        return;
                }
        }
}

/* Channels that may run from now on are disabled if that is the desired state. */
static void follow_desired(struct gate *gate, int device, const struct channel *channels, size_t n)
{
        bool is_disabled = false, was_set = false;

        for (int i = 0; i < TRIES && n; i++) {
                is_disabled = desired_of(gate, device).is_disabled;
                if (is_disabled || was_set) {
                        (void)set_channels(gate, (unsigned int)device, channels, n, is_disabled);
                        was_set = true;
                }
                if (is_disabled)
                        tell_again(gate, &channels[0]); /* before the state is read again */
                if (desired_of(gate, device).is_disabled == is_disabled)
                        return;
        }
}

void channel_control_follow(struct gate *gate, int device, uint32_t client, uint32_t group)
{
        _cleanup_(freep) struct channel *channels = NULL;
        ssize_t n;

        if (!desired_of(gate, device).is_disabled)
                return;
        n = channels_copy(&gate->channels, device, client, group, &channels);
        follow_desired(gate, device, channels, n > 0 ? (size_t)n : 0);
}

/* ---- slices -------------------------------------------------------------------------------------- */

/* SET_TIMESLICE or GET_TIMESLICE by a descriptor of somebody's. The status, or UINT32_MAX. */
static uint32_t slice_control(const struct gate *gate, int fd, const struct group *group, uint32_t cmd, uint64_t *usec)
{
        struct rm_control control = { group->client, group->handle, cmd, usec, sizeof(*usec) };

        return gate_driver_control(&gate->options.driver, fd, &control);
}

/* The driver's own slice, before it is changed first. Another gate may have changed that of a group that is lent. */
static uint32_t read_own_slice(const struct gate *gate, int fd, struct group *group)
{
        uint64_t usec = DEFAULT_USEC;
        uint32_t status = group->is_lent ? RM_STATUS_OK : slice_control(gate, fd, group, RM_GET_TIMESLICE, &usec);

        if (status == RM_STATUS_OK && usec && usec < INT64_MAX / NSEC_PER_USEC)
                group->own = (nsec)usec * NSEC_PER_USEC;
        return status;
}

static uint32_t set_slice(const struct gate *gate, int fd, struct group *group, nsec slice)
{
        uint32_t status = group->own ? RM_STATUS_OK : read_own_slice(gate, fd, group);
        nsec wanted = slice ? slice : group->own;
        uint64_t usec = wanted < NSEC_PER_USEC ? 1 : (uint64_t)(wanted / NSEC_PER_USEC);

        if (status != RM_STATUS_OK || !wanted)
                return status;
        status = slice_control(gate, fd, group, RM_SET_TIMESLICE, &usec);
        if (status == RM_STATUS_OK)
                group->slice = slice;
        return status;
}

/* The descriptor may be the client's. */
static uint32_t try_descriptor(struct gate *gate, const struct process *process, int theirs, struct group *group,
                               nsec slice)
{
        int fd = process_fd(process, process->id, theirs);
        uint32_t minor, status = RM_STATUS_INVALID_CLIENT;

        if (fd >= 0 && gate->options.driver.node(gate->options.driver.context, fd, &minor) == RM_NODE_CTL)
                status = set_slice(gate, fd, group, slice);
        gate_fd_put(gate, fd);
        if (status == RM_STATUS_OK) {
                group->process = process->id;
                group->theirs = theirs;
        }
        return status;
}

/* The descriptor may have another number by now, and the process that made the client may be dead. */
static uint32_t search_process(struct gate *gate, const struct process *process, struct group *group, nsec slice)
{
        uint32_t status = RM_STATUS_INVALID_CLIENT;
        struct dirent *entry;
        char path[64];
        DIR *dir;

        (void)snprintf(path, sizeof(path), "/proc/%d/fd", process->id);
        dir = opendir(path);
        while (dir && status == RM_STATUS_INVALID_CLIENT && (entry = readdir(dir)))
                if (isdigit((unsigned char)entry->d_name[0]) && process_fd_may_be_node(process->id, entry->d_name))
                        status = try_descriptor(gate, process, atoi(entry->d_name), group, slice);
        if (dir)
                (void)closedir(dir);
        return status;
}

static uint32_t try_process(struct gate *gate, pid_t id, int theirs, struct group *group, nsec slice)
{
        struct process *process;
        uint32_t status;

        if (process_find(&gate->processes, id, &process) < 0)
                return RM_STATUS_INVALID_CLIENT;
        status = theirs >= 0 ? try_descriptor(gate, process, theirs, group, slice) :
                               search_process(gate, process, group, slice);
        process_put(&gate->processes, process);
        return status;
}

static bool find_and_set_slice(struct gate *gate, struct group *group, nsec slice)
{
        uint32_t status = try_process(gate, group->process, group->theirs, group, slice);
        _cleanup_(freep) pid_t *list = NULL;
        ssize_t n;

        if (status != RM_STATUS_INVALID_CLIENT)
                return status == RM_STATUS_OK;
        n = processes_list(&gate->processes, &list);
        for (ssize_t i = 0; i < n && status == RM_STATUS_INVALID_CLIENT; i++)
                status = try_process(gate, list[i], -1, group, slice);
        return status == RM_STATUS_OK;
}

/* Keeps what was found out, if the group is still there. True: it is. */
static bool group_update(struct gate *gate, const struct group *group)
{
        LOCKED(&gate->channels.lock);
        struct group *there = channels_group(&gate->channels, group->client, group->handle);

        if (there) {
                there->slice = group->slice;
                there->own = group->own;
                there->process = group->process;
                there->theirs = group->theirs;
        }
        return there;
}

unsigned int gate_timeslice_set(struct gate *gate, unsigned int device, nsec slice)
{
        _cleanup_(freep) struct group *groups = NULL;
        ssize_t n = channels_copy_groups(&gate->channels, (int)device, &groups);
        unsigned int n_failed = 0;

        for (ssize_t i = 0; i < n; i++) {
                bool is_set = groups[i].slice == slice || find_and_set_slice(gate, &groups[i], slice);

                if (group_update(gate, &groups[i]) && !is_set)
                        n_failed++;
        }
        return n < 0 ? 1 : n_failed;
}

/* ---- new groups and channels ----------------------------------------------------------------------------------- */

/* A new group has no slice yet, and the descriptor is at hand. */
static void placed_group(struct request *request, const struct ledger_object *object)
{
        struct gate *gate = request->gate;
        struct group group = { 0 }, *there;
        nsec slice;

        {
                LOCKED(&gate->channels.lock);
                there = channels_group(&gate->channels, object->client, object->handle);
                if (there)
                        group = *there;
        }
        if (!there || !group.is_compute)
                return;
        slice = desired_of(gate, group.device).slice;
        if (!slice)
                return;
        (void)set_slice(gate, request->fd, &group, slice);
        (void)group_update(gate, &group);
}

/* In a group that runs already the channel may run, too. */
static void placed_channel(struct request *request, const struct ledger_object *object)
{
        struct gate *gate = request->gate;
        struct channel channel = { .is = { .client = object->client, .handle = object->handle } };
        int device = -1;

        {
                LOCKED(&gate->channels.lock);
                const struct group *group = channels_group(&gate->channels, object->client, object->parent);

                if (group && group->is_scheduled)
                        device = group->device;
        }
        if (device >= 0)
                follow_desired(gate, device, &channel, 1);
}

void channel_control_placed(struct request *request, const struct ledger_object *object)
{
        if (is_group(object->class_number))
                placed_group(request, object);
        else if (RM_CLASS_IS_CHANNEL(object->class_number))
                placed_channel(request, object);
}
