/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: a shared mmap of a UVM descriptor at an offset equal to its address is all that the boundary sees
 * of it; the device's memory is then taken by faults. So the mapping is charged at its length, on every device of the
 * lease (it may go to any), or refused.
 *
 * The mapping itself must be made by the tenant (it is its mm), so this is the one place where what
 * was checked could change before it happens: another thread may put another descriptor under the
 * number. A charge does not depend on that: it lasts until UVM has nothing there in any of the tenant's spaces
 * (sweep.c). What was let through uncharged, a pool or a file that is not UVM's, must not have become a managed range:
 * UVM is asked when the thread makes its next call, 2 ms later, before anything is moved to a device, and every second
 * while it is on its way, and a tenant that has such a range is ended (mapping_check).
 *
 * How a refusal appears. libcuda reports no "out of memory" here: of mmap's errno it makes EPERM "operation not
 * permitted" (800), EOPNOTSUPP "operation not supported" (801), EINVAL and EADDRINUSE "invalid value" (1), and
 * everything else, ENOMEM too, "unknown error" (999); of UVM's answers to the calls that follow (72, 45) none becomes
 * "out of memory" either. So a range over the quota is EPERM, a range under --managed=deny EOPNOTSUPP; afterwards the
 * program continues undisturbed.
 * Measured: every errno from 1 to 133, every status from 1 to 127; H200, 580.159.04.
 */
#include "gate/act.h"
#include "gate/books.h"
#include "gate/move/move.h"
#include "gate/perform.h"
#include "gate/serve.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "gate/policy/own.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#define AUDIT_AFTER (2 * NSEC_PER_MSEC) /* the mapping is usually made by then */

enum {
        PAGE = 4096,
};

struct mapping {
        uint64_t address, length, offset;
        int prot, flags, fd;
};

/* Whether UVM would make a managed range of it, if the descriptor were UVM's. */
static bool could_be_managed(const struct mapping *mapping)
{
        if ((mapping->prot & (PROT_READ | PROT_WRITE)) != (PROT_READ | PROT_WRITE))
                return false; /* mprotect can add PROT_WRITE later, but the range is made here or never */
        if (mapping->flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))
                return mapping->address == mapping->offset;
        return true;
}

/* One charge per device, or none; and page tables, for small pages and for large ones. */
static int charge_all(struct request *request, const struct mapping *mapping, uint64_t space)
{
        struct gate *gate = request->gate;
        struct charge charges[LEASE_DEVICES_MAX] = { 0 };
        struct ledger_entry *entries[LEASE_DEVICES_MAX] = { 0 };
        bytes size = own_tables(mapping->address, mapping->length, OWN_PAGES_ANY);
        struct tables_taken tables;
        unsigned int n = 0;
        int r = 0;

        if (tables_take(request, size, &tables) != QUOTA_OK)
                return -ENOMEM;

        for (unsigned int i = 0; i < gate->lease->n_devices && r == 0; i++) {
                if (!gate->lease->devices[i].is_granted)
                        continue;
                r = take_memory(request, (int)i, mapping->length, true, &charges[n]) == QUOTA_OK ? 0 : -ENOMEM;
                if (r == 0)
                        r = entry_take(gate, &entries[n++]);
        }

        if (r < 0)
                tables_drop(gate, &tables);

        LOCKED(&gate->ledger_lock);
        for (unsigned int i = 0; i < n; i++) {
                if (r == 0)
                        ledger_managed_put(gate->ledger, entries[i], space, (uint32_t)request->process->id,
                                           mapping->address, mapping->length, clock_now(), charges[i]);
                else
                        ledger_entry_free(gate->ledger, entries[i]);
                if (r < 0)
                        charge_drop(&charges[i]);
        }
        if (r == 0)
                ledger_tables_put(gate->ledger, space, mapping->address, tables.size, tables.devices);
        return r;
}

/* The call that the kernel makes from here on. */
static struct mapping_call call_of(const struct request *request, const struct mapping *mapping, uint64_t space,
                                   bool is_charged)
{
        return (struct mapping_call){
                request->thread, request->process->id, mapping->offset, mapping->length, space, is_charged, 0, false
        };
}

static bool is_awaited(const void *context)
{
        const struct request *request = context;

        return request->gate->host->is_awaited(request);
}

/* It must turn out to be what it was let through for. */
static int go_on_and_check(const struct request *request, struct mapping_call *call)
{
        struct gate *gate = request->gate;
        int r = mappings_begin(&gate->mappings, call, is_awaited, request);

        if (r < 0)
                return r;
        mappings_note_due(&gate->mappings, clock_now() + AUDIT_AFTER);
        (void)eventfd_write(gate->wake, 1);
        return GATE_GO_ON;
}

/* After mappings_begin, and before the kernel makes it: a question to the space would be in the mapping's way. */
static void note_mapping(struct request *request, uint64_t space)
{
        struct client_lock_pair locks = client_locks_take(request->gate, space, space);

        files_mapped(&request->gate->files, space, request->process->id, clock_now());
        client_locks_drop(&locks);
}

