/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /dev/nvidia-uvm: VA spaces, and what they hold.
 *
 * UVM takes a reference of its own on RM memory that it maps (33): RM_FREE does not return the memory until the range
 * is freed (34), unmapped (66), or the space ends with its struct file. Ranges are told apart by base; a range may
 * hold several mappings.
 *
 * A VA space begins with the flags "no HMM" and "multi process": the first because nobody would see malloc memory
 * that migrates to the device; the second because the space then belongs to its struct file instead of to an mm, so
 * that another process (this one) may make its calls.
 * Source: uvm.c, uvm_va_space_mm.c, uvm_hmm.c, 535 to 595.
 */
#include "gate/act.h"
#include "gate/perform.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

enum {
        FLAGS_AT = 0, /* of UVM_INITIALIZE */
        FLAG_NO_HMM = 1,
        FLAG_MULTI_PROCESS = 2,
        MAP_ATTRIBUTES_AT = 24, /* of UVM_MAP_EXTERNAL: the first one's uuid */
        UNMAP_UUID_AT = 16,     /* of UVM_UNMAP_EXTERNAL */
};

int serve_space(struct request *request)
{
        uint64_t flags = rm_get64(request->block, request->call.block_size, FLAGS_AT);
        int r;

        /* Kept before the call: it must never hold anything that no number stands for. */
        if (!files_keep(&request->gate->files, request->fd)) {
                gate_tell(request->gate, EVENT_GATE_FULL, request->process->id, "no descriptor for one more VA space");
                return answer(request, RM_STATUS_INSUFFICIENT_RESOURCES);
        }
        rm_put64(request->block, request->call.block_size, FLAGS_AT, flags | FLAG_NO_HMM | FLAG_MULTI_PROCESS);
        r = perform(request);
        rm_put64(request->block, request->call.block_size, FLAGS_AT, flags);
        return reply(request, r);
}

/* The device in whose page tables the mapping is: its uuid's first half. 0: several devices. */
static uint64_t mapped_on(const struct request *request)
{
        const struct rm_call *call = &request->call;
        uint32_t count_at = request->gate->options.layout.uvm_map_external_client_at - 12;

        if (rm_get64(request->block, call->block_size, count_at) != 1)
                return 0;
        return rm_get64(request->block, call->block_size, MAP_ATTRIBUTES_AT);
}

/* A call that makes something of the space, for `commit` to put into the ledger. key: the other tree concerned. */
static int make_in_space(struct request *request, uint64_t key,
                         void (*commit)(const struct request *request, struct ledger_entry *entry))
{
        struct gate *gate = request->gate;
        _cleanup_(client_locks_drop) struct client_lock_pair locks = { 0 };
        struct ledger_entry *entry;
        int r;

        if (entry_take(gate, &entry) < 0)
                return answer(request, RM_STATUS_INSUFFICIENT_RESOURCES);
        locks = client_locks_take(gate, key, request->space);
        r = perform(request);
        {
                LOCKED(&gate->ledger_lock);
                if (request_is_done(request, r))
                        commit(request, entry);
                else
                        ledger_entry_free(gate->ledger, entry);
        }
        return reply(request, r);
}

static void commit_hold(const struct request *request, struct ledger_entry *entry)
{
        const struct rm_call *call = &request->call;

        (void)ledger_map(request->gate->ledger, entry, request->space, call->base, call->length, mapped_on(request),
                         call->source_client, call->source_object);
}

int serve_hold(struct request *request)
{
        if (!request->space)
                return answer(request, RM_STATUS_INVALID_ARGUMENT);
        return make_in_space(request, request->call.source_client, commit_hold);
}

int serve_release(struct request *request)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        uint64_t space = request->space;
        _cleanup_(client_locks_drop) struct client_lock_pair locks = { 0 };
        int r;

        locks = client_locks_take(gate, space, space);
        r = perform(request);
        if (request_is_done(request, r)) {
                LOCKED(&gate->ledger_lock);
                if (call->kind == RM_UVM_FREE) {
                        /* Where the call has a length, the driver has checked that it is the range's. */
                        ledger_unmap(gate->ledger, space, call->base, call->length, 0);
                        ledger_range_gone(gate->ledger, space, call->base);
                } else {
                        ledger_unmap(gate->ledger, space, call->base, call->length,
                                     rm_get64(request->block, call->block_size, UNMAP_UUID_AT));
                }
        }
        return reply(request, r);
}

static bool is_pool(const struct request *request)
{
        return request->verdict.action == GATE_POOL;
}

static void commit_range(const struct request *request, struct ledger_entry *entry)
{
        ledger_range_put(request->gate->ledger, entry, request->space, request->call.base, request->call.length,
                         is_pool(request));
}

/* A range begins: for RM memory, or for semaphores, which is then mapped by mmap and is no managed memory. The driver
 * refuses one that overlaps another. */
int serve_range(struct request *request)
{
        enum { POOL_MAX = 16 * MIB }; /* CUDA takes 2 MiB */

        if (!request->space || (is_pool(request) && request->call.length > POOL_MAX))
                return answer(request, RM_STATUS_INVALID_ARGUMENT);
        return make_in_space(request, request->space, commit_range);
}
