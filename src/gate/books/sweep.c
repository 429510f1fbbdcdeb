/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nobody announces: processes that end, descriptors that close, managed ranges that are unmapped. The watcher
 * notices ends at once; the rest is settled once a second, and before any refusal (take_memory).
 *
 *      W1  A charge ends when the driver or the kernel says that the memory is gone, never because a scan found
 *          nothing: a client when the driver does not know it, a managed range when UVM has nothing there in any space
 *          of the tenant, an export when the kernel has no reference to its open file, a space when it has been emptied
 *          by calls of ours.
 *      W2  What cannot be asked or read keeps its charge.
 *      W3  A range that was charged may not be mapped yet: the kernel maps it after we have answered, and the thread
 *          may be held up. Until then UVM has nothing there, and the mapping is one of state/mappings.h, which keeps
 *          the charge.
 *      W4  One sweep at a time: a tenant that runs into its quota with many threads has one made for all of them, and
 *          after a long one there is a rest.
 */
#include "gate/books.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/process.h"
#include "gate/perform.h"
#include "gate/state/uvm_space.h"
#include "rm/numbers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

enum {
        CLIENTS_AT_ONCE = 64, /* copied under the lock; the next ones follow */
        LOOKS_MAX = 10,       /* at a range that may not be asked about yet, so far apart */
        LOOK_MS = 5,
        QUESTIONS_MAX = 4096,
};

/* Bounds what a tenant costs that runs into its quota again and again. */
#define SETTLED_FOR (50 * NSEC_PER_MSEC)
#define RESTS 4 /* times as long as a long sweep took */

/* The driver frees what a file held right after the kernel has let the file go. */
#define CLOSING (10 * NSEC_PER_MSEC)

/* Some clients of the owner (0: of all) and theirs, copied so that the driver is asked without the lock. */
static size_t some_clients(struct gate *gate, uint32_t owner, size_t *i, uint32_t clients[static CLIENTS_AT_ONCE],
                           uint32_t owners[static CLIENTS_AT_ONCE])
{
        LOCKED(&gate->ledger_lock);
        size_t n = 0;

        while (n < CLIENTS_AT_ONCE && ledger_client_next(gate->ledger, owner, i, &clients[n], &owners[n]))
                n++;
        return n;
}

/* Clients that the driver no longer knows are gone. Returns how many of the owner's are left. */
static size_t settle_clients(struct gate *gate, uint32_t owner)
{
        uint32_t clients[CLIENTS_AT_ONCE], owners[CLIENTS_AT_ONCE];
        size_t i = 0, n, left = 0;
        bool is_gone = false;

        while ((n = some_clients(gate, owner, &i, clients, owners)))
                for (size_t k = 0; k < n; k++) {
                        if (probe_client(&gate->probe, clients[k])) {
                                left++;
                                continue;
                        }
                        LOCKED(&gate->ledger_lock);
                        ledger_client_gone(gate->ledger, clients[k]);
                        i = 0; /* the table has changed; asking again is harmless */
                        left = 0;
                        is_gone = true;
                        break;
                }
        if (is_gone)
                channel_control_gone(gate, RM_CLASS_CLIENT, 0, 0);
        return left;
}

/* A client is left whose process is not. */
static bool has_orphans(struct gate *gate)
{
        uint32_t clients[CLIENTS_AT_ONCE], owners[CLIENTS_AT_ONCE];
        size_t i = 0, n;

        while ((n = some_clients(gate, 0, &i, clients, owners)))
                for (size_t k = 0; k < n; k++)
                        if (!processes_know(&gate->processes, (pid_t)owners[k]))
                                return true;
        return false;
}

/* In this order: the watcher counts its sweep before it takes an end from the queue, and a finished sweep leaves
 * orphans where the driver is not done. Some stay for good, when others have their descriptors. */
bool has_late(struct gate *gate)
{
        return processes_have_ended(&gate->processes) || gate->n_sweeps || gate->is_closing ||
               (clock_now() - gate->ended_at < SWEEP_LATE && has_orphans(gate));
}

