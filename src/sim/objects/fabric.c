/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fabric memory, class 0xf8: docs/rm-abi.md 2.6. Addresses of a device's range, and either a reference on the memory
 * that the object is made over, or memory that is attached later and comes off when its handle is freed.
 */
#include "sim/methods/methods.h"

#include "rm/numbers.h"

#include <stdlib.h>
#include <string.h>

enum {
        FLEXIBLE = 1,
        PAGES_HUGE = 3,
        ATTACHED_MAX = 64, /* of one call */
};

struct attachment {
        struct attachment *next;
        uint64_t offset;
        uint32_t handle;
        const struct memory *memory; /* what the handle named; not to be followed */
};

struct fabric {
        struct gpu *gpu;
        bytes size;
        struct attachment *attachments;
        bool is_flexible;
};

void fabric_free(struct fabric *fabric)
{
        struct attachment *next;

        if (!fabric)
                return;
        for (struct attachment *a = fabric->attachments; a; a = next) {
                next = a->next;
                free(a);
        }
        fabric->gpu->addresses -= fabric->size;
        free(fabric);
}

static bool is_page(uint64_t size)
{
        return size == 2 * MIB || size == 512 * MIB || size == 256 * GIB;
}

/* Video memory of the client on this device, in large pages. */
static struct memory *memory_for(const struct object *object, uint32_t handle)
{
        const struct object *named = handles_get(object->client, handle);

        if (!named || !named->memory || named->memory->gpu != object->gpu || !named->memory->taken ||
            named->memory->size % (2 * MIB))
                return NULL;
        return named->memory;
}

static uint32_t fabric_make(struct object *object, struct memory *below, bytes size, bool is_flexible)
{
        struct gpu *gpu = object->gpu;

        if (size > 2 * gpu->heap.size - gpu->addresses)
                return RM_STATUS_NO_MEMORY;
        if (mem_new(NULL, size, PAGES_HUGE << 23, 0, &object->memory) != HEAP_OK)
                return RM_STATUS_NO_MEMORY;
        object->memory->n_handles = 1;
        object->memory->below = mem_ref(below);
        object->memory->fabric = calloc(1, sizeof(*object->memory->fabric));
        if (!object->memory->fabric)
                return RM_STATUS_NO_MEMORY; /* what there is goes with the object */
        *object->memory->fabric = (struct fabric){ .gpu = gpu, .size = size, .is_flexible = is_flexible };
        gpu->addresses += size;
        return RM_STATUS_OK;
}

uint32_t fabric_alloc(const struct machine *machine, struct object *object, const struct part *params)
{
        uint64_t alignment = rm_get64(params->data, params->size, 0), size = rm_get64(params->data, params->size, 8);
        uint64_t page = rm_get64(params->data, params->size, 16), offset = rm_get64(params->data, params->size, 32);
        uint32_t flags = rm_get32(params->data, params->size, 24), handle = rm_get32(params->data, params->size, 40);
        struct memory *below = NULL;

        if (object->parent->class_number != RM_CLASS_SUBDEVICE)
                return SIM_STATUS_INVALID_PARENT;
        if (!machine->options.has_nvlink || (flags & FLEXIBLE && handle))
                return RM_STATUS_NOT_SUPPORTED;
        if (!is_page(page) || !size || size % page || alignment % page)
                return RM_STATUS_INVALID_ARGUMENT;
        if (flags & FLEXIBLE)
                return fabric_make(object, NULL, size, true);
        below = memory_for(object, handle);
        if (!below)
                return handles_get(object->client, handle) ? RM_STATUS_INVALID_ARGUMENT : RM_STATUS_OBJECT_NOT_FOUND;
        if (offset || size > below->size)
                return RM_STATUS_INVALID_ARGUMENT;
        return fabric_make(object, below, size, false);
}

/* ---- controls -------------------------------------------------------------------------------- */

static struct fabric *fabric_of(const struct method_call *call)
{
        return call->object->memory ? call->object->memory->fabric : NULL;
}

/* Attachments whose memory's handle was freed are none. */
static void attachments_clean(const struct method_call *call, struct fabric *fabric)
{
        for (struct attachment **at = &fabric->attachments; *at;) {
                struct attachment *a = *at;
                const struct object *named = handles_get(call->object->client, a->handle);

                if (named && named->memory == a->memory) {
                        at = &a->next;
                        continue;
                }
                *at = a->next;
                free(a);
        }
}

