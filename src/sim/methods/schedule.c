/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Methods about scheduling, sharing and accounting: timeslices, preemption and the disabling of channels
 * (run lists, engine/runlist.h); share policies and descriptions of memory; memory by process; the clocks
 * of context-switch records.
 */
#include "sim/engine/touch.h"
#include "sim/methods/methods.h"

#include "rm/numbers.h"

#include <stdlib.h>

/* ---- sharing and memory -------------------------------------------------------------------- */

/* hObject@0 mapFlags@4 addrSpaceType@8: 1 host, 2 video. */
uint32_t method_address_space(struct method_call *call)
{
        const struct object *object = handles_get(call->request->client, params_get(call, 0));

        if (!object)
                return RM_STATUS_OBJECT_NOT_FOUND;
        params_put(call, 8, object->memory && object->memory->taken ? 2 : 1);
        return RM_STATUS_OK;
}

uint32_t method_inherited_share(struct method_call *call)
{
        return share_put(&call->request->client->top, call->params->data, call->params->size);
}

uint32_t method_share(struct method_call *call)
{
        struct object *object = handles_get(call->request->client, params_get(call, 0));

        return object ? share_put(object, call->params->data + 4, call->params->size - 4) : RM_STATUS_OBJECT_NOT_FOUND;
}

/* n@0 and a list of { index, datum }: 2 and 3 the size in bytes, 7 in 4 KiB units, 9 where it is. */
uint32_t method_surface_info(struct method_call *call)
{
        const struct memory *memory = call->object->memory;
        struct part *list = &call->request->segments[1];

        if (call->machine->faults.no_size)
                return RM_STATUS_NOT_SUPPORTED;
        if (call->request->header.n_segments < 2 || params_get(call, 0) > list->size / 8)
                return RM_STATUS_INVALID_ARGUMENT;
        for (size_t i = 0; i < params_get(call, 0); i++) {
                uint32_t index = rm_get32(list->data, list->size, 8 * i);
                uint64_t datum = index == 2 ? (uint32_t)memory->size :
                                 index == 3 ? memory->size >> 32 :
                                 index == 7 ? memory->size / (4 * KIB) :
                                 index == 9 ? (memory->taken ? 2 : 1) :
                                              0;

                rm_put32(list->data, list->size, 8 * i + 4, (uint32_t)datum);
        }
        return RM_STATUS_OK;
}

/* ---- accounting by process: docs/rm-abi.md 2.5, 5.2 ---------------------------------------- */

static bool has_class(const struct client *client, const struct gpu *gpu, uint32_t class_number)
{
        const struct object *object;

        for (size_t i = 0; (object = handles_next(client, &i)) != NULL;)
                if (object->gpu == gpu && object->class_number == class_number)
                        return true;
        return false;
}

/* idType@0 (0: by class) id@4 count@8 pid[950]@12 */
uint32_t method_pids(struct method_call *call)
{
        enum {
                PIDS_MAX = 950,
        };
        const struct client *client;
        uint32_t n = 0, seen;

        if (params_get(call, 0))
                return RM_STATUS_INVALID_ARGUMENT;
        for (size_t i = 0; (client = map_next(&call->machine->handles.clients, &i)) != NULL && n < PIDS_MAX;) {
                if (!has_class(client, call->gpu, params_get(call, 4)))
                        continue;
                for (seen = 0; seen < n && params_get(call, 12 + 4 * seen) != (uint32_t)client->pid;)
                        seen++;
                if (seen == n)
                        params_put(call, 12 + 4 * n++, (uint32_t)client->pid);
        }
        params_put(call, 8, n);
        return RM_STATUS_OK;
}

struct usage {
        uint64_t own, shared, dup;
};

