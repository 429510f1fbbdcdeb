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
#include "gate/move/move.h"
#include "gate/books.h"
#include "gate/perform.h"

#include "base/cleanup.h"
#include "gate/policy/own.h"
#include "gate/state/uvm_space.h"
#include "rm/numbers.h"

enum {
        FLAGS_AT = 0, /* of UVM_INITIALIZE */
        FLAG_NO_HMM = 1,
        FLAG_MULTI_PROCESS = 2,
        SPACES_MAX = 4096,      /* of a tenant; a process has one */
        MAP_OFFSET_AT = 16,     /* of UVM_MAP_EXTERNAL: in the memory */
        MAP_ATTRIBUTES_AT = 24, /* of UVM_MAP_EXTERNAL: the first one's uuid */
        UNMAP_UUID_AT = 16,     /* of UVM_UNMAP_EXTERNAL */
};

int serve_space(struct request *request)
{
        uint64_t flags = rm_get64(request->block, request->call.block_size, FLAGS_AT);
        int r;

        if (files_count(&request->gate->files) >= SPACES_MAX) {
                gate_tell(request->gate, EVENT_DENIED, request->process->id, "more than %d VA spaces of UVM",
                          SPACES_MAX);
                return answer(request, RM_STATUS_INSUFFICIENT_RESOURCES);
        }
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

/* What was let through as no managed range may be one by now (managed.c), and be asked about in 2 ms only: enough to
 * move 20 MiB of it (2085 of 2048 MiB were seen on an H200). */
int serve_move(struct request *request)
{
        if (request->call.kind == RM_UVM_ENABLE_READ_DUPLICATION || request->call.kind == RM_UVM_PREVENT_MIGRATION)
                request->gate->moving.may_stay = true;
        mappings_check(request->gate);
        return reply(request, perform(request));
}

/* Which devices a space has is noted, for it has none any more when the gate lets go of it (books/spaces.c X3). */
int serve_join(struct request *request)
{
        struct gate *gate = request->gate;
        int r = perform(request);

        if (!request->space || !request_is_done(request, r) || files_join(&gate->files, request->space, request->block))
                return reply(request, r);
        (void)uvm_space_leave(&gate->options.driver, request->fd, request->block);
        gate_tell(gate, EVENT_DENIED, request->process->id, "a VA space that has room for no device, or may have none");
        return answer(request, RM_STATUS_INSUFFICIENT_RESOURCES);
}

/* A device by its uuid's two halves; never 0. */
static uint64_t device_key(const struct request *request, uint32_t at)
{
        uint64_t first = rm_get64(request->block, request->call.block_size, at);
        uint64_t second = rm_get64(request->block, request->call.block_size, at + 8);
        uint64_t key = first + second * 0x9e3779b97f4a7c15u; /* odd: neither half is lost */

        return key ? key : 1;
}

/* The device in whose page tables the mapping is. 0: several devices. */
static uint64_t mapped_on(const struct request *request)
{
        const struct rm_call *call = &request->call;
        uint32_t count_at = request->gate->options.layout.uvm_map_external_client_at - 12;

        if (rm_get64(request->block, call->block_size, count_at) != 1)
                return 0;
        return device_key(request, MAP_ATTRIBUTES_AT);
}

static bool is_pool(const struct request *request)
{
        return request->verdict.action == GATE_POOL;
}

static bool take_for_space(struct request *request, bytes tables, struct tables_taken *ret)
{
        if (tables && tables_take(request, tables, ret) != QUOTA_OK)
                return false;
        if (!is_pool(request) || take_host(request, (bytes)request->call.length, &ret->host) == QUOTA_OK)
                return true;
        tables_drop(request->gate, ret);
        return false;
}

static int take_entry(struct request *request, struct ledger_entry **ret)
{
        switch (request->verdict.action) {
        case GATE_RANGE:
        case GATE_POOL:
        case GATE_PLAIN:
                return entry_take_of(request->gate, ENTRY_OF_RANGE, ret);
        default:
                return entry_take(request->gate, ret);
        }
}

/* A call that makes something of the space, for `commit` to put into the ledger. key: the other tree concerned. tables:
 * what it needs of them, in bytes. */
static int make_in_space(struct request *request, uint64_t key, bytes size,
                         void (*commit)(const struct request *request, struct ledger_entry *entry,
                                        struct tables_taken *tables))
{
        struct gate *gate = request->gate;
        struct tables_taken tables = { 0 };
        struct ledger_entry *entry;
        int r;

        if (!request->space)
                return answer(request, RM_STATUS_INVALID_ARGUMENT);
        if (!take_for_space(request, size, &tables))
                return answer(request, RM_STATUS_NO_MEMORY);
        if (take_entry(request, &entry) < 0) {
                tables_drop(gate, &tables);
                return answer(request, RM_STATUS_INSUFFICIENT_RESOURCES);
        }
        request_lock(request, key, request->space);
        r = perform(request);
        {
                LOCKED(&gate->ledger_lock);
                if (request_is_done(request, r))
                        commit(request, entry, &tables);
                else
                        ledger_entry_free(gate->ledger, entry);
        }
        tables_drop(gate, &tables); /* what nothing has */
        return reply(request, r);
}

static void put_tables(const struct request *request, struct tables_taken *tables)
{
        if (tables->devices)
                ledger_tables_put(request->gate->ledger, request->space, request->call.base, tables->size,
                                  tables->devices);
        *tables = (struct tables_taken){ 0 };
}

static void commit_hold(const struct request *request, struct ledger_entry *entry, struct tables_taken *tables)
{
        const struct rm_call *call = &request->call;

        if (ledger_map(request->gate->ledger, entry, request->space, call->base, call->length, mapped_on(request),
                       call->source_client, call->source_object) != LEDGER_OK)
                return;
        put_tables(request, tables);
        move_note_map(request, mapped_on(request));
}

/* UVM maps with the pages that the memory has, if the addresses allow it. */
static enum own_pages mapped_with(const struct request *request)
{
        const struct rm_call *call = &request->call;
        uint64_t at = call->base | call->length | rm_get64(request->block, call->block_size, MAP_OFFSET_AT);
        uint32_t pages;
        LOCKED(&request->gate->ledger_lock);

        pages = ledger_pages(request->gate->ledger, call->source_client, call->source_object);
        if (pages == OWN_PAGES_HUGE && at % (2 * MIB) == 0)
                return OWN_PAGES_HUGE;
        return pages >= OWN_PAGES_BIG && at % (64 * KIB) == 0 ? OWN_PAGES_BIG : OWN_PAGES_SMALL;
}

int serve_hold(struct request *request)
{
        const struct rm_call *call = &request->call;

        return make_in_space(request, call->source_client, own_tables(call->base, call->length, mapped_with(request)),
                             commit_hold);
}

static void commit_nothing(const struct request *request, struct ledger_entry *entry, struct tables_taken *tables)
{
        ledger_map_nothing(request->gate->ledger, entry, request->space, request->call.base, request->call.length);
        put_tables(request, tables);
}

int serve_nothing(struct request *request)
{
        return make_in_space(request, request->space,
                             own_tables(request->call.base, request->call.length, OWN_PAGES_ANY), commit_nothing);
}

/* ---- what a space keeps of the driver's ------------------------------------------------------------------- */

/*
 * UVM takes references of its own on a channel's buffers and on an address space: freeing the
 * object does not return them until it is unregistered, or the space ends. An address space that is unregistered takes
 * the channels of its device with it. Source: uvm_user_channel.c, uvm_va_space.c (remove_gpu_va_space),
 * nv_gpu_ops.c (nvGpuOpsRetainChannel, nvGpuOpsDupAddressSpace), 535 to 595.
 */
enum {
        OF_SPACE_CLIENT_AT = 20, /* of REGISTER_GPU_VASPACE, which begins with the uuid, and of REGISTER_CHANNEL */
        OF_SPACE_OBJECT_AT = 24,
        CHANNEL_CLIENT_AT = 0, /* of UNREGISTER_CHANNEL */
        CHANNEL_AT = 4,
};

static bool is_about_channel(const struct request *request)
{
        return request->call.kind == RM_UVM_REGISTER_CHANNEL || request->call.kind == RM_UVM_UNREGISTER_CHANNEL;
}

static uint64_t block_get(const struct request *request, uint32_t at)
{
        return rm_get32(request->block, request->call.block_size, at);
}

/* By the first half of its uuid. Of what is registered, and of UNREGISTER_GPU_VASPACE. */
static uint64_t retained_where(const struct request *request)
{
        return rm_get64(request->block, request->call.block_size, 0);
}

/* A channel's key is its name, an address space's its device. */
static uint64_t retained_key(const struct request *request)
{
        bool is_end = request->call.kind == RM_UVM_UNREGISTER_CHANNEL;

        if (!is_about_channel(request))
                return retained_where(request);
        return block_get(request, is_end ? CHANNEL_CLIENT_AT : OF_SPACE_CLIENT_AT) << 32 |
               block_get(request, is_end ? CHANNEL_AT : OF_SPACE_OBJECT_AT);
}

/* Whoever keeps a channel keeps its group's buffers, and those of all its channels (measured: tests/gpu/ownmem.sh). */
static void retain(struct request *request, struct ledger_entry *entry)
{
        struct ledger *ledger = request->gate->ledger;
        uint32_t client = (uint32_t)block_get(request, OF_SPACE_CLIENT_AT);
        uint32_t handle = (uint32_t)block_get(request, OF_SPACE_OBJECT_AT);
        struct ledger_object object;

        if (is_about_channel(request) && ledger_get(ledger, client, handle, &object) == LEDGER_OK) {
                handle = object.parent;
                ledger_own_gather(ledger, client, handle);
        }
        ledger_retain(ledger, entry, request->space, retained_key(request), retained_where(request), client, handle);
}

int serve_retain(struct request *request)
{
        struct gate *gate = request->gate;
        struct ledger_entry *entry;
        int r;

        if (!request->space)
                return answer(request, RM_STATUS_INVALID_ARGUMENT);
        if (entry_take(gate, &entry) < 0)
                return answer(request, RM_STATUS_INSUFFICIENT_RESOURCES);
        request_lock(request, block_get(request, OF_SPACE_CLIENT_AT), request->space);
        r = perform(request);
        {
                LOCKED(&gate->ledger_lock);
                if (request_is_done(request, r))
                        retain(request, entry);
                else
                        ledger_entry_free(gate->ledger, entry);
        }
        return reply(request, r);
}

int serve_let_go(struct request *request)
{
        struct gate *gate = request->gate;
        int r;

        request_lock(request, request->space, request->space);
        r = perform(request);
        if (request_is_done(request, r)) {
                LOCKED(&gate->ledger_lock);
                if (is_about_channel(request))
                        ledger_let_go(gate->ledger, request->space, retained_key(request));
                else
                        ledger_let_go_where(gate->ledger, request->space, retained_where(request));
        }
        return reply(request, r);
}

int serve_release(struct request *request)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        uint64_t space = request->space;
        int r;

        request_lock(request, space, space);
        r = perform(request);
        if (request_is_done(request, r)) {
                LOCKED(&gate->ledger_lock);
                if (call->kind == RM_UVM_FREE) {
                        /* Where the call has a length, the driver has checked that it is the range's. */
                        ledger_unmap(gate->ledger, space, call->base, call->length, 0);
                        ledger_range_gone(gate->ledger, space, call->base);
                } else {
                        ledger_unmap(gate->ledger, space, call->base, call->length, device_key(request, UNMAP_UUID_AT));
                }
        }
        return reply(request, r);
}