uint32_t method_fabric_info(struct method_call *call)
{
        const struct fabric *fabric = fabric_of(call);

        if (!fabric || call->machine->faults.no_size)
                return RM_STATUS_NOT_SUPPORTED;
        rm_put64(call->params->data, call->params->size, 0, fabric->size);
        rm_put64(call->params->data, call->params->size, 8, 512 * MIB);
        params_put(call, 16, fabric->is_flexible ? FLEXIBLE : 0);
        return RM_STATUS_OK;
}

static struct attachment **attachment_at(struct fabric *fabric, uint64_t offset)
{
        struct attachment **at = &fabric->attachments;

        while (*at && (*at)->offset != offset)
                at = &(*at)->next;
        return at;
}

static uint32_t attach(struct method_call *call, struct fabric *fabric, size_t at)
{
        uint32_t handle = params_get(call, at);
        uint64_t offset = rm_get64(call->params->data, call->params->size, at + 8);
        uint64_t from = rm_get64(call->params->data, call->params->size, at + 16);
        uint64_t length = rm_get64(call->params->data, call->params->size, at + 24);
        const struct memory *memory = memory_for(call->object, handle);
        struct attachment *a;

        if (!memory)
                return RM_STATUS_OBJECT_NOT_FOUND;
        if (!length || offset % (2 * MIB) || length > fabric->size || offset > fabric->size - length ||
            length > memory->size || from > memory->size - length || *attachment_at(fabric, offset))
                return RM_STATUS_INVALID_ARGUMENT;
        a = calloc(1, sizeof(*a));
        if (!a)
                return RM_STATUS_NO_MEMORY;
        *a = (struct attachment){ fabric->attachments, offset, handle, memory };
        fabric->attachments = a;
        return RM_STATUS_OK;
}

uint32_t method_fabric_attach(struct method_call *call)
{
        struct fabric *fabric = fabric_of(call);
        uint32_t n = params_get(call, 2048) & 0xffff, status = RM_STATUS_OK;

        if (!fabric || !fabric->is_flexible)
                return RM_STATUS_NOT_SUPPORTED;
        if (!n || n > ATTACHED_MAX || params_get(call, 2052))
                return RM_STATUS_INVALID_ARGUMENT;
        attachments_clean(call, fabric);
        for (uint32_t i = 0; i < n && status == RM_STATUS_OK; i++)
                status = attach(call, fabric, 32 * (size_t)i);
        if (status == RM_STATUS_OK)
                params_put(call, 2056, n);
        return status;
}

uint32_t method_fabric_detach(struct method_call *call)
{
        struct fabric *fabric = fabric_of(call);
        uint32_t n = params_get(call, 512) & 0xffff;

        if (!fabric || !fabric->is_flexible)
                return RM_STATUS_NOT_SUPPORTED;
        if (!n || n > ATTACHED_MAX || params_get(call, 516))
                return RM_STATUS_INVALID_ARGUMENT;
        attachments_clean(call, fabric);
        for (uint32_t i = 0; i < n; i++) {
                struct attachment **at =
                        attachment_at(fabric, rm_get64(call->params->data, call->params->size, 8 * (size_t)i));
                struct attachment *a = *at;

                if (!a)
                        return RM_STATUS_OBJECT_NOT_FOUND;
                *at = a->next;
                free(a);
        }
        params_put(call, 520, n);
        return RM_STATUS_OK;
}

uint32_t method_fabric_count(struct method_call *call)
{
        struct fabric *fabric = fabric_of(call);
        uint32_t n = 0;

        if (!fabric)
                return RM_STATUS_NOT_SUPPORTED;
        attachments_clean(call, fabric);
        for (const struct attachment *a = fabric->attachments; a; a = a->next)
                n += a->offset >= rm_get64(call->params->data, call->params->size, 0) &&
                     a->offset <= rm_get64(call->params->data, call->params->size, 8);
        params_put(call, 16, n);
        return RM_STATUS_OK;
}

/* State 3: the device has joined the fabric. What an H200 answered: tests/trace/h200x2-580.159.04. */
uint32_t method_fabric_state(struct method_call *call)
{
        enum { STATE_AT = 0, CAPS_AT = 32, COMPLETED = 3 };

        memset(call->params->data, 0, call->params->size);
        if (!call->machine->options.has_nvlink)
                return RM_STATUS_OK;
        call->params->data[STATE_AT] = COMPLETED;
        return RM_STATUS_OK;
}