static void usage_add(struct usage *usage, const struct client *client, const struct gpu *gpu)
{
        const struct object *object;

        for (size_t i = 0; (object = handles_next(client, &i)) != NULL;) {
                const struct memory *memory = object->memory;

                if (!memory || memory->gpu != gpu || !memory->taken)
                        continue;
                if (object->is_dup)
                        usage->dup += memory->size;
                else if (memory->n_handles > 1)
                        usage->shared += memory->size;
                else
                        usage->own += memory->size;
        }
}

/* count@0; 72 bytes each from 8: pid@0 index@4 result@8 private@16 sharedOwned@24 sharedDup@32,
 * protected ones @40, compute instance@64, GPU instance@68. What only UVM, exports or managed
 * ranges hold is not in it. */
uint32_t method_pid_info(struct method_call *call)
{
        enum {
                ENTRIES_MAX = 200,
                ENTRY = 72,
        };
        struct client *client;

        if (params_get(call, 0) > ENTRIES_MAX)
                return RM_STATUS_INVALID_ARGUMENT;
        for (size_t n = 0; n < params_get(call, 0); n++) {
                size_t at = 8 + ENTRY * n;
                struct usage usage = { 0 };

                for (size_t i = 0; (client = map_next(&call->machine->handles.clients, &i)) != NULL;)
                        if ((uint32_t)client->pid == params_get(call, at))
                                usage_add(&usage, client, call->gpu);
                params_put(call, at + 8, RM_STATUS_OK);
                rm_put64(call->params->data, call->params->size, at + 16, usage.own);
                rm_put64(call->params->data, call->params->size, at + 24, usage.shared);
                rm_put64(call->params->data, call->params->size, at + 32, usage.dup);
                for (size_t i = 40; i < ENTRY; i += 8)
                        rm_put64(call->params->data, call->params->size, at + i, i < 64 ? 0 : UINT64_MAX);
        }
        return RM_STATUS_OK;
}

/* ---- scheduling: docs/rm-abi.md 4 ---------------------------------------------------------- */

/* enable@0. On GSP bEnable=0 answers OK and does nothing (measured, H200, 580.159.04). */
uint32_t method_schedule(struct method_call *call)
{
        struct group *group = call->object->channel ? call->object->channel->group : call->object->group;

        if (!group)
                return RM_STATUS_NOT_SUPPORTED;
        if (call->params->data[0])
                runlist_schedule(&group->run, call->machine->now);
        return RM_STATUS_OK;
}

/* Duration of these controls on an H200, 580.159.04, and when they take effect after the call began (docs/time.md). */
#define COST_SLICE (170 * NSEC_PER_USEC)
#define COST_DISABLE (600 * NSEC_PER_USEC)
#define COST_ENABLE (300 * NSEC_PER_USEC)
#define COST_MORE (7 * NSEC_PER_USEC) /* for each channel beyond the first eight: 55 for a tenant's */
#define COST_PREEMPT (293 * NSEC_PER_USEC)
#define AFTER_DISABLE (420 * NSEC_PER_USEC)
#define AFTER_ENABLE (300 * NSEC_PER_USEC)

enum {
        SLICE_UNIT = 1024, /* nanoseconds: 5000 "microseconds" are 5.12 ms (measured) */
        CHANNELS_OF_ONE = 8,
};

static uint32_t slice_set(struct group *group, uint64_t usec)
{
        if (usec > INT64_MAX / 4 / (uint64_t)NSEC_PER_USEC)
                return RM_STATUS_INVALID_ARGUMENT;
        runlist_set_slice(&group->run,
                          (nsec)usec * (group->gpu->machine->faults.real_time ? SLICE_UNIT : NSEC_PER_USEC),
                          group->gpu->machine->now);
        group->slice_usec = usec;
        return RM_STATUS_OK;
}

uint32_t method_set_timeslice(struct method_call *call)
{
        call->request->cost = COST_SLICE;
        return slice_set(call->object->group, rm_get64(call->params->data, call->params->size, 0));
}

