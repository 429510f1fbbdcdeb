/* SPDX-License-Identifier: Apache-2.0 */
/* Clients and objects: the tree of the ledger follows the driver's. */
#include "gate/act.h"
#include "gate/move/move.h"
#include "gate/books.h"
#include "gate/perform.h"

#include "base/cleanup.h"
#include "gate/policy/own.h"
#include "lease/capabilities.h"
#include "rm/numbers.h"

#include <errno.h>

enum {
        ROOT_AT = 0, /* of an allocation's block: the client */
};

static uint32_t new_handle(const struct request *request)
{
        return rm_get32(request->block, request->call.block_size, request->call.object_at);
}

/* The driver would let the creator of a client pick its handle; ours it picks itself. */
int serve_client(struct request *request)
{
        struct gate *gate = request->gate;
        struct ledger_entry *entry;
        int r;

        if (entry_take_of(gate, RM_CLASS_CLIENT, &entry) < 0)
                return answer(request, RM_STATUS_INSUFFICIENT_RESOURCES);
        rm_put32(request->block, request->call.block_size, ROOT_AT, 0);
        r = perform(request);
        {
                LOCKED(&gate->ledger_lock);
                if (request_is_done(request, r))
                        ledger_client_put(gate->ledger, entry, new_handle(request), (uint32_t)request->process->id);
                else
                        ledger_entry_free(gate->ledger, entry);
        }
        if (request_is_done(request, r))
                makers_note(request);
        channel_control_gone(gate, RM_CLASS_CLIENT, 0, 0); /* of a client of that handle that was there */
        return reply(request, r);
}

/* ---- events of the operating system (state/listens.h) ---------------------------------------------------- */

enum {
        NUMBER_AT = 8,    /* of ALLOC_EVENT and FREE_EVENT */
        ASKED_ABOUT = 64, /* at once */
};

static bool is_client_gone(void *gate, uint32_t client)
{
        return client && !ledger_has_client(((struct gate *)gate)->ledger, client);
}

/* Takes the client's lock, so that two calls with one number are counted as the driver takes them. */
static int listens_try(struct request *request, uint32_t number)
{
        request_lock(request, request->call.client, request->call.client);
        LOCKED(&request->gate->ledger_lock);

        return listens_put(&request->gate->listens, request->call.client, number);
}

static void forget_number(struct gate *gate, uint32_t client, uint32_t number)
{
        LOCKED(&gate->ledger_lock);

        listens_take(&gate->listens, client, number);
}

/* Some of clients that have ended, if the driver does not have them either. */
static void forget_gone(struct gate *gate)
{
        struct listen some[ASKED_ABOUT];
        size_t n;

        {
                LOCKED(&gate->ledger_lock);
                n = listens_some(&gate->listens, is_client_gone, gate, some, ARRAY_SIZE(some));
        }
        for (size_t i = 0; i < n; i++)
                if (!probe_listens(&gate->probe, some[i].client, some[i].number))
                        forget_number(gate, some[i].client, some[i].number);
}

int serve_listen(struct request *request)
{
        struct gate *gate = request->gate;
        uint32_t client = request->call.client;
        uint32_t number = rm_get32(request->block, request->call.block_size, NUMBER_AT);
        int is_new, r;

        is_new = listens_try(request, number);
        if (is_new == -ENOSPC) {
                request_unlock(request);
                (void)settle_lately(gate);
                forget_gone(gate);
                is_new = listens_try(request, number);
        }
        if (is_new < 0 && is_new != -EEXIST) {
                gate_tell(gate, EVENT_DENIED, request->process->id, "more than %d events of the system", LISTENS_MAX);
                return answer(request, RM_STATUS_INSUFFICIENT_RESOURCES);
        }
        r = perform(request);
        if (is_new == 0 && !request_is_done(request, r))
                forget_number(gate, client, number);
        return reply(request, r);
}

int serve_ignore(struct request *request)
{
        const struct rm_call *call = &request->call;
        int r;

        request_lock(request, call->client, call->client);
        r = perform(request);
        if (request_is_done(request, r))
                forget_number(request->gate, call->client, rm_get32(request->block, call->block_size, NUMBER_AT));
        return reply(request, r);
}

/* ---- objects ---------------------------------------------------------------------------------------------- */

/* A device by the driver's id for it; 0 is none. */
static bool is_leased(const struct lease *lease, uint32_t id)
{
        bool is_there = !id;

        for (unsigned int i = 0; i < lease->n_devices; i++)
                is_there |= lease->devices[i].is_granted && lease->devices[i].gpu_id == id;
        return is_there;
}

/* The driver opens each device of the list, whoever may open its node, and keeps it open with the descriptor
 * (nvidia_dev_get, nv.c, 525 to 595): others could neither reset it nor change its modes. Its own answer to an id that
 * it has not. */
int serve_attach(struct request *request)
{
        for (uint32_t at = 0; at < request->call.block_size; at += sizeof(uint32_t)) {
                uint32_t id = rm_get32(request->block, request->call.block_size, at);

                if (is_leased(request->gate->lease, id))
                        continue;
                request->gate->n_denied++;
                request->outcome = GATE_REFUSED;
                gate_tell(request->gate, EVENT_FOREIGN_OBJECT, request->process->id, "attaches device 0x%x", id);
                return -EINVAL;
        }
        return reply(request, perform(request));
}

