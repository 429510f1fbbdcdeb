/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory leaves its device by UVM's own migration, which the gate asks for on its duplicate of each VA space.
 * Nothing is made again on the way back: the ranges stay, and the kernels' faults bring what they touch. Which pages
 * were on a device nobody can be asked, and what lay in the host all the time had better stay there.
 *
 * What the driver does (kernel-open/nvidia-uvm, read from 535 to 595):
 *      - anybody who has the file may ask. A space in multi-process mode, as all here (uvm.c), has no mm: the caller's
 *        is taken, and only the program's own page table entries need the program's: it faults them in, without a copy
 *        (uvm_va_space_mm_or_current_retain, uvm_va_range_vma_check in uvm_va_block_map);
 *      - pages that nobody has touched are made, too: a range takes its whole length of the host's memory. They count
 *        for the caller's cgroup, which is the shim's (NV_UVM_GFP_FLAGS_ACCOUNT, uvm_memcg_context_start), as the room
 *        of copies does. The driver does not look how much there is: we do, before each piece;
 *      - addresses that are not all managed are INVALID_ADDRESS, and nothing has moved (uvm_api_range_type_check). So
 *        a range of which the tenant has unmapped a part is moved in halves of halves;
 *      - where there is no memory the way fails. What has moved by then is as good where it is: nothing has to be
 *        undone;
 *      - of a range group that may not migrate the pages stay, and the answer may be that all is well: it warns only
 *        where the preferred location is another (uvm_migrate_ranges), and a group that could not be brought there may
 *        keep its flag (uvm_range_groups_set_migration_policy). And where a range is duplicated for its readers the
 *        host gets one more copy and the device keeps its own. So a tenant that has asked for either (40, 44) does not
 *        move (moving.h may_stay);
 *      - preferred locations and mappings kept for a device (42, 46) decide what a fault does: there are none of
 *        devices while its channels are off. What is mapped on a device then is the host's. Faults that were on
 *        their way when they went off may still be served, a batch of them at most: each call passes over its addresses
 *        twice (uvm_migrate), and all are asked for once more LAST_FAULTS_MS later;
 *      - blocks of 2 MiB on the device stay with the range as "unused" until somebody wants memory, and go first,
 *        without a copy (va_block_unused, pick_root_chunk_to_evict). Until then the device's own figure has them.
 */
#include "gate/books.h"
#include "gate/move/inside.h"
#include "gate/move/move.h"
#include "gate/state/uvm_space.h"

#include "base/clock.h"
#include "rm/numbers.h"

#include <poll.h>
#include <string.h>

enum {
        PAGE = 4096,
        CALLS_MAX =
                1 << 20, /* of one way: a tenant chooses how many ranges and spaces it has, and how they look (T6) */
        LATER_MS = 5,    /* a mapping on its way is not asked about before */
        LATER_MAX = 20,
        LAST_FAULTS_MS = 20,
};

#define STEP GIB /* at once: between them the tenant may have ended, and the host be short of memory */

struct leaving {
        struct gate *gate;
        struct gate_moved *ret;
        unsigned int n_calls, n_later;
};

/* From base to the next multiple of STEP, to the end, or as long as that. */
static uint64_t piece_at(uint64_t base, uint64_t end, uint64_t most)
{
        uint64_t step = STEP - base % STEP, piece = end - base;

        piece = piece < step ? piece : step;
        return piece < most ? piece : most;
}

/* Whether another piece may be asked for. */
static bool may_go_on(struct leaving *leaving, uint64_t piece)
{
        const struct gate_copier *copier = leaving->gate->options.copier;
        const char *why = NULL;

        if (leaving->gate->is_empty)
                why = "its processes have ended";
        else if (leaving->n_calls++ == CALLS_MAX)
                why = "it is in too many parts";
        else if (leaving->n_later > LATER_MAX)
                why = "mappings are on their way all the time";
        else if (copier->spare(copier->context, piece) < 0)
                why = "the host has no memory for it";
        return !why || move_fail(leaving->ret, GATE_MOVE_AS_BEFORE, "moving managed memory: %s", why);
}

static uint32_t piece_leave(struct gate *gate, const struct file *space, uint64_t base, uint64_t length)
{
        struct client_lock_pair locks = client_locks_take(gate, space->number, space->number);
        uint32_t status = uvm_space_to_host(&gate->options.driver, space->fd, base, length);

        client_locks_drop(&locks);
        return status;
}

/* What is managed of these addresses of a space; the rest is none of ours. */
static bool addresses_leave(struct leaving *leaving, const struct file *space, uint64_t base, uint64_t end)
{
        uint64_t most = STEP;

        while (base < end) {
                uint64_t piece = piece_at(base, end, most);
                enum answer answer = RANGE_GONE;
                uint32_t status;

                if (!may_go_on(leaving, piece))
                        return false;
                status = piece_leave(leaving->gate, space, base, piece);
                if (status != RM_STATUS_OK && status != UVM_INVALID_ADDRESS)
                        return move_fail(leaving->ret, GATE_MOVE_AS_BEFORE,
                                         "moving managed memory at 0x%llx: status 0x%x", (unsigned long long)base,
                                         status);
                if (status == UVM_INVALID_ADDRESS)
                        answer = space_ask(leaving->gate, 0, space, base, piece);
                if (answer == RANGE_LATER) {
                        leaving->n_later++;
                        (void)poll(NULL, 0, LATER_MS);
                } else if (answer == RANGE_THERE && piece > PAGE) {
                        most = (piece / 2 + PAGE - 1) / PAGE * PAGE;
                } else { /* one page that is there and not managed is something else */
                        base += piece;
                        most = most < STEP ? most * 2 : STEP;
                }
        }
        return true;
}

/* In which space a range was made is known but for a tenant that changes descriptors meanwhile (books/spaces.c X1): so
 * it is sought in others, too, where those have nothing that is known. */
static bool range_leaves(struct leaving *leaving, const struct file *space, const struct ledger_range *range)
{
        uint64_t base = range->base, end = range->base + range->length, length;

        if (range->space == space->number)
                return addresses_leave(leaving, space, base, end);
        if (!may_go_on(leaving, 0))
                return false;
        for (; space_gap_next(leaving->gate, space->number, &base, end, &length); base += length)
                if (!addresses_leave(leaving, space, base, base + length))
                        return false;
        return true;
}

static bool all_leave(struct leaving *leaving)
{
        const struct ledger_plan *plan = &leaving->gate->moving.plan;
        struct file space = { 0 };
        bool is_done = true;

        while (is_done && files_next(&leaving->gate->files, space.number, &space)) {
                for (size_t i = 0; is_done && i < plan->n_ranges; i++)
                        is_done = range_leaves(leaving, &space, &plan->ranges[i]);
                files_unuse(&leaving->gate->files, space.number);
        }
        return is_done;
}

bool move_ranges_leave(struct gate *gate, struct gate_moved *ret)
{
        struct leaving leaving = { gate, ret, 0, 0 };

        if (!gate->moving.plan.n_ranges)
                return true;
        spaces_clean(gate);
        if (!all_leave(&leaving))
                return false;
        (void)poll(NULL, 0, LAST_FAULTS_MS);
        return all_leave(&leaving);
}

void move_ranges_charge(struct gate *gate, bool leaves)
{
        if (!gate->moving.plan.n_ranges)
                return;
        {
                LOCKED(&gate->ledger_lock);
                if (leaves)
                        ledger_managed_away(gate->ledger);
                else
                        ledger_managed_back(gate->ledger);
        }
        gate_usage_changed(gate);
}
