/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks are read by offset, from tables: requests.def has a block's size and the offsets of its status, descriptor and
 * client, blocks.def those of the other fields.
 *
 * I1  The size of a block comes from the request and this release's table, never from the block.
 * I2  A field is read through rm_get, which reads 0 outside the buffer: no table row, right or wrong, reaches beyond
 *     the copy.
 * I3  What the driver ignores is ignored here: the type byte and the direction bits of a request, and the size that a
 *     tenant claims for an allocation's parameters. A filter that used them would see another call than the driver.
 * I4  The flags of a control are decoded, since they decide what the rest means: with bit 2
 *     (NVOS54_FLAGS_FINN_SERIALIZED) the driver takes the parameters for a serialized message and leaves the pointers
 *     of pointers.def alone (embedded_param_copy.c, rmapi_finn.c); bits 0 and 1 are the kernel's. No library is known
 *     to set any, and the code that performs a control insists on 0.
 */
#include "rm/call.h"

#include "rm/encode.h"
#include "rm/numbers.h"

#include <assert.h>

#define NONE UINT32_MAX

enum {
        EVENT_SIZE = 16, /* NvUnixEvent, what EVENT_DATA writes */
};

static bool size_is(enum rm_kind kind, uint32_t row, uint32_t size)
{
        if (kind == RM_CARD_INFO)
                return size != 0 && size % RM_DEVICE_INFO_SIZE == 0 && size <= RM_DEVICES_MAX * RM_DEVICE_INFO_SIZE;
        return size == row && row != RM_ABSENT;
}

