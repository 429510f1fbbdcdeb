/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start and the end of a device and of a context: the tables are played step by step.
 *
 * A step that makes something fills in a struct piece. So a start that the driver refuses half way (a
 * quota without room for a context) gives back what it took, and the end of a context undoes the rest.
 */
#include "sim/cuda/driver/stage.h"

#include "base/cleanup.h"
#include "rm/numbers.h"
#include "sim/cuda/driver/addresses.h"

#include <sys/mman.h>

uint32_t start_handle(const struct start_device *device, const struct start_context *context, uint32_t n)
{
        const struct nv *nv = device->nv;

        if (n == ROOT)
                return nv->client;
        if (n == 1)
                return nv->prefix + nv->stride;
        if (n < START_CONTEXT)
                return nv->prefix + (device->first + n - 2) * nv->stride;
        return nv->prefix + (context->first + n - START_CONTEXT) * nv->stride;
}

/* ---- the tables ---------------------------------------------------------------------------- */

/* clang-format off */
#define WORDS(...) .words = { __VA_ARGS__ }
#define CONTROL(object, control, bytes, ...) { .play = play_control, .n = object, .number = control, .size = bytes, WORDS(__VA_ARGS__) },
#define ONCE(object, control, bytes, ...) { .play = play_once, .n = object, .number = control, .size = bytes, WORDS(__VA_ARGS__) },
#define LEFTOVERS() { .play = play_leftovers },
#define LEARN(object, control, bytes, ...) { .play = play_learn, .n = object, .number = control, .size = bytes, WORDS(__VA_ARGS__) },
#define OBJECT(i, of, class_number, bytes, ...) { .play = play_object, .n = i, .parent = of, .number = class_number, .size = bytes, WORDS(__VA_ARGS__) },
#define FORGET(i) { .play = play_forget, .n = i },
#define NODE(i) { .play = play_node, .n = i },
#define NUMA(i) { .play = play_numa, .n = i },
#define WATCH(i) { .play = play_watch, .n = i },
#define VIEW(i, of, how, bytes, flags) { .play = play_view, .n = i, .parent = of, .number = how, .size = bytes, .attr = flags },
#define REGISTER_GPU() { .play = play_register_gpu },
#define REGISTER_VASPACE(i) { .play = play_register_vaspace, .n = i },
#define REGISTER_CHANNEL(i) { .play = play_register_channel, .n = i },
#define GROUPS(how_many) { .play = play_groups, .n = how_many },
#define VIDEO(i, bytes, where) { .play = play_video, .n = i, .size = bytes, .address = where },
#define HUGE(i, bytes, where) { .play = play_video, .n = i, .size = bytes, .attr = PAGES_HUGE, .address = where },
#define RING(i, bytes, where) { .play = play_ring, .n = i, .size = bytes, .address = where },
#define HOST(i, bytes, kind, kind2, where, flags) { .play = play_host, .n = i, .size = bytes, .attr = kind, .attr2 = kind2, .address = where, .number = flags },
#define PINNED(i, bytes, flags, where) { .play = play_pinned, .n = i, .size = bytes, .attr = flags, .address = where },
#define CHANNEL(i, of, index) { .play = play_channel, .n = i, .parent = of, .number = index },
#define EVENT(i, of, what) { .play = play_event, .n = i, .parent = of, .number = what },
#define SEMAPHORES(where, bytes) { .play = play_semaphores, .size = bytes, .address = where },
#define PARALLELISM(where, bytes) { .play = play_parallelism, .size = bytes, .address = where },
#define GONE(i) { .play = play_gone, .n = i },
#define FREED(i, of) { .play = play_freed, .n = i, .parent = of },
#define CLOSED(i, of) { .play = play_closed, .n = i, .parent = of },
#define ENDED(i) { .play = play_ended, .n = i },
#define UNREGISTER(i) { .play = play_unregister, .n = i },
#define GROUPS_GONE() { .play = play_groups_gone },
#define RANGE_GONE(i) { .play = play_range_gone, .n = i },
#define UNREGISTER_VASPACE() { .play = play_unregister_vaspace },
/* clang-format on */

static const struct step device_steps[] = {
#include "sim/cuda/driver/start_device.def"
};

static const struct step context_steps[] = {
#include "sim/cuda/driver/start_context.def"
};

static const struct step end_steps[] = {
#include "sim/cuda/driver/end_context.def"
};

static uint32_t play(const struct stage *stage, const struct step *steps, size_t n, bool stops)
{
        uint32_t status = RM_STATUS_OK;

        for (size_t i = 0; i < n; i++) {
                status = steps[i].play(stage, &steps[i]);
                if (status != RM_STATUS_OK && stops)
                        return status;
        }
        return status;
}

uint32_t start_device(struct start_device *device)
{
        struct stage stage = { device->nv, device, NULL };
        uint32_t status;

        for (size_t i = 0; i < N_NODES; i++)
                device->node[i] = -1;
        device->first = nv_handles_take(device->nv, START_CONTEXT - 2);
        if (!device->first)
                return RM_STATUS_NO_MEMORY;
        status = play(&stage, device_steps, ARRAY_SIZE(device_steps), true);
        if (status != RM_STATUS_OK)
                start_device_end(device);
        return status;
}

void start_device_end(struct start_device *device)
{
        const struct nv *nv = device->nv;

        for (size_t n = 0; n < START_CONTEXT; n++)
                if (device->piece[n].at)
                        (void)munmap(device->piece[n].at, 4096);
        if (device->piece[OBJECT_DEVICE].is_made)
                (void)nv_free(nv, nv->client, start_handle(device, NULL, OBJECT_DEVICE));
        for (size_t i = 0; i < N_NODES; i++)
                closep(&device->node[i]);
        memset(device->piece, 0, sizeof(device->piece));
}

uint32_t start_context(struct start_context *context)
{
        struct start_device *device = context->device;
        struct stage stage = { device->nv, device, context };
        uint32_t status;

        device->n_contexts++;
        context->first = nv_handles_take(device->nv, START_END - START_CONTEXT);
        context->low = addresses_reserve_at(0x200000000, LOW_SIZE);
        context->far = addresses_reserve_at(0x10000000000, FAR_SIZE);
        context->near = addresses_reserve(NEAR_SIZE, ADDRESS_GRANULE);
        context->errors = addresses_reserve(START_CHANNELS * 4096ull, 4096);
        if (!context->first || !context->low || !context->far || !context->near || !context->errors)
                status = RM_STATUS_NO_MEMORY;
        else
                status = play(&stage, context_steps, ARRAY_SIZE(context_steps), true);
        if (status != RM_STATUS_OK)
                start_context_end(context);
        return status;
}

void start_context_end(struct start_context *context)
{
        struct stage stage = { context->device->nv, context->device, context };

        (void)play(&stage, end_steps, ARRAY_SIZE(end_steps), false);
        addresses_release(context->low, LOW_SIZE);
        addresses_release(context->far, FAR_SIZE);
        addresses_release(context->near, NEAR_SIZE);
        addresses_release(context->errors, START_CHANNELS * 4096ull);
        for (uint32_t n = START_CONTEXT; context->first && n < START_END; n++)
                nv_handle_give(context->device->nv, start_handle(context->device, context, n));
        context->device->n_contexts--;
        *context = (struct start_context){ .device = context->device };
}
