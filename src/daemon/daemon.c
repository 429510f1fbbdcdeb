/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet daemon`: leases the devices of this machine to tenants, schedules their time on the devices, and accounts for
 * it.
 *
 * One loop. Driver calls are made before it begins and on the schedulers' threads, with one exception: MIG instances
 * are read through NVML on the loop (mig_scan). Tenants do not depend on the daemon: each has a shim, which goes on
 * without it and connects to the next one.
 */
#include "daemon/state/daemon.h"

#include "daemon/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/process.h"
#include "base/text.h"
#include "gate/gate.h"
#include "daemon/api/http.h"
#include "daemon/store/store.h"
#include "sched/together.h"
#include "wire/directory.h"
#include "wire/machine.h"
#include "wire/own_file.h"
#include "daemon/health.h"
#include "daemon/listeners.h"
#include "daemon/notify.h"
#include "daemon/state/events.h"
#include "daemon/state/goals.h"
#include "daemon/state/preloads.h"
#include "daemon/state/shims.h"
#include "daemon/state/usage.h"
#include "daemon/unmanaged.h"
#include "daemon/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

enum {
        EXIT_USAGE = 2,
        TIDY_SEC = 3600,
        FILES_WANTED = 16384, /* several descriptors per tenant */
};

/* Says for whom it waited, if its user may see that tenant. */
static void emit_late(struct device *device, const struct tenant *tenant, int64_t us)
{
        const struct sched_row *row = tenant ? device_row(device, tenant) : NULL;
        const struct tenant *by =
                row && row->waits.late_by ? tenants_find_id(&device->daemon->tenants, row->waits.late_by) : NULL;

        if (!tenant)
                return;
        event_emit(device->daemon, EVENT_GOAL_MISSED, tenant, (int)device->index,
                   "a step took %lld us, of %lld at most; %llu such since the daemon began%s%s", (long long)us,
                   (long long)(tenant->lease.goal / NSEC_PER_USEC), row ? (unsigned long long)row->waits.n_late : 1,
                   by ? "; it waited for " : "", by ? goals_whom(by, tenant->lease.owner) : "");
}

static void emit_sched_event(struct device *device, const struct sched_event *event)
{
        struct daemon *daemon = device->daemon;
        struct tenant *tenant = event->tenant ? tenants_find_id(&daemon->tenants, event->tenant) : NULL;
        int kind = event_find(sched_event_name(event->kind)), index = (int)device->index;

        switch (event->kind) {
        case SCHED_DEVICE_LOST:
                device_lose(device);
                break;
        case SCHED_METER_LOST:
                event_emit(daemon, kind, NULL, index, "%lld records", (long long)event->detail);
                break;
        case SCHED_NO_METER:
                event_emit(daemon, kind, NULL, index, "%s", strerror((int)-event->detail));
                break;
        case SCHED_NOT_SWITCHED:
                event_emit(daemon, kind, tenant, index, "driver status 0x%llx", (unsigned long long)event->detail);
                break;
        case SCHED_LATE:
                emit_late(device, tenant, event->detail);
                break;
        case SCHED_UNKNOWN:
                unmanaged_seen(daemon, device->index, (pid_t)(event->detail >> 32), (uint32_t)event->detail);
                break;
        default:
                event_emit(daemon, kind, tenant, index, "%s", "");
        }
}

static void on_sched(struct loop_source *source, uint32_t events)
{
        struct device *device = source->context;
        struct sched_event found[32];
        size_t n = sched_events(device->sched, found, ARRAY_SIZE(found));

        (void)events;
        for (size_t i = 0; i < n; i++)
                if (event_find(sched_event_name(found[i].kind)) >= 0)
                        emit_sched_event(device, &found[i]);
}

/* The devices by a driver client, as every gate sees them; names and UUIDs by NVML. */
static int find_devices(struct daemon *daemon, struct err *err)
{
        struct gpu_device found[GPU_DEVICES_MAX];
        unsigned int n = 0;
        struct err wrong = { 0 };
        int r = machine_probe(&daemon->backend, &daemon->machine, err);

        if (r < 0)
                return r;
        if (own_file_apply(daemon->settings.own_memory, daemon->backend.release, &daemon->machine, &wrong) < 0)
                (void)fprintf(stderr, "sublet daemon: %s; the largest known figures are charged\n", wrong.text);
        r = gpu_find(&daemon->backend, found, &n, err);
        if (r < 0)
                return r;
        daemon->n_devices = daemon->tenants.n_devices = daemon->machine.n_devices;
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                struct device *device = &daemon->devices[i];

                device->daemon = daemon;
                device->index = i;
                device->info.index = i;
                if (i < n)
                        device->info = found[i];
                device->info.total = daemon->tenants.totals[i] = daemon->machine.devices[i].total;
        }
        return 0;
}

static int start_sched(struct daemon *daemon, struct device *device, struct err *err)
{
        struct sched_settings settings = { .turns = daemon->settings.turns, .together = daemon->together };
        int r = sched_start(&daemon->backend, device->index, &settings, &device->sched, err);

        if (r < 0)
                return err_while(err, "device %u", device->index);
        device->source = (struct loop_source){ .fd = sched_fd(device->sched), .ready = on_sched, .context = device };
        r = loop_add(daemon->loop, &device->source, EPOLLIN);
        return r < 0 ? err_set(err, r, "device %u", device->index) : 0;
}

/* 1: it is new; 0: it was there; -errno. */
static int make_directory(const char *path, mode_t mode, struct err *err)
{
        if (mkdir(path, mode) == 0)
                return 1;
        if (errno == EEXIST)
                return 0;
        if (errno == EACCES && geteuid() != 0)
                return err_say(
                        err, -EACCES,
                        "making %s: Permission denied: start it as root, or name a directory of yours by --dir or "
                        "$SUBLET_DIR",
                        path);
        return err_set(err, -errno, "making %s", path);
}

/* The lock lasts as long as *ret_fd is open, which is the caller's. */
static int lock_directory(const char *dir, int *ret_fd, struct err *err)
{
        _cleanup_(closep) int fd = -1;
        char path[128], text[32] = "";

        (void)snprintf(path, sizeof(path), "%s/lock", dir);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (fd < 0)
                return err_set(err, -errno, "opening %s", path);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                if (read(fd, text, sizeof(text) - 1) > 0)
                        text[strcspn(text, "\n")] = '\0';
                return err_say(err, -EBUSY, "a daemon (process %s) serves %s already; stop it, or choose another --dir",
                               text, dir);
        }
        (void)snprintf(text, sizeof(text), "%d\n", getpid());
        if (ftruncate(fd, 0) < 0 || write(fd, text, strlen(text)) < 0)
                return err_set(err, -errno, "writing %s", path);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* A shim finds the sockets by their path, whatever its working directory. */
static int make_absolute(char *path, size_t room, struct err *err)
{
        _cleanup_(freep) char *whole = realpath(path, NULL);

        if (!whole)
                return err_set(err, -errno, "looking for %s", path);
        if (strlen(whole) >= room)
                return err_say(err, -ENAMETOOLONG, "--dir %s: at most %zu bytes", whole, room - 1);
        (void)snprintf(path, room, "%s", whole);
        return 0;
}

static int prepare_directories(struct settings *settings, int *ret_lock, struct err *err)
{
        char parent[sizeof(settings->state)];
        char *slash;
        int is_new, r;

        (void)umask(0022);
        is_new = r = make_directory(settings->dir, 0755, err);
        if (r < 0)
                return r;
        if ((r = make_absolute(settings->dir, sizeof(settings->dir), err)) < 0 ||
            (r = directory_check(settings->dir, err)) < 0) {
                if (is_new)
                        (void)rmdir(settings->dir);
                return r;
        }
        (void)snprintf(parent, sizeof(parent), "%s", settings->state);
        slash = strrchr(parent, '/');
        if (slash && slash != parent) {
                *slash = '\0';
                r = make_directory(parent, 0755, err);
                if (r < 0 && is_new)
                        (void)rmdir(settings->dir);
        }
        return r < 0 ? r : lock_directory(settings->dir, ret_lock, err);
}

static void on_signal(struct loop_source *source, uint32_t events)
{
        struct daemon *daemon = source->context;
        struct signalfd_siginfo info;

        (void)events;
        while (read(source->fd, &info, sizeof(info)) == sizeof(info)) {
                if (info.ssi_signo == SIGCHLD)
                        shims_reap(daemon);
                else
                        loop_stop(daemon->loop);
        }
}

/* A descriptor for our signals, or -errno. A terminal or pipe that goes away does not end us. */
static int watch_signals(void)
{
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGINT);
        (void)sigaddset(&set, SIGTERM);
        (void)sigaddset(&set, SIGCHLD);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR ||
            signal(SIGHUP, SIG_IGN) == SIG_ERR)
                return -errno;
        return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void on_progress(void *context)
{
        daemon_heartbeat(context);
}

static void on_heartbeat(struct loop_timer *timer)
{
        struct daemon *daemon = timer->context;

        daemon_heartbeat(daemon);
        daemon_look_kept(daemon);
        shims_reap(daemon); /* a thread that a library of the driver's started may have taken SIGCHLD (seen, H200) */
        shims_tick(daemon);
        suspend_tick(daemon);
        sleep_look(daemon);
        swap_look(daemon);
        room_look(daemon);
        preloads_tick(daemon);
        mps_tick(daemon);
        listeners_tick(daemon);
        daemon_changed(daemon);
}

static void wake_api(struct daemon *daemon)
{
        http_wake(daemon->http);
}

static void on_second(struct loop_timer *timer)
{
        daemon_remember(timer->context);
        usage_count(timer->context);
        notify("WATCHDOG=1");
}

static void on_tidy(struct loop_timer *timer)
{
        struct daemon *daemon = timer->context;

        daemon_store_result(daemon, store_tidy(daemon->store, clock_realtime()));
}

static int daemon_serve(struct daemon *daemon, struct err *err)
{
        struct loop_timer heartbeat = { .due = on_heartbeat, .context = daemon };
        struct loop_timer second = { .due = on_second, .context = daemon };
        struct loop_timer tidy = { .due = on_tidy, .context = daemon };
        _cleanup_(closep) int signals = watch_signals();
        struct loop_source source = { .fd = signals, .ready = on_signal, .context = daemon };
        int r;

        if (signals < 0 || (r = process_children_prepare()) < 0)
                return err_set(err, signals < 0 ? signals : r, "watching signals");
        if (together_new(&daemon->settings.turns, &daemon->together) < 0)
                return err_set(err, -ENOMEM, "scheduling");
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                if ((r = start_sched(daemon, &daemon->devices[i], err)) < 0)
                        return r;
        /* Without NVML there are no lists of processes, no Xids and no figures of health; the scheduler still sees a
         * lost device. */
        (void)unmanaged_start(daemon, &daemon->unmanaged);
        (void)watch_start(daemon, &daemon->watch);
        (void)health_start(daemon, &daemon->health);
        shims_recover(daemon);
        mps_adopt(daemon);
        if ((r = listeners_open(daemon, err)) < 0 || (r = http_open(daemon, &daemon->http, err)) < 0)
                return r;
        daemon->on_change = wake_api;
        r = loop_add(daemon->loop, &source, EPOLLIN);
        if (r < 0)
                return err_set(err, r, "watching signals");
        loop_timer_set(daemon->loop, &heartbeat, 0, CONTROL_BLOCK_HEARTBEAT_MSEC * NSEC_PER_MSEC);
        loop_timer_set(daemon->loop, &second, NSEC_PER_SEC, NSEC_PER_SEC);
        loop_timer_set(daemon->loop, &tidy, NSEC_PER_SEC, TIDY_SEC * NSEC_PER_SEC);
        event_emit(daemon, EVENT_DAEMON_STARTED, NULL, -1, "%s, %u devices, driver %s", SUBLET_VERSION,
                   daemon->n_devices, daemon->backend.release);
        if (daemon->url[0])
                (void)fprintf(stderr, "sublet daemon: %s answers %s\n", daemon->url,
                              daemon->settings.token   ? "who has the token" :
                              daemon->settings.callers ? "who has a certificate" :
                                                         "whoever can reach it");
        notify("READY=1");
        r = loop_run(daemon->loop);
        notify("STOPPING=1");
        loop_drop(daemon->loop, &source); /* what lies on our stack; others leave the loop after us */
        loop_timer_drop(daemon->loop, &heartbeat);
        loop_timer_drop(daemon->loop, &second);
        loop_timer_drop(daemon->loop, &tidy);
        return r < 0 ? err_set(err, r, "waiting for events") : 0;
}

/* Ends whatever has been started; tenants go on, all of them enabled. */
static void daemon_end(struct daemon *daemon)
{
        if (daemon->http)
                event_emit(daemon, EVENT_DAEMON_STOPPED, NULL, -1, "%zu tenants", daemon->tenants.n);
        daemon->on_change = NULL;
        daemon->http = http_close(daemon->http);
        listeners_close(daemon);
        daemon->unmanaged = unmanaged_stop(daemon->unmanaged);
        daemon->watch = watch_stop(daemon->watch);
        daemon->health = health_stop(daemon->health);
        mps_leave(daemon);
        shims_leave(daemon);
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                loop_drop(daemon->loop, &daemon->devices[i].source);
                daemon->devices[i].sched = sched_stop(daemon->devices[i].sched);
        }
        daemon->together = together_free(daemon->together);
        allocations_done(&daemon->allocations);
        starts_done(&daemon->starts);
        daemon->store = store_close(daemon->store);
        daemon->loop = loop_free(daemon->loop);
}

static void raise_file_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= FILES_WANTED)
                return;
        limit.rlim_cur = limit.rlim_max < FILES_WANTED ? limit.rlim_max : FILES_WANTED;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* The locks of the directory and of the devices. No daemon serves a directory that is not there yet: who is refused for
 * the devices makes none. */
static int take_place(struct daemon *daemon, int *ret_lock, int *ret_serve_lock, struct err *err)
{
        bool is_there = access(daemon->settings.dir, F_OK) == 0;
        int r;

        if (!is_there && (*ret_serve_lock = gpu_serve_lock(err)) < 0)
                return *ret_serve_lock;
        r = prepare_directories(&daemon->settings, ret_lock, err);
        if (r == 0 && is_there)
                r = *ret_serve_lock = gpu_serve_lock(err);
        return r < 0 ? r : 0;
}

static int daemon_run(struct daemon *daemon, struct err *err)
{
        _cleanup_(closep) int lock = -1, serve_lock = -1;
        int r;

        raise_file_limit();
        if ((r = gpu_backend_find(&daemon->backend, err)) < 0 ||
            (r = take_place(daemon, &lock, &serve_lock, err)) < 0 || (r = find_devices(daemon, err)) < 0 ||
            (r = store_open(daemon->settings.state, &daemon->store, err)) < 0)
                return r;
        store_on_progress(daemon->store, on_progress, daemon);
        daemon->event_id = store_event_last(daemon->store);
        r = loop_new(&daemon->loop);
        if (r < 0)
                err_set(err, r, "waiting for events");
        else
                r = daemon_serve(daemon, err);
        daemon_end(daemon);
        return r;
}

int daemon_main(int argc, char **argv)
{
        struct daemon *daemon = calloc(1, sizeof(*daemon)); /* large */
        struct err err = { 0 };
        int r;

        if (!daemon)
                return EXIT_FAILURE;
        daemon->uid = geteuid();
        daemon->since = clock_realtime();
        r = settings_parse(&daemon->settings, argc, argv, &err);
        daemon->tenants.overcommits = daemon->settings.overcommits;
        daemon->tenants.swap = daemon->settings.swap;
        if (r == 0)
                r = daemon_run(daemon, &err) < 0 ? -EIO : 0;
        else if (r < 0)
                r = -EINVAL;
        if (r < 0)
                (void)fprintf(stderr, "sublet daemon: %s\n", err.text);
        free(daemon);
        return r == -EINVAL ? EXIT_USAGE : r < 0 ? EXIT_FAILURE : 0;
}
