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
 *      W5  A sweep of managed ranges asks for a moment at most, however many there are, and the next goes on from
 *          there: neither a call nor the watcher, which has mappings to look after, is held up by what a tenant made.
 */
#include "gate/books.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/process.h"
#include "gate/perform.h"
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
};

/* Bounds what a tenant costs that runs into its quota again and again. */
#define SETTLED_FOR (50 * NSEC_PER_MSEC)
#define RESTS 4 /* times as long as a long sweep took */
#define ORPHANS_FOR (4 * NSEC_PER_MSEC)

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

/* One pass; *ret_gone: how many the driver no longer knows. Returns how many it does. */
static size_t clients_pass(struct gate *gate, uint32_t owner, size_t *ret_gone)
{
        uint32_t clients[CLIENTS_AT_ONCE], owners[CLIENTS_AT_ONCE];
        size_t i = 0, n, left = 0;

        *ret_gone = 0;
        while ((n = some_clients(gate, owner, &i, clients, owners)))
                for (size_t k = 0; k < n; k++) {
                        if (probe_client(&gate->probe, clients[k])) {
                                left++;
                                continue;
                        }
                        LOCKED(&gate->ledger_lock);
                        ledger_client_gone(gate->ledger, clients[k]);
                        ++*ret_gone;
                }
        return left;
}

/* Clients that the driver no longer knows are gone. Returns how many of the owner's are left. The table changes as they
 * go, and a pass may miss some: so there is another, until none goes. Not one for each: a tenant may have thousands. */
static size_t settle_clients(struct gate *gate, uint32_t owner)
{
        size_t left, n_gone;
        bool is_gone = false;

        do {
                left = clients_pass(gate, owner, &n_gone);
                is_gone |= n_gone;
        } while (n_gone);
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

/* Any number of calls may wait and ask: they share an answer for a moment. Only a "yes" is kept, since another end
 * would change a "no". */
static bool has_orphans_lately(struct gate *gate)
{
        nsec now = clock_now();

        if (now - gate->orphans_at < ORPHANS_FOR)
                return true;
        if (!has_orphans(gate))
                return false;
        gate->orphans_at = now;
        return true;
}

/* In this order: the watcher counts its sweep before it takes an end from the queue, and a finished sweep leaves
 * orphans where the driver is not done. Some stay for good, when others have their descriptors. */
bool has_late(struct gate *gate)
{
        return processes_have_ended(&gate->processes) || gate->n_sweeps || gate->is_closing ||
               (clock_now() - gate->ended_at < SWEEP_LATE && has_orphans_lately(gate));
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
bool sweep_range(struct gate *gate, pid_t asker, uint32_t owner, uint64_t base, uint64_t length, nsec before)
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

/* The owner's ranges from where the last sweep ended. False: the time is over. */
static bool sweep_owner(struct gate *gate, nsec until, bool *is_left)
{
        struct gate_swept *at = &gate->swept;
        uint64_t space, base, length;

        for (;;) {
                nsec before = clock_now();

                if (before >= until)
                        return false;
                mappings_check_due(gate, before);
                {
                        LOCKED(&gate->ledger_lock);
                        if (!ledger_managed_next(gate->ledger, at->owner, &at->from, &space, &base, &length))
                                return true;
                }
                *is_left |= sweep_range(gate, 0, at->owner, base, length, before);
        }
}

/* W5 */
static bool sweep_owners(struct gate *gate)
{
        nsec until = clock_now() + SWEEP_MOST;
        bool is_left = gate->swept.is_cut, has_owner; /* the first part may have met what is to be asked again */

        do {
                gate->swept.is_cut = !sweep_owner(gate, until, &is_left);
                if (gate->swept.is_cut)
                        return true;
                gate->swept.from = 0;

                LOCKED(&gate->ledger_lock);
                has_owner = ledger_managed_owner_next(gate->ledger, &gate->swept.owner);
        } while (has_owner);
        gate->swept.owner = 0;
        return is_left;
}

static bool sweep_managed(struct gate *gate)
{
        struct mapping_call call;
        size_t i = 0;

        while (mappings_gone(&gate->mappings, &i, &call)) { /* whose mapping is made by now, or never */
                mapping_check(gate, &call);
                mappings_end(&gate->mappings, &call);
        }
        if (!has_managed(gate)) {
                gate->swept.is_cut = false;
                gate->swept.owner = 0;
                gate->swept.from = 0;
                return false;
        }
        spaces_clean(gate);
        return sweep_owners(gate);
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

bool gate_remains(struct gate *gate)
{
        return gate_settle(gate) || has_files(gate);
}

bool sweep_ended(struct gate *gate, pid_t process)
{
        LOCKED(&gate->sweep_lock);

        settle_files(gate); /* first: what a space maps a client's end does not give back */
        gate_usage_changed(gate);
        return settle_clients(gate, (uint32_t)process);
}
