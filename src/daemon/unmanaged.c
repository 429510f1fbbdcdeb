/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes on a device that belong to no tenant, or to one whose quota is kept inside its programs without the
 * library.
 *
 * A thread asks the driver for the processes on each device once a second; tenants under a gate appear as their shims.
 * The loop judges each process once, and reports it, or ends it if the operator asked for that. Whose a process is, is
 * seen from outside:
 *      of a tenant without a shim  it has the tenancy's usage segment mapped: then it has a slot and counts itself;
 *                                  else it descends from the tenancy's `run`, or has its directory mounted: the library
 *                                  is missing
 *      unmanaged                   everything else
 *
 * The same thread reads the device's own total, and the loop compares it with the books (state/balance.h).
 */
#include "daemon/state/daemon.h"

#include "base/cleanup.h"
#include "base/errand.h"
#include "base/process.h"
#include "gate/gate.h"
#include "daemon/background.h"
#include "daemon/state/events.h"
#include "daemon/unmanaged.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define PATIENCE (20 * NSEC_PER_MSEC) /* with a process that is looked at */

enum {
        LISTED_MAX = 960, /* so that a list goes through the pipe whole */
        PERIOD_MSEC = 1000,
        STEP_MSEC = 100,
        UNCOUNTED_MAX = 64, /* of a device whose memory is added up; with more of them nothing is compared */
        DEPTH_MAX = 256,
};

struct listed {
        unsigned int device, n;
        bytes used, uncounted; /* of the device; of those that the loop has found to be in no book */
        bool has_total;
        pid_t processes[LISTED_MAX];
};

_Static_assert(sizeof(struct listed) <= PIPE_BUF, "a list is read whole");

struct unmanaged {
        struct daemon *daemon;
        struct gpu_users *users;
        struct background background;
        struct listed judged[LEASE_DEVICES_MAX]; /* the loop's: the lists before */
        struct uncounted {
                _Atomic pid_t processes[UNCOUNTED_MAX]; /* the loop writes; 0: none */
                atomic_bool are_too_many;
        } uncounted[LEASE_DEVICES_MAX];
};

static bool is_one_of(const struct stat *files, size_t n, dev_t device, unsigned long long inode)
{
        for (size_t i = 0; i < n; i++)
                if (files[i].st_ino == inode && files[i].st_dev == device)
                        return true;
        return false;
}

/* One of these files. Lines of maps: "from-to perms offset MAJOR:MINOR INODE path". */
static bool has_mapped(pid_t process, const struct stat *files, size_t n)
{
        char path[64], line[512];
        unsigned long long inode;
        bool is_there = false;
        FILE *list;

        (void)snprintf(path, sizeof(path), "/proc/%d/maps", process);
        list = fopen(path, "re");
        while (list && !is_there && process_line(list, line, sizeof(line))) {
                unsigned int high, low;

                is_there = sscanf(line, "%*s %*s %*s %x:%x %llu", &high, &low, &inode) == 3 &&
                           is_one_of(files, n, makedev(high, low), inode);
        }
        if (list)
                (void)fclose(list);
        return is_there;
}

static bool descends(pid_t process, pid_t from)
{
        for (int i = 0; i < DEPTH_MAX && process > 1; i++, process = process_parent(process))
                if (process == from)
                        return true;
        return false;
}

static bool ends_with(const char *text, const char *end)
{
        size_t n = strlen(text), n_end = strlen(end);

        return n >= n_end && !strcmp(text + n - n_end, end);
}

/* By the kernel's own list, "id parent MAJOR:MINOR ROOT POINT ...". A path in the process's tree could lead through a
 * file system of its own, which could block us for ever. */
static bool has_mounted(pid_t process, const char *directory)
{
        char path[64], line[2048], device[32], root[512], point[512];
        bool is_there = false;
        struct stat ours;
        FILE *list;

        (void)snprintf(path, sizeof(path), "/proc/%d/mountinfo", process);
        list = stat(directory, &ours) < 0 ? NULL : fopen(path, "re");
        while (list && !is_there && process_line(list, line, sizeof(line))) {
                unsigned int high, low;

                is_there = sscanf(line, "%*s %*s %31s %511s %511s", device, root, point) == 3 &&
                           !strcmp(point, LEASE_DESCRIPTOR_MOUNT_DIR) && sscanf(device, "%u:%u", &high, &low) == 2 &&
                           makedev(high, low) == ours.st_dev && ends_with(directory, root);
        }
        if (list)
                (void)fclose(list);
        return is_there;
}