/* The device of the lease that a device object names; -1: none that was granted. */
static int device_named(const struct request *request)
{
        uint32_t instance = rm_get32(request->params, request->params_size, 0);
        const struct lease *lease = request->gate->lease;

        for (unsigned int i = 0; i < lease->n_devices; i++)
                if (lease->devices[i].instance == instance && lease->devices[i].is_granted)
                        return (int)i;
        return -1;
}

/* Whether it stands in a channel that has no group of the tenant's. */
static bool is_in_loose_channel(const struct request *request, const struct ledger_object *parent)
{
        struct ledger_object above;

        return RM_CLASS_IS_CHANNEL(parent->class_number) &&
               (!object_get(request->gate, request->call.client, parent->parent, &above) ||
                above.class_number != RM_CLASS_GROUP);
}

/*
 * A channel without a group gets a hidden one, which has no handle: it cannot be given slices. Decoders and the copies
 * of Vulkan work that way, and the copies of libcuda's checkpoint (seen, H200, 580.159.04). So such a channel is for
 * tenants with video or graphics, unless it says copy engine, and no object that could compute is made in it: a word
 * for an engine counts for nothing (state/channels.h). Groups and channels are finite.
 */
static bool may_be_loose(const struct request *request)
{
        const struct rm_layout *layout = &request->gate->options.layout;
        uint32_t engine = rm_get32(request->params, request->params_size, layout->channel_engine_at);

        return RM_ENGINE_IS_COPY(engine) ||
               request->gate->lease->capabilities & (CAPABILITY_VIDEO | CAPABILITY_GRAPHICS);
}

static uint32_t check_channel(const struct request *request)
{
        uint32_t class_number = request->call.class_or_cmd;
        struct ledger_object parent;

        if (!object_get(request->gate, request->call.client, request->call.parent, &parent))
                return RM_CLASS_IS_CHANNEL(class_number) ? RM_STATUS_INVALID_ARGUMENT : RM_STATUS_OK;
        if (!RM_CLASS_IS_CHANNEL(class_number))
                return class_number <= 0xff || RM_CLASS_IS_FIXED_ENGINE(class_number) ||
                                       !is_in_loose_channel(request, &parent) ?
                               RM_STATUS_OK :
                               RM_STATUS_INVALID_CLASS;
        if (parent.class_number == RM_CLASS_GROUP || (parent.class_number == RM_CLASS_DEVICE && may_be_loose(request)))
                return RM_STATUS_OK;
        return RM_STATUS_INVALID_ARGUMENT;
}

static uint32_t check_instance(const struct request *request)
{
        struct ledger_object parent = { .device = -1 };
        uint32_t status;

        (void)object_get(request->gate, request->call.client, request->call.parent, &parent);
        status = gate_check_instance(request->gate->lease, request->call.class_or_cmd, request->params,
                                     request->params_size, &parent);
        if (status != RM_STATUS_OK)
                gate_tell(request->gate, EVENT_FOREIGN_OBJECT, request->process->id,
                          "a MIG instance that is not the lease's");
        return status;
}

/* Whether the object may be, and room for it. RM_STATUS_OK, or the answer. */
static uint32_t prepare_object(struct request *request, struct ledger_entry **ret)
{
        uint32_t status = check_channel(request);

        if (status == RM_STATUS_OK)
                status = check_instance(request);
        if (status != RM_STATUS_OK)
                return status;
        if (entry_take_of(request->gate, request->call.class_or_cmd, ret) < 0)
                return RM_STATUS_INSUFFICIENT_RESOURCES;
        status = channel_control_reserve(request);
        if (status != RM_STATUS_OK)
                entry_drop(request->gate, *ret);
        return status;
}

static bool is_reservation(const struct request *request)
{
        return request->verdict.most;
}

static void commit_object(struct request *request, struct ledger_entry *entry, struct ledger_object *object,
                          struct charge *charge)
{
        struct gate *gate = request->gate;
        const struct gate_verdict *verdict = &request->verdict;
        struct ledger_reservation reservation = { verdict->space ? verdict->space : object->parent, verdict->size,
                                                  verdict->most };
        LOCKED(&gate->ledger_lock);

        object->handle = new_handle(request);
        if (is_reservation(request))
                ledger_pool_put(gate->ledger, entry, object, &reservation, TAKE(*charge));
        else
                ledger_put_own(gate->ledger, entry, object, TAKE(*charge));
}

/* What the driver takes for it by itself. RM_STATUS_OK, or the answer. */
static uint32_t pay_object(struct request *request, int device, struct charge *ret)
{
        const struct rm_call *call = &request->call;
        bytes size;

        if (is_reservation(request))
                return RM_STATUS_OK;
        if (device < 0)
                device = object_device(request->gate, call->client, call->parent);
        if (device < 0)
                return request->verdict.size ? RM_STATUS_OBJECT_NOT_FOUND : RM_STATUS_OK;
        size = own_of_class(&request->gate->lease->devices[device].own, call->class_or_cmd, request->params,
                            request->params_size);
        return size && take_memory(request, device, size, true, ret) != QUOTA_OK ? RM_STATUS_NO_MEMORY : RM_STATUS_OK;
}

