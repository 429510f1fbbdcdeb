/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory of the driver's that the program maps.
 *
 * A mapping keeps the memory, also when its object is freed, and the tenant's munmap is not seen. But a mapping keeps
 * the open file that it was made through, so the charge lasts as long as the kernel has that file (state/open_files.h):
 * it is held like an export. Where no file can be watched, the charge lasts as long as the tenant.
 * Source: nv-mmap.c (nvidia_mmap_sysmem, nvidia_vma_release), 525 to 595. Video memory is not kept: the driver takes
 * such mappings down with the object.
 */
#include "gate/act.h"
#include "gate/move/move.h"
#include "gate/perform.h"

#include "base/cleanup.h"
#include "rm/numbers.h"

enum {
        FD_AT = 48, /* of the block: an open file that is given the mapping */
};

#define NO_FILE UINT64_MAX

static bool is_host(struct gate *gate, const struct rm_call *call)
{
        LOCKED(&gate->ledger_lock);

        return ledger_quota_of(gate->ledger, call->client, call->object) == &gate->lease->host;
}

static void commit_map(const struct request *request, struct ledger_entry *entry, uint64_t file)
{
        struct ledger *ledger = request->gate->ledger;
        const struct rm_call *call = &request->call;
        LOCKED(&request->gate->ledger_lock);

        if (file == NO_FILE)
                ledger_retain(ledger, entry, NO_FILE, (uint64_t)call->client << 32 | call->object, 0, call->client,
                              call->object);
        else
                (void)ledger_export(ledger, entry, file, 0, call->client, call->object);
}

static int perform_map(struct request *request, struct ledger_entry *entry, uint64_t file)
{
        struct gate *gate = request->gate;
        const struct rm_call *call = &request->call;
        int r;

        request_lock(request, call->client, call->client);
        r = perform(request);
        if (request_is_done(request, r))
                commit_map(request, entry, file);
        else
                entry_drop(gate, entry);
        return reply(request, r);
}

int serve_map(struct request *request)
{
        struct gate *gate = request->gate;
        _cleanup_(tenant_fd_put) struct tenant_fd named = { .fd = -1 };
        struct ledger_entry *entry;
        const struct gate_driver *driver = &gate->options.driver;
        uint64_t file = 0;
        uint32_t minor;

        move_pin(gate, request->call.client, request->call.object);
        if (!is_host(gate, &request->call))
                return reply(request, perform(request));
        named = tenant_fd_get(request, (int)rm_get32(request->block, request->call.block_size, FD_AT));
        if (named.fd < 0)
                return named.fd;
        request->named = &named;
        if (entry_take(gate, &entry) < 0)
                return answer(request, RM_STATUS_INSUFFICIENT_RESOURCES);
        /* the driver takes none but its own, and who looks at the list must not wait for what a tenant serves */
        if (driver->node(driver->context, named.fd, &minor) != RM_NODE_OTHER)
                file = open_files_add(&gate->exports, named.fd);
        return perform_map(request, entry, file ? file : NO_FILE);
}