/* What a look at a process says. It waits while the process is in the midst of an exec (its maps, stat), and that takes
 * as long as whoever serves a file likes that the exec closes. So it may be left behind, and has all that it needs. */
struct look {
        pid_t process;
        size_t n; /* tenants without a shim */
        struct looked_for {
                uint64_t tenancy;
                pid_t run;
                char directory[sizeof(((struct message_lease *)NULL)->directory)];
        } * tenants;
        struct stat *segments; /* theirs */

        bool counts_itself;
        uint64_t whose; /* 0: nobody's */
};

static bool is_of(const struct looked_for *tenant, pid_t process)
{
        return tenant->directory[0] ? has_mounted(process, tenant->directory) :
                                      tenant->run && descends(process, tenant->run);
}

static void look_at(void *context)
{
        struct look *look = context;

        look->counts_itself = has_mapped(look->process, look->segments, look->n);
        for (size_t i = 0; i < look->n && !look->counts_itself; i++)
                if (is_of(&look->tenants[i], look->process))
                        look->whose = look->tenants[i].tenancy;
}

static void look_for(struct look *look, const struct tenant *tenant)
{
        struct looked_for *row = &look->tenants[look->n];

        if (tenant->lease.enforcement != ENFORCEMENT_PRELOAD || tenant->segment < 0 ||
            fstat(tenant->segment, &look->segments[look->n]) < 0)
                return;
        *row = (struct looked_for){ .tenancy = tenant->lease.id, .run = tenant->run };
        (void)snprintf(row->directory, sizeof(row->directory), "%s", tenant->lease.directory);
        look->n++;
}

/* In one piece, which errand_run frees. */
static struct look *look_new(const struct daemon *daemon, pid_t process)
{
        size_t n = daemon->tenants.n;
        struct look *look = calloc(1, sizeof(*look) + n * (sizeof(*look->segments) + sizeof(*look->tenants)));

        if (!look)
                return NULL;
        look->process = process;
        look->segments = (struct stat *)(look + 1);
        look->tenants = (struct looked_for *)(look->segments + n);
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                look_for(look, t);
        return look;
}

static bool is_ours(struct daemon *daemon, pid_t process)
{
        return process <= 0 || process == getpid() || tenants_find_shim(&daemon->tenants, process);
}

static bool is_mps(struct daemon *daemon, pid_t process)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                if (mps_has(daemon, i, process))
                        return true;
        return false;
}

enum whose {
        COUNTS_ITSELF,
        UNCOUNTED,     /* *ret_tenant: NULL if it is no tenant's */
        NOT_LOOKED_AT, /* for a while: nothing is known */
};

static enum whose whose_is(const struct daemon *daemon, pid_t process, const struct tenant **ret_tenant)
{
        struct look *look = look_new(daemon, process);
        enum whose whose;

        *ret_tenant = NULL;
        if (!look || (look->n && errand_run(look_at, look, PATIENCE) != ERRAND_DONE))
                return NOT_LOOKED_AT;
        whose = look->counts_itself ? COUNTS_ITSELF : UNCOUNTED;
        if (look->whose)
                *ret_tenant = tenants_find_id(&daemon->tenants, look->whose);
        free(look);
        return whose;
}

static void name_of(pid_t process, char ret[static 64])
{
        char path[64];
        _cleanup_(closep) int fd = -1;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%d/comm", process);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? 0 : read(fd, ret, 63);
        ret[n < 0 ? 0 : n] = '\0';
        ret[strcspn(ret, "\n")] = '\0';
}

static void note_uncounted(struct daemon *daemon, unsigned int device, pid_t process)
{
        struct uncounted *uncounted = daemon->unmanaged ? &daemon->unmanaged->uncounted[device] : NULL;

        for (size_t i = 0; uncounted && i < UNCOUNTED_MAX; i++) {
                if (uncounted->processes[i])
                        continue;
                uncounted->processes[i] = process;
                return;
        }
        if (uncounted)
                uncounted->are_too_many = true;
}