uint32_t method_get_timeslice(struct method_call *call)
{
        rm_put64(call->params->data, call->params->size, 0, call->object->group->slice_usec);
        return RM_STATUS_OK;
}

/* hChannel@0 property@4 u64@8; property 0: the timeslice in microseconds. */
uint32_t method_channel_property(struct method_call *call)
{
        struct object *object = handles_get(call->request->client, params_get(call, 0));

        if (!object || !object->channel)
                return RM_STATUS_OBJECT_NOT_FOUND;
        if (params_get(call, 4) != 0)
                return RM_STATUS_OK;
        call->request->cost = COST_SLICE;
        return slice_set(object->channel->group, rm_get64(call->params->data, call->params->size, 8));
}

/* ---- disabling and enabling channels ------------------------------------------------------- */

static uint32_t channel_switch_apply(struct machine *machine, const struct channel_switch *channel_switch, nsec at)
{
        uint32_t status = RM_STATUS_OK;

        for (size_t i = 0; i < channel_switch->n; i++) {
                struct client *client = handles_client(&machine->handles, channel_switch->clients[i]);
                struct object *object = client ? handles_get(client, channel_switch->channels[i]) : NULL;

                if (object && object->channel && channel_switch->is_gentle)
                        runlist_retire(&object->channel->run, at);
                else if (object && object->channel) {
                        runlist_set_disabled(&object->channel->run, channel_switch->is_disabled, at);
                        if (!channel_switch->is_disabled)
                                touch_allow(machine, channel_switch->clients[i]);
                } else
                        status = RM_STATUS_INVALID_CHANNEL;
        }
        return status;
}

static bool all_are_there(const struct machine *machine, const struct channel_switch *channel_switch)
{
        for (size_t i = 0; i < channel_switch->n; i++) {
                struct client *client = handles_client(&machine->handles, channel_switch->clients[i]);
                struct object *object = client ? handles_get(client, channel_switch->channels[i]) : NULL;

                if (!object || !object->channel)
                        return false;
        }
        return true;
}

/* False: no memory; the caller applies it at once. */
static bool channel_switch_later(struct machine *machine, const struct channel_switch *channel_switch)
{
        struct channel_switch *late = malloc(sizeof(*late)), **at = &machine->channel_switches;

        if (!late)
                return false;
        *late = *channel_switch;
        while (*at && (*at)->due <= late->due)
                at = &(*at)->next;
        late->next = *at;
        *at = late;
        return true;
}

nsec channel_switches_advance(struct machine *machine)
{
        while (machine->channel_switches && machine->channel_switches->due <= machine->now) {
                struct channel_switch *channel_switch = machine->channel_switches;

                machine->channel_switches = channel_switch->next;
                (void)channel_switch_apply(machine, channel_switch, channel_switch->due);
                free(channel_switch);
        }
        return machine->channel_switches ? machine->channel_switches->due : RUN_NEVER;
}

void channel_switches_done(struct machine *machine)
{
        while (machine->channel_switches) {
                struct channel_switch *channel_switch = machine->channel_switches;

                machine->channel_switches = channel_switch->next;
                free(channel_switch);
        }
}

/* disable@0 num@4 onlySched@8 rewind@9 event@16 clients[64]@24 channels[64]@280. Whose channels
 * they are is not checked (measured, H200, 580.159.04). */
