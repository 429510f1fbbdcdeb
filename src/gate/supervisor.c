/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/books.h"
#include "gate/listen.h"
#include "gate/move/move.h"
#include "gate/serve.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#define END_MAX (5 * NSEC_PER_SEC)

static void on_wake(int number)
{
        (void)number;
}

/* Without SA_RESTART, so that it interrupts; for the pool threads only, which unblock it. */
static int catch_wake(void)
{
        struct sigaction action = { .sa_handler = on_wake };
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, GATE_WAKE_SIGNAL);
        (void)pthread_sigmask(SIG_BLOCK, &set, NULL);

        return sigaction(GATE_WAKE_SIGNAL, &action, NULL) < 0 ? -errno : 0;
}

static const struct gate_host supervisor = {
        .read = process_read,
        .write = process_write,
        .fd_get = process_fd,
        .fd_put = gate_fd_put,
        .is_awaited = request_is_awaited,
        .is_there = request_is_there,
        .reader_release = reader_release,
        .find_open = files_open_elsewhere,
};

int gate_new(const struct gate_options *options, int listener, struct gate **ret)
{
        struct gate *gate = calloc(1, sizeof(*gate));
        int r;

        if (!gate)
                return -ENOMEM;
        gate->options = *options;
        gate->is_recorded = options->record != NULL;
        gate->host = &supervisor;
        gate->lease = options->lease;
        notify_listeners_init(gate, listener);
        gate->wake = gate->over = -1;
        gate->processes.epoll = gate->exports.epoll = gate->makers.epoll = gate->loans.holders.epoll =
                gate->loans.makers.epoll = -1;
        gate->probe.ctl = -1;
        lock_init(&gate->ledger_lock, LOCK_LEDGER);
        lock_init(&gate->event_lock, LOCK_EVENTS);
        lock_init(&gate->sweep_lock, LOCK_SWEEP);
        lock_init(&gate->moving.switch_lock, LOCK_SWITCH);
        for (size_t i = 0; i < GATE_CLIENT_LOCKS; i++)
                lock_init(&gate->client_locks[i], LOCK_CLIENT);
        restart_cache_init(&gate->restart_cache);
        files_init(&gate->files);
        mappings_init(&gate->mappings);
        channels_init(&gate->channels, gate->lease->channels_max, gate->lease->groups_max);
        if ((r = catch_wake()) < 0 || (r = processes_init(&gate->processes)) < 0 ||
            (r = open_files_init(&gate->exports)) < 0 || (r = open_files_init(&gate->makers)) < 0 ||
            (r = loans_init(&gate->loans)) < 0 || (r = ledger_new(&gate->ledger)) < 0 ||
            (r = gate->over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
            (r = gate->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
            (r = probe_init(&gate->probe, &gate->options.driver, &gate->options.layout)) < 0 ||
            (r = probe_open_granted(&gate->probe, gate->lease)) < 0) {
                gate->listeners[0].fd = -1; /* still the caller's */
                gate_free(gate);
                return r;
        }
        *ret = gate;
        return 0;
}

int gate_start(struct gate *gate)
{
        int r = pthread_create(&gate->watcher, NULL, gate_watch, gate);

        if (r) {
                gate->watcher = 0;
                return -r;
        }
        return pool_start(&gate->listeners[0]);
}

bool gate_wait(struct gate *gate, nsec timeout)
{
        struct pollfd over = { gate->over, POLLIN, 0 };
        int ms = timeout < 0 ? -1 : (int)(timeout / NSEC_PER_MSEC);

        return gate->is_empty || poll(&over, 1, ms) == 1;
}

void gate_stats(struct gate *gate, struct gate_stats *ret)
{
        *ret = (struct gate_stats){
                .n_calls = gate->n_calls,
                .n_performed = gate->n_performed,
                .n_continued = gate->n_continued,
                .n_denied = gate->n_denied,
                .busy = gate->busy,
                .n_audits = gate->n_audits,
                .audit_under = gate->audit_under,
                .audit_over = gate->audit_over,
                .audit_figure = gate->audit_figure,
                .n_threads = gate->n_threads,
                .n_processes = processes_count(&gate->processes),
        };
        {
                LOCKED(&gate->event_lock);
                memcpy(ret->n_events, gate->n_events, sizeof(ret->n_events));
                ret->refusals = gate->refusals;
        }
        LOCKED(&gate->ledger_lock);
        ret->holds = ledger_totals(gate->ledger);
}

bytes gate_held(struct gate *gate, unsigned int device)
{
        return gate->lease->devices[device].quota.used;
}

static void held_on(struct gate *gate, unsigned int device, const uint32_t *owners, size_t n, bytes *ret)
{
        LOCKED(&gate->ledger_lock);

        ledger_held_by_each(gate->ledger, &gate->lease->devices[device].quota, owners, n, ret);
}

static size_t rows_of_device(struct gate *gate, unsigned int device, const uint32_t *owners, bool *has_row, size_t n,
                             struct gate_holding *ret, size_t n_room)
{
        bytes held[GATE_HOLDERS_MAX];
        size_t n_rows = 0;

        held_on(gate, device, owners, n, held);
        for (size_t i = 0; i < n && n_rows < n_room; i++)
                if (held[i]) {
                        ret[n_rows++] = (struct gate_holding){ owners[i], device, held[i] };
                        has_row[i] = true;
                }
        return n_rows;
}

size_t gate_processes(struct gate *gate, struct gate_holding *ret, size_t n_room)
{
        _cleanup_(freep) pid_t *list = NULL;
        ssize_t n = processes_list(&gate->processes, &list);
        uint32_t owners[GATE_HOLDERS_MAX];
        bool has_row[GATE_HOLDERS_MAX] = { false };
        unsigned int first = LEASE_DEVICES_MAX;
        size_t n_rows = 0;

        n = n < 0 ? 0 : n > GATE_HOLDERS_MAX ? GATE_HOLDERS_MAX : n;
        for (ssize_t i = 0; i < n; i++)
                owners[i] = (uint32_t)list[i];
        for (unsigned int device = 0; device < gate->lease->n_devices; device++) {
                if (!gate->lease->devices[device].is_granted)
                        continue;
                first = first == LEASE_DEVICES_MAX ? device : first;
                n_rows += rows_of_device(gate, device, owners, has_row, (size_t)n, ret + n_rows, n_room - n_rows);
        }
        for (ssize_t i = 0; i < n && n_rows < n_room && first < LEASE_DEVICES_MAX; i++)
                if (!has_row[i])
                        ret[n_rows++] = (struct gate_holding){ owners[i], first, 0 };
        return n_rows;
}

uint64_t gate_process_began(struct gate *gate, uint32_t id)
{
        return processes_began(&gate->processes, (pid_t)id);
}

size_t gate_borrowed(struct gate *gate, struct gate_holding *ret, size_t n_room)
{
        struct ledger_borrowed_row rows[GATE_HOLDERS_MAX];
        LOCKED(&gate->ledger_lock);
        size_t n = ledger_borrowed_list(gate->ledger, rows, n_room < GATE_HOLDERS_MAX ? n_room : GATE_HOLDERS_MAX);

        for (size_t i = 0; i < n; i++)
                ret[i] = (struct gate_holding){ rows[i].lender, (uint32_t)rows[i].device, rows[i].size };
        return n;
}

struct ledger_kinds gate_kinds(struct gate *gate, unsigned int device)
{
        LOCKED(&gate->ledger_lock);

        return ledger_kinds(gate->ledger, &gate->lease->devices[device].quota, device);
}

static void quota_set(struct gate *gate, struct quota *quota, bytes size, const char *of)
{
        char has[BYTES_TEXT], is[BYTES_TEXT];

        quota->size = size;
        if (quota->used > size)
                gate_tell(gate, EVENT_QUOTA_SHRANK, 0, "%s of %s held, the quota is %s now",
                          bytes_format(quota->used, has), of, bytes_format(size, is));
        gate_usage_changed(gate);
}

void gate_quota_set(struct gate *gate, unsigned int device, bytes size)
{
        char of[32];

        (void)snprintf(of, sizeof(of), "device %u", device);
        quota_set(gate, &gate->lease->devices[device].quota, size, of);
}

void gate_host_set(struct gate *gate, bytes size)
{
        quota_set(gate, &gate->lease->host, size, "host memory");
}

int gate_over(const struct gate *gate)
{
        return gate->over;
}

/* Threads that wait in the kernel are interrupted until they have gone. One that is in a driver call comes back when
 * that does; one that copies memory of the tenant's (userfaultfd, a file system that does not answer) when that comes,
 * for which only the end of the process does not wait. False: there are such. */
static bool end_threads(struct gate *gate)
{
        struct timespec moment = { 0, 1000 * 1000 };
        nsec until = clock_now() + END_MAX;

        gate->is_ending = true;
        (void)eventfd_write(gate->wake, 1);
        while (gate->n_threads) {
                if (clock_now() > until)
                        return false;
                for (size_t i = 0; i < GATE_LISTENERS_MAX; i++)
                        (void)pool_end(&gate->listeners[i]);
                (void)nanosleep(&moment, NULL);
        }
        if (gate->watcher)
                (void)pthread_join(gate->watcher, NULL);
        gate->watcher = 0;
        return true;
}

static bool is_any(void *context, uint32_t client)
{
        (void)context, (void)client;
        return true;
}

static bool has_client(struct gate *gate, uint32_t client)
{
        LOCKED(&gate->ledger_lock);

        return ledger_has_client(gate->ledger, client);
}

/* It is gone, or lives on, on a file that others keep. Else that number is another's by now. Client 0 is of all. */
static bool was_ours(struct gate *gate, uint32_t client)
{
        return client && (has_client(gate, client) || !probe_client(&gate->probe, client));
}

/* Some, which are the caller's then. */
static size_t listens_end_some(struct gate *gate, struct listen *ret, size_t n_room)
{
        LOCKED(&gate->ledger_lock);
        size_t n = listens_some(&gate->listens, is_any, NULL, ret, n_room);

        for (size_t i = 0; i < n; i++)
                listens_take(&gate->listens, ret[i].client, ret[i].number);
        return n;
}

/* What is left in the driver's list is on files that others keep, and it is everybody's list (state/listens.h). Also
 * beside threads that have not come back: none of them has a caller any more for whom it could add to the list. */
static void listens_free(struct gate *gate)
{
        struct listen some[64];
        size_t n;

        while (gate->probe.ctl >= 0 && (n = listens_end_some(gate, some, ARRAY_SIZE(some))))
                for (size_t i = 0; i < n; i++)
                        if (was_ours(gate, some[i].client))
                                probe_unlisten(&gate->probe, some[i].client, some[i].number);
}

struct gate *gate_free(struct gate *gate)
{
        bool has_threads;

        if (!gate)
                return NULL;
        has_threads = gate->wake >= 0 && !end_threads(gate);
        listens_free(gate);
        if (has_threads)
                return gate;
        notify_listeners_done(gate);
        closep(&gate->over);
        closep(&gate->wake);
        moving_done(&gate->moving);
        demand_done(&gate->demand, &gate->probe);
        channels_done(&gate->channels);
        restart_cache_done(&gate->restart_cache);
        files_done(&gate->files);
        mappings_done(&gate->mappings);
        if (gate->exports.epoll >= 0)
                open_files_done(&gate->exports);
        if (gate->makers.epoll >= 0)
                open_files_done(&gate->makers);
        loans_done(&gate->loans);
        if (gate->processes.epoll >= 0)
                processes_done(&gate->processes);
        probe_done(&gate->probe);
        gate->ledger = ledger_unref(gate->ledger);
        listens_done(&gate->listens);
        lock_done(&gate->ledger_lock);
        lock_done(&gate->event_lock);
        lock_done(&gate->sweep_lock);
        free(gate);
        return NULL;
}