/* Who does not let itself be looked at is reported, and not ended: it may count itself. The descriptor comes first, so
 * that the process that is ended is the one that was judged, even if its number is used again. */
static void judge(struct daemon *daemon, unsigned int device, pid_t process)
{
        _cleanup_(closep) int pidfd = (int)syscall(SYS_pidfd_open, process, 0);
        const struct tenant *tenant;
        enum whose whose;
        bool stops;
        char name[64];

        if (pidfd < 0 || is_ours(daemon, process) || (whose = whose_is(daemon, process, &tenant)) == COUNTS_ITSELF)
                return;
        stops = whose == UNCOUNTED && daemon->settings.stops_unmanaged;
        if (is_mps(daemon, process)) { /* its memory is in no book */
                note_uncounted(daemon, device, process);
                return;
        }
        name_of(process, name);
        note_uncounted(daemon, device, process);
        if (stops && syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0)
                stops = false;
        event_emit(daemon, tenant ? EVENT_LIBRARY_NOT_LOADED : EVENT_STRANGER, tenant, (int)device, "process %d, %s%s",
                   process, name,
                   stops                  ? "; it was ended" :
                   whose == NOT_LOOKED_AT ? "; it does not let itself be looked at" :
                                            "");
}

static bool is_in(const struct listed *listed, pid_t process)
{
        for (unsigned int i = 0; i < listed->n; i++)
                if (listed->processes[i] == process)
                        return true;
        return false;
}

static void forget_uncounted(struct unmanaged *unmanaged, const struct listed *now)
{
        struct uncounted *uncounted = &unmanaged->uncounted[now->device];

        for (size_t i = 0; i < UNCOUNTED_MAX; i++)
                if (uncounted->processes[i] && !is_in(now, uncounted->processes[i]))
                        uncounted->processes[i] = 0;
        if (!now->n)
                uncounted->are_too_many = false;
}

/* Memory in instances is in no book. */
static bool can_compare(const struct device *device, const struct listed *now)
{
        return now->has_total && !device->is_lost && !device->info.has_mig && !device->daemon->is_recovering;
}

/* What the device may have of it beyond its books: managed memory that has left it and is charged nowhere, of which
 * UVM keeps the emptied blocks until somebody wants them (gate/move/ranges.c). */
static bytes kept_unused(struct tenant *tenant, unsigned int device)
{
        const struct control_kinds *kinds = control_block_kinds(tenant->control, device);
        bytes managed = kinds ? kinds->managed : 0;

        if (tenant->suspension.state == SUSPENSION_RUNNING)
                tenant->managed[device] = managed;
        return tenant->managed[device] > managed ? tenant->managed[device] - managed : 0;
}

static void compare(struct daemon *daemon, const struct listed *now)
{
        struct device *device = &daemon->devices[now->device];
        struct balance_row rows[TURNS_TENANTS_MAX];
        struct balance_view view = { .used = now->used, .unmanaged = now->uncounted, .rows = rows };
        uint64_t whose = 0;
        char size[BYTES_TEXT];

        for (const struct mps *mps = device->mps; mps; mps = mps->next)
                view.n_servers += mps->control != 0;
        if (!can_compare(device, now)) {
                balance_forget(&device->balance);
                return;
        }
        for (struct tenant *t = daemon->tenants.first; t && view.n_rows < ARRAY_SIZE(rows); t = t->next)
                if (tenant_has(t, now->device) && t->control)
                        rows[view.n_rows++] =
                                (struct balance_row){ t->lease.id,
                                                      tenant_held(t, now->device) + kept_unused(t, now->device),
                                                      t->control->n_calls, t->control->n_processes };
        if (balance_step(&device->balance, &view, &whose))
                event_emit(daemon, EVENT_UNEXPLAINED_MEMORY, whose ? tenants_find_id(&daemon->tenants, whose) : NULL,
                           (int)now->device, "%s more than its books and what was there before explain",
                           bytes_format((bytes)device->balance.unexplained, size));
}