/* ---- managed ranges ---------------------------------------------------------------------------------- */

/* What is charged no more may have lain over something else: whoever looked meanwhile what a mapping had come to saw
 * the charge. So it is looked at once more. */
static void check_beneath(struct gate *gate, uint32_t owner, uint64_t base, uint64_t length)
{
        const struct mapping_call call = { .process = (pid_t)owner, .base = base, .length = length };

        mapping_check(gate, &call);
}

/* before: when the range was read. True: it is to be asked about again. */
static bool sweep_range(struct gate *gate, pid_t asker, uint32_t owner, uint64_t base, uint64_t length, nsec before)
{
        enum answer answer;
        bool is_left;
        size_t n;

        if (mappings_has(&gate->mappings, (pid_t)owner, base))
                return true; /* W3 */
        answer = spaces_ask(gate, asker, base, length);
        if (answer != RANGE_GONE)
                return answer == RANGE_LATER;
        {
                LOCKED(&gate->ledger_lock);
                is_left = ledger_managed_gone_before(gate->ledger, owner, base, length, before, &n);
        }
        if (n)
                check_beneath(gate, owner, base, length);
        return is_left;
}

/* True: one of the owner's ranges is to be asked about again. */
static bool sweep_owner(struct gate *gate, uint32_t owner)
{
        uint64_t space, base, length;
        bool is_left = false;
        size_t i = 0;

        for (;;) {
                nsec before = clock_now();

                {
                        LOCKED(&gate->ledger_lock);
                        if (!ledger_managed_next(gate->ledger, owner, &i, &space, &base, &length))
                                return is_left;
                }
                is_left |= sweep_range(gate, 0, owner, base, length, before);
        }
}

/* The owner's next range, from *i on, that has an address in common with the mapping. */
static bool next_over(struct gate *gate, const struct mapping_call *mapping, size_t *i, uint64_t *ret_base,
                      uint64_t *ret_length)
{
        LOCKED(&gate->ledger_lock);
        uint64_t space;

        while (ledger_managed_next(gate->ledger, (uint32_t)mapping->process, i, &space, ret_base, ret_length)) {
                if (*ret_base >= mapping->base)
                        return *ret_base - mapping->base < mapping->length;
                if (mapping->base - *ret_base < *ret_length)
                        return true;
        }
        return false;
}

