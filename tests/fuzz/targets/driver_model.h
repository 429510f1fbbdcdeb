/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of the driver that knows the truth: which memory is there, and who holds it. It stands for the real one in
 * what ends a memory's life: handles, duplicates, exports that an open file keeps, mappings that a VA space keeps.
 *
 * A file is an open socket, known by its inode. Nothing here blocks, and nothing is freed that has a holder.
 */
#pragma once

#include "gate/state/driver.h"
#include "lease/lease.h"
#include "rm/call.h"
#include "rm/numbers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
        MODEL_FILES = 64,
        MODEL_CLIENTS = 32,
        MODEL_OBJECTS = 256,
        MODEL_HOLDS = 256,
        MODEL_ADDRESS_BAD = 0x1e,
        MODEL_IN_USE = 0x19,
        MODEL_GPU_ID = 0x200,
        MODEL_INSTANCE = 2,
        CONTROL_EXPORT = 0x3d05,
        CONTROL_IMPORT = 0x3d06,
        MODEL_SPACE = 0x90f1,
        MODEL_ENGINE_AT = 12,
        MODEL_GRAPHICS_LAST = 8,
        MODEL_OWN_GROUP = 2 * MIB,
        MODEL_OWN_OTHER = 64 * KIB,
};

struct model_memory {
        bytes size;
        unsigned int n_holders;
        bool is_host;
};

struct model_object {
        bool is_there;
        uint32_t client, handle, parent, class_number;
        struct model_memory *memory; /* NULL: none */
        bytes own;                   /* what the driver took for it by itself */
};

/* Of a file: a mapping, an export, or a range (memory NULL, but for a managed one, which holds its own). */
struct model_hold {
        bool is_there, is_range;
        ino_t file;
        uint64_t base, length, where;
        struct model_memory *memory;
};

struct model {
        struct rm_layout layout;
        struct {
                ino_t inode;
                enum rm_node node;
                uint32_t minor;
                bool is_space;
        } files[MODEL_FILES];
        size_t n_files;
        struct {
                uint32_t handle;
                ino_t file; /* 0: gone */
        } clients[MODEL_CLIENTS];
        size_t n_clients;
        struct model_object objects[MODEL_OBJECTS];
        struct model_hold holds[MODEL_HOLDS];
        uint32_t next_handle;
        bytes granule;
        uint32_t fail; /* the next call's status; 0: it is made */
        bytes video, host;
};

static inline ino_t model_inode(int fd)
{
        struct stat st;

        return fstat(fd, &st) < 0 ? 0 : st.st_ino;
}

/* A new open file of that node; -errno. */
static inline int model_open_node(struct model *model, enum rm_node node, uint32_t minor)
{
        int fd = model->n_files < MODEL_FILES ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;

        if (fd < 0)
                return -EMFILE;
        model->files[model->n_files].inode = model_inode(fd);
        model->files[model->n_files].node = node;
        model->files[model->n_files++].minor = minor;
        return fd;
}

static inline int model_open(void *context, const char *name)
{
        if (!strcmp(name, "nvidiactl"))
                return model_open_node(context, RM_NODE_CTL, 0);
        return model_open_node(context, strcmp(name, "nvidia-uvm") ? RM_NODE_DEVICE : RM_NODE_UVM, 1);
}

static inline enum rm_node model_node(void *context, int fd, uint32_t *ret_minor)
{
        struct model *model = context;
        ino_t inode = model_inode(fd);

        *ret_minor = 0;
        for (size_t i = 0; inode && i < model->n_files; i++)
                if (model->files[i].inode == inode) {
                        *ret_minor = model->files[i].minor;
                        return model->files[i].node;
                }
        return RM_NODE_OTHER;
}

/* ---- memory ------------------------------------------------------------------------------------------- */

static inline struct model_memory *memory_new(struct model *model, bytes size, bool is_host)
{
        struct model_memory *memory = calloc(1, sizeof(*memory));

        if (!memory)
                abort();
        memory->size = size;
        memory->is_host = is_host;
        *(is_host ? &model->host : &model->video) += size;
        return memory;
}

static inline void memory_drop(struct model *model, struct model_memory *memory)
{
        if (!memory || --memory->n_holders)
                return;
        *(memory->is_host ? &model->host : &model->video) -= memory->size;
        free(memory);
}

static inline struct model_object *object_find(struct model *model, uint32_t client, uint32_t handle)
{
        for (size_t i = 0; i < MODEL_OBJECTS; i++)
                if (model->objects[i].is_there && model->objects[i].client == client &&
                    model->objects[i].handle == handle)
                        return &model->objects[i];
        return NULL;
}

