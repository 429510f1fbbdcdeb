/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of a device, and of its timing: see faults.def. */
#include "sim/server/machine.h"

#include <errno.h>

enum {
        XID_LOST = 79,
};

/* Queued work is never finished. */
static void group_stop(struct group *group, int error)
{
        nsec now = group->gpu->machine->now;

        for (struct run_queue *queue = group->run.queues; queue; queue = queue->next) {
                struct channel *channel = CONTAINER(queue, struct channel, run);

                channel->error = error;
                runlist_set_disabled(queue, true, now);
                waiters_wake(channel, now);
        }
}

static void events_fire(struct gpu *gpu, uint32_t xid)
{
        struct file *file;

        for (size_t i = 0; (file = map_next(&gpu->machine->files, &i)) != NULL;)
                if (file->is_listening && file->node == RM_NODE_DEVICE && file->minor == gpu->index)
                        file_event(file, xid);
}

void gpu_switch_cost(struct gpu *gpu, nsec cost)
{
        for (size_t i = 0; i < ENGINES; i++)
                gpu->engines[i].switch_cost = cost;
}

void gpu_ramp(struct gpu *gpu, nsec ramp)
{
        gpu->engines[0].ramp = ramp;
}

void gpu_lose(struct gpu *gpu)
{
        if (gpu->is_lost)
                return;
        gpu->is_lost = true;
        for (size_t i = 0; i < ENGINES; i++)
                for (struct run_group *group = gpu->engines[i].groups; group; group = group->next)
                        group_stop(CONTAINER(group, struct group, run), -ENODEV);
        machine_log(gpu->machine, "NVRM: Xid (PCI:0000:%02x:00): %d, GPU has fallen off the bus.\n", gpu->id >> 8,
                    XID_LOST);
        events_fire(gpu, XID_LOST);
}

/* The resident group is the one at fault. */
void gpu_xid(struct gpu *gpu, unsigned int number)
{
        struct run_group *current = gpu->engines[0].current;
        struct group *group = current ? CONTAINER(current, struct group, run) : NULL;

        if (number == XID_LOST) {
                gpu_lose(gpu);
                return;
        }
        machine_log(gpu->machine, "NVRM: Xid (PCI:0000:%02x:00): %u, pid=%d, name=?, Ch %08x\n", gpu->id >> 8, number,
                    group ? (int)group->pid : 0, group ? group->context : 0);
        if (group)
                group_stop(group, -EIO);
        events_fire(gpu, number);
}
