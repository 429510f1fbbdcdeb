/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: channel groups, channels, launches and fences, on the run lists of runlist.h.
 */
#include "sim/engine/touch.h"
#include "sim/server/machine.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SWITCH_COST (85 * NSEC_PER_USEC) /* measured, H200, 580.159.04: docs/gpu.md 3 */
#define SLICE_GRAPHICS (2048 * NSEC_PER_USEC)
#define SLICE_COPY (1024 * NSEC_PER_USEC)

#define TAKEN_GRAPHICS (4416 * KIB) /* measured, H200, 580.159.04: tests/gpu/ownmem.sh; so are the next two */
#define TAKEN_COPY 0
#define TAKEN_CHANNEL (64 * KIB)

enum {
        ENGINE_GRAPHICS_FIRST = 1, /* engineType, docs/rm-abi.md 3 */
        ENGINE_GRAPHICS_LAST = 8,
        ENGINE_GRCE_LAST = 10, /* copy engines 0 and 1 have the capability GRCE (H200: tests/trace) */
        ENGINE_LAST = 0x53,
        SEMAPHORE_SIZE = 16,
};

/* ---- the run list's callbacks -------------------------------------------------------------- */

static bool is_ready(void *context, const struct run_work *run)
{
        const struct work *work = CONTAINER((struct run_work *)(uintptr_t)run, struct work, run);
        const struct gpu *gpu = context;
        struct client *client;
        struct object *object;

        if (!work->after_channel)
                return true;
        client = handles_client(&gpu->machine->handles, work->after_client);
        object = client ? handles_get(client, work->after_channel) : NULL;
        return !object || !object->channel || object->channel->error || object->channel->reached >= work->after_value;
}

static void work_free(struct machine *machine, struct work *work)
{
        meeting_leave(machine, work);
        mem_unref(work->semaphore);
        free(work);
}

void waiters_wake(struct channel *channel, nsec now)
{
        for (struct waiter **at = &channel->waiters; *at;) {
                struct waiter *waiter = *at;

                if (!channel->error && waiter->value > channel->reached && waiter->until > now) {
                        at = &waiter->next;
                        continue;
                }
                reply_send(waiter->reply,
                           waiter->value <= channel->reached ? 0 :
                           channel->error                    ? channel->error :
                                                               -ETIMEDOUT,
                           channel->reached, 0, -1);
                *at = waiter->next;
                channel->group->gpu->n_waiters--;
                free(waiter);
        }
}

static void run_taken(void *context, struct run_queue *queue, nsec at)
{
        (void)context, (void)at;
        ring_taken(CONTAINER(queue, struct channel, run));
}

static void run_done(void *context, struct run_queue *queue, struct run_work *run, nsec at)
{
        struct channel *channel = CONTAINER(queue, struct channel, run);
        struct work *work = CONTAINER(run, struct work, run);
        struct gpu *gpu = context;

        if (work->value > channel->reached)
                channel->reached = work->value;
        semaphore_write(work, at);
        copy_done(channel, &work->copy);
        work_free(gpu->machine, work);
        waiters_wake(channel, at);
}

static void run_on(void *context, struct run_group *group, nsec at)
{
        record_switch(context, CONTAINER(group, struct group, run), true, at);
}

static void run_off(void *context, struct run_group *group, nsec at)
{
        record_switch(context, CONTAINER(group, struct group, run), false, at);
}

static const struct run_ops run_ops = {
        .is_ready = is_ready, .taken = run_taken, .done = run_done, .on = run_on, .off = run_off
};

/* ---- the device ---------------------------------------------------------------------------- */

void gpu_uuid(unsigned int index, unsigned char uuid[static 16])
{
        memcpy(uuid, "sublet\x40s\x80m", 10);
        memset(uuid + 10, 0, 5);
        uuid[15] = (unsigned char)index;
}