static inline bool client_is_there(const struct model *model, uint32_t client)
{
        for (size_t i = 0; i < model->n_clients; i++)
                if (model->clients[i].handle == client && model->clients[i].file)
                        return true;
        return false;
}

static inline void object_drop(struct model *model, struct model_object *object)
{
        object->is_there = false;
        model->video -= TAKE(object->own);
        memory_drop(model, TAKE(object->memory));
        for (size_t i = 0; i < MODEL_OBJECTS; i++)
                if (model->objects[i].is_there && model->objects[i].client == object->client &&
                    model->objects[i].parent == object->handle)
                        object_drop(model, &model->objects[i]);
}

static inline void client_drop(struct model *model, uint32_t client)
{
        for (size_t i = 0; i < model->n_clients; i++)
                if (model->clients[i].handle == client)
                        model->clients[i].file = 0;
        for (size_t i = 0; i < MODEL_OBJECTS; i++)
                if (model->objects[i].is_there && model->objects[i].client == client)
                        object_drop(model, &model->objects[i]);
}

/* A status. *handle 0: the driver picks. */
static inline uint32_t object_put(struct model *model, uint32_t client, uint32_t parent, uint32_t *handle,
                                  uint32_t class_number, struct model_memory *memory)
{
        if (!client_is_there(model, client))
                return RM_STATUS_INVALID_CLIENT;
        if (parent != client && !object_find(model, client, parent))
                return RM_STATUS_OBJECT_NOT_FOUND;
        if (*handle == client || (*handle && object_find(model, client, *handle)))
                return MODEL_IN_USE;
        for (size_t i = 0; i < MODEL_OBJECTS; i++) {
                if (model->objects[i].is_there)
                        continue;
                if (!*handle)
                        *handle = 0xcaf00000u + ++model->next_handle;
                if (memory)
                        memory->n_holders++;
                model->objects[i] = (struct model_object){ true, client, *handle, parent, class_number, memory, 0 };
                return RM_STATUS_OK;
        }
        return RM_STATUS_INSUFFICIENT_RESOURCES;
}

/* ---- what files hold ----------------------------------------------------------------------------------- */

static inline bool hold_put(struct model *model, const struct model_hold *hold)
{
        for (size_t i = 0; i < MODEL_HOLDS; i++)
                if (!model->holds[i].is_there) {
                        model->holds[i] = *hold;
                        model->holds[i].is_there = true;
                        if (hold->memory)
                                hold->memory->n_holders++;
                        return true;
                }
        return false;
}

/* Of the file: ranges and mappings wholly inside, of device `where` (0: any); ranges only if is_range. */
static inline void holds_drop(struct model *model, ino_t file, uint64_t base, uint64_t last, uint64_t where,
                              bool is_range)
{
        for (size_t i = 0; i < MODEL_HOLDS; i++) {
                struct model_hold *hold = &model->holds[i];

                if (!hold->is_there || hold->file != file || hold->base < base ||
                    hold->base + hold->length - 1 > last || (hold->is_range && !is_range) ||
                    (where && hold->where && hold->where != where))
                        continue;
                hold->is_there = false;
                memory_drop(model, TAKE(hold->memory));
        }
}

static inline void file_end(struct model *model, ino_t file)
{
        holds_drop(model, file, 0, UINT64_MAX, 0, true);
        for (size_t i = 0; i < model->n_clients; i++)
                if (model->clients[i].file == file)
                        client_drop(model, model->clients[i].handle);
        for (size_t i = 0; i < model->n_files; i++)
                if (model->files[i].inode == file)
                        model->files[i].inode = 0; /* the kernel may use the number again */
}

/* The range in which [base, base + length) lies (is_within), or with which it has an address in common. */
static inline struct model_hold *range_find(struct model *model, ino_t file, uint64_t base, uint64_t length,
                                            bool is_within)
{
        uint64_t last = base + length - 1;

        for (size_t i = 0; i < MODEL_HOLDS; i++) {
                struct model_hold *hold = &model->holds[i];
                uint64_t end = hold->base + hold->length - 1;

                if (!hold->is_there || !hold->is_range || hold->file != file)
                        continue;
                if (is_within ? base >= hold->base && last <= end : base <= end && last >= hold->base)
                        return hold;
        }
        return NULL;
}

