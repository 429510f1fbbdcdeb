/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects: what an allocation of each class makes, and how handles are freed, duplicated, shared.
 *
 * Checks are in the driver's order: class, parent, handle, then those of the class. An allocation that
 * fails leaves nothing behind. Source: docs/rm-abi.md 1.3, 1.5, 2.1, 2.5, 7.
 */
#include "sim/server/machine.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

#include <errno.h>

enum {
        CLASS_WINDOW = 0x02,
        CLASS_EVENT = 0x05,
        CLASS_REGISTERS = 0x3f,
        CLASS_RANGE = 0x70, /* by request 0x27 it is nothing */
        CLASS_VIRTUAL = 0x50a0,
        CLASS_DEVICELESS = 0x90ce,
        CLASS_EVENT_BUFFER = 0x90cd,
        CLASS_DISPLAY = 0x73,
        CLASS_FABRIC = 0xf8,
        CLASS_GPU_INSTANCE = 0xc637,
        CLASS_COMPUTE_INSTANCE = 0xc638,
        CLASS_ADDRESS_SPACE = 0x90f1,
        DOORBELL_SIZE = 64 * 1024, /* of a user mode object; libcuda maps it whole */
        CLASS_DEBUGGER = 0x83de,
        POLICY_REVOKE = 1,
        POLICY_COMPOSE = 4,
        RIGHT_DUP = 1,
        RIGHT_DEBUG = 4,
};

uint32_t alloc_status(int r)
{
        switch (r) {
        case HANDLES_OK:
                return RM_STATUS_OK;
        case HANDLES_E_HANDLE:
                return SIM_STATUS_DUPLICATE;
        case HANDLES_E_PARENT:
                return SIM_STATUS_INVALID_PARENT;
        default:
                return RM_STATUS_NO_MEMORY;
        }
}

/* ---- what a class makes -------------------------------------------------------------------- */

static uint32_t device_alloc(struct machine *machine, struct object *object, const struct part *params)
{
        uint32_t number = rm_get32(params->data, params->size, 0);

        if (object->parent != &object->client->top)
                return SIM_STATUS_INVALID_PARENT;
        if (number >= machine->options.n_gpus)
                return SIM_STATUS_INVALID_DEVICE;
        object->gpu = &machine->gpus[number];
        return object->gpu->is_lost ? SIM_STATUS_GPU_IS_LOST : taken_alloc(object, params);
}

static uint32_t subdevice_alloc(const struct object *object, const struct part *params)
{
        if (object->parent->class_number != RM_CLASS_DEVICE)
                return SIM_STATUS_INVALID_PARENT;
        return rm_get32(params->data, params->size, 0) ? RM_STATUS_INVALID_ARGUMENT : RM_STATUS_OK;
}

/* Host memory in place of registers: libcuda maps it. */
static uint32_t doorbell_alloc(struct object *object)
{
        if (mem_new(NULL, DOORBELL_SIZE, 0, 0, &object->memory) != HEAP_OK)
                return RM_STATUS_NO_MEMORY;
        object->memory->n_handles = 1;
        return RM_STATUS_OK;
}

static uint32_t context_share_alloc(struct object *object, struct part *params)
{
        if (object->parent->class_number != RM_CLASS_GROUP)
                return SIM_STATUS_INVALID_PARENT;
        handles_depend(object, rm_get32(params->data, params->size, 0));
        rm_put32(params->data, params->size, 8, 0x3f); /* the subcontext's number: the first it gives */
        return RM_STATUS_OK;
}

/* An event is reported on the file that ALLOC_OS_EVENT registered under this number. */
static uint32_t event_alloc(struct machine *machine, struct object *object, const struct part *params)
{
        uint32_t key = rm_get32(params->data, params->size, 16);
        struct file *file;

        for (size_t i = 0; (file = map_next(&machine->files, &i)) != NULL;) {
                if (!file->is_listening || file->event_client != object->client->top.handle || file->event_key != key)
                        continue;
                object->event = file->cookie;
                return RM_STATUS_OK;
        }
        return SIM_STATUS_INVALID_EVENT;
}

/* A subscription to a MIG instance, which the parameters name; its capability (a descriptor at 0) is not checked.
 * Source: clc637.h, clc638.h. */