void gpu_init(struct gpu *gpu, struct machine *machine, unsigned int index)
{
        *gpu = (struct gpu){ .machine = machine,
                             .index = index,
                             .id = (index + 1) << 8, /* bus index + 1 */
                             .heap.size = machine->options.memory - machine->options.reserved };
        gpu_uuid(index, gpu->uuid);
        for (size_t i = 0; i < ENGINES; i++) {
                runlist_init(&gpu->engines[i], &run_ops, gpu, SWITCH_COST, machine->now);
                gpu->engines[i].late = index;
        }
}

struct gpu *gpu_by_uuid(struct machine *machine, const unsigned char *uuid)
{
        for (unsigned int i = 0; i < machine->options.n_gpus; i++)
                if (memcmp(machine->gpus[i].uuid, uuid, sizeof(machine->gpus[i].uuid)) == 0)
                        return &machine->gpus[i];
        return NULL;
}

nsec gpu_advance(struct gpu *gpu)
{
        nsec next = RUN_NEVER, due;

        mem_pages_update(gpu);
        for (size_t i = 0; i < ENGINES; i++)
                runlist_advance(&gpu->engines[i], gpu->machine->now);
        for (size_t i = 0; i < ENGINES; i++) {
                due = runlist_next(&gpu->engines[i]);
                next = due < next ? due : next;
        }
        due = records_advance(gpu);
        next = due < next ? due : next;
        for (size_t i = 0; i < ENGINES && gpu->n_waiters; i++) {
                for (struct run_group *group = gpu->engines[i].groups; group; group = group->next) {
                        for (struct run_queue *queue = group->queues; queue; queue = queue->next) {
                                struct channel *channel = CONTAINER(queue, struct channel, run);

                                waiters_wake(channel, gpu->machine->now);
                                for (struct waiter *w = channel->waiters; w; w = w->next)
                                        next = w->until < next ? w->until : next;
                        }
                }
        }
        return next;
}

/* ---- groups and channels ------------------------------------------------------------------- */

static bool is_graphics(uint32_t engine)
{
        return engine >= ENGINE_GRAPHICS_FIRST && engine <= ENGINE_GRAPHICS_LAST;
}

static struct runlist *runlist_of(struct gpu *gpu, uint32_t engine)
{
        return &gpu->engines[engine >= ENGINE_GRAPHICS_FIRST && engine <= ENGINE_GRCE_LAST ? 0 : 1];
}

/* Whatever engine a group names, the first object of its channels settles where it runs: docs/rm-abi.md 3. */
uint32_t group_note_object(struct group *group, uint32_t class_number)
{
        struct runlist *list = RM_CLASS_IS_FIXED_ENGINE(class_number) ? group->run.list : &group->gpu->engines[0];

        if (group->has_object && group->run.list != list)
                return SIM_STATUS_INVALID_STATE;
        group->has_object = true;
        runlist_move_group(list, &group->run, group->gpu->machine->now);
        return RM_STATUS_OK;
}

static struct group *group_new(struct gpu *gpu, const struct client *client, uint32_t engine)
{
        bool is_copy = !is_graphics(engine);
        bytes taken = is_copy ? TAKEN_COPY : own_of(gpu->machine->faults.own_group, TAKEN_GRAPHICS);
        struct group *group;

        if (heap_take(&gpu->heap, taken) != HEAP_OK)
                return NULL;
        group = calloc(1, sizeof(*group));
        if (!group) {
                heap_give(&gpu->heap, taken);
                return NULL;
        }
        group->taken = taken;
        group->gpu = gpu;
        group->refs = 1;
        group->engine = engine;
        group->pid = client->pid;
        group->uid = client->uid;
        group->slice_usec = (uint64_t)((is_copy ? SLICE_COPY : SLICE_GRAPHICS) / NSEC_PER_USEC);
        runlist_add_group(runlist_of(gpu, engine), &group->run, is_copy ? SLICE_COPY : SLICE_GRAPHICS);
        return group;
}

