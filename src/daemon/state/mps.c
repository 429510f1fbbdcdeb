/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/mps.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/process.h"
#include "gate/gate.h"
#include "daemon/state/daemon.h"
#include "shim/mps_server.h"
#include "daemon/state/events.h"
#include "daemon/state/shims.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
        PATH = 160,
        BACK_OFF_MOST = 6, /* doublings of half a second */
};

#define QUIT_TIME (3 * NSEC_PER_SEC)

static char program[] = "nvidia-cuda-mps-control";

static bool is_wanted(const struct daemon *daemon, unsigned int device)
{
        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                if (tenant_has(t, device) && message_lease_is_spatial(&t->lease))
                        return true;
        return false;
}

int mps_check(const struct daemon *daemon, const struct message_lease *lease, struct err *err)
{
        unsigned int n = 0;

        for (unsigned int i = 0; i < daemon->n_devices; i++)
                n += lease->devices[i].is_granted;
        if (n != 1)
                return err_say(err, -EINVAL, "--mode spatial is for one device, and this lease has %u: add --gpu N", n);
        if (lease->class != TURNS_NORMAL)
                return err_say(err, -EINVAL,
                               "--class is for tenants that take turns; with --mode spatial leave it out");
        return 0;
}

static void path_of(const struct daemon *daemon, unsigned int device, const char *name, char ret[static PATH])
{
        (void)snprintf(ret, PATH, "%s/mps/%u%s", daemon->settings.dir, device, name);
}

bool mps_is_ready(const struct daemon *daemon, unsigned int device)
{
        const struct mps *mps = &daemon->devices[device].mps;
        char path[PATH];

        path_of(daemon, device, "/pipe/control", path);
        return mps->control && !mps->ending_since && access(path, F_OK) == 0;
}

/* The cap, else the share, limits a client; a tenant without either has no limit. */
static permille thread_limit(const struct message_lease *lease)
{
        if (lease->cap < TURNS_WHOLE)
                return lease->cap;
        return lease->share ? lease->share : TURNS_WHOLE;
}

void mps_environment(const struct daemon *daemon, const struct message_lease *lease, json_t *env)
{
        permille part = thread_limit(lease);
        char text[PATH];

        for (unsigned int i = 0; i < daemon->n_devices; i++)
                if (lease->devices[i].is_granted) {
                        path_of(daemon, i, "/pipe", text);
                        (void)json_object_set_new(env, "CUDA_MPS_PIPE_DIRECTORY", json_string(text));
                }
        (void)snprintf(text, sizeof(text), "%u.%u", part / 10, part % 10);
        (void)json_object_set_new(env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", json_string(text));
}

static void emit_fault(struct daemon *daemon, unsigned int device, const char *what)
{
        event_emit(daemon, EVENT_MPS_FAULT, NULL, (int)device, "%s", what);
        for (struct tenant *t = daemon->tenants.first; t; t = t->next) {
                if (!tenant_has(t, device) || !message_lease_is_spatial(&t->lease) || !t->control)
                        continue;
                event_emit(daemon, EVENT_MPS_FAULT, t, (int)device, "%s; this tenant was on it", what);
                shims_send_event(t, event_after(daemon, daemon->event_id - 1));
        }
}

/* Files of an earlier control daemon would be taken for this one's. */
static int make_directories(const struct daemon *daemon, unsigned int device, struct err *err)
{
        static const char *const stale[] = {
                "/control",           "/pipe/control", "/pipe/control_privileged",
                "/pipe/control_lock", "/pipe/log",     "/pipe/nvidia-cuda-mps-control.pid"
        };
        static const char *const directories[] = { "/..", "", "/pipe", "/log" };
        char path[PATH];

        for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
                if (i)
                        path_of(daemon, device, directories[i], path);
                else
                        (void)snprintf(path, sizeof(path), "%s/mps", daemon->settings.dir);
                if (mkdir(path, 0755) < 0 && errno != EEXIST)
                        return err_set(err, -errno, "making %s", path);
        }
        for (size_t i = 0; i < ARRAY_SIZE(stale); i++) {
                path_of(daemon, device, stale[i], path);
                (void)unlink(path);
        }
        return 0;
}

static bool is_ours(const char *variable)
{
        return !strncmp(variable, "CUDA_MPS_", 9) || !strncmp(variable, "CUDA_VISIBLE_DEVICES=", 21);
}