static int64_t charge_and_go_on(struct request *request, const struct mapping *mapping, uint64_t space)
{
        struct gate *gate = request->gate;
        struct mapping_call call = call_of(request, mapping, space, true);
        int r;

        managed_make_way(request, &call);
        r = mappings_begin(&gate->mappings, &call, is_awaited, request);
        if (r < 0)
                return r; /* before the charge, which it keeps until the mapping is made */
        r = charge_all(request, mapping, space);
        note_mapping(request, space); /* last: a charge may have waited */
        if (r == 0)
                return GATE_GO_ON;
        mappings_end(&gate->mappings, &call);
        return -EPERM;
}

/* It takes of the quota, and so waits for memory that is away, as calls do that take some: what comes back is not asked
 * whether there is room for it. */
static int64_t map_charged(struct request *request, const struct mapping *mapping, uint64_t space)
{
        int64_t answer;
        int r;

        request->verdict.action = GATE_CHARGE;
        r = wait_if_suspended(request);
        if (r == 0)
                r = move_enter(request);
        if (r != 0)
                return r == GATE_WAITS ? r : -ENOMEM;
        answer = charge_and_go_on(request, mapping, space);
        move_leave(request);
        return answer;
}

static int64_t map_uvm(struct request *request, const struct mapping *mapping)
{
        struct gate *gate = request->gate;
        uint64_t space = files_find(&gate->files, request->fd);
        struct mapping_call call = call_of(request, mapping, space, false);
        char size[BYTES_TEXT];
        bool is_pool;

        if (!could_be_managed(mapping) || mapping->address != mapping->offset)
                return -EINVAL; /* UVM's own answer */
        if (!space)
                return -EBADFD; /* likewise: not begun */
        {
                LOCKED(&gate->ledger_lock);
                is_pool = ledger_has_pool(gate->ledger, space, mapping->address, mapping->length);
        }
        if (is_pool) {
                int64_t r = go_on_and_check(request, &call);

                note_mapping(request, space);
                return r;
        }
        switch (gate->lease->managed) {
        case LEASE_MANAGED_ALLOW:
                note_mapping(request, space);
                return GATE_GO_ON;
        case LEASE_MANAGED_DENY:
                gate_tell(gate, EVENT_MANAGED_DENIED, request->process->id, "%s", bytes_format(mapping->length, size));
                return -EOPNOTSUPP;
        case LEASE_MANAGED_CHARGE:
                break;
        }
        return map_charged(request, mapping, space);
}

static const char *why_not(struct gate *gate, const struct mapping_call *call)
{
        if (mapping_is_wide(gate, call))
                return "too many ranges, or too many are on their way";
        return mapping_is_over_ranges(gate, call) ? "memory of the device" : NULL;
}

/* A file that is not UVM's. Where UVM has ranges already, the kernel makes no managed one: but what is there could not
 * be told from one. So it is refused, which programs survive: as if there were no addresses. It counts as on its way
 * before it is looked at: others may come at once. */
static int64_t map_other(struct request *request, const struct mapping *mapping)
{
        struct gate *gate = request->gate;
        struct mapping_call call = call_of(request, mapping, 0, false);
        char size[BYTES_TEXT];
        const char *why;
        int r;

        call.is_considered = true;
        r = mappings_begin(&gate->mappings, &call, is_awaited, request);
        if (r < 0)
                return r;
        call.is_considered = false;
        why = why_not(gate, &call);
        if (!why)
                return go_on_and_check(request, &call);
        mappings_end(&gate->mappings, &call);
        gate_tell(gate, EVENT_DENIED, request->process->id,
                  "a shared mapping of %s of a file from 0x%llx on: these addresses have %s",
                  bytes_format(mapping->length, size), (unsigned long long)mapping->offset, why);
        return -ENOMEM;
}

int64_t serve_mmap(struct worker *worker, const struct seccomp_notif *notification, struct process *process)
{
        struct gate *gate = worker->gate;
        const __u64 *args = notification->data.args;
        struct mapping mapping = { args[0],      (args[1] + PAGE - 1) & ~(uint64_t)(PAGE - 1),
                                   args[5],      (int)args[2],
                                   (int)args[3], (int)args[4] };
        struct request request = { .gate = gate,
                                   .worker = worker,
                                   .id = notification->id,
                                   .thread = (pid_t)notification->pid,
                                   .process = process };
        _cleanup_(tenant_fd_put) struct tenant_fd ours = { gate, process_fd(process, request.thread, mapping.fd) };

        if (ours.fd < 0)
                return ours.fd == -EBADF ? -EBADF : -EPERM;
        if (!mapping.length)
                return args[1] ? -ENOMEM : -EINVAL; /* the kernel's own answers */
        request.fd = ours.fd;
        request.node = gate->options.driver.node(gate->options.driver.context, ours.fd, &request.minor);
        if (request.node == RM_NODE_UVM)
                return map_uvm(&request, &mapping);
        if (request.node == RM_NODE_UVM_TOOLS || request.node == RM_NODE_FORBIDDEN)
                return -EPERM;
        /* Also while there is no space: one may begin, and come under the number, before the kernel looks. */
        if (could_be_managed(&mapping) && gate->lease->managed != LEASE_MANAGED_ALLOW)
                return map_other(&request, &mapping);
        return GATE_GO_ON;
}
