/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes on a device that belong to no tenant, or to one whose quota is kept inside its programs without the
 * library.
 *
 * A thread asks the driver for the processes on each device once a second; tenants under a gate appear as their shims.
 * The loop judges each process once (whose.h), and reports it, or ends it if the operator asked for that.
 *
 * The same thread reads the device's own total, and the loop compares it with the books (state/balance.h).
 */
#include "daemon/state/daemon.h"

#include "base/cleanup.h"
#include "base/process.h"
#include "gate/gate.h"
#include "daemon/background.h"
#include "daemon/state/events.h"
#include "daemon/unmanaged.h"
#include "daemon/whose.h"

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

/* After that, who could not be looked at is looked at again, and after twice as long each time: a look that does not
 * end leaves an errand behind, of which there are few. */
#define AGAIN (5 * NSEC_PER_SEC)

enum {
        LISTED_MAX = 960, /* so that a list goes through the pipe whole */
        PERIOD_MSEC = 1000,
        STEP_MSEC = 100,
        UNKNOWN_MAX = 64,
        UNCOUNTED_MAX = 64, /* of a device whose memory is added up; with more of them nothing is compared */
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
        struct unknown {                         /* did not let themselves be looked at, and are looked at again */
                pid_t process;
                nsec at, span;
        } unknown[LEASE_DEVICES_MAX][UNKNOWN_MAX];
        struct uncounted {
                _Atomic pid_t processes[UNCOUNTED_MAX]; /* the loop writes; 0: none */
                atomic_bool are_too_many;
        } uncounted[LEASE_DEVICES_MAX];
};

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

/* Who does not let itself be looked at is reported, and not ended: it may count itself. So it is looked at again. */
static void note_unknown(struct daemon *daemon, unsigned int device, pid_t process, nsec span)
{
        struct unknown *unknown = daemon->unmanaged ? daemon->unmanaged->unknown[device] : NULL;

        for (size_t i = 0; unknown && i < UNKNOWN_MAX; i++)
                if (!unknown[i].process || unknown[i].process == process) {
                        unknown[i] = (struct unknown){ process, clock_now() + span, span };
                        return;
                }
}

static void judgement_tell(struct daemon *daemon, unsigned int device, pid_t process, const struct tenant *tenant,
                           const char *what)
{
        char name[64];

        name_of(process, name);
        event_emit(daemon, tenant ? EVENT_LIBRARY_NOT_LOADED : EVENT_STRANGER, tenant, (int)device, "process %d, %s%s",
                   process, name, what);
}

/* The descriptor comes first, so that the process that is ended is the one that was judged, even if its number is used
 * again. waited: it was told of then, when it could not be looked at; 0: it is new. */
static void judge(struct daemon *daemon, unsigned int device, pid_t process, nsec waited)
{
        _cleanup_(closep) int pidfd = (int)syscall(SYS_pidfd_open, process, 0);
        const struct tenant *tenant;
        enum whose whose;
        bool stops;

        if (pidfd < 0 || is_ours(daemon, process) || (whose = whose_is(daemon, process, &tenant)) == COUNTS_ITSELF)
                return;
        if (whose == NOT_LOOKED_AT)
                note_unknown(daemon, device, process, waited ? 2 * waited : AGAIN);
        if (!waited)
                note_uncounted(daemon, device, process);
        if (is_mps(daemon, process) || (waited && whose == NOT_LOOKED_AT)) /* a server's memory is in no book */
                return;
        stops = whose == UNCOUNTED && daemon->settings.stops_unmanaged &&
                syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0;
        if (stops || !waited)
                judgement_tell(daemon, device, process, tenant,
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
static void judge_again(struct unmanaged *unmanaged, const struct listed *now)
{
        for (size_t i = 0; i < UNKNOWN_MAX; i++) {
                struct unknown *unknown = &unmanaged->unknown[now->device][i], due = *unknown;

                if (!due.process || due.at > clock_now())
                        continue;
                *unknown = (struct unknown){ 0 };
                if (is_in(now, due.process))
                        judge(unmanaged->daemon, now->device, due.process, due.span);
        }
}

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
                                judge(unmanaged->daemon, now.device, now.processes[i], 0);
                *was = now;
                judge_again(unmanaged, &now);
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
        judge(daemon, device, process, 0);
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