static uint64_t longest_managed(struct gate *gate)
{
        LOCKED(&gate->ledger_lock);

        return ledger_managed_longest(gate->ledger);
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
        uint64_t longest = longest_managed(gate), base, length;
        size_t i = mapping->base > longest ? mapping->base - longest : 0, at = i, n_ranges = ranges_most(gate);
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

static bool sweep_managed(struct gate *gate)
{
        struct mapping_call call;
        uint32_t owner = 0;
        bool is_left = false, has_owner = has_managed(gate);

        while (mappings_gone(&gate->mappings, &call)) { /* whose mapping is made by now, or never */
                mapping_check(gate, &call);
                mappings_end(&gate->mappings, &call);
        }
        if (has_owner)
                spaces_clean(gate);
        while (has_owner) {
                {
                        LOCKED(&gate->ledger_lock);
                        has_owner = ledger_managed_owner_next(gate->ledger, &owner);
                }
                if (has_owner)
                        is_left |= sweep_owner(gate, owner);
        }
        return is_left;
}

/* W4. Takes the lock. False, without it: a sweep has begun and ended meanwhile, which is as good as ours. */
static bool sweep_begin(struct gate *gate, _Atomic uint64_t *n_begun)
{
        uint64_t before = *n_begun;

        lock_take(&gate->sweep_lock);
        if (*n_begun == before) {
                ++*n_begun;
                return true;
        }
        lock_drop(&gate->sweep_lock);
        return false;
}

bool sweep_all_managed(struct gate *gate)
{
        bool is_left;

        if (!sweep_begin(gate, &gate->n_swept))
                return true; /* the other may have met what is not to be asked yet */
        is_left = sweep_managed(gate);
        lock_drop(&gate->sweep_lock);
        return is_left;
}

/* ---- what a mapping was let through for ---------------------------------------------------------------- */

/* UVM has something that the ledger has not. Not only where the ledger has nothing at all: it may have a charge whose
 * mapping failed, W3, smaller than what lies there now. */
static bool has_more(struct gate *gate, const struct file *space, uint64_t base, uint64_t end)
{
        struct client_lock_pair locks = client_locks_take(gate, space->number, space->number);
        bool has_gap = true, is_there = false;
        uint64_t length = 0;

        while (has_gap && !is_there) {
                {
                        LOCKED(&gate->ledger_lock);
                        has_gap = ledger_gap_next(gate->ledger, space->number, &base, end, &length);
                }
                if (has_gap)
                        is_there = uvm_space_has(&gate->options.driver, &gate->options.layout, space->fd, base, length);
                base += length;
        }
        client_locks_drop(&locks);
        return is_there;
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

void mapping_check(struct gate *gate, const struct mapping_call *call)
{
        struct file space = { 0 };
        bool is_unknown = false;

        if (call->is_charged || gate->lease->managed == LEASE_MANAGED_ALLOW || call->base + call->length < call->base)
                return; /* the last: the kernel makes no such mapping */
        while (files_next(&gate->files, space.number, &space)) {
                bool has_it = has_more(gate, &space, call->base, call->base + call->length);

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

void mappings_check(struct gate *gate)
{
        struct mapping_call call;

        for (size_t i = gate->mappings.n; i-- > 0;)
                if (mappings_at(&gate->mappings, i, &call))
                        mapping_check(gate, &call);
}

/* ---- open files ---------------------------------------------------------------------------------------- */

bool has_files(struct gate *gate)
{
        return files_count(&gate->files) || open_files_count(&gate->exports);
}

static void settle_exports(struct gate *gate)
{
        uint64_t gone[CLIENTS_AT_ONCE];
        bool is_closing;
        size_t n;

        do {
                n = open_files_reap(&gate->exports, clock_now(), CLOSING, gone, ARRAY_SIZE(gone), &is_closing);
                for (size_t i = 0; i < n; i++) {
                        LOCKED(&gate->ledger_lock);
                        ledger_export_gone(gate->ledger, gone[i]);
                }
        } while (n == ARRAY_SIZE(gone));
        gate->is_closing = is_closing;
}

static void settle_files(struct gate *gate)
{
        mappings_check(gate);
        (void)sweep_managed(gate);
        settle_spaces(gate);
        settle_exports(gate);
        settle_loans(gate);
}

void gate_kill(struct gate *gate)
{
        processes_kill_all(&gate->processes);
}

bool has_managed(struct gate *gate)
{
        LOCKED(&gate->ledger_lock);

        return ledger_totals(gate->ledger).n_managed;
}

bool settle_lately(struct gate *gate)
{
        nsec settled = gate->settled_at, now = clock_now(), rest;
        bool has_ended = gate->ended_at > settled; /* and memory came back with it */

        if ((now < gate->settle_next && !has_ended) ||
            !atomic_compare_exchange_strong(&gate->settled_at, &settled, now))
                return false;
        (void)gate_settle(gate);
        rest = RESTS * (clock_now() - now);
        gate->settle_next = clock_now() + (rest > SETTLED_FOR ? rest : SETTLED_FOR);
        return true;
}

size_t gate_settle(struct gate *gate)
{
        size_t n = 1; /* not asked: the other sweep's result counts */

        gate->n_sweeps++;
        if (sweep_begin(gate, &gate->n_settled)) {
                settle_files(gate);
                n = settle_clients(gate, 0);
                lock_drop(&gate->sweep_lock);
        }
        gate->n_sweeps--;
        gate_usage_changed(gate);
        return n;
}

bool sweep_ended(struct gate *gate, pid_t process)
{
        LOCKED(&gate->sweep_lock);

        settle_files(gate); /* first: what a space maps a client's end does not give back */
        gate_usage_changed(gate);
        return settle_clients(gate, (uint32_t)process);
}