/* engineType@12; 0 is refused on chips with run lists of their own per engine (docs/rm-abi.md 3). */
uint32_t group_alloc(struct request *request, struct object *object, struct part *params)
{
        uint32_t engine = rm_get32(params->data, params->size, 12);

        if (object->parent->class_number != RM_CLASS_DEVICE)
                return SIM_STATUS_INVALID_PARENT;
        if (!engine || engine > ENGINE_LAST)
                return RM_STATUS_INVALID_ARGUMENT;
        object->group = group_new(object->gpu, request->client, engine);
        if (!object->group)
                return RM_STATUS_NO_MEMORY;
        object->group->space = rm_get32(params->data, params->size, 8);
        return RM_STATUS_OK;
}

void group_unref(struct group *group)
{
        if (!group || --group->refs)
                return;
        runlist_remove_group(group->run.list, &group->run, group->gpu->machine->now);
        heap_give(&group->gpu->heap, group->taken);
        free(group);
}

/* A channel whose parent is a device gets a group without a handle, as in the driver. */
static struct group *group_of(const struct object *parent, const struct client *client, uint32_t engine)
{
        if (parent->group) {
                parent->group->refs++;
                return parent->group;
        }
        if (parent->class_number == RM_CLASS_DEVICE && engine && engine <= ENGINE_LAST)
                return group_new(parent->gpu, client, engine);
        return NULL;
}

uint32_t channel_alloc(struct request *request, struct object *object, struct part *params)
{
        const struct rm_layout *layout = &request->file->machine->layout;
        uint32_t engine = rm_get32(params->data, params->size, layout->channel_engine_at);
        struct channel *channel;
        bytes taken;

        if (!object->gpu || !params->size)
                return object->gpu ? RM_STATUS_INVALID_ARGUMENT : SIM_STATUS_INVALID_PARENT;
        if (object->gpu->n_channels_now > object->gpu->machine->faults.channel_ids - 1) /* 0: never */
                return RM_STATUS_NO_MEMORY;
        channel = calloc(1, sizeof(*channel));
        if (!channel)
                return RM_STATUS_NO_MEMORY;
        channel->group = group_of(object->parent, request->client, engine);
        if (!channel->group) {
                free(channel);
                return SIM_STATUS_INVALID_PARENT;
        }
        taken = own_of(object->gpu->machine->faults.own_channel, TAKEN_CHANNEL);
        if (heap_take(&object->gpu->heap, taken) != HEAP_OK) {
                group_unref(channel->group);
                free(channel);
                return RM_STATUS_NO_MEMORY;
        }
        channel->refs = 1;
        channel->taken = taken;
        channel->cid = ++object->gpu->n_channels;
        object->gpu->n_channels_now++;
        if (!channel->group->context)
                channel->group->context = channel->cid;
        runlist_add_queue(&channel->group->run, &channel->run);
        ring_find(channel, request, params);
        object->channel = channel;
        handles_depend(object, rm_get32(params->data, params->size, 24)); /* hContextShare */
        handles_depend(object, rm_get32(params->data, params->size, 28)); /* hVASpace */
        rm_put32(params->data, params->size, layout->channel_id_at, channel->cid);
        return RM_STATUS_OK;
}

void channel_unref(struct channel *channel)
{
        nsec now;

        if (!channel || --channel->refs)
                return;
        channel->group->gpu->n_channels_now--;
        now = channel->group->gpu->machine->now;
        for (struct run_work *run = runlist_remove_queue(&channel->run, now), *next; run; run = next) {
                next = run->next;
                work_free(channel->group->gpu->machine, CONTAINER(run, struct work, run));
        }
        if (!channel->error)
                channel->error = -ENOENT;
        waiters_wake(channel, now);
        mem_unref(channel->userd);
        group_give(channel->group, channel->taken);
        group_unref(channel->group);
        free(channel);
}

/* ---- doorbells ----------------------------------------------------------------------------- */

static struct channel *channel_of(const struct object *object)
{
        struct run_queue *queue;

        if (!object)
                return NULL;
        if (object->channel)
                return object->channel;
        queue = object->group ? object->group->run.queues : NULL;
        while (queue && queue->next) /* the first one is the last in the list */
                queue = queue->next;
        return queue ? CONTAINER(queue, struct channel, run) : NULL;
}

