/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request and a block that a tenant chose, in a release that the first byte chooses. Nothing is
 * read beside the block, and every offset that the gate will write through lies inside.
 *
 *      release (1) node (1) request (4) block (as many as the request says; zero where missing)
 *
 * The rest is taken for parameters: what rm_pointers says about them is asked, too.
 */
#include "rm/call.h"
#include "rm/numbers.h"

#include <stdlib.h>

static const struct rm_version releases[] = {
        { 525, 53, 0 },  { 525, 147, 5 }, { 535, 54, 3 },  { 535, 288, 1 }, { 550, 163, 1 }, { 560, 35, 3 },
        { 570, 211, 1 }, { 575, 64, 5 },  { 580, 159, 4 }, { 590, 48, 1 },  { 595, 45, 4 },
};

enum {
        N_RELEASES = sizeof(releases) / sizeof(releases[0]),
        HEAD = 6,
};

static void require(bool holds)
{
        if (!holds)
                abort();
}

static void inside(uint32_t at, uint32_t width, uint32_t size)
{
        require(at == UINT32_MAX || (at <= size && width <= size - at));
}

static void check(const struct rm_layout *layout, const struct rm_call *call, const uint8_t *rest, size_t n_rest)
{
        const struct rm_pointer *pointers;
        size_t n_pointers;

        inside(call->status_at, 4, call->block_size);
        inside(call->object_at, 4, call->block_size);
        inside(call->params_at, 8, call->block_size);
        inside(call->params_size_at, 4, call->block_size);
        inside(call->rights_at, 8, call->block_size);
        inside(call->fd_at, 4, call->block_size);
        require(call->params_at != UINT32_MAX || call->params == 0);
        require(call->params != 0 || rm_params_size(layout, call) == 0);
        (void)rm_class_name(call->class_or_cmd);
        (void)rm_control_name(call->class_or_cmd);

        n_pointers = rm_pointers(layout, call->class_or_cmd, &pointers);
        require((n_pointers == 0) == (pointers == NULL));
        for (size_t i = 0; i < n_pointers; i++)
                require(rm_pointer_bytes(&pointers[i], rest, n_rest) == 0 || n_rest >= 8 || pointers[i].element == 0);
}

/* depth: an indirect request is decoded as the gate does it, once. */
static void decode(const struct rm_layout *layout, enum rm_node node, uint32_t request, const uint8_t *data,
                   size_t size, int depth)
{
        enum rm_kind kind;
        struct rm_call call;
        uint32_t block_size;
        uint8_t *block;
        size_t given;
        int r;

        if (rm_request_find(layout, node, request, &kind, &block_size) != RM_OK)
                return;
        require(kind < RM_N_KINDS && block_size <= 9264);

        block = calloc(1, block_size ? block_size : 1); /* its very size, for the sanitizer */
        require(block != NULL);
        given = size < block_size ? size : block_size;
        memcpy(block, data, given);
        r = rm_decode(layout, kind, request, block, block_size, &call);
        free(block);

        if (kind != RM_XFER)
                require(r == RM_OK);
        if (r != RM_OK)
                return;
        require(call.kind == kind && call.block_size == block_size && call.request == request);
        check(layout, &call, data + given, size - given);
        if (kind == RM_XFER) {
                require(depth == 0);
                decode(layout, node, RM_REQUEST(call.class_or_cmd, call.params_size), data + given, size - given,
                       depth + 1);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct rm_layout layout;
        enum rm_node node;

        if (size < HEAD)
                return 0;
        require(rm_layout_for(releases[data[0] % N_RELEASES], &layout) == RM_OK);
        node = (enum rm_node)(data[1] % (RM_NODE_FORBIDDEN + 1));
        decode(&layout, node, rm_get32(data, size, 2), data + HEAD, size - HEAD, 0);
        return 0;
}
