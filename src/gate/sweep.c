/*
 * What nobody announces: processes that end, descriptors that close, managed ranges that are unmapped. The watcher
 * notices ends at once; the rest is settled once a second, and before any refusal (take_memory). The driver's word
 * counts: a client is gone when the driver does not know it, a range when it is not in the tenant's address space.
 */
#include "gate/books.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "rm/numbers.h"

#include <errno.h>
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

/* A mapping that was let through has been made by then, or its thread waits for memory. */
#define MAPPED_BY (20 * NSEC_PER_MSEC)

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
        return processes_have_ended(&gate->processes) || gate->n_sweeps ||
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
        while (n < n_room && fgets(line, sizeof(line), maps)) {
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

        return n > 0 || n == -EACCES;
}

static void settle_files(struct gate *gate)
{
        uint64_t file;
        bool is_space;

        while ((file = files_drop_unused(&gate->files, !gate->is_empty, has_ranges, &is_space))) {
                LOCKED(&gate->ledger_lock);
                if (is_space)
                        ledger_space_gone(gate->ledger, file);
                else
                        ledger_export_gone(gate->ledger, file);
        }
}

static bool overlaps(const struct range *ranges, ssize_t n, uint64_t base, uint64_t end)
{
        for (ssize_t i = 0; i < n; i++)
                if (ranges[i].base < end && base < ranges[i].end)
                        return true;
        return false;
}

/* Whether the ledger has the range. */
static bool is_announced(struct gate *gate, pid_t process, const struct range *range)
{
        uint64_t space, base, length;

        LOCKED(&gate->ledger_lock);
        if (ledger_has_pool(gate->ledger, 0, range->base, range->end - range->base))
                return true;
        for (size_t i = 0; ledger_managed_next(gate->ledger, (uint32_t)process, &i, &space, &base, &length);)
                if (base <= range->base && range->end <= base + length)
                        return true;
        return false;
}

/* Drops ranges of the ledger that the tenant no longer has. One that was charged a moment ago may not be mapped yet:
 * true if such a one is left. */
static bool drop_unmapped(struct gate *gate, pid_t process, const struct range *ranges, ssize_t n)
{
        nsec before = clock_now() - MAPPED_BY;
        uint64_t space, base, length;
        bool is_left = false;
        LOCKED(&gate->ledger_lock);

        for (size_t i = 0; ledger_managed_next(gate->ledger, (uint32_t)process, &i, &space, &base, &length);)
                if (!overlaps(ranges, n, base, base + length) &&
                    ledger_managed_gone_before(gate->ledger, (uint32_t)process, base, before))
                        is_left = true;
        return is_left;
}

static bool sweep_managed(struct gate *gate, pid_t process, bool is_audit)
{
        _cleanup_(freep) struct range *ranges = malloc(GATE_RANGES_MAX * sizeof(*ranges));
        ssize_t n = ranges ? read_ranges(&gate->files, process, ranges, GATE_RANGES_MAX) : -ENOMEM;
        bool is_left;

        if (n == -EACCES && files_count(&gate->files)) {
                gate_tell(gate, EVENT_TENANT_UNREADABLE, process, "its address space cannot be audited");
                (void)kill(process, SIGKILL);
        }
        if (n < 0)
                return false; /* ended: what is charged stays charged until the ledger is settled */
        is_left = drop_unmapped(gate, process, ranges, n);
        if (!is_audit || gate->lease->managed == LEASE_MANAGED_ALLOW)
                return is_left;
        for (ssize_t i = 0; i < n; i++)
                if (!is_announced(gate, process, &ranges[i])) {
                        gate_tell(gate, EVENT_AUDIT_MISMATCH, process, "managed range at 0x%llx was not announced",
                                  (unsigned long long)ranges[i].base);
                        (void)kill(process, SIGKILL);
                        break;
                }
        return is_left;
}

size_t list_processes(struct gate *gate, pid_t *list, size_t n_room)
{
        struct process *process;
        size_t n = 0;
        LOCKED(&gate->processes.lock);

        for (size_t i = 0; n < n_room && (process = map_next(&gate->processes.by_id, &i));)
                list[n++] = process->id;
        return n;
}

void gate_kill(struct gate *gate)
{
        pid_t list[GATE_PROCESSES_MAX];
        size_t n = list_processes(gate, list, ARRAY_SIZE(list));
        struct process *process;

        for (size_t i = 0; i < n; i++) {
                if (process_get(&gate->processes, list[i], &process) < 0)
                        continue;
                (void)syscall(SYS_pidfd_send_signal, process->pidfd, SIGKILL, NULL, 0);
                process_put(&gate->processes, process);
        }
}

bool sweep_all_managed(struct gate *gate, bool is_audit)
{
        pid_t list[GATE_PROCESSES_MAX];
        size_t n = list_processes(gate, list, ARRAY_SIZE(list));
        bool is_left = false;

        for (size_t i = 0; i < n; i++)
                is_left |= sweep_managed(gate, list[i], is_audit);
        return is_left;
}

bool has_managed(struct gate *gate)
{
        LOCKED(&gate->ledger_lock);

        return ledger_totals(gate->ledger).n_managed;
}

bool settle_lately(struct gate *gate)
{
        nsec settled = gate->settled_at, now = clock_now();
        bool has_ended = gate->ended_at > settled; /* and memory came back with it */

        if ((now - settled < SETTLED_FOR && !has_ended) ||
            !atomic_compare_exchange_strong(&gate->settled_at, &settled, now))
                return false;
        (void)gate_settle(gate);
        return true;
}

size_t gate_settle(struct gate *gate)
{
        size_t n;

        gate->n_sweeps++;
        if (has_managed(gate))
                (void)sweep_all_managed(gate, true);
        settle_files(gate);
        n = settle_clients(gate, 0);
        gate->n_sweeps--;
        gate_usage_changed(gate);
        return n;
}

bool sweep_ended(struct gate *gate, pid_t process)
{
        settle_files(gate); /* first: what a space maps a client's end does not give back */
        gate_usage_changed(gate);
        return settle_clients(gate, (uint32_t)process);
}