static int ctl_find(const struct rm_layout *layout, uint32_t request, enum rm_kind *ret_kind, uint32_t *ret_size)
{
        uint32_t number = request & 0xffu, size = request >> 16 & 0x3fffu;
        int r = RM_E_NUMBER;

#define REQUEST(kind, node, nr, row, status, fd, client, meaning)                                                      \
        if (RM_NODE_##node == RM_NODE_CTL && number == (nr) && (row) != RM_ABSENT) {                                   \
                if (size_is(RM_##kind, row, size)) {                                                                   \
                        *ret_kind = RM_##kind;                                                                         \
                        *ret_size = size;                                                                              \
                        return RM_OK;                                                                                  \
                }                                                                                                      \
                r = RM_E_SIZE;                                                                                         \
        }
#include "rm/requests.def"
#undef REQUEST
        return r;
}

static int uvm_find(const struct rm_layout *layout, uint32_t request, enum rm_kind *ret_kind, uint32_t *ret_size)
{
#define REQUEST(kind, node, nr, row, status, fd, client, meaning)                                                      \
        if (RM_NODE_##node == RM_NODE_UVM && request == (nr) && (row) != RM_ABSENT) {                                  \
                *ret_kind = RM_##kind;                                                                                 \
                *ret_size = row;                                                                                       \
                return RM_OK;                                                                                          \
        }
#include "rm/requests.def"
#undef REQUEST
        return RM_E_NUMBER;
}

int rm_request_find(const struct rm_layout *layout, enum rm_node node, uint32_t request, enum rm_kind *ret_kind,
                    uint32_t *ret_size)
{
        switch (node) {
        case RM_NODE_CTL:
        case RM_NODE_DEVICE:
                return ctl_find(layout, request, ret_kind, ret_size);
        case RM_NODE_UVM:
                return uvm_find(layout, request, ret_kind, ret_size);
        case RM_NODE_OTHER:
        case RM_NODE_UVM_TOOLS:
        case RM_NODE_FORBIDDEN:
                break;
        }
        return RM_E_NUMBER;
}

/* A row of requests.def: the size, and the offsets of what most blocks have. */
struct frame {
        uint32_t size; /* RM_ABSENT: the release has no such block */
        uint32_t status, fd, client;
};

/* A row of blocks.def: the offsets of the rest. */
struct block {
        uint32_t parent, object, class_or_cmd, flags, source_client, source_object;
        uint32_t params, params_size, rights, base, length, new;
};

static struct frame frame_of(const struct rm_layout *layout, enum rm_kind kind)
{
        switch (kind) {
#define REQUEST(kind_, node, nr, size_, status_, fd_, client_, meaning)                                                \
        case RM_##kind_:                                                                                               \
                return (struct frame){ size_, status_, fd_, client_ };
#include "rm/requests.def"
#undef REQUEST
        case RM_N_KINDS:
                break;
        }
        return (struct frame){ .size = RM_ABSENT };
}

static struct block block_of(const struct rm_layout *layout, enum rm_kind kind)
{
        struct block none;

        switch (kind) {
#define BLOCK(kind_, ...)                                                                                              \
        case RM_##kind_:                                                                                               \
                return (struct block){ __VA_ARGS__ };
#include "rm/blocks.def"
#undef BLOCK
        default:
                memset(&none, 0xff, sizeof(none)); /* NONE in all of them */
                return none;
        }
}

/*
 * VID_HEAP is several calls; its union depends on the function (NVOS32, the same 525 to 595):
 * ALLOC_DEPTH_WIDTH_HEIGHT 1 (525), ALLOC_SIZE 2, FREE 3, ALLOC_TILED_PITCH_HEIGHT 6, ALLOC_SIZE_RANGE 14,
 * ALLOC_OS_DESCRIPTOR 27. The others name no object of their own.
 */
static void heap_adjust(uint32_t function, struct block *b)
{
        switch (function) {
        case 1:
        case 2:
        case 6:
        case 14:
                break;
        case 3:
                b->new = NONE;
                break;
        case 27:
                b->object = 40;
                b->new = 40;
                break;
        default:
                b->object = NONE;
                b->new = NONE;
                break;
        }
}

/* The inner request must be one that could be made directly, and no other XFER: the driver unwraps once (nv.c, 525 to
 * 595). */
static int xfer_check(const struct rm_call *call)
{
        if (call->class_or_cmd > 0xff || call->class_or_cmd == RM_NR_XFER)
                return RM_E_NUMBER;
        return call->params_size > 0x3fff ? RM_E_SIZE : RM_OK;
}

int rm_decode(const struct rm_layout *layout, enum rm_kind kind, uint32_t request, const void *block, size_t size,
              struct rm_call *ret)
{
        struct frame frame = frame_of(layout, kind);
        struct block b = block_of(layout, kind);
        struct rm_call call = { .kind = kind, .request = request };
        int r = RM_OK;

        if (size > UINT32_MAX || frame.size == RM_ABSENT || !size_is(kind, frame.size, (uint32_t)size))
                return RM_E_SIZE;

        call.block_size = (uint32_t)size;
        call.class_or_cmd = rm_get32(block, size, b.class_or_cmd);
        if (kind == RM_VID_HEAP)
                heap_adjust(call.class_or_cmd, &b);

        call.client = rm_get32(block, size, frame.client);
        call.parent = rm_get32(block, size, b.parent);
        call.flags = rm_get32(block, size, b.flags);
        call.object = rm_get32(block, size, b.object);
        call.source_client = rm_get32(block, size, b.source_client);
        call.source_object = rm_get32(block, size, b.source_object);
        call.params = rm_get64(block, size, b.params);
        call.params_size = rm_get32(block, size, b.params_size);
        call.base = rm_get64(block, size, b.base);
        call.length = rm_get64(block, size, b.length);
        if (kind == RM_ALLOC_MEMORY)
                call.length++; /* the block has a limit, the last byte */
        call.status_at = frame.status;
        call.object_at = b.new;
        call.params_at = b.params;
        call.params_size_at = b.params_size;
        call.rights_at = b.rights;
        call.fd_at = frame.fd;
        if (kind == RM_XFER)
                r = xfer_check(&call);

        if (r == RM_OK)
                *ret = call;
        return r;
}

static uint32_t class_size(const struct rm_layout *layout, uint32_t number)
{
        switch (number) {
#define CLASS(number_, size, name)                                                                                     \
        case number_:                                                                                                  \
                return size;
#include "rm/classes.def"
#undef CLASS
        default: /* a channel class without a row is still a channel */
                return RM_CLASS_IS_CHANNEL(number) ? layout->channel_params_size : 0;
        }
}

uint32_t rm_params_size(const struct rm_layout *layout, const struct rm_call *call)
{
        if (call->params == 0)
                return 0;

        switch ((int)call->kind) {
        case RM_ALLOC:
        case RM_ALLOC_SHORT:
                return class_size(layout, call->class_or_cmd); /* I3 */
        case RM_CONTROL:
        case RM_XFER:
                return call->params_size;
        case RM_EVENT_DATA:
                return EVENT_SIZE;
        default:
                return 0;
        }
}
