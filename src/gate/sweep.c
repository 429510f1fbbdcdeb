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
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

enum {
        CLIENTS_AT_ONCE = 64, /* copied under the lock; the next ones follow */
        LINE_SIZE = 4352,     /* of /proc/PID/maps: a path and its fields */
};

/* Bounds what a tenant costs that runs into its quota again and again. */
#define SETTLED_FOR (50 * NSEC_PER_MSEC)
#define RESTS 4 /* times as long as a long sweep took */

/* No space is asked so soon after a mapping of it was let through: the question would be in the mapping's way. */
#define MAPPING_TAKES (5 * NSEC_PER_MSEC)

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

struct range {
        uint64_t base, end;
};

/* By name, and by inode: a second link to the node is the node, whatever its name. files_have_range knows a
 * container's own nodes. */
static bool is_uvm(const char *line)
{
        unsigned int major_, minor_;
        unsigned long inode;
        struct stat st;

        if (strstr(line, "nvidia-uvm"))
                return true;
        return strstr(line, "/dev/") && stat("/dev/nvidia-uvm", &st) == 0 &&
               sscanf(line, "%*s %*s %*s %x:%x %lu", &major_, &minor_, &inode) == 3 && inode == st.st_ino &&
               makedev(major_, minor_) == st.st_dev;
}

/* The ranges of UVM in a process's address space. How many, or -errno. */
static ssize_t read_ranges(struct files *files, pid_t process, struct range *ranges, size_t n_room)
{
        char path[64], line[LINE_SIZE];
        size_t n = 0;
        FILE *maps;

        (void)snprintf(path, sizeof(path), "/proc/%d/maps", process);
        maps = fopen(path, "re");
        if (!maps)
                return -errno;
        while (n < n_room && process_line(maps, line, sizeof(line))) {
                unsigned long long base, end;

                if ((is_uvm(line) || files_have_range(files, line)) && sscanf(line, "%llx-%llx", &base, &end) == 2)
                        ranges[n++] = (struct range){ base, end };
        }
        (void)fclose(maps);
        return (ssize_t)n;
}

/* A process that maps UVM, or whose address space cannot be seen. */
static bool has_ranges(struct files *files, pid_t process)
{
        struct range range;
        ssize_t n = read_ranges(files, process, &range, 1);

        return n > 0 || (n < 0 && n != -ENOENT && n != -ESRCH);
}

/* ---- managed ranges ---------------------------------------------------------------------------------- */

enum answer {
        RANGE_GONE,
        RANGE_THERE,
        RANGE_LATER, /* a mapping may be on its way: not asked */
};

/* The tenant's own calls on the space wait meanwhile. */
static enum answer space_ask(struct gate *gate, const struct file *space, uint64_t base, uint64_t length)
{
        struct client_lock_pair locks = client_locks_take(gate, space->number, space->number);
        enum answer answer = RANGE_LATER;

        if (clock_now() - files_mapped_at(&gate->files, space->number) >= MAPPING_TAKES)
                answer = uvm_space_has(&gate->options.driver, &gate->options.layout, space->fd, base, length) ?
                                 RANGE_THERE :
                                 RANGE_GONE;
        client_locks_drop(&locks);
        return answer;
}

/* In any space: which one a descriptor led to when the kernel made the mapping is not what we looked up. */
static enum answer spaces_ask(struct gate *gate, uint64_t base, uint64_t length)
{
        enum answer answer = RANGE_GONE;
        struct file space = { 0 };

        while (answer == RANGE_GONE && files_next(&gate->files, space.number, &space)) {
                answer = space_ask(gate, &space, base, length);
                files_unuse(&gate->files, space.number);
        }
        return answer;
}

static void spaces_clean(struct gate *gate)
{
        struct file space = { 0 };

        while (files_next(&gate->files, space.number, &space)) {
                uvm_space_clean(&gate->options.driver, space.fd);
                files_unuse(&gate->files, space.number);
        }
}

/* True: one of the owner's ranges is to be asked about again. */
static bool sweep_owner(struct gate *gate, uint32_t owner)
{
        uint64_t space, base, length;
        bool is_left = false;
        size_t i = 0;

        for (;;) {
                nsec before = clock_now();
                enum answer answer;

                {
                        LOCKED(&gate->ledger_lock);
                        if (!ledger_managed_next(gate->ledger, owner, &i, &space, &base, &length))
                                return is_left;
                }
                if (mappings_has(&gate->mappings, (pid_t)owner, base)) {
                        is_left = true; /* W3 */
                        continue;
                }
                answer = spaces_ask(gate, base, length);
                if (answer == RANGE_GONE) {
                        LOCKED(&gate->ledger_lock);
                        is_left |= ledger_managed_gone_before(gate->ledger, owner, base, before);
                }
                is_left |= answer == RANGE_LATER;
        }
}

static bool sweep_managed(struct gate *gate)
{
        uint32_t owner = 0;
        bool is_left = false, has_owner = has_managed(gate);

        mappings_forget_gone(&gate->mappings);
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

/* A range of UVM where the ledger has none: where it has one UVM has made no other, since ranges do not overlap. */
static bool is_unannounced(struct gate *gate, const struct file *space, uint64_t base, uint64_t length)
{
        struct client_lock_pair locks = client_locks_take(gate, space->number, space->number);
        bool is_known;

        {
                LOCKED(&gate->ledger_lock);
                is_known = ledger_space_has(gate->ledger, space->number, base, length);
        }
        is_known = is_known || !uvm_space_has(&gate->options.driver, &gate->options.layout, space->fd, base, length);
        client_locks_drop(&locks);
        return !is_known;
}

void mapping_check(struct gate *gate, const struct mapping_call *call)
{
        struct file space = { 0 };
        bool is_unknown = false;

        if (call->is_charged || gate->lease->managed == LEASE_MANAGED_ALLOW)
                return;
        while (!is_unknown && files_next(&gate->files, space.number, &space)) {
                if (space.number != call->space)
                        is_unknown = is_unannounced(gate, &space, call->base, call->length);
                files_unuse(&gate->files, space.number);
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

        for (size_t i = 0; mappings_at(&gate->mappings, i, &call); i++)
                mapping_check(gate, &call);
}

/* ---- open files ---------------------------------------------------------------------------------------- */

bool has_files(struct gate *gate)
{
        return files_count(&gate->files) || open_files_count(&gate->exports);
}

/* Whatever the ledger knows in the space is freed by the driver, so that nobody who has the file unseen has memory in
 * it. */
static bool space_empty(void *context, const struct file *file)
{
        const struct gate_driver *driver;
        struct gate *gate = context;
        uint64_t base = 0, length;
        bool has_range, is_empty = true;

        driver = &gate->options.driver;
        uvm_space_clean(driver, file->fd);
        while (is_empty) {
                {
                        LOCKED(&gate->ledger_lock);
                        has_range = ledger_range_next(gate->ledger, file->number, &base, &length);
                }
                if (!has_range)
                        break;
                is_empty = uvm_space_free(driver, &gate->options.layout, file->fd, base, length);
                if (base == UINT64_MAX)
                        break;
                base++;
        }
        LOCKED(&gate->ledger_lock);
        if (!is_empty || ledger_space_has_managed(gate->ledger, file->number))
                return false;
        ledger_space_gone(gate->ledger, file->number);
        return true;
}

static void settle_spaces(struct gate *gate)
{
        const struct files_release release = { gate, has_ranges, space_empty };

        files_drop_unused(&gate->files, !gate->is_empty, &release);
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
