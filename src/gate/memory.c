/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: pay, perform, and let the object keep the charge. */
#include "gate/act.h"
#include "gate/move/move.h"
#include "gate/books.h"
#include "gate/perform.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "rm/numbers.h"

#include <poll.h>
#include <string.h>

/* How long a call waits for what has ended to come back. */
#define LATE_WAIT (2 * NSEC_PER_SEC)

enum {
        MOMENT_MS = 5,
        FEW = 8,
        SWEEPS_MAX = 10, /* of managed ranges that were charged so lately that they may still be mapped */
};

/* A moment, for what has_late has seen; longer where many wait, so that all of them look about as often as a few would.
 * False: it has waited long enough, or for nobody. */
static bool wait_a_moment(struct request *request, nsec until)
{
        const struct gate_host *host = request->gate->host;
        int n;

        if (clock_now() >= until || !host->is_awaited(request))
                return false;
        host->reader_release(request->worker);
        n = (int)atomic_fetch_add(&request->gate->n_patient, 1);
        (void)poll(NULL, 0, MOMENT_MS * (1 + n / FEW));
        atomic_fetch_sub(&request->gate->n_patient, 1);
        return true;
}

/* Managed ranges that were unmapped come back first. */
static int try_swept(struct request *request, struct quota *quota, bytes size, struct charge *ret)
{
        struct gate *gate = request->gate;
        nsec until = clock_now() + LATE_WAIT;

        for (int i = 0; i < SWEEPS_MAX; i++) {
                if (quota_try(quota, size, ret) == QUOTA_OK)
                        return QUOTA_OK;
                if (!has_managed(gate) || !sweep_all_managed(gate) || !wait_a_moment(request, until))
                        break;
        }
        return QUOTA_E_FULL;
}

/* Memory of processes that have ended comes back before another request is refused: natively it does, before anybody
 * notices the end. */
static int try_while_late(struct request *request, struct quota *quota, bytes size, bool may_wait, struct charge *ret)
{
        nsec until = clock_now() + LATE_WAIT;
        bool is_late;

        may_wait &= size <= quota->size;
        do {
                is_late = may_wait && has_late(request->gate); /* first: what comes back from here on is tried for */
                if (quota_try(quota, size, ret) == QUOTA_OK)
                        return QUOTA_OK;
        } while (is_late && wait_a_moment(request, until));
        return QUOTA_E_FULL;
}

/* Only the last try counts as a refusal. */
static int take_patiently(struct request *request, struct quota *quota, bytes size, bool may_wait, struct charge *ret)
{
        struct gate *gate = request->gate;

        if (quota_try(quota, size, ret) == QUOTA_OK)
                return QUOTA_OK;
        if (!may_wait)
                return quota_take(quota, size, ret);
        (void)settle_lately(gate);
        if (quota != &gate->lease->host && try_swept(request, quota, size, ret) == QUOTA_OK)
                return QUOTA_OK;
        if (try_while_late(request, quota, size, may_wait, ret) == QUOTA_OK)
                return QUOTA_OK;
        return quota_take(quota, size, ret);
}

int take_memory(struct request *request, int device, bytes size, bool may_wait, struct charge *ret)
{
        struct quota *quota = &request->gate->lease->devices[device].quota;
        char asked[BYTES_TEXT], left[BYTES_TEXT];

        if (take_patiently(request, quota, size, may_wait, ret) == QUOTA_OK)
                return QUOTA_OK;
        gate_tell(request->gate, EVENT_QUOTA_REFUSED, request->process->id, "%s of %s left on device %d",
                  bytes_format(size == UINT64_MAX ? 0 : size, asked), bytes_format(quota_free(quota), left), device);
        return QUOTA_E_FULL;
}

int take_host(struct request *request, bytes size, struct charge *ret)
{
        struct quota *quota = &request->gate->lease->host;
        char asked[BYTES_TEXT], left[BYTES_TEXT];

        if (take_patiently(request, quota, size, true, ret) == QUOTA_OK)
                return QUOTA_OK;
        gate_tell(request->gate, EVENT_HOST_REFUSED, request->process->id, "%s of %s left",
                  bytes_format(size == UINT64_MAX ? 0 : size, asked), bytes_format(quota_free(quota), left));
        return QUOTA_E_FULL;
}

