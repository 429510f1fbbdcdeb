/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page tables: what a mapping makes the driver take without being asked (policy/own.h). They are paid before the call.
 *
 *      of UVM   a space has tables on each device; which of them a call means is its uuid, which no lease knows. So
 *               they are charged on every device of the lease, as managed memory is
 *      of RM    a reservation of addresses pays at once, or, if it is lazy, for what is mapped in it, until all its
 *               tables are there; unmapping returns nothing. The address space keeps the most that it has had. The
 *               driver maps in reservations only (virtmemMapTo, virtual_mem.c, 580.95.05); of a context DMA it tells
 *               an address, without tables (ctxdmaMapTo, context_dma.c). Each dup of a reservation grows for itself
 */
#include "gate/act.h"
#include "gate/move/move.h"
#include "gate/perform.h"

#include "base/cleanup.h"
#include "gate/policy/own.h"
#include "rm/numbers.h"

enum {
        MEMORY_AT = 12, /* of MAP_DMA: what is mapped */
};

static int take_on(struct request *request, unsigned int device, bytes size)
{
        struct gate *gate = request->gate;
        struct charge charge = { 0 };
        bytes more;
        int r = QUOTA_OK;

        {
                LOCKED(&gate->ledger_lock);
                more = ledger_tables_want(gate->ledger, device, size);
        }
        if (more)
                r = take_memory(request, (int)device, more, true, &charge);

        LOCKED(&gate->ledger_lock);
        if (r == QUOTA_OK)
                ledger_tables_pay(gate->ledger, device, charge);
        else
                ledger_tables_return(gate->ledger, device, size, more);
        return r;
}

void tables_drop(struct gate *gate, struct tables_taken *tables)
{
        LOCKED(&gate->ledger_lock);

        for (unsigned int i = 0; i < gate->lease->n_devices; i++)
                if (tables->devices >> i & 1)
                        ledger_tables_return(gate->ledger, i, tables->size, 0);
        charge_drop(&tables->host);
        *tables = (struct tables_taken){ 0 };
}

int tables_take(struct request *request, bytes size, struct tables_taken *ret)
{
        struct gate *gate = request->gate;

        *ret = (struct tables_taken){ .size = size };
        for (unsigned int i = 0; i < gate->lease->n_devices; i++) {
                if (!gate->lease->devices[i].is_granted)
                        continue;
                if (take_on(request, i, size) != QUOTA_OK) {
                        tables_drop(gate, ret);
                        return QUOTA_E_FULL;
                }
                ret->devices |= 1u << i;
        }
        return QUOTA_OK;
}

int serve_map_dma(struct request *request)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        _cleanup_(charge_drop) struct charge charge = { 0 };
        int device, r;
        bytes more, need;

        move_pin(gate, call->client, rm_get32(request->block, call->block_size, MEMORY_AT));
        request_lock(request, call->client, call->client);
        device = object_device(gate, call->client, call->object);
        {
                LOCKED(&gate->ledger_lock);
                more = ledger_pool_room(gate->ledger, call->client, call->object,
                                        own_tables_anywhere(call->length, OWN_PAGES_SMALL), &need);
        }
        if (need && (device < 0 || take_memory(request, device, need, false, &charge) != QUOTA_OK))
                return answer(request, RM_STATUS_NO_MEMORY);
        r = perform(request);
        if (request_is_done(request, r)) {
                LOCKED(&gate->ledger_lock);
                ledger_pool_grow(gate->ledger, call->client, call->object, more, TAKE(charge));
        }
        return reply(request, r);
}
