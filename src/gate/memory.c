/* Memory: pay, perform, and let the object keep the charge. */
#include "gate/request.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "rm/numbers.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

/* How long a call waits for what has ended to come back. */
#define WAITS (2 * NSEC_PER_SEC)

/* A moment, for what has_late has seen. False: it has waited long enough, or for nobody. */
static bool wait_a_moment(struct request *request, nsec until)
{
        if (clock_now() >= until || !request_is_alive(request))
                return false;
        reader_release(request->worker);
        (void)poll(NULL, 0, 5);
        return true;
}

/* Memory of processes that have ended comes back before the next is told that there is none: natively it does, before
 * anybody hears of the end. */
static int try_quota(struct request *request, struct quota *quota, bytes size, bool may_wait, struct charge *ret)
{
        nsec until = clock_now() + WAITS;
        bool is_late;

        may_wait &= size <= quota->size;
        do {
                is_late = may_wait && has_late(request->gate); /* first: what comes back from here on is tried for */
                if (quota_try(quota, size, ret) == QUOTA_OK)
                        return QUOTA_OK;
        } while (is_late && wait_a_moment(request, until));
        return QUOTA_E_FULL;
}

int take_memory(struct request *request, int device, bytes size, bool may_wait, struct charge *ret)
{
        struct gate *gate = request->gate;
        struct quota *quota = &gate->lease->devices[device].quota;
        char asked[BYTES_TEXT], left[BYTES_TEXT];

        if (quota_try(quota, size, ret) == QUOTA_OK)
                return QUOTA_OK;
        /* Memory of what has ended, and managed ranges that were unmapped, come back first. */
        (void)settle_lately(gate);
        for (int i = 0; i < 10 && quota_try(quota, size, ret) != QUOTA_OK; i++) {
                if (!has_managed(gate) || !sweep_all_managed(gate, false))
                        break;
                (void)poll(NULL, 0, 5); /* a range was charged so lately that it may still be mapped */
        }
        if (ret->quota || try_quota(request, quota, size, may_wait, ret) == QUOTA_OK ||
            quota_take(quota, size, ret) == QUOTA_OK)
                return QUOTA_OK;
        gate_tell(gate, EVENT_QUOTA_REFUSED, request->process->id, "%s of %s left on device %d",
                  bytes_format(size == UINT64_MAX ? 0 : size, asked), bytes_format(quota_free(quota), left), device);
        return QUOTA_E_FULL;
}

static int take_host(struct request *request, bytes size, struct charge *ret)
{
        struct quota *quota = &request->gate->lease->host;
        char asked[BYTES_TEXT], left[BYTES_TEXT];

        if (quota_try(quota, size, ret) == QUOTA_OK)
                return QUOTA_OK;
        (void)settle_lately(request->gate);
        if (try_quota(request, quota, size, true, ret) == QUOTA_OK || quota_take(quota, size, ret) == QUOTA_OK)
                return QUOTA_OK;
        gate_tell(request->gate, EVENT_HOST_REFUSED, request->process->id, "%s of %s left",
                  bytes_format(size == UINT64_MAX ? 0 : size, asked), bytes_format(quota_free(quota), left));
        return QUOTA_E_FULL;
}

/* The card that an allocation's parent belongs to, or -1. */
static int device_under(struct request *request)
{
        struct gate *gate = request->gate;
        struct ledger_object parent;
        LOCKED(&gate->ledger_lock);

        if (ledger_get(gate->ledger, request->call.client, request->call.parent, &parent) != LEDGER_OK)
                return -1;
        return parent.device;
}

/* The driver may have given more than was asked for. */
static bytes size_after(const struct request *request)
{
        if (request->call.kind == RM_ALLOC || request->call.kind == RM_ALLOC_SHORT)
                return gate_memory_size(request->params, request->params_size);
        return request->verdict.size;
}

static uint32_t memory_handle(const struct request *request)
{
        return rm_get32(request->block, request->call.block_size, request->call.object_at);
}

/* What the driver gave and the quota does not hold goes back to the driver. */
static int take_back(struct request *request)
{
        (void)perform_free(request, request->call.client, memory_handle(request));
        return answer(request, RM_STATUS_NO_MEMORY);
}

/* The call, with the client's order held afterwards. The driver, too, may still hold memory of what has ended: then the
 * call is made once more. */
static int perform_in_order(struct request *request, struct client_lock_pair *locks)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        nsec until = clock_now() + WAITS;
        int r;

        *locks = client_locks_take(gate, call->client, call->client);
        r = perform(request);
        if (r < 0 || request_status(request) != RM_STATUS_NO_MEMORY || !has_late(gate))
                return r;
        client_locks_drop(locks);
        while (has_late(gate) && wait_a_moment(request, until))
                ;
        memcpy(request->block, request->was_block, call->block_size);
        memcpy(request->params, request->was_params, request->params_size);
        *locks = client_locks_take(gate, call->client, call->client);
        return perform(request);
}

int serve_memory(struct request *request)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        struct ledger_object object = { call->client, call->parent, 0, call->class_or_cmd, -1 };
        bool is_video = request->verdict.action == GATE_CHARGE;
        _cleanup_(charge_drop) struct charge charge = { 0 };
        _cleanup_(client_locks_drop) struct client_lock_pair locks = { 0 };
        struct ledger_entry *entry;
        int device, r;

        device = device_under(request);
        if (device < 0)
                return answer(request, RM_STATUS_OBJECT_NOT_FOUND);
        if (is_video)
                r = take_memory(request, device, request->verdict.size, true, &charge);
        else
                r = take_host(request, request->verdict.size, &charge);
        if (r != QUOTA_OK)
                return answer(request, RM_STATUS_NO_MEMORY);
        {
                LOCKED(&gate->ledger_lock);
                r = ledger_entry_new(gate->ledger, &entry);
        }
        if (r < 0)
                return answer(request, RM_STATUS_INSUFFICIENT_RESOURCES);

        r = perform_in_order(request, &locks);
        if (r < 0 || request_status(request) != RM_STATUS_OK) {
                LOCKED(&gate->ledger_lock);
                ledger_entry_free(gate->ledger, entry);
                return r < 0 ? r : reply(request, r); /* the charge goes back by itself */
        }
        if (is_video && size_after(request) > charge.size && charge_resize(&charge, size_after(request)) != QUOTA_OK) {
                {
                        LOCKED(&gate->ledger_lock);
                        ledger_entry_free(gate->ledger, entry);
                }
                return take_back(request);
        }
        object.handle = memory_handle(request);
        {
                LOCKED(&gate->ledger_lock);
                ledger_put(gate->ledger, entry, &object, TAKE(charge));
        }
        return reply(request, r);
}