static bool is_video(const struct request *request)
{
        return request->verdict.action == GATE_CHARGE;
}

/* The driver may have given more than was asked for. */
static bytes size_after(const struct request *request)
{
        if (request->call.kind == RM_ALLOC || request->call.kind == RM_ALLOC_SHORT)
                return gate_memory_size(request->params, request->params_size);
        return request->verdict.size;
}

/* The charge, and room in the ledger. RM_STATUS_OK, or the answer. */
static uint32_t prepare_memory(struct request *request, struct charge *ret_charge, struct ledger_entry **ret)
{
        int device = object_device(request->gate, request->call.client, request->call.parent), r;

        if (device < 0)
                return RM_STATUS_OBJECT_NOT_FOUND;
        if (is_video(request))
                r = take_memory(request, device, request->verdict.size, true, ret_charge);
        else
                r = take_host(request, request->verdict.size, ret_charge);
        if (r != QUOTA_OK)
                return RM_STATUS_NO_MEMORY;
        return entry_take_of(request->gate, request->call.class_or_cmd, ret) < 0 ? RM_STATUS_INSUFFICIENT_RESOURCES :
                                                                                   RM_STATUS_OK;
}

/* The call, with the client's lock held afterwards. The driver, too, may still hold memory of what has ended: then
 * the call is made once more. */
static int perform_in_order(struct request *request)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        nsec until = clock_now() + LATE_WAIT;
        int r;

        request_lock(request, call->client, call->client);
        r = perform(request);
        if (r < 0 || request_status(request) != RM_STATUS_NO_MEMORY || !has_late(gate))
                return r;
        request_unlock(request);
        while (has_late(gate) && wait_a_moment(request, until))
                ;
        memcpy(request->block, request->was_block, call->block_size);
        memcpy(request->params, request->was_params, request->params_size);
        request_lock(request, call->client, call->client);
        return perform(request);
}

/* The driver says what pages it took. */
static uint32_t pages_after(const struct request *request)
{
        enum { ATTR_AT = 24 };

        return is_video(request) && request->call.kind != RM_VID_HEAP ?
                       RM_ATTR_PAGE_SIZE(rm_get32(request->params, request->params_size, ATTR_AT)) :
                       0;
}

/* The object keeps the charge. False: the driver gave more than the quota holds, and it was freed. */
static bool commit_memory(struct request *request, struct ledger_entry *entry, struct charge *charge)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        uint32_t handle = rm_get32(request->block, call->block_size, call->object_at);
        struct ledger_object object = { call->client, call->parent, handle, call->class_or_cmd, -1 };
        bytes size = size_after(request);

        if (is_video(request) && size > charge->size && charge_resize(charge, size) != QUOTA_OK) {
                entry_drop(gate, entry);
                perform_free(request, call->client, handle);
                return false;
        }

        LOCKED(&gate->ledger_lock);
        ledger_put(gate->ledger, entry, &object, TAKE(*charge));
        ledger_pages_set(gate->ledger, call->client, handle, pages_after(request));
        if (is_video(request))
                move_note_object(request, handle);
        return true;
}

int serve_memory(struct request *request)
{
        _cleanup_(charge_drop) struct charge charge = { 0 };
        struct ledger_entry *entry;
        uint32_t status = prepare_memory(request, &charge, &entry);
        int r;

        if (status != RM_STATUS_OK)
                return answer(request, status);
        r = perform_in_order(request);
        if (!request_is_done(request, r)) {
                entry_drop(request->gate, entry);
                return reply(request, r); /* the charge returns by itself */
        }
        return commit_memory(request, entry, &charge) ? reply(request, r) : answer(request, RM_STATUS_NO_MEMORY);
}

/* ---- fabric memory ------------------------------------------------------------------------------------- */