uint32_t method_disable_channels(struct method_call *call)
{
        enum {
                CHANNELS_MAX = 64,
                CLIENTS_AT = 24,
                CHANNELS_AT = 280,
        };
        struct machine *machine = call->machine;
        struct channel_switch channel_switch = { .n = params_get(call, 4), .is_disabled = call->params->data[0] };

        if (!channel_switch.n)
                return RM_STATUS_INVALID_PARAM_STRUCT; /* measured, as is INVALID_CHANNEL: tests/gpu/meter.c */
        if (channel_switch.n > CHANNELS_MAX)
                return RM_STATUS_INVALID_ARGUMENT;
        for (size_t i = 0; i < channel_switch.n; i++) {
                channel_switch.clients[i] = params_get(call, CLIENTS_AT + 4 * i);
                channel_switch.channels[i] = params_get(call, CHANNELS_AT + 4 * i);
        }
        if (!channel_switch.is_disabled && machine->faults.enable_lost_at && --machine->faults.enable_lost_at == 0)
                return RM_STATUS_OK;
        channel_switch.due = machine->now + (channel_switch.is_disabled ? AFTER_DISABLE : AFTER_ENABLE);
        channel_switch.is_gentle = channel_switch.is_disabled && call->params->data[8];
        call->request->cost = channel_switch.is_disabled && !channel_switch.is_gentle ? COST_DISABLE : COST_ENABLE;
        if (channel_switch.n > CHANNELS_OF_ONE)
                call->request->cost += COST_MORE * (channel_switch.n - CHANNELS_OF_ONE);
        if (machine->faults.real_time && all_are_there(machine, &channel_switch) &&
            channel_switch_later(machine, &channel_switch))
                return RM_STATUS_OK;
        return channel_switch_apply(machine, &channel_switch, machine->now);
}

uint32_t method_preempt(struct method_call *call)
{
        call->request->cost = COST_PREEMPT;
        runlist_preempt(&call->object->group->run, call->machine->now);
        return RM_STATUS_OK;
}

uint32_t method_group_info(struct method_call *call)
{
        params_put(call, 0, call->object->group->context);
        return RM_STATUS_OK;
}

/* Also the token that a doorbell is rung with. */
uint32_t method_channel_id(struct method_call *call)
{
        params_put(call, 0, call->object->channel->cid);
        return RM_STATUS_OK;
}

/* hObject@0 classEngineID@4 classID@8 engineID@12 */
uint32_t method_engine_of(struct method_call *call)
{
        const struct object *object = handles_get(call->request->client, params_get(call, 0));

        if (!object)
                return RM_STATUS_OBJECT_NOT_FOUND;
        params_put(call, 4, object->class_number);
        params_put(call, 8, object->class_number);
        params_put(call, 12, call->object->channel->group->engine);
        return RM_STATUS_OK;
}

/* numChannels@0 pHandles@8 pChannels@16: numbers of one's own channels. */
uint32_t method_channel_list(struct method_call *call)
{
        const struct part *handles = &call->request->segments[1];
        struct part *numbers = &call->request->segments[2];

        if (call->request->header.n_segments < 3)
                return RM_STATUS_INVALID_ARGUMENT;
        for (size_t i = 0; i < handles->size / 4; i++) {
                struct object *object =
                        handles_get(call->request->client, rm_get32(handles->data, handles->size, 4 * i));

                if (!object || !object->channel)
                        return RM_STATUS_INVALID_ARGUMENT;
                rm_put32(numbers->data, numbers->size, 4 * i, object->channel->cid);
        }
        return RM_STATUS_OK;
}

/* The device's clock, as in its records. */
uint32_t method_time(struct method_call *call)
{
        rm_put64(call->params->data, call->params->size, 0,
                 (uint64_t)(call->machine->now + call->machine->realtime_since));
        return RM_STATUS_OK;
}

/* cpuClkId@0 sampleCount@1, then pairs of 64 bits from 8: the time of day, and the device's. */
uint32_t method_times(struct method_call *call)
{
        enum {
                SAMPLES_MAX = 16,
        };
        uint64_t now = (uint64_t)(call->machine->now + call->machine->realtime_since);

        if (call->params->data[1] > SAMPLES_MAX)
                return RM_STATUS_INVALID_ARGUMENT;
        for (size_t i = 0; i < 2 * (size_t)call->params->data[1]; i++)
                rm_put64(call->params->data, call->params->size, 8 + 8 * i, now);
        return RM_STATUS_OK;
}
