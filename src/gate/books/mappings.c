/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mapping that the tenant makes itself: what makes way for it, and that it is no more than it was let through for.
 *
 *      M1  What one mapping costs is bounded, whatever a tenant has made: questions to its spaces, of ranges that lie
 *          where it comes to lie and about addresses for which nothing is charged. One that lies over more is not let
 *          through, nor are more at once than can be looked at in a moment: what waits to be looked at may be used
 *          meanwhile. One that lies over more by the time it is looked at counts as one that nobody announced.
 *      M2  A sweep looks after those that are due, too: it may take longer than a tenant needs to use what it mapped.
 */
#include "gate/books.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "gate/state/uvm_space.h"

#include <poll.h>
#include <sys/syscall.h>

enum {
        LOOKS_MAX = 10, /* at a range that may not be asked about yet, so far apart */
        LOOK_MS = 5,
        QUESTIONS_MAX = 4096,
        GAPS_MAX = 4096,  /* of all mappings on their way, about */
        GAPS_LEAST = 8,   /* of one, whatever the others have */
        GAPS_LATER = 4,   /* times as many by the time it is looked at */
        ASKED_MAX = 8192, /* mappings on their way, times spaces */
};

/* ---- what makes way ------------------------------------------------------------------------------------ */

/* The owner's next range, from *i on, that has an address in common with the mapping. */
static bool next_over(struct gate *gate, const struct mapping_call *mapping, size_t *i, uint64_t *ret_base,
                      uint64_t *ret_length)
{
        LOCKED(&gate->ledger_lock);

        return ledger_managed_over(gate->ledger, (uint32_t)mapping->process, i, mapping->base, mapping->length,
                                   ret_base, ret_length);
}

/* What the tenant may make one mapping cost: questions, each to all of its spaces, and waits. */
static size_t ranges_most(struct gate *gate)
{
        size_t n = files_count(&gate->files);

        return n < QUESTIONS_MAX ? QUESTIONS_MAX / (n ? n : 1) : 1;
}

void managed_make_way(struct request *request, const struct mapping_call *mapping)
{
        struct gate *gate = request->gate;
        size_t i = 0, at = 0, n_ranges = ranges_most(gate);
        uint64_t base, length;
        int n_looks = LOOKS_MAX;
        nsec before = clock_now();

        while (n_ranges && next_over(gate, mapping, &i, &base, &length)) {
                if (gate->is_spent || !gate->host->is_awaited(request))
                        return;
                if (sweep_range(gate, mapping->thread, (uint32_t)mapping->process, base, length, before) &&
                    n_looks-- > 0) {
                        gate->host->reader_release(request->worker);
                        (void)poll(NULL, 0, LOOK_MS);
                        i = at; /* the same again, as it is by then */
                } else {
                        n_ranges--;
                }
                at = i;
                before = clock_now();
        }
}

/* ---- what it was let through for ----------------------------------------------------------------------- */

bool space_gap_next(struct gate *gate, uint64_t space, uint64_t *base, uint64_t end, uint64_t *ret_length)
{
        bool has_gap;

        do {
                LOCKED(&gate->ledger_lock);
                has_gap = ledger_gap_next(gate->ledger, space, base, end, ret_length);
        } while (has_gap && !*ret_length);
        return has_gap;
}

/* UVM has something that the ledger has not. Not only where the ledger has nothing at all: it may have a charge whose
 * mapping failed, W3 of the sweep, smaller than what lies there now. *left: questions that may be asked. */
static bool has_more(struct gate *gate, const struct file *space, uint64_t base, uint64_t end, size_t *left)
{
        struct client_lock_pair locks = client_locks_take(gate, space->number, space->number);
        bool is_there = false;
        uint64_t length = 0;

        while (!is_there && space_gap_next(gate, space->number, &base, end, &length)) {
                is_there = !*left || /* M1 */
                           uvm_space_has(&gate->options.driver, &gate->options.layout, space->fd, base, length);
                *left -= !is_there;
                base += length;
        }
        client_locks_drop(&locks);
        return is_there;
}