/* What the kernel makes of an mmap that was let through: a managed range, if the file is a space with nothing there. */
static inline void model_mmap(struct model *model, ino_t file, uint64_t base, uint64_t length)
{
        struct model_memory *memory;
        bool is_space = false;

        for (size_t i = 0; i < model->n_files; i++)
                is_space |= model->files[i].inode == file && model->files[i].is_space;
        if (!is_space || range_find(model, file, base, length, false))
                return;
        memory = memory_new(model, length, false);
        if (!hold_put(model,
                      &(struct model_hold){
                              .is_range = true, .file = file, .base = base, .length = length, .memory = memory })) {
                memory->n_holders = 1;
                memory_drop(model, memory);
        }
}

/* The managed range at base goes, or its lower half (is_half). */
static inline void model_munmap(struct model *model, ino_t file, uint64_t base, bool is_half)
{
        struct model_hold *hold = range_find(model, file, base, 1, true);
        uint64_t half;

        if (!hold || !hold->memory || hold->base != base)
                return;
        half = hold->length / 8192 * 4096;
        if (!is_half || !half) {
                hold->is_there = false;
                memory_drop(model, TAKE(hold->memory));
                return;
        }
        hold->base += half;
        hold->length -= half;
        hold->memory->size -= half;
        model->video -= half;
}

/* ---- calls --------------------------------------------------------------------------------------------- */

static inline bool is_on_device(uint32_t class_number)
{
        return class_number == RM_CLASS_GROUP || RM_CLASS_IS_CHANNEL(class_number) || class_number == MODEL_SPACE;
}

static inline bool device_above(struct model *model, uint32_t client, uint32_t handle)
{
        struct model_object *object = object_find(model, client, handle);

        while (object && object->class_number != RM_CLASS_DEVICE)
                object = object_find(model, client, object->parent);
        return object != NULL;
}

/* Instance memory and buffers: of a group unless it names a copy engine, of a channel, of an address space. */
static inline void take_own(struct model *model, struct model_object *object, const uint8_t *params)
{
        uint32_t engine = params ? rm_get32(params, 128, MODEL_ENGINE_AT) : 0;

        if (object->class_number == RM_CLASS_GROUP)
                object->own = engine > MODEL_GRAPHICS_LAST ? 0 : MODEL_OWN_GROUP;
        else if (is_on_device(object->class_number))
                object->own = MODEL_OWN_OTHER;
        model->video += object->own;
}

/* How many there are, of groups or of channels. */
static inline size_t model_count(const struct model *model, bool is_group)
{
        size_t n = 0;

        for (size_t i = 0; i < MODEL_OBJECTS; i++)
                n += model->objects[i].is_there && (is_group ? model->objects[i].class_number == RM_CLASS_GROUP :
                                                               RM_CLASS_IS_CHANNEL(model->objects[i].class_number));
        return n;
}

static inline uint32_t model_alloc(struct model *model, int fd, const struct rm_call *call, uint8_t *block)
{
        uint8_t *params = (uint8_t *)(uintptr_t)rm_get64(block, call->block_size, call->params_at);
        struct model_memory *memory = NULL;
        uint32_t handle = call->object, status;
        bytes size;

        if (call->class_or_cmd == RM_CLASS_CLIENT || call->class_or_cmd <= RM_CLASS_ROOT_NON_PRIV) {
                if (model->n_clients == MODEL_CLIENTS)
                        return RM_STATUS_INSUFFICIENT_RESOURCES;
                handle = 0xc1d00001u + (uint32_t)model->n_clients;
                model->clients[model->n_clients].handle = handle;
                model->clients[model->n_clients++].file = model_inode(fd);
                rm_put32(block, call->block_size, call->object_at, handle);
                return RM_STATUS_OK;
        }
        if (call->class_or_cmd == RM_CLASS_VIDEO_MEMORY) {
                size = params ? rm_get64(params, 128, 64) : 0;
                if (!size || size > 1024 * GIB)
                        return RM_STATUS_INVALID_ARGUMENT;
                size = (size + model->granule - 1) / model->granule * model->granule;
                rm_put64(params, 128, 64, size);
                memory = memory_new(model, size, false);
                memory->n_holders++;
        }
        if (is_on_device(call->class_or_cmd) && !device_above(model, call->client, call->parent))
                return RM_STATUS_INVALID_OBJECT_HANDLE;
        status = object_put(model, call->client, call->parent, &handle, call->class_or_cmd, memory);
        memory_drop(model, memory);
        if (status != RM_STATUS_OK)
                return status;
        rm_put32(block, call->block_size, call->object_at, handle);
        take_own(model, object_find(model, call->client, handle), params);
        return status;
}