static uint32_t instance_alloc(const struct machine *machine, const struct object *object, const struct part *params)
{
        uint32_t id = rm_get32(params->data, params->size, 8);

        if (object->class_number == CLASS_COMPUTE_INSTANCE)
                return object->parent->class_number != CLASS_GPU_INSTANCE ? SIM_STATUS_INVALID_PARENT :
                       id                                                 ? RM_STATUS_INVALID_ARGUMENT :
                                                                            RM_STATUS_OK;
        if (object->parent->class_number != RM_CLASS_SUBDEVICE)
                return SIM_STATUS_INVALID_PARENT;
        if (object->gpu->index != 0 || !machine->options.n_instances)
                return RM_STATUS_NOT_SUPPORTED;
        return id < 1 || id > machine->options.n_instances ? RM_STATUS_INVALID_ARGUMENT : RM_STATUS_OK;
}

/* Only who has the right from the program's client debugs it. params: that client@4, 0: its own.
 * Source: kernel_sm_debugger_session.c of 595.45.04; on an H200 with 580.159.04 status 0x1b without it. */
static uint32_t debugger_alloc(struct machine *machine, const struct object *object, const struct part *params)
{
        uint32_t target = rm_get32(params->data, params->size, 4);
        const struct client *client = target ? handles_client(&machine->handles, target) : object->client;

        if (!client)
                return RM_STATUS_INVALID_OBJECT_HANDLE;
        if (client == object->client || client->top.debug & SHARE_ALL ||
            (client->top.debug & SHARE_USER && client->uid == object->client->uid) ||
            (client->top.debug & SHARE_PROCESS && client->pid == object->client->pid) ||
            (client->top.debug & SHARE_CLIENT && client->top.debugger == object->client->top.handle))
                return RM_STATUS_OK;
        return RM_STATUS_INSUFFICIENT_PERMISSIONS;
}

/* 0xc361, 0xc461, ...: the doorbell page. */
static bool is_user_mode(uint32_t class_number)
{
        return class_number > 0xc000 && class_number <= 0xffff && (class_number & 0xff) == 0x61;
}

static uint32_t object_make(struct machine *machine, struct request *request, struct object *object)
{
        struct part *params = &request->segments[0];

        if (RM_CLASS_IS_CHANNEL(object->class_number))
                return channel_alloc(request, object, params);
        if (is_user_mode(object->class_number))
                return doorbell_alloc(object);
        switch (object->class_number) {
        case RM_CLASS_DEVICE:
                return device_alloc(machine, object, params);
        case RM_CLASS_SUBDEVICE:
                return subdevice_alloc(object, params);
        case CLASS_RANGE:
                range_note(object, params);
                return RM_STATUS_OK;
        case CLASS_VIRTUAL:
                return params->size ? taken_alloc(object, params) : RM_STATUS_INVALID_ARGUMENT;
        case RM_CLASS_VIDEO_MEMORY:
        case RM_CLASS_HOST_MEMORY:
        case CLASS_DEVICELESS:
                return mem_alloc(object, params);
        case RM_CLASS_GROUP:
                return group_alloc(request, object, params);
        case RM_CLASS_CONTEXT_SHARE:
                return context_share_alloc(object, params);
        case RM_CLASS_USER_DATA:
                return mem_page_alloc(object);
        case RM_CLASS_OS_EVENT:
                return event_alloc(machine, object, params);
        case CLASS_EVENT_BUFFER:
                return buffer_alloc(request, object, params);
        case CLASS_ADDRESS_SPACE:
                rm_put64(params->data, params->size, 8, 0x1fffffffb000000); /* its size */
                return taken_alloc(object, params);
        case CLASS_GPU_INSTANCE:
        case CLASS_COMPUTE_INSTANCE:
                return instance_alloc(machine, object, params);
        case CLASS_DEBUGGER:
                return debugger_alloc(machine, object, params);
        case CLASS_FABRIC:
                return fabric_alloc(machine, object, params);
        case CLASS_DISPLAY:
                return RM_STATUS_NOT_SUPPORTED; /* a device without one */
        default:
                return object->parent->channel ?
                               group_note_object(object->parent->channel->group, object->class_number) :
                               RM_STATUS_OK;
        }
}

/* Gives back what the object was; it is out of all maps. */
void object_gone(void *context, struct object *object)
{
        space_forget(context, object);
        buffer_free(object->buffer);
        if (object->memory) {
                object->memory->n_handles--;
                mem_unref(object->memory);
        }
        if (object->taken)
                heap_give(&object->gpu->heap, object->taken);
        channel_unref(object->channel);
        group_unref(object->group);
}

