/* SPDX-License-Identifier: Apache-2.0 */
/* Calls as a tenant would write them, for the tests of this room: a block, and parameters. */
#pragma once

#include "rm/releases.h"

#include "gate/policy/decide.h"
#include "rm/numbers.h"

#include <stdlib.h>

enum {
        CLIENT = 0xc1d00042,
        DEVICE = 0x5c000001,
        SUBDEVICE = 0x5c000002,
        SOMEWHERE = 0x7f001000, /* an address that a tenant might name */
};

/* The block of a request, as large as the release has it. */
struct sent {
        enum rm_kind kind;
        uint32_t size;
        uint8_t block[9264];
};

static inline uint32_t long_request(uint32_t nr, uint32_t size)
{
        return 3u << 30 | size << 16 | (uint32_t)'F' << 8 | nr;
}

/* An empty block of the request. */
static inline struct sent sent(const struct rm_layout *layout, enum rm_node node, uint32_t request)
{
        struct sent sent = { .size = 0 };

        assert_int_equal(rm_request_find(layout, node, request, &sent.kind, &sent.size), RM_OK);
        assert_true(sent.size <= sizeof(sent.block));
        return sent;
}

static inline struct sent alloc_of(const struct rm_layout *layout, uint32_t class_number)
{
        struct sent alloc = sent(layout, RM_NODE_CTL, long_request(RM_NR_ALLOC, layout->alloc_size));

        rm_put32(alloc.block, alloc.size, 0, CLIENT);
        rm_put32(alloc.block, alloc.size, 4, DEVICE);
        rm_put32(alloc.block, alloc.size, 12, class_number);
        rm_put64(alloc.block, alloc.size, 16, SOMEWHERE);
        return alloc;
}

static inline struct sent control_of(const struct rm_layout *layout, uint32_t cmd)
{
        struct sent control = sent(layout, RM_NODE_CTL, long_request(RM_NR_CONTROL, 32));

        rm_put32(control.block, control.size, 0, CLIENT);
        rm_put32(control.block, control.size, 4, SUBDEVICE);
        rm_put32(control.block, control.size, 8, cmd);
        rm_put64(control.block, control.size, 16, SOMEWHERE);
        rm_put32(control.block, control.size, 24, 4);
        return control;
}

static inline struct rm_call decoded(const struct rm_layout *layout, const struct sent *sent)
{
        struct rm_call call;

        assert_int_equal(rm_decode(layout, sent->kind, 0, sent->block, sent->size, &call), RM_OK);
        return call;
}

/* Block and parameters lie in memory of exactly their size: a sanitizer sees a read beside them. */
static inline struct gate_verdict decided(const struct rm_layout *layout, const struct sent *sent, const void *params,
                                          size_t params_size)
{
        struct rm_call call = decoded(layout, sent);
        struct gate_verdict verdict = { .action = GATE_LOOKUP };
        uint8_t *block = malloc(sent->size ? sent->size : 1);
        uint8_t *exact = malloc(params_size ? params_size : 1);

        assert_true(block && exact);
        memcpy(block, sent->block, sent->size);
        if (params_size)
                memcpy(exact, params, params_size);
        gate_decide(layout, &call, block, exact, params_size, &verdict);
        free(block);
        free(exact);
        return verdict;
}

/* NV_MEMORY_ALLOCATION_PARAMS of video memory. */
struct memory {
        uint32_t flags, attr, attr2;
        uint64_t size;
};

static inline void memory_write(const struct memory *memory, uint8_t params[static 128])
{
        memset(params, 0, 128);
        rm_put32(params, 128, 0, 1);
        rm_put32(params, 128, 8, memory->flags);
        rm_put32(params, 128, 24, memory->attr);
        rm_put32(params, 128, 28, memory->attr2);
        rm_put64(params, 128, 64, memory->size);
}