/* Host memory, by the old call. */
static inline uint32_t model_alloc_host(struct model *model, const struct rm_call *call, uint8_t *block)
{
        uint64_t limit = rm_get64(block, call->block_size, 32);
        struct model_memory *memory;
        uint32_t handle = call->object, status;

        if (call->class_or_cmd != RM_CLASS_HOST_MEMORY || limit > 1024 * GIB)
                return RM_STATUS_NOT_SUPPORTED;
        memory = memory_new(model, (limit + 4096) / 4096 * 4096, true);
        memory->n_holders++;
        status = object_put(model, call->client, call->parent, &handle, call->class_or_cmd, memory);
        memory_drop(model, memory);
        if (status == RM_STATUS_OK)
                rm_put32(block, call->block_size, call->object_at, handle);
        return status;
}

static inline uint32_t model_dup(struct model *model, const struct rm_call *call, uint8_t *block)
{
        struct model_object *source = object_find(model, call->source_client, call->source_object);
        uint32_t handle = call->object, status;

        if (!client_is_there(model, call->source_client))
                return RM_STATUS_INVALID_OBJECT_HANDLE;
        if (!source)
                return RM_STATUS_OBJECT_NOT_FOUND;
        status = object_put(model, call->client, call->parent, &handle, source->class_number, source->memory);
        if (status == RM_STATUS_OK)
                rm_put32(block, call->block_size, call->object_at, handle);
        return status;
}

static inline uint32_t model_export(struct model *model, const struct rm_call *call, uint8_t *params)
{
        struct model_object *object = object_find(model, call->client, rm_get32(params, 24, 12));
        ino_t file = model_inode((int)rm_get32(params, 24, 16));

        if (!file || (rm_get32(params, 24, 12) && !object))
                return RM_STATUS_INVALID_ARGUMENT;
        holds_drop(model, file, 0, 0, 0, false);
        if (object && object->memory &&
            !hold_put(model, &(struct model_hold){ .file = file, .length = 1, .memory = object->memory }))
                return RM_STATUS_INSUFFICIENT_RESOURCES;
        return RM_STATUS_OK;
}

static inline uint32_t model_import(struct model *model, const struct rm_call *call, uint8_t *params)
{
        ino_t file = model_inode((int)rm_get32(params, 24, 0));
        uint32_t handle = rm_get32(params, 24, 16), status;

        for (size_t i = 0; file && i < MODEL_HOLDS; i++) {
                struct model_hold *hold = &model->holds[i];

                if (!hold->is_there || hold->is_range || hold->file != file)
                        continue;
                status = object_put(model, call->client, rm_get32(params, 24, 12), &handle, RM_CLASS_VIDEO_MEMORY,
                                    hold->memory);
                rm_put32(params, 24, 16, handle);
                return status;
        }
        return RM_STATUS_INVALID_ARGUMENT;
}

static inline uint32_t model_control(struct model *model, const struct rm_call *call, uint8_t *block)
{
        uint8_t *params = (uint8_t *)(uintptr_t)rm_get64(block, call->block_size, call->params_at);
        uint32_t size = rm_get32(block, call->block_size, call->params_size_at);

        if (!client_is_there(model, call->client))
                return RM_STATUS_INVALID_CLIENT;
        if (call->class_or_cmd == RM_GET_ID_INFO_V2)
                rm_put32(params, size, 8, rm_get32(params, size, 0) >> 8);
        else if (call->class_or_cmd == CONTROL_EXPORT)
                return size >= 20 && params ? model_export(model, call, params) : RM_STATUS_INVALID_ARGUMENT;
        else if (call->class_or_cmd == CONTROL_IMPORT)
                return size >= 20 && params ? model_import(model, call, params) : RM_STATUS_INVALID_ARGUMENT;
        else
                return RM_STATUS_NOT_SUPPORTED;
        return RM_STATUS_OK;
}

static inline uint32_t model_map(struct model *model, ino_t file, const struct rm_call *call, const uint8_t *block)
{
        struct model_object *object = object_find(model, call->source_client, call->source_object);
        uint64_t last = call->base + call->length - 1, where = rm_get64(block, call->block_size, 24);
        struct model_hold *range;

        if (!object || !object->memory || call->length > object->memory->size)
                return RM_STATUS_INVALID_ARGUMENT;
        range = range_find(model, file, call->base, call->length, true);
        if (!range || range->memory)
                return MODEL_ADDRESS_BAD;
        if (rm_get64(block, call->block_size, model->layout.uvm_map_external_client_at - 12) != 1)
                return RM_STATUS_INVALID_ARGUMENT;
        object->memory->n_holders++;
        holds_drop(model, file, call->base, last, where, false);
        object->memory->n_holders--;
        return hold_put(model, &(struct model_hold){ .file = file,
                                                     .base = call->base,
                                                     .length = call->length,
                                                     .where = where,
                                                     .memory = object->memory }) ?
                       RM_STATUS_OK :
                       RM_STATUS_INSUFFICIENT_RESOURCES;
}

