/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels and channel groups, of which a device has only so many numbers, are divided among its tenants: each has a
 * part as large as its part of the memory, and a few contexts at least. So who takes all that it can leaves the others
 * theirs.
 *
 * A device up to Hopper has one set of channel numbers for all its run lists, unless it is a host of virtual GPUs:
 * those of a CUDA context follow each other over four run lists (tests/trace). Blackwell has a set for each run list; a
 * part of one set is less there than could be given. Source: bUsePerRunlistChram in kernel_fifo_init.c, 580.142.
 */
#include "gate/books.h"

#include "rm/numbers.h"

#include <errno.h>

enum {
        IDS = 2048,         /* channels of a device, and groups of a run list */
        CHANNELS_MIN = 320, /* 16 CUDA contexts; a context has 20 channels in 4 groups, and takes half a GiB */
        GROUPS_MIN = 80,
};

/* Its part, in so many of IDS. Where the total is not known it is all, and the lease's own bounds hold. */
static size_t part_of(const struct lease_device *device, size_t least)
{
        bytes quota = atomic_load(&device->quota.size), total = device->total;
        bytes part = quota < total ? (bytes)((unsigned __int128)quota * IDS / total) : IDS;

        return part > least ? (size_t)part : least;
}

uint32_t channel_control_reserve(struct request *request)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        bool is_group = call->class_or_cmd == RM_CLASS_GROUP;
        int device, r;
        size_t most;

        if (!is_group && !RM_CLASS_IS_CHANNEL(call->class_or_cmd))
                return RM_STATUS_OK;
        device = object_device(gate, call->client, call->parent);
        most = device < 0 || (unsigned int)device >= gate->lease->n_devices ?
                       SIZE_MAX :
                       part_of(&gate->lease->devices[device], is_group ? GROUPS_MIN : CHANNELS_MIN);
        r = channels_reserve_of(&gate->channels, is_group, device, most);
        if (r == -ENOSPC)
                gate_tell(gate, EVENT_DENIED, request->process->id, "more than %u %s",
                          is_group ? gate->lease->groups_max : gate->lease->channels_max,
                          is_group ? "channel groups" : "channels");
        else if (r == -EDQUOT)
                gate_tell(gate, EVENT_DENIED, request->process->id,
                          "more than %zu %s on device %d, its part of what all tenants share", most,
                          is_group ? "channel groups" : "channels", device);
        return r < 0 ? RM_STATUS_INSUFFICIENT_RESOURCES : RM_STATUS_OK;
}
