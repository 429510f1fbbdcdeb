/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a control descriptor carries to others: a table of references, made by the first
 * export and held until the descriptor is closed, also after every handle is freed (docs/rm-abi.md 2.5).
 *
 * 0x3d05 and 0x3d06 are the old calls for one object, which is the table's first. Source:
 * ctrl0000unix.h, 545.23.06 to 595.45.04 (earlier, 0x3d08 lacks gpuInstanceId).
 */
#include "sim/methods/methods.h"

#include "rm/numbers.h"

#include <stdlib.h>
#include <string.h>

enum {
        METADATA_SIZE = 64,
        IMPORT_MAX = 128,
        TYPE_VIDEO = 1,
        TYPE_HOST = 2,
        STATUS_INVALID_PARAMETER = 0x3b,
};

struct exports {
        uint32_t n, device; /* the device's instance */
        unsigned char metadata[METADATA_SIZE];
        struct memory *memories[]; /* NULL: nothing there */
};

static uint32_t get16(const struct method_call *call, size_t at)
{
        return params_get(call, at - 2) >> 16;
}

/* The descriptor's table; a new one if it has none. NULL: it may not have one. */
static struct exports *exports_of(struct file *file, uint32_t n, uint32_t device)
{
        if (!file || file->node != RM_NODE_CTL)
                return NULL;
        if (!file->exports && n)
                file->exports = calloc(1, sizeof(*file->exports) + n * sizeof(struct memory *));
        if (file->exports && !file->exports->n) {
                file->exports->n = n;
                file->exports->device = device;
        }
        return file->exports;
}

void exports_free(struct exports *exports)
{
        if (!exports)
                return;
        for (size_t i = 0; i < exports->n; i++)
                mem_unref(exports->memories[i]);
        free(exports);
}

/* handle 0 takes away what is there. */
static uint32_t export_put(struct exports *exports, struct client *client, size_t at, uint32_t handle)
{
        const struct object *object = handle ? handles_get(client, handle) : NULL;

        if (handle && (!object || !object->memory))
                return RM_STATUS_OBJECT_NOT_FOUND;
        if (object)
                mem_ref(object->memory);
        mem_unref(exports->memories[at]);
        exports->memories[at] = object ? object->memory : NULL;
        return RM_STATUS_OK;
}

static uint32_t device_index(struct client *client, uint32_t handle)
{
        const struct object *object = handles_get(client, handle);

        return object && object->gpu ? object->gpu->index : 0;
}

/* type@0 hDevice@4 hParent@8 hObject@12 fd@16 flags@20 */
uint32_t method_export_object(struct method_call *call)
{
        struct exports *exports =
                exports_of(call->request->named, 1, device_index(call->request->client, params_get(call, 4)));

        return exports ? export_put(exports, call->request->client, 0, params_get(call, 12)) :
                         RM_STATUS_INVALID_ARGUMENT;
}

/* fd@0 hDevice@4 u16 max@8 metadata[64]@10 objects[512]@76 u16 n@2124 u16 index@2126 */
uint32_t method_export_objects(struct method_call *call)
{
        uint32_t n = get16(call, 2124), index = get16(call, 2126), status = RM_STATUS_OK;
        bool is_new = call->request->named && !call->request->named->exports;
        struct exports *exports = exports_of(call->request->named, get16(call, 8),
                                             device_index(call->request->client, params_get(call, 4)));

        if (!exports)
                return RM_STATUS_INVALID_ARGUMENT;
        if (is_new)
                memcpy(exports->metadata, call->params->data + 10, METADATA_SIZE);
        if (n > 512 || index + n > exports->n)
                return STATUS_INVALID_PARAMETER;
        for (size_t i = 0; i < n && status == RM_STATUS_OK; i++)
                status = export_put(exports, call->request->client, index + i, params_get(call, 76 + 4 * i));
        return status;
}

/* fd@0 deviceInstance@4 gpuInstanceId@8 u16 max@12 metadata@14 */
uint32_t method_export_info(struct method_call *call)
{
        const struct exports *exports = call->request->named ? call->request->named->exports : NULL;
        bool has_instance = call->machine->layout.export_info_size > 76;
        size_t max_at = has_instance ? 12 : 8;

        if (!exports)
                return RM_STATUS_OBJECT_NOT_FOUND;
        params_put(call, 4, exports->device);
        if (has_instance)
                params_put(call, 8, UINT32_MAX);
        call->params->data[max_at] = (unsigned char)exports->n;
        call->params->data[max_at + 1] = (unsigned char)(exports->n >> 8);
        memcpy(call->params->data + max_at + 2, exports->metadata, METADATA_SIZE);
        return RM_STATUS_OK;
}

/* The memory at an index under a handle of one's own. */
static uint32_t export_take(struct client *client, struct memory *memory, uint32_t parent, uint32_t handle,
                            struct object **ret)
{
        int r = handles_put(client, parent, handle, memory->taken ? RM_CLASS_VIDEO_MEMORY : RM_CLASS_HOST_MEMORY, ret);

        if (r != HANDLES_OK)
                return alloc_status(r);
        (*ret)->is_dup = true;
        (*ret)->memory = mem_ref(memory);
        memory->n_handles++;
        return RM_STATUS_OK;
}

/* fd@0 type@4 hDevice@8 hParent@12 hObject@16 */
uint32_t method_import_object(struct method_call *call)
{
        const struct exports *exports = call->request->named ? call->request->named->exports : NULL;
        struct object *object;
        uint32_t status;

        if (!exports || !exports->memories[0])
                return RM_STATUS_INVALID_ARGUMENT;
        status = export_take(call->request->client, exports->memories[0], params_get(call, 12), params_get(call, 16),
                             &object);
        if (status == RM_STATUS_OK)
                params_put(call, 16, object->handle);
        return status;
}

/* fd@0 hParent@4 objects[128]@8 u8 types[128]@520 u16 n@648 u16 index@650. All or none. */
uint32_t method_import_objects(struct method_call *call)
{
        const struct exports *exports = call->request->named ? call->request->named->exports : NULL;
        uint32_t n = get16(call, 648), index = get16(call, 650), status = RM_STATUS_OK;
        struct object *taken[IMPORT_MAX] = { NULL };

        if (!exports)
                return RM_STATUS_INVALID_ARGUMENT;
        if (n > IMPORT_MAX || index + n > exports->n)
                return STATUS_INVALID_PARAMETER;
        for (size_t i = 0; i < n && status == RM_STATUS_OK; i++) {
                struct memory *memory = exports->memories[index + i];
                uint32_t handle = params_get(call, 8 + 4 * i);

                call->params->data[520 + i] = !memory ? 0 : memory->taken ? TYPE_VIDEO : TYPE_HOST;
                if (memory)
                        status = handle ? export_take(call->request->client, memory, params_get(call, 4), handle,
                                                      &taken[i]) :
                                          (uint32_t)STATUS_INVALID_PARAMETER;
        }
        for (size_t i = 0; i < n && status != RM_STATUS_OK; i++)
                if (taken[i])
                        handles_free(&call->machine->handles, taken[i]);
        return status;
}