static int semaphore_find(struct client *client, const struct sim_gpu *gpu, struct memory **ret)
{
        struct object *object;

        *ret = NULL;
        if (!gpu->semaphore)
                return 0;
        object = handles_get(client, gpu->semaphore);
        if (!object || !object->memory || object->memory->size < SEMAPHORE_SIZE ||
            gpu->semaphore_offset > object->memory->size - SEMAPHORE_SIZE)
                return -EFAULT;
        *ret = mem_ref(object->memory);
        return 0;
}

/* How long the device is to be busy with it; a member of a meeting spins until that is over. */
static nsec duration_of(struct machine *machine, struct channel *channel, struct work *work, const struct sim_gpu *gpu)
{
        nsec duration = gpu->duration > INT64_MAX / 4 ? INT64_MAX / 4 : (nsec)gpu->duration;

        if (!gpu->n_meeting || meeting_join(machine, channel, work, gpu->meeting, gpu->n_meeting, duration) < 0)
                return duration;
        return INT64_MAX / 4;
}

static void work_submit(struct machine *machine, struct client *client, struct channel *channel,
                        const struct sim_gpu *gpu)
{
        struct work *work;

        if (channel->error)
                return;
        work = calloc(1, sizeof(*work));
        if (!work || semaphore_find(client, gpu, &work->semaphore) < 0) {
                channel->error = -EIO; /* as a fault of the memory unit would */
                free(work);
                waiters_wake(channel, machine->now);
                return;
        }
        work->value = gpu->value;
        work->semaphore_offset = gpu->semaphore_offset;
        work->after_client = gpu->after_client;
        work->after_channel = gpu->after_channel;
        work->after_value = gpu->after_value;
        ring_put(channel);
        runlist_submit(&channel->run, &work->run, duration_of(machine, channel, work, gpu), machine->now);
}

static int fence_wait(struct machine *machine, struct request *request, struct channel *channel,
                      const struct sim_gpu *gpu)
{
        struct waiter *waiter;

        request->argument[0] = channel->reached;
        if (channel->reached >= gpu->value)
                return 0;
        if (channel->error)
                return channel->error;
        if (!gpu->timeout)
                return -ETIMEDOUT;
        waiter = malloc(sizeof(*waiter));
        if (!waiter)
                return -ENOMEM;
        *waiter = (struct waiter){ .next = channel->waiters,
                                   .value = gpu->value,
                                   .until = gpu->timeout >= (uint64_t)(RUN_NEVER - machine->now) ?
                                                    RUN_NEVER :
                                                    machine->now + (nsec)gpu->timeout,
                                   .reply = TAKE_FD(request->reply) };
        channel->waiters = waiter;
        channel->group->gpu->n_waiters++;
        request->is_kept = true;
        return 0;
}

static int backing_answer(struct request *request, const struct object *object)
{
        int fd;

        if (!object || !object->memory)
                return -ENOENT;
        fd = mem_fd(object->memory);
        if (fd < 0)
                return fd;
        request->fd = fd;
        request->argument[1] = object->memory->size;
        return 0;
}

void gpu_message(struct machine *machine, struct request *request)
{
        struct sim_gpu gpu;
        struct client *client;
        struct object *object;
        struct channel *channel;

        request->result = -EINVAL;
        if (request->block.size != sizeof(gpu))
                return;
        memcpy(&gpu, request->block.data, sizeof(gpu));
        request->result = -ENOENT;
        client = handles_client(&machine->handles, gpu.client);
        if (!client || client->file != request->file)
                return;
        if (gpu.op == SIM_GPU_TOUCH) {
                request->result = touch_answer(request, client);
                return;
        }
        object = handles_get(client, gpu.object);
        if (gpu.op == SIM_GPU_BACKING) {
                request->result = backing_answer(request, object);
                return;
        }
        channel = channel_of(object);
        if (!channel)
                return;
        request->result = 0;
        if (gpu.op == SIM_GPU_LAUNCH)
                work_submit(machine, client, channel, &gpu);
        else if (gpu.op == SIM_GPU_FENCE)
                request->result = fence_wait(machine, request, channel, &gpu);
        else
                request->result = -EINVAL;
}