/* What the kernel makes no mapping of. */
static bool is_past_the_end(const struct mapping_call *call)
{
        return call->base + call->length < call->base;
}

bool mapping_is_wide(struct gate *gate, const struct mapping_call *call)
{
        size_t n_calls = gate->mappings.n, most = GAPS_MAX / (n_calls ? n_calls : 1), n = 0;
        struct file space = { 0 };

        if (is_past_the_end(call))
                return false;
        if (n_calls * files_count(&gate->files) > ASKED_MAX)
                return true;
        most = most > GAPS_LEAST ? most : GAPS_LEAST;
        while (n <= most && files_next(&gate->files, space.number, &space)) {
                uint64_t base = call->base, end = base + call->length, length;

                for (bool is_first = true; n <= most && space_gap_next(gate, space.number, &base, end, &length);) {
                        n += !is_first; /* one there is in any space */
                        is_first = false;
                        base += length;
                }
                files_unuse(&gate->files, space.number);
        }
        return n > most;
}

/* Whoever else has the address space keeps the range when the process has ended. So its memory goes from the device,
 * with all that the space has there, and no device joins the space any more. */
static void space_bar(struct gate *gate, uint64_t number)
{
        struct file space;

        files_bar(&gate->files, number);
        if (!files_next(&gate->files, number - 1, &space))
                return;
        for (unsigned int i = 0; space.number == number && i < space.n_devices; i++)
                if (!uvm_space_leave(&gate->options.driver, space.fd, space.devices[i]))
                        gate_kill(gate);
        files_unuse(&gate->files, space.number);
}

bool mapping_is_over_ranges(struct gate *gate, const struct mapping_call *call)
{
        size_t left = GAPS_LATER * GAPS_MAX + files_count(&gate->files);
        struct file space = { 0 };
        bool is_over = false;

        if (is_past_the_end(call))
                return false;
        while (!is_over && files_next(&gate->files, space.number, &space)) {
                is_over = has_more(gate, &space, call->base, call->base + call->length, &left);
                files_unuse(&gate->files, space.number);
        }
        return is_over;
}

void mapping_check(struct gate *gate, const struct mapping_call *call)
{
        size_t left = GAPS_LATER * GAPS_MAX + files_count(&gate->files);
        struct file space = { 0 };
        bool is_unknown = false;

        if (call->is_charged || call->is_considered || gate->lease->managed == LEASE_MANAGED_ALLOW ||
            is_past_the_end(call))
                return;
        while (files_next(&gate->files, space.number, &space)) {
                bool has_it = has_more(gate, &space, call->base, call->base + call->length, &left);

                files_unuse(&gate->files, space.number);
                if (has_it)
                        space_bar(gate, space.number);
                is_unknown |= has_it;
        }
        if (!is_unknown)
                return;
        gate_tell(gate, EVENT_AUDIT_MISMATCH, call->process, "managed range at 0x%llx was not announced",
                  (unsigned long long)call->base);
        processes_kill(&gate->processes, call->process);
}

/* A thread that waits elsewhere has made its mapping, or none: what comes later is not of its making. */
static void mapping_check_last(struct gate *gate, const struct mapping_call *call)
{
        bool is_over = !call->is_charged && !call->is_considered && process_is_elsewhere(call->thread, SYS_mmap);

        mapping_check(gate, call);
        if (is_over)
                mappings_end(&gate->mappings, call);
}

void mappings_check(struct gate *gate)
{
        struct mapping_call call;

        for (size_t i = gate->mappings.n; i-- > 0;)
                if (mappings_at(&gate->mappings, i, &call))
                        mapping_check_last(gate, &call);
}

void mappings_check_due(struct gate *gate, nsec now)
{
        if (mappings_take_due(&gate->mappings, now))
                mappings_check(gate);
}