/* ---- allocation ---------------------------------------------------------------------------- */

static uint32_t client_alloc(struct machine *machine, struct request *request)
{
        struct file *file = request->file->ctl ? request->file->ctl : request->file;
        struct client *client;

        if (handles_client_new(&machine->handles, request->sender.pid, request->sender.uid, &client) < 0)
                return RM_STATUS_NO_MEMORY;
        client->file = file;
        client->next = file->clients;
        file->clients = client;
        rm_put32(request->block.data, request->block.size, request->call.object_at, client->top.handle);
        rm_put32(request->segments[0].data, request->segments[0].size, 0, client->top.handle);
        request->segments[0].is_returned = true;
        return RM_STATUS_OK;
}

uint32_t alloc_object(struct machine *machine, struct request *request)
{
        struct object *object;
        uint32_t status;
        int r;

        if (!request->client)
                return client_alloc(machine, request);
        if (!rm_class_name(request->call.class_or_cmd) && !RM_CLASS_IS_CHANNEL(request->call.class_or_cmd))
                return RM_STATUS_INVALID_CLASS;
        r = handles_put(request->client, request->call.parent, request->call.object, request->call.class_or_cmd,
                        &object);
        if (r != HANDLES_OK)
                return alloc_status(r);
        status = object->gpu && object->gpu->is_lost ? SIM_STATUS_GPU_IS_LOST : object_make(machine, request, object);
        if (status != RM_STATUS_OK) {
                handles_free(&machine->handles, object);
                return status;
        }
        rm_put32(request->block.data, request->block.size, request->call.object_at, object->handle);
        request->segments[0].is_returned = true;
        return RM_STATUS_OK;
}

/* What request 0x27 makes without memory of its own: all of the device's registers or memory, or nothing. */
static bool is_dummy(uint32_t class_number)
{
        return class_number == CLASS_REGISTERS || class_number == RM_CLASS_VIDEO_MEMORY || class_number == CLASS_RANGE;
}

/* Request 0x27: host memory, the caller's own pages, and a dummy for the whole device (docs/rm-abi.md 2.1). */
uint32_t alloc_old_memory(struct machine *machine, struct request *request)
{
        uint64_t limit = rm_get64(request->block.data, request->block.size, 32);
        struct object *object;
        int r;

        if (request->file->node != RM_NODE_DEVICE || limit == UINT64_MAX)
                return RM_STATUS_INVALID_ARGUMENT;
        if (request->call.class_or_cmd != RM_CLASS_HOST_MEMORY &&
            request->call.class_or_cmd != RM_CLASS_OS_DESCRIPTOR && !is_dummy(request->call.class_or_cmd))
                return RM_STATUS_INVALID_CLASS;
        if (request->call.class_or_cmd == RM_CLASS_OS_DESCRIPTOR && machine->faults.pin_refused_at &&
            --machine->faults.pin_refused_at == 0)
                return RM_STATUS_NO_MEMORY;
        r = handles_put(request->client, request->call.parent, request->call.object, request->call.class_or_cmd,
                        &object);
        if (r != HANDLES_OK)
                return alloc_status(r);
        if (is_dummy(request->call.class_or_cmd)) {
                limit = request->call.class_or_cmd == RM_CLASS_VIDEO_MEMORY ? machine->options.memory - 1 : limit;
        } else if (mem_new(NULL, limit + 1, 0, 0, &object->memory) != HEAP_OK) {
                handles_free(&machine->handles, object);
                return RM_STATUS_NO_MEMORY;
        } else {
                object->memory->n_handles = 1;
                if (request->call.class_or_cmd == RM_CLASS_OS_DESCRIPTOR) {
                        object->memory->pages_of = request->sender.pid;
                        object->memory->pages_at = rm_get64(request->block.data, request->block.size, 24);
                }
        }
        rm_put32(request->block.data, request->block.size, request->call.object_at, object->handle);
        rm_put64(request->block.data, request->block.size, 32, limit);
        return RM_STATUS_OK;
}

/* Request 0x54: a window on memory, which it ends with. */
uint32_t alloc_old_dma(struct request *request)
{
        uint32_t memory = rm_get32(request->block.data, request->block.size, 24);
        struct object *object;
        int r;

        if (request->call.class_or_cmd != CLASS_WINDOW)
                return RM_STATUS_INVALID_CLASS;
        if (!handles_get(request->client, memory))
                return RM_STATUS_OBJECT_NOT_FOUND;
        r = handles_put(request->client, request->call.parent, request->call.object, CLASS_WINDOW, &object);
        if (r != HANDLES_OK)
                return alloc_status(r);
        handles_depend(object, memory);
        rm_put32(request->block.data, request->block.size, request->call.object_at, object->handle);
        return RM_STATUS_OK;
}

