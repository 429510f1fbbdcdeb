/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts of libcuda, and groups and channels made again as it made them. */
#include "ownmem.h"

#include <stdio.h>
#include <string.h>

enum {
        REPEAT = 6,
        CHANNELS = 4,
        UVM_REGISTER_CHANNEL = 27,
};

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device); /* of any header */

static void second_context(void)
{
        CUcontext context;

        if (cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS)
                printf("calls2 refused\n");
}

void contexts(void)
{
        price_calls(kit_start, "calls");
        price_calls(second_context, "calls2");
}

/* ---- groups and channels, again ------------------------------------------------------------------------------ */

static const struct saved *saved_after(const struct saved *from, uint32_t parent, uint32_t class_number)
{
        for (const struct saved *at = from; at < saved + n_saved; at++)
                if (at->parent == parent &&
                    (class_number == CLASS_MEMORY ? is_channel(at->class_number) :
                                                    class_number == 0 || at->class_number == class_number))
                        return at;
        return NULL;
}

static struct kit_outcome again(const struct kit_rm *rm, const struct saved *what, uint32_t parent, uint32_t handle,
                                uint32_t share)
{
        unsigned char params[PARAMS_MAX];

        memcpy(params, what->params, sizeof(params));
        if (is_channel(what->class_number) && share)
                kit_put32(params, 24, share);
        return kit_rm_alloc(rm, parent, handle, what->class_number, what->size ? params : NULL,
                            is_channel(what->class_number) || what->class_number == CLASS_GROUP ? 0 : what->size);
}

static void registers(const struct kit_rm *rm, uint32_t channel, unsigned int i)
{
        unsigned char block[56];
        long long before = used();
        struct kit_outcome outcome;

        memcpy(block, registered, sizeof(block));
        kit_put32(block, 20, rm->client);
        kit_put32(block, 24, channel);
        kit_put64(block, 32, 0x510000000000ull + i * (1ull << 32));
        outcome = driver_call(price_uvm, UVM_REGISTER_CHANNEL, block, 48);
        say("uvm register channel", 1, before, 0, outcome);
}

/* A group as libcuda made one, and in it what libcuda made. */
static void group_again(const struct kit_rm *rm, const struct saved *group, unsigned int k)
{
        const struct saved *share = saved_after(group, group->handle, CLASS_SHARE);
        const struct saved *channel = saved_after(group, group->handle, CLASS_MEMORY), *engine;
        uint32_t base = 0x7e000000 + k * 0x10000;
        char what[64];
        long long before;

        engine = channel ? saved_after(channel, channel->handle, 0) : NULL;
        for (uint32_t i = 0; i < REPEAT; i++) {
                uint32_t handle = base + i * 16;
                long long start = used();
                struct kit_outcome outcome;

                (void)snprintf(what, sizeof(what), "group engine %u", kit_get32(group->params, 12));
                outcome = again(rm, group, group->parent, handle, 0);
                say(what, 1, start, 0, outcome);
                before = used();
                if (share)
                        say("context share", 1, before, 0, again(rm, share, handle, handle + 1, 0));
                for (uint32_t j = 0; channel && j < CHANNELS; j++) {
                        before = used();
                        (void)snprintf(what, sizeof(what), "channel %u of engine %u", j, kit_get32(group->params, 12));
                        outcome = again(rm, channel, handle, handle + 2 + j, share ? handle + 1 : 0);
                        say(what, 1, before, 0, outcome);
                        before = used();
                        (void)snprintf(what, sizeof(what), "object 0x%x", engine ? engine->class_number : 0);
                        if (engine && kit_ok(outcome))
                                say(what, 1, before, 0, again(rm, engine, handle + 2 + j, handle + 8 + j, 0));
                        if (j == 0 && share && kit_ok(outcome))
                                registers(rm, handle + 2, i);
                }
                if (i == REPEAT - 1)
                        continue;
                before = used();
                say("group freed", 1, before, 0, kit_rm_free(rm, group->parent, handle));
                say_left("group, channels and free", start);
        }
}

void groups(void)
{
        unsigned int k = 0;

        price_save(kit_start);
        for (const struct saved *at = saved; at < saved + n_saved && k < 3; at++)
                if (at->class_number == CLASS_GROUP) {
                        struct kit_rm rm = { price_ctl, -1, at->client };

                        group_again(&rm, at, k++);
                }
}