static void on_list(struct loop_source *source, uint32_t events)
{
        struct unmanaged *unmanaged = source->context;
        struct listed now;

        (void)events;
        while (read(source->fd, &now, sizeof(now)) == sizeof(now)) {
                struct listed *was = &unmanaged->judged[now.device];

                for (unsigned int i = 0; i < now.n; i++)
                        if (!is_in(was, now.processes[i]))
                                judge(unmanaged->daemon, now.device, now.processes[i]);
                *was = now;
                forget_uncounted(unmanaged, &now);
                compare(unmanaged->daemon, &now);
        }
}

/* After the list: the figure of an unmanaged process is not older than the total. */
static void read_total(struct unmanaged *unmanaged, struct listed *listed)
{
        struct uncounted *uncounted = &unmanaged->uncounted[listed->device];
        const char *uuid = unmanaged->daemon->devices[listed->device].info.uuid;
        pid_t processes[UNCOUNTED_MAX];

        for (size_t i = 0; i < UNCOUNTED_MAX; i++)
                processes[i] = uncounted->processes[i];
        listed->has_total = !uncounted->are_too_many &&
                            gpu_users_held(unmanaged->users, processes, UNCOUNTED_MAX, &listed->uncounted) &&
                            gpu_users_total(unmanaged->users, uuid, &listed->used) == 0;
}

/* The one tenant that it can be, or NULL. */
static const struct tenant *only_tenant(const struct daemon *daemon, unsigned int device)
{
        const struct tenant *only = NULL;

        for (const struct tenant *t = daemon->tenants.first; t; t = t->next) {
                if (!tenant_has(t, device) || !t->control)
                        continue;
                if (only)
                        return NULL;
                only = t;
        }
        return only;
}

void unmanaged_seen(struct daemon *daemon, unsigned int device, pid_t process, uint32_t context)
{
        struct listed *judged = daemon->unmanaged ? &daemon->unmanaged->judged[device] : NULL;

        if (!process) {
                event_emit(daemon, EVENT_UNKNOWN_CONTEXT, only_tenant(daemon, device), (int)device, "context 0x%x",
                           context);
                return;
        }
        if (judged && is_in(judged, process))
                return;
        if (judged && judged->n < LISTED_MAX)
                judged->processes[judged->n++] = process;
        judge(daemon, device, process);
}

/* A list that a full pipe does not take is dropped: the loop has older ones to read. */
static void list_all(struct unmanaged *unmanaged)
{
        for (unsigned int i = 0; i < unmanaged->daemon->n_devices; i++) {
                struct listed listed = { .device = i };
                size_t n;

                if (gpu_users_list(unmanaged->users, unmanaged->daemon->devices[i].info.uuid, listed.processes,
                                   LISTED_MAX, &n) < 0)
                        continue;
                listed.n = (unsigned int)n;
                read_total(unmanaged, &listed);
                (void)!write(unmanaged->background.pipe[1], &listed, sizeof(listed));
        }
}

static void *list_periodically(void *context)
{
        struct unmanaged *unmanaged = context;

        for (unsigned int ms = 0; !unmanaged->background.is_ending; ms += STEP_MSEC) {
                if (ms % PERIOD_MSEC == 0)
                        list_all(unmanaged);
                (void)poll(NULL, 0, STEP_MSEC);
        }
        return NULL;
}

int unmanaged_start(struct daemon *daemon, struct unmanaged **ret)
{
        struct unmanaged *unmanaged = calloc(1, sizeof(*unmanaged));
        int r;

        if (!unmanaged)
                return -ENOMEM;
        unmanaged->daemon = daemon;
        r = gpu_users_open(&unmanaged->users);
        if (r == 0)
                r = background_start(&unmanaged->background, daemon->loop, list_periodically, on_list, unmanaged);
        if (r < 0) {
                (void)unmanaged_stop(unmanaged);
                return r;
        }
        *ret = unmanaged;
        return 0;
}

struct unmanaged *unmanaged_stop(struct unmanaged *unmanaged)
{
        if (!unmanaged)
                return NULL;
        background_stop(&unmanaged->background);
        (void)gpu_users_close(unmanaged->users);
        free(unmanaged);
        return NULL;
}