/* Of a reservation, with the client's lock held: what is needed changes with every other one. */
static uint32_t pay_reservation(struct request *request, struct charge *ret)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        uint32_t space = request->verdict.space ? request->verdict.space : call->parent;
        int device = object_device(gate, call->client, space);
        bytes need;

        if (!is_reservation(request))
                return RM_STATUS_OK;
        if (device < 0)
                return RM_STATUS_INVALID_OBJECT_HANDLE;
        {
                LOCKED(&gate->ledger_lock);
                need = ledger_pool_need(gate->ledger, call->client, space, request->verdict.size);
        }
        return need && take_memory(request, device, need, false, ret) != QUOTA_OK ? RM_STATUS_NO_MEMORY : RM_STATUS_OK;
}

int serve_object(struct request *request)
{
        const struct rm_call *call = &request->call;
        struct ledger_object object = { call->client, call->parent, 0, call->class_or_cmd, -1 };
        _cleanup_(charge_drop) struct charge charge = { 0 };
        struct ledger_entry *entry;
        uint32_t status;
        bool is_made;
        int r;

        if (call->class_or_cmd == RM_CLASS_DEVICE)
                object.device = device_named(request);
        if (call->class_or_cmd == RM_CLASS_DEVICE && object.device < 0)
                return answer(request, RM_STATUS_INSUFFICIENT_PERMISSIONS);
        status = pay_object(request, object.device, &charge);
        if (status != RM_STATUS_OK)
                return answer(request, status);
        move_pin_named(request);
        request_lock(request, call->client, call->client);
        status = pay_reservation(request, &charge);
        if (status == RM_STATUS_OK)
                status = prepare_object(request, &entry);
        if (status != RM_STATUS_OK)
                return answer(request, status);
        r = perform(request);
        is_made = request_is_done(request, r);
        if (is_made)
                commit_object(request, entry, &object, &charge);
        else
                entry_drop(request->gate, entry);
        channel_control_begun(request, is_made ? &object : NULL);
        request_unlock(request);
        if (is_made)
                channel_control_placed(request, &object);
        return reply(request, r);
}

/* Old requests for all of a device's registers or memory. A program without privileges gets an empty object for them
 * (_rmAllocMemoryLocalUser, rmapi_deprecated_allocmemory.c, 525 to 595), and takes the size of the device from the
 * limit; a tenant gets it whoever it is, and the limit is its quota. The object is an old reservation of addresses:
 * what is mapped in it has page tables. */
int serve_hollow(struct request *request)
{
        enum { CLASS_AT = 12, LIMIT_AT = 32, REGISTERS = 0x3f, EMPTY = 0x70 };
        const struct rm_call *call = &request->call;
        struct ledger_object object = { call->client, call->parent, 0, EMPTY, -1 };
        int device = object_device(request->gate, call->client, call->parent), r;
        _cleanup_(charge_drop) struct charge charge = { 0 };
        struct ledger_entry *entry;
        uint64_t limit = UINT32_MAX;
        uint32_t status;

        if (device < 0)
                return answer(request, RM_STATUS_INVALID_ARGUMENT);
        if (call->class_or_cmd != REGISTERS)
                limit = (uint64_t)request->gate->lease->devices[device].quota.size - 1;
        request_lock(request, call->client, call->client);
        status = pay_reservation(request, &charge);
        if (status == RM_STATUS_OK && entry_take(request->gate, &entry) < 0)
                status = RM_STATUS_INSUFFICIENT_RESOURCES;
        if (status != RM_STATUS_OK)
                return answer(request, status);
        rm_put32(request->block, call->block_size, CLASS_AT, EMPTY);
        rm_put64(request->block, call->block_size, LIMIT_AT, 0);
        r = perform(request);
        if (request_is_done(request, r))
                commit_object(request, entry, &object, &charge);
        else
                entry_drop(request->gate, entry);
        rm_put32(request->block, call->block_size, CLASS_AT, call->class_or_cmd);
        rm_put64(request->block, call->block_size, LIMIT_AT, limit);
        return reply(request, r);
}

int serve_free(struct request *request)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        struct ledger_object object = { .class_number = RM_CLASS_CLIENT };
        int r;

        (void)object_get(gate, call->client, call->object, &object);
        if (object.class_number == RM_CLASS_DEVICE || object.class_number == RM_CLASS_CLIENT)
                gate->host->reader_release(request->worker); /* with all its channels, perhaps */
        request_lock(request, call->client, call->client);
        if (call->client == call->object) {
                LOCKED(&gate->ledger_lock);
                ledger_stamp_client(gate->ledger, call->client);
        }
        r = perform(request);
        if (request_is_done(request, r)) {
                {
                        LOCKED(&gate->ledger_lock);
                        ledger_free(gate->ledger, call->client, call->object);
                }
                channel_control_gone(gate, object.class_number, call->client, call->object);
        }
        return reply(request, r);
}
