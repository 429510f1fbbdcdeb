/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter does not know descriptors, so it must catch whatever the driver could do something with on its own nodes,
 * and spare what it certainly refuses and other files need often.
 *
 *      C1  The driver takes no request of size 0: it copies as many bytes as the size says and then compares the size
 *          with that of the number's block (nvidia_ioctl in nv.c, escape.c, osapi.c), or takes as many elements as fit
 *          in it. So requests of size 0 may be spared; those of the types in `spared` are, because terminals, sockets
 *          and the like are asked so all the time. So are TIOCGPTN and TIOCSPTLCK, numbers that the driver has not:
 *          programs that have lost their gate can open a terminal all the same.
 *      C2  UVM takes the whole word, and its words have no size; but 0x3000000x, which counts as one with a size.
 *      C3  What is caught and no request that the driver takes (caught_is_drivers) may go on where it was meant for
 *          another file: put on a descriptor of the driver's meanwhile, the driver refuses it.
 *
 * Read in open-gpu-kernel-modules, 525.147.05 to 595.45.04.
 */
#include "gate/policy/caught.h"

#include "base/cleanup.h"
#include "rm/call.h"
#include "rm/numbers.h"

#include <sys/ioctl.h>

enum {
        SIZE_SHIFT = 16,
        SIZE_BITS = 14,
        LARGEST = (1 << SIZE_BITS) - 1,
        TYPE_SHIFT = 8,
        TYPE_BITS = 8,
        UVM_LAST = 511, /* the module's tests are 200 to 314 */
};

/* C1. Type 0 is UVM's (C2), and FIBMAP and FIGETBSZ. */
static const uint8_t spared[] = {
        0x00, 0x12, /* block devices */
        0x24,       /* perf: on, off */
        0x54,       /* terminals, pipes: TCGETS, FIONREAD, FIONBIO */
        0x89,       /* sockets */
        0xae,       /* KVM_RUN */
};

struct list {
        struct caught *at;
        size_t n;
};

static void caught_put(struct list *list, uint32_t mask, uint32_t value)
{
        if (list->n < CAUGHT_MAX)
                list->at[list->n++] = (struct caught){ mask, value };
}

static bool is_any_spared(uint32_t prefix, unsigned int n_bits)
{
        for (size_t i = 0; i < ARRAY_SIZE(spared); i++)
                if ((uint32_t)spared[i] >> (TYPE_BITS - n_bits) == prefix)
                        return true;
        return false;
}

/* All types that begin with these bits, but the spared ones: size 0. */
static void put_types(struct list *list, uint32_t prefix, unsigned int n_bits)
{
        unsigned int below = TYPE_SHIFT + TYPE_BITS - n_bits;
        uint32_t sizes = (uint32_t)LARGEST << SIZE_SHIFT, type_bits = (0xffffu >> below) << below;

        if (!is_any_spared(prefix, n_bits)) {
                caught_put(list, sizes | type_bits, prefix << below);
                return;
        }
        if (n_bits == TYPE_BITS)
                return;
        put_types(list, prefix << 1, n_bits + 1);
        put_types(list, prefix << 1 | 1, n_bits + 1);
}

/* Everything of this size bit but a type and number, whose last bit does not count. */
static void put_others(struct list *list, uint32_t size_bit, uint32_t type_and_number)
{
        for (unsigned int bit = 1; bit < TYPE_SHIFT + TYPE_BITS; bit++) {
                uint32_t bits = 0xffffu >> bit << bit;

                caught_put(list, size_bit | bits, size_bit | ((type_and_number & bits) ^ 1u << bit));
        }
}

/* Every size but 0. */
static void put_sizes(struct list *list)
{
        for (unsigned int bit = SIZE_SHIFT; bit < SIZE_SHIFT + SIZE_BITS; bit++)
                if (1u << bit == (TIOCGPTN & (uint32_t)LARGEST << SIZE_SHIFT))
                        put_others(list, 1u << bit, TIOCGPTN & 0xffff);
                else
                        caught_put(list, 1u << bit, 1u << bit);
}

/* C2: 4 to 255 as words, known or not; the higher ones are of other types. 1 to 3 are other people's (FIBMAP,
 * FIGETBSZ) and no longer UVM's in any release that we know. */
static void put_uvm(struct list *list)
{
        for (uint32_t first = 4; first < 256; first *= 2)
                caught_put(list, ~(first - 1), first);
}

size_t caught_requests(struct caught ret[static CAUGHT_MAX])
{
        struct list list = { ret, 0 };

        put_sizes(&list);
        put_types(&list, 0, 0);
        put_uvm(&list);
        return list.n;
}

/* What the driver takes and requests.def has no row for: no tenant needs it. Sizes from and to; where it compares less
 * than the whole size in some release, all that it takes there. */
static const struct {
        uint8_t number;
        uint16_t least, most;
} taken[] = {
        { 0x28, 20, 20 },                /* ALLOC_OBJECT */
        { 0x39, 32, 32 },                /* I2C_ACCESS */
        { 0x41, 56, 56 },                /* IDLE_CHANNELS */
        { 0x4d, 72, 72 },                /* ACCESS_REGISTRY */
        { 0x54, 56, 56 },                /* ALLOC_CONTEXT_DMA2 */
        { 0x59, 16, 16 },                /* BIND_CONTEXT_DMA */
        { 0x5f, 1, LARGEST },            /* NVLOG_CTRL, LOCKLESS_DIAGNOSTIC */
        { RM_NR_CARD_INFO, 1, LARGEST }, /* as many as fit, before 595 */
        { 0xd1, 1, LARGEST },            /* STATUS_CODE */
        { 0xd4, 4, LARGEST },            /* ATTACH_GPUS_TO_FD: any number of devices */
        { 0xd5, 8, LARGEST },            /* QUERY_DEVICE_INTR: more is taken, before 595 */
        { 0xd8, 1, LARGEST },            /* SET_NUMA_STATUS */
};

bool caught_is_drivers(const struct rm_layout *layout, uint32_t request)
{
        uint32_t number = request & 0xff, size = request >> SIZE_SHIFT & LARGEST, block;
        enum rm_kind kind;

        if ((request >= 4 && request <= UVM_LAST) || (request & ~3u) == (UVM_INITIALIZE & ~3u) ||
            rm_request_find(layout, RM_NODE_CTL, request, &kind, &block) == RM_OK)
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
                if (taken[i].number == number && size >= taken[i].least && size <= taken[i].most)
                        return true;
        return false;
}