static inline uint32_t model_free_range(struct model *model, ino_t file, const struct rm_call *call)
{
        struct model_hold *range = range_find(model, file, call->base, 1, true);

        if (!range || range->memory || range->base != call->base ||
            (model->layout.uvm_free_size > 16 && call->length != range->length))
                return MODEL_ADDRESS_BAD;
        holds_drop(model, file, range->base, range->base + range->length - 1, 0, true);
        return RM_STATUS_OK;
}

static inline uint32_t model_space(struct model *model, ino_t file)
{
        for (size_t i = 0; i < model->n_files; i++)
                model->files[i].is_space |= model->files[i].inode == file;
        return RM_STATUS_OK;
}

static inline uint32_t model_uvm(struct model *model, int fd, const struct rm_call *call, const uint8_t *block)
{
        ino_t file = model_inode(fd);
        bool has_range = call->length && call->base + call->length - 1 >= call->base;
        struct model_hold *range;

        if (call->kind == RM_UVM_INITIALIZE)
                return model_space(model, file);
        if (call->kind == RM_UVM_FREE)
                return model_free_range(model, file, call);
        if (!has_range)
                return RM_STATUS_INVALID_ARGUMENT;
        switch ((int)call->kind) {
        case RM_UVM_VALIDATE_RANGE:
                range = range_find(model, file, call->base, call->length, true);
                return range && range->base == call->base && range->length == call->length ? RM_STATUS_OK :
                                                                                             MODEL_ADDRESS_BAD;
        case RM_UVM_CREATE_EXTERNAL:
        case RM_UVM_SEMAPHORE_POOL:
                if (range_find(model, file, call->base, call->length, false))
                        return MODEL_ADDRESS_BAD;
                return hold_put(model,
                                &(struct model_hold){
                                        .is_range = true, .file = file, .base = call->base, .length = call->length }) ?
                               RM_STATUS_OK :
                               RM_STATUS_INSUFFICIENT_RESOURCES;
        case RM_UVM_MAP_EXTERNAL:
                return model_map(model, file, call, block);
        case RM_UVM_UNMAP_EXTERNAL:
                if (!range_find(model, file, call->base, call->length, true))
                        return MODEL_ADDRESS_BAD;
                holds_drop(model, file, call->base, call->base + call->length - 1,
                           rm_get64(block, call->block_size, 16), false);
                return RM_STATUS_OK;
        default:
                return MODEL_ADDRESS_BAD;
        }
}

static inline uint32_t model_call(struct model *model, int fd, const struct rm_call *call, uint8_t *block)
{
        struct model_object *object;

        if (model->fail)
                return TAKE(model->fail);
        switch ((int)call->kind) {
        case RM_ALLOC:
        case RM_ALLOC_SHORT:
                return model_alloc(model, fd, call, block);
        case RM_ALLOC_MEMORY:
                return model_alloc_host(model, call, block);
        case RM_FREE:
                object = object_find(model, call->client, call->object);
                if (call->object == call->client && client_is_there(model, call->client))
                        client_drop(model, call->client);
                else if (object)
                        object_drop(model, object);
                else
                        return RM_STATUS_OBJECT_NOT_FOUND;
                return RM_STATUS_OK;
        case RM_DUP:
                return model_dup(model, call, block);
        case RM_CONTROL:
                return model_control(model, call, block);
        default:
                return RM_STATUS_NOT_SUPPORTED;
        }
}

static inline int model_ioctl(void *context, int fd, uint32_t request, void *block)
{
        struct model *model = context;
        uint32_t minor, size, status;
        struct rm_call call;
        enum rm_kind kind;
        enum rm_node node = model_node(model, fd, &minor);

        if (rm_request_find(&model->layout, node, request, &kind, &size) != RM_OK)
                return -EINVAL;
        if (kind == RM_CARD_INFO) {
                ((uint8_t *)block)[0] = 1;
                rm_put32(block, size, 16, MODEL_GPU_ID);
                rm_put32(block, size, 56, 1);
                return 0;
        }
        if (rm_decode(&model->layout, kind, request, block, size, &call) != RM_OK)
                return -EINVAL;
        if (node == RM_NODE_UVM)
                status = model->fail ? TAKE(model->fail) : model_uvm(model, fd, &call, block);
        else
                status = model_call(model, fd, &call, block);
        if (call.status_at != UINT32_MAX)
                rm_put32(block, size, call.status_at, status);
        return 0;
}