static void commit_range(const struct request *request, struct ledger_entry *entry, struct tables_taken *tables)
{
        ledger_range_put(request->gate->ledger, entry, request->space, request->call.base, request->call.length,
                         is_pool(request), TAKE(tables->host));
        put_tables(request, tables);
}

/* A range begins: for RM memory; for semaphores, which is then mapped by mmap and is no managed memory; or mapped at
 * once with nothing behind it. The driver refuses one that overlaps another. */
int serve_range(struct request *request)
{
        enum { POOL_MAX = 16 }; /* MiB; CUDA takes 2 */
        bool is_mapped = request->verdict.action != GATE_RANGE;

        if (is_pool(request) && request->call.length > POOL_MAX * MIB) {
                gate_tell(request->gate, EVENT_DENIED, request->process->id, "a semaphore pool of more than %d MiB",
                          POOL_MAX);
                return answer(request, RM_STATUS_INVALID_ARGUMENT);
        }
        return make_in_space(request, request->space,
                             is_mapped ? own_tables(request->call.base, request->call.length, OWN_PAGES_ANY) : 0,
                             commit_range);
}

/* Of a file without a space it is UVM that says so. */
int serve_group(struct request *request)
{
        struct gate *gate = request->gate;
        bool begins = request->call.kind == RM_UVM_CREATE_RANGE_GROUP;
        uint64_t group = rm_get64(request->block, request->call.block_size, 0);
        int r;

        if (begins && request->space && !files_group_begin(&gate->files, request->space)) {
                gate_tell(gate, EVENT_DENIED, request->process->id,
                          "more range groups than %d in a VA space, or %d in all", FILE_GROUPS, FILES_GROUPS);
                return answer(request, RM_STATUS_NO_MEMORY);
        }
        r = perform(request);
        if (begins && request_is_done(request, r))
                files_group_made(&gate->files, request->space, rm_get64(request->block, request->call.block_size, 0));
        else if (begins || request_is_done(request, r))
                files_group_end(&gate->files, request->space, begins ? 0 : group);
        return reply(request, r);
}
