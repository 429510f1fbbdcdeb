/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call that a tenant chose, up to the gate's verdict and the views of a reply.
 *
 *      release (1) node (1) request (4) length of parameters (2) block (as many bytes as the request
 *      says; zero where missing) parameters (the rest, at most the length)
 *
 * Nothing is read beside block or parameters. Video memory is charged or refused, whatever surrounds
 * the class; and no charge is smaller than what the call asks for.
 */
#include "gate/policy/decide.h"
#include "gate/policy/views.h"
#include "rm/numbers.h"

#include <stdlib.h>

static const struct rm_version releases[] = {
        { 525, 53, 0 },  { 525, 147, 5 }, { 535, 54, 3 },  { 535, 288, 1 }, { 550, 163, 1 }, { 560, 35, 3 },
        { 570, 211, 1 }, { 575, 64, 5 },  { 580, 159, 4 }, { 590, 48, 1 },  { 595, 45, 4 },
};

enum {
        FB_REGIONS = 0x20801320,
        N_RELEASES = sizeof(releases) / sizeof(releases[0]),
        HEAD = 8,
        MEMORY_SIZE_AT = 64,
        HEAP_SIZE_AT = 88,
        OLD_LIMIT_AT = 32,
};

static void require(bool holds)
{
        if (!holds)
                abort();
}

/* Memory of exactly this size, with what there is of it. */
static uint8_t *copy_of(const uint8_t *data, size_t given, size_t size)
{
        uint8_t *copy = calloc(1, size ? size : 1);

        require(copy != NULL);
        if (given)
                memcpy(copy, data, given < size ? given : size);
        return copy;
}

/* What the call itself says that it wants. */
static uint64_t asked(const struct rm_call *call, const uint8_t *block, const uint8_t *params, size_t size)
{
        uint64_t limit;

        switch ((int)call->kind) {
        case RM_ALLOC:
        case RM_ALLOC_SHORT:
                return rm_get64(params, size, MEMORY_SIZE_AT);
        case RM_VID_HEAP:
                return rm_get64(block, call->block_size, HEAP_SIZE_AT);
        case RM_ALLOC_MEMORY:
                limit = rm_get64(block, call->block_size, OLD_LIMIT_AT);
                return limit == UINT64_MAX ? limit : limit + 1;
        default:
                return 0;
        }
}

static bool names_video_memory(const struct rm_call *call)
{
        return (call->kind == RM_ALLOC || call->kind == RM_ALLOC_SHORT || call->kind == RM_ALLOC_MEMORY) &&
               call->class_or_cmd == RM_CLASS_VIDEO_MEMORY;
}

static bool same(const struct gate_verdict *a, const struct gate_verdict *b)
{
        return a->action == b->action && a->status == b->status && a->error == b->error && a->because == b->because &&
               a->is_unknown == b->is_unknown && a->size == b->size;
}

static void check(const struct rm_call *call, const struct gate_verdict *verdict, const uint8_t *block,
                  const uint8_t *params, size_t size)
{
        const uint32_t *offsets;
        size_t n;

        require(verdict->action != GATE_LOOKUP && verdict->because);
        require((verdict->action == GATE_UNWRAP) == (call->kind == RM_XFER));
        require(verdict->action != GATE_DENY || verdict->status || verdict->error < 0);
        require(verdict->action == GATE_DENY || (!verdict->error && !verdict->is_unknown));
        require(verdict->error || verdict->action != GATE_DENY || call->status_at != UINT32_MAX);
        if (names_video_memory(call))
                require(verdict->action == GATE_CHARGE || verdict->action == GATE_DENY ||
                        (verdict->action == GATE_HOLLOW && call->kind == RM_ALLOC_MEMORY));
        if (verdict->action == GATE_CHARGE || verdict->action == GATE_HOST)
                require(verdict->size >= asked(call, block, params, size));
        if (verdict->action == GATE_CHARGE)
                require(verdict->size > 0);
        else if (verdict->action == GATE_HOLLOW)
                require(verdict->size > 0 && verdict->most == UINT64_MAX);
        else if (verdict->action == GATE_FABRIC) /* addresses: no memory is charged for them, they are bounded */
                require(verdict->size == rm_get64(params, size, GATE_FABRIC_SIZE_AT));
        else if (verdict->action != GATE_HOST && verdict->action != GATE_OBJECT)
                require(verdict->size == 0);
        require(verdict->most >= (verdict->most ? verdict->size : 0));

        n = gate_client_fields(call, &offsets);
        for (size_t i = 0; i < n; i++)
                (void)rm_get32(params, size, offsets[i]);
        (void)gate_params_fd(call);
        require(gate_memory_size(params, size) >= rm_get64(params, size, MEMORY_SIZE_AT));
}

static bytes held_by(void *context, uint32_t pid)
{
        (void)context;
        return pid;
}

/* The parameters, taken for a reply. */
static void reply_rewrite(const struct rm_call *call, uint8_t *block, uint8_t *params, size_t size)
{
        static struct lease lease = { .n_devices = 1, .devices[0] = { .is_granted = true, .gpu_id = 0x600 } };
        struct view view = { GIB, MIB };
        uint32_t n = rm_get32(params, size, 0), pid = 7;

        if (call->kind == RM_CARD_INFO)
                view_devices(block, call->block_size / 72, &lease);
        else if (call->kind == RM_VID_HEAP)
                view_heap_info(block, call->block_size, &view);
        else if (call->class_or_cmd == RM_GET_ATTACHED_IDS)
                view_gpu_ids(params, size / 4, &lease);
        else if (call->class_or_cmd == 0x288)
                view_active_devices(params, size, &lease);
        else if (call->class_or_cmd == RM_FB_GET_INFO_V2 && size > 4)
                view_fb_info(params + 4, n < (size - 4) / 8 ? n : (size - 4) / 8, &view);
        else if (call->class_or_cmd == FB_REGIONS)
                view_regions(params, size, &view);
        else if (call->class_or_cmd == RM_GET_PIDS)
                view_pids(params, size, &pid, 1);
        else if (call->class_or_cmd == RM_GET_PID_INFO)
                view_pid_info(params, size, held_by, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct gate_verdict verdict, again;
        struct rm_layout layout;
        uint8_t *block, *params;
        uint32_t block_size;
        struct rm_call call;
        enum rm_kind kind;
        size_t n, n_params;

        if (size < HEAD || rm_layout_for(releases[data[0] % N_RELEASES], &layout) != RM_OK ||
            rm_request_find(&layout, (enum rm_node)(data[1] % (RM_NODE_FORBIDDEN + 1)), rm_get32(data, size, 2), &kind,
                            &block_size) != RM_OK)
                return 0;
        n = size - HEAD < block_size ? size - HEAD : block_size;
        n_params = (size_t)(data[6] | data[7] << 8);
        if (n_params > size - HEAD - n)
                n_params = size - HEAD - n;
        block = copy_of(data + HEAD, n, block_size);
        params = copy_of(data + HEAD + n, n_params, n_params);
        if (rm_decode(&layout, kind, rm_get32(data, size, 2), block, block_size, &call) == RM_OK) {
                gate_decide(&layout, &call, block, params, n_params, &verdict);
                gate_decide(&layout, &call, block, params, n_params, &again);
                require(same(&verdict, &again));
                check(&call, &verdict, block, params, n_params);
                if (verdict.action == GATE_VIEW)
                        reply_rewrite(&call, block, params, n_params);
        }
        free(block);
        free(params);
        return 0;
}