/*
 * Fabric memory, class 0xf8: addresses by which the devices of an NVLink fabric reach video memory. libcuda makes one
 * over every allocation of 512 MiB and more wherever a fabric is up, also with one device.
 *
 * One that is made over memory keeps it: the driver holds a handle of its own for as long as the fabric object or
 * anything that holds that (a dup, a mapping of UVM, an export) lives. So the charge stays until then, whoever frees
 * first. To one of the flexible kind memory is attached later, by a control; that memory comes off when its own handle
 * is freed, so attaching holds nothing. libcuda does so for pools that several devices reach.
 *
 * The addresses are few and shared by all tenants of the device. A tenant may have as many as memory, since it needs
 * one object per allocation, and ADDRESSES_MORE: an object of the flexible kind has 512 MiB whatever is attached. An
 * H200 of 141 GB has 512 GiB of them (measured).
 * Source: mem_fabric.c memoryfabricConstruct, _memoryFabricAttachMem, memoryfabricUnmapFrom; 580.142. Recorded:
 * tests/trace/h200x2-580.159.04.
 */
#define ADDRESSES_MORE (16 * GIB)

static int try_addresses(struct request *request, int device, struct charge *ret)
{
        struct lease_device *leased = &request->gate->lease->devices[device];

        atomic_store(&leased->fabric.size, atomic_load(&leased->quota.size) + ADDRESSES_MORE); /* which may change */
        return quota_try(&leased->fabric, request->verdict.size, ret);
}

/* What has ended gives its addresses back first. */
static int take_addresses(struct request *request, int device, struct charge *ret)
{
        if (try_addresses(request, device, ret) == QUOTA_OK)
                return QUOTA_OK;
        (void)settle_lately(request->gate);
        if (try_addresses(request, device, ret) == QUOTA_OK)
                return QUOTA_OK;
        gate_tell(request->gate, EVENT_QUOTA_REFUSED, request->process->id, "addresses of the fabric on device %d",
                  device);
        return QUOTA_E_FULL;
}

static uint32_t memory_named(const struct request *request)
{
        return rm_get32(request->params, request->params_size, GATE_FABRIC_MEMORY_AT);
}

/* The charge, and room in the ledger. RM_STATUS_OK, or the answer. */
static uint32_t prepare_fabric(struct request *request, struct charge *ret_charge, struct ledger_entry **ret)
{
        const struct rm_call *call = &request->call;
        int device = object_device(request->gate, call->client, call->parent);

        if (device < 0)
                return RM_STATUS_OBJECT_NOT_FOUND;
        if (take_addresses(request, device, ret_charge) != QUOTA_OK)
                return RM_STATUS_NO_MEMORY;
        return entry_take(request->gate, ret) < 0 ? RM_STATUS_INSUFFICIENT_RESOURCES : RM_STATUS_OK;
}

int serve_fabric(struct request *request)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        struct ledger_object object = { call->client, call->parent, 0, call->class_or_cmd, -1 }, below;
        _cleanup_(charge_drop) struct charge charge = { 0 };
        uint32_t status, memory = memory_named(request);
        struct ledger_entry *entry;
        int r;

        status = prepare_fabric(request, &charge, &entry);
        if (status != RM_STATUS_OK)
                return answer(request, status);
        request_lock(request, call->client, call->client);
        if (memory && !object_get(gate, call->client, memory, &below)) {
                entry_drop(gate, entry);
                return answer(request, RM_STATUS_OBJECT_NOT_FOUND);
        }
        r = perform(request);
        if (!request_is_done(request, r)) {
                entry_drop(gate, entry);
                return reply(request, r);
        }
        object.handle = rm_get32(request->block, call->block_size, call->object_at);
        {
                LOCKED(&gate->ledger_lock);
                if (memory)
                        (void)ledger_put_over(gate->ledger, entry, &object, TAKE(charge), call->client, memory);
                else
                        ledger_put(gate->ledger, entry, &object, TAKE(charge));
                if (memory)
                        move_note_object(request, object.handle);
                else
                        gate->moving.has_attached = true;
        }
        return reply(request, r);
}