/* The daemon's environment with the device's variables. *ret is the caller's to free; the texts are borrowed. */
static int make_environment(char *const added[], size_t n_added, char ***ret)
{
        size_t n = 0, to = 0;
        char **all;

        while (environ[n])
                n++;
        all = calloc(n + n_added + 1, sizeof(*all));
        if (!all)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                if (!is_ours(environ[i]))
                        all[to++] = environ[i];
        memcpy(all + to, added, n_added * sizeof(*all));
        *ret = all;
        return 0;
}

/* Where PATH has it. False: nowhere. */
static bool program_find(char ret[static PATH_MAX])
{
        const char *path = getenv("PATH");

        for (path = path ? path : "/usr/local/bin:/usr/bin:/bin"; *path; path += *path == ':') {
                int n = (int)strcspn(path, ":");

                if (snprintf(ret, PATH_MAX, "%.*s/%s", n, path, program) < PATH_MAX && access(ret, X_OK) == 0)
                        return true;
                path += n;
        }
        return false;
}

/* 0; an errno. input: its standard input; -1: none. */
static int mps_spawn(const struct daemon *daemon, unsigned int device, char *const argv[], int input, pid_t *ret)
{
        char pipe[PATH + 32], log[PATH + 32], visible[96], out[PATH], path[PATH];
        char *added[] = { pipe, log, visible };
        _cleanup_(freep) char **all = NULL;
        _cleanup_(closep) int output = -1;
        struct process_child child = { .argv = argv, .n_fds = 3, .is_leader = true };
        char at[PATH_MAX];

        path_of(daemon, device, "/pipe", path);
        (void)snprintf(pipe, sizeof(pipe), "CUDA_MPS_PIPE_DIRECTORY=%s", path);
        path_of(daemon, device, "/log", path);
        (void)snprintf(log, sizeof(log), "CUDA_MPS_LOG_DIRECTORY=%s", path);
        (void)snprintf(visible, sizeof(visible), "CUDA_VISIBLE_DEVICES=%s", daemon->devices[device].info.uuid);
        path_of(daemon, device, "/log/control.out", out);
        if (make_environment(added, daemon->devices[device].info.uuid[0] ? 3 : 2, &all) < 0)
                return ENOMEM;

        if (!program_find(at))
                return ENOENT;
        output = open(out, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (output < 0)
                return errno;
        child.program = at;
        child.environment = all;
        child.fds[0] = input >= 0 ? input : PROCESS_NULL;
        child.fds[1] = child.fds[2] = output;
        descriptors_settle(); /* K2 of process.h */
        return -process_begin(&child, ret);
}

static void write_control_file(const struct daemon *daemon, unsigned int device, const struct mps *mps)
{
        char path[PATH], text[64];
        _cleanup_(closep) int fd = -1;
        int n = snprintf(text, sizeof(text), "%d %llu\n", mps->control, (unsigned long long)mps->begun);

        path_of(daemon, device, "/control", path);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, text, (size_t)n) != n)
                event_emit(daemon->devices[device].daemon, EVENT_MPS_FAULT, NULL, (int)device, "writing %s: %s", path,
                           strerror(errno));
}

static void mps_fail(struct daemon *daemon, unsigned int device, const char *why)
{
        struct mps *mps = &daemon->devices[device].mps;

        (void)snprintf(mps->failure, sizeof(mps->failure), "%.159s", why);
        mps->retry_at = clock_now() + (NSEC_PER_SEC / 2 << mps->n_failures);
        if (mps->n_failures < BACK_OFF_MOST)
                mps->n_failures++;
}

/* One server for all users: else a second user's clients would wait until the first user's have ended. */
static void mps_start(struct daemon *daemon, unsigned int device)
{
        struct mps *mps = &daemon->devices[device].mps;
        char foreground[] = "-f", multi[] = "-multiuser-server";
        char *argv[] = { program, foreground, multi, NULL };
        struct err err = { 0 };
        char why[128];
        int r;

        if (make_directories(daemon, device, &err) < 0) {
                mps_fail(daemon, device, err.text);
                return;
        }
        r = mps_spawn(daemon, device, argv, -1, &mps->control);
        if (r) {
                mps->control = 0;
                (void)snprintf(why, sizeof(why), "%s: %s (it comes with the driver; is it in the daemon's PATH?)",
                               program, strerror(r));
                mps_fail(daemon, device, why);
                return;
        }
        mps->begun = mps_begun(mps->control);
        mps->server = 0;
        mps->failure[0] = '\0';
        write_control_file(daemon, device, mps);
}