static void client_free(struct machine *machine, struct client *client)
{
        LIST_REMOVE(&client->file->clients, client);
        handles_client_free(&machine->handles, client);
}

uint32_t alloc_free(struct machine *machine, struct request *request)
{
        struct object *object = handles_get(request->client, request->call.object);

        if (!object)
                return RM_STATUS_OK; /* as the driver, docs/rm-abi.md 1.3 */
        if ((object->class_number == RM_CLASS_VIDEO_MEMORY || object->class_number == CLASS_FABRIC) &&
            machine->faults.free_refused_at && --machine->faults.free_refused_at == 0)
                return RM_STATUS_NO_MEMORY;
        if (object == &request->client->top) {
                client_free(machine, request->client);
                listens_drop(machine, NULL, request->call.client);
        } else {
                handles_free(&machine->handles, object);
        }
        return RM_STATUS_OK;
}

/* ---- a second handle ----------------------------------------------------------------------- */

bool alloc_may_dup(const struct object *object, pid_t pid, uid_t uid)
{
        const struct client *owner = object->client;
        uint8_t policy = object->policy ? object->policy : owner->top.policy;

        return policy & SHARE_ALL || (policy & SHARE_USER && owner->uid == uid) ||
               (policy & SHARE_PROCESS && owner->pid == pid);
}

uint32_t alloc_dup(struct machine *machine, struct request *request)
{
        struct client *source = handles_client(&machine->handles, request->call.source_client);
        struct object *from, *object;
        int r;

        if (!source)
                return RM_STATUS_INVALID_OBJECT_HANDLE;
        from = handles_get(source, request->call.source_object);
        if (!from || from == &source->top)
                return RM_STATUS_OBJECT_NOT_FOUND;
        if (!alloc_may_dup(from, request->client->pid, request->client->uid))
                return RM_STATUS_INSUFFICIENT_PERMISSIONS;
        if (from->class_number == RM_CLASS_DEVICE || from->class_number == RM_CLASS_SUBDEVICE || from->buffer)
                return RM_STATUS_INVALID_ARGUMENT;
        r = handles_put(request->client, request->call.parent, request->call.object, from->class_number, &object);
        if (r != HANDLES_OK)
                return alloc_status(r);

        object->is_dup = true;
        if (from->memory) {
                object->memory = mem_ref(from->memory);
                object->memory->n_handles++;
        }
        if (from->group && (object->group = from->group))
                object->group->refs++;
        if (from->channel && (object->channel = from->channel))
                object->channel->refs++;
        rm_put32(request->block.data, request->block.size, request->call.object_at, object->handle);
        return RM_STATUS_OK;
}

uint32_t alloc_share(struct machine *machine, struct request *request)
{
        struct object *object = handles_get(request->client, request->call.object);

        (void)machine;
        if (!object)
                return RM_STATUS_OBJECT_NOT_FOUND;
        return share_put(object, request->block.data + 8, request->block.size - 8);
}

static uint8_t shared_with(uint8_t now, uint32_t type, uint32_t action)
{
        if (!type)
                return 1; /* nobody */
        return (uint8_t)(action & POLICY_REVOKE ? now & ~(1u << type) : now | 1u << type);
}

/* policy: target@0, rights@4, u16 type@8, u8 action@10. Without POLICY_COMPOSE it takes the place of the whole list. */
uint32_t share_put(struct object *object, const unsigned char *policy, size_t size)
{
        uint32_t word = rm_get32(policy, size, 8);
        uint32_t type = word & 0xffff, action = word >> 16 & 0xff;
        uint32_t rights = rm_get32(policy, size, 4);

        if (type > 7)
                return RM_STATUS_INVALID_ARGUMENT;
        if (!(action & POLICY_COMPOSE)) {
                object->policy = 1;
                object->debug = 0;
        }
        if (rights & RIGHT_DUP)
                object->policy = shared_with(object->policy ? object->policy : SHARE_PROCESS, type, action);
        if (rights & RIGHT_DEBUG) {
                object->debug = shared_with(object->debug, type, action);
                object->debugger = rm_get32(policy, size, 0);
        }
        return RM_STATUS_OK;
}