static void mps_forget(struct daemon *daemon, unsigned int device)
{
        struct mps *mps = &daemon->devices[device].mps;
        char path[PATH];

        path_of(daemon, device, "/control", path);
        (void)unlink(path);
        /* A late one would end the next control daemon. */
        if (mps->quitter_begun && mps_begun(mps->quitter) == mps->quitter_begun)
                (void)kill(mps->quitter, SIGKILL);
        mps->control = mps->server = mps->quitter = 0;
        mps->quitter_begun = 0;
        mps->ending_since = 0;
}

static void mps_quit(struct daemon *daemon, unsigned int device)
{
        struct mps *mps = &daemon->devices[device].mps;
        static const char word[] = "quit -t 1\n";
        _cleanup_(closep) int input = memfd_create("sublet-mps", MFD_CLOEXEC);
        char *argv[] = { program, NULL };

        mps->ending_since = clock_now();
        if (input >= 0 && write(input, word, sizeof(word) - 1) > 0 && lseek(input, 0, SEEK_SET) == 0 &&
            mps_spawn(daemon, device, argv, input, &mps->quitter) == 0) /* reaped with the others */
                mps->quitter_begun = mps_begun(mps->quitter);
}

static void mps_kill(struct daemon *daemon, unsigned int device)
{
        struct mps *mps = &daemon->devices[device].mps;
        pid_t server = mps_server(mps->control);

        (void)kill(mps->control, SIGKILL);
        if (server > 0)
                (void)kill(server, SIGKILL);
        mps_forget(daemon, device);
}

/* A server that was replaced has taken its clients with it. */
static void mps_check_server(struct daemon *daemon, unsigned int device)
{
        struct mps *mps = &daemon->devices[device].mps;
        nsec now = clock_now();
        pid_t server;
        char what[64];

        if (mps->server ? mps_begun(mps->server) != 0 : now - mps->checked_at < NSEC_PER_SEC)
                return;
        mps->checked_at = now;
        server = mps_server(mps->control);
        if (mps->server) {
                (void)snprintf(what, sizeof(what), "the server (process %d) is gone", mps->server);
                emit_fault(daemon, device, what);
        }
        mps->server = server;
        if (server)
                mps->n_failures = 0;
}

static void mps_advance(struct daemon *daemon, unsigned int device, bool wanted)
{
        struct mps *mps = &daemon->devices[device].mps;
        bool is_alive = mps->control && mps_begun(mps->control) == mps->begun;

        if (!is_alive && mps->control) {
                bool was_ending = mps->ending_since;

                mps_forget(daemon, device);
                if (wanted && !was_ending) {
                        emit_fault(daemon, device, "the control daemon is gone; it is started again");
                        mps_fail(daemon, device, "nvidia-cuda-mps-control ended at once; its log is in DIR/mps");
                }
        } else if (mps->ending_since && clock_now() - mps->ending_since > QUIT_TIME) {
                mps_kill(daemon, device);
        } else if (is_alive && !wanted && !mps->ending_since) {
                mps_quit(daemon, device);
        } else if (is_alive && !mps->ending_since) {
                mps_check_server(daemon, device);
        } else if (!mps->control && wanted && clock_now() >= mps->retry_at) {
                mps_start(daemon, device);
        }
}

void mps_tick(struct daemon *daemon)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                struct mps *mps = &daemon->devices[i].mps;
                bool wanted = is_wanted(daemon, i);

                if (wanted || mps->control)
                        mps_advance(daemon, i, wanted);
                else
                        mps->n_failures = 0, mps->retry_at = 0, mps->failure[0] = '\0';
        }
}

void mps_adopt(struct daemon *daemon)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                struct mps *mps = &daemon->devices[i].mps;

                mps->control = mps_control(daemon->settings.dir, i, &mps->begun);
                mps->server = mps_server(mps->control);
        }
}

void mps_leave(struct daemon *daemon)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                if (daemon->devices[i].mps.control && !is_wanted(daemon, i))
                        mps_kill(daemon, i);
}
