/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/mps/mps.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/process.h"
#include "gate/gate.h"
#include "daemon/state/daemon.h"
#include "shim/spawner.h"
#include "daemon/state/events.h"
#include "daemon/state/shims.h"

#include <dirent.h>
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

enum { BACK_OFF_MOST = 6 }; /* doublings of half a second */

#define QUIT_TIME (3 * NSEC_PER_SEC)

static bool is_its(const struct mps *mps, const struct tenant *tenant)
{
        return tenant_has(tenant, mps->device) && message_lease_is_client(&tenant->lease) &&
               tenant->lease.team == mps->team;
}

static const struct tenant *tenant_of(const struct mps *mps)
{
        for (const struct tenant *t = mps->daemon->tenants.first; t; t = t->next)
                if (is_its(mps, t))
                        return t;
        return NULL;
}

/* All its tenants are of one owner, and either containers or not (M4). Without tenants it is root's. */
static struct mps_at at_of(const struct mps *mps)
{
        const struct tenant *tenant = tenant_of(mps);

        return (struct mps_at){ .dir = mps->daemon->settings.dir,
                                .uuid = mps->daemon->devices[mps->device].info.uuid,
                                .device = mps->device,
                                .team = mps->team,
                                .owner = tenant ? tenant->lease.owner : 0,
                                .is_contained = tenant && mps->team && tenant->lease.container.id[0],
                                .root = mps->daemon->settings.host_root };
}

void mps_file(const struct mps *mps, const char *name, char *ret)
{
        struct mps_at at = at_of(mps);

        mps_path(&at, name, ret);
}

static bool is_wanted(const struct mps *mps)
{
        return tenant_of(mps) != NULL;
}

static bool has_any(const struct mps *mps, enum tenant_state state)
{
        for (const struct tenant *t = mps->daemon->tenants.first; t; t = t->next)
                if (is_its(mps, t) && t->state == state)
                        return true;
        return false;
}

/* No tenant's number. */
static uint64_t number_of(uint32_t team)
{
        return team ? UINT64_C(1) << 63 | team : UINT64_C(1) << 62;
}

uint64_t mps_team(const struct message_lease *lease)
{
        return message_lease_is_client(lease) ? number_of(lease->team) : 0;
}

struct mps *mps_find(const struct daemon *daemon, unsigned int device, uint32_t team)
{
        struct mps *mps = daemon->devices[device].mps;

        while (mps && mps->team != team)
                mps = mps->next;
        return mps;
}

/* NULL: no memory. */
static struct mps *mps_get(struct daemon *daemon, unsigned int device, uint32_t team)
{
        struct mps *mps = mps_find(daemon, device, team);

        if (mps || !(mps = calloc(1, sizeof(*mps))))
                return mps;
        *mps = (struct mps){ .next = daemon->devices[device].mps, .daemon = daemon, .device = device, .team = team };
        daemon->devices[device].mps = mps;
        return mps;
}

static void emit_fault(const struct mps *mps, const char *what)
{
        struct daemon *daemon = mps->daemon;

        event_emit(daemon, EVENT_MPS_FAULT, NULL, (int)mps->device, "%s", what);
        for (struct tenant *t = daemon->tenants.first; t; t = t->next) {
                if (!is_its(mps, t) || !t->control)
                        continue;
                event_emit(daemon, EVENT_MPS_FAULT, t, (int)mps->device, "%s; this tenant was on it", what);
                shims_send_event(t, event_after(daemon, daemon->event_id - 1));
        }
}

static void write_control_file(const struct mps *mps)
{
        char path[MPS_PATH], text[64];
        _cleanup_(closep) int fd = -1;
        int n = snprintf(text, sizeof(text), "%d %llu\n", mps->control, (unsigned long long)mps->begun);

        mps_file(mps, "/control", path);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, text, (size_t)n) != n)
                event_emit(mps->daemon, EVENT_MPS_FAULT, NULL, (int)mps->device, "writing %s: %s", path,
                           strerror(errno));
}

/* For `sublet run --restart`: mps_server_has_ended. */
static void write_server_file(const struct mps *mps, pid_t server)
{
        char path[MPS_PATH], text[32];
        _cleanup_(closep) int fd = -1;
        int n = snprintf(text, sizeof(text), "%d\n", server);

        mps_file(mps, "/server", path);
        (void)unlink(path);
        if (!server)
                return;
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd >= 0)
                (void)!write(fd, text, (size_t)n);
}

static void mps_fail(struct mps *mps, const char *why)
{
        (void)snprintf(mps->failure, sizeof(mps->failure), "%.159s", why);
        mps->retry_at = clock_now() + (NSEC_PER_SEC / 2 << mps->n_failures);
        if (mps->n_failures < BACK_OFF_MOST)
                mps->n_failures++;
}

static void mps_control_start(struct mps *mps)
{
        struct err err = { 0 };
        struct mps_at at = at_of(mps);

        if (mps_make_directories(&at, &err) < 0 || mps_start(&at, false, &mps->control, &err) < 0) {
                mps->control = 0;
                mps_fail(mps, err.text);
                return;
        }
        mps->begun = mps_begun(mps->control);
        mps->server = 0;
        mps->failure[0] = '\0';
        write_control_file(mps);
}

static void mps_forget(struct mps *mps)
{
        char path[MPS_PATH];

        mps_file(mps, "/control", path);
        (void)unlink(path);
        write_server_file(mps, 0);
        /* A late one would end the next control daemon. */
        if (mps->quitter_begun && mps_begun(mps->quitter) == mps->quitter_begun)
                (void)kill(mps->quitter, SIGKILL);
        mps->control = mps->server = mps->quitter = 0;
        mps->quitter_begun = 0;
        mps->ending_since = 0;
}

static void mps_quit(struct mps *mps)
{
        struct mps_at at = at_of(mps);
        struct err err = { 0 };

        mps->ending_since = clock_now();
        write_server_file(mps, 0);
        if (mps_start(&at, true, &mps->quitter, &err) == 0) /* reaped with the others */
                mps->quitter_begun = mps_begun(mps->quitter);
}

static void mps_kill(struct mps *mps)
{
        pid_t server = mps_server(mps->control);

        (void)kill(mps->control, SIGKILL);
        if (server > 0)
                (void)kill(server, SIGKILL);
        mps_forget(mps);
}

/* Records of the group's time name its process. */
static void mps_serve(struct mps *mps, pid_t server)
{
        struct sched *sched = mps->daemon->devices[mps->device].sched;

        if (server && server != mps->server) {
                mps->n_failures = 0;
                mps->server_begun = mps_begun(server);
                write_server_file(mps, server);
        }
        mps->server = server;
        if (sched)
                (void)sched_team_serve(sched, number_of(mps->team), server);
}

/* A server that was replaced has taken its clients with it. */
static void mps_check_server(struct mps *mps)
{
        nsec now = clock_now();
        pid_t server;
        char what[64];

        if (mps->server && mps_begun(mps->server) == mps->server_begun) {
                mps_serve(mps, mps->server); /* a scheduler forgets a group without tenants */
                return;
        }
        if (!mps->server && now - mps->checked_at < NSEC_PER_SEC)
                return;
        mps->checked_at = now;
        server = mps_server(mps->control);
        if (mps->server) {
                (void)snprintf(what, sizeof(what), "the server (process %d) is gone", mps->server);
                emit_fault(mps, what);
                write_server_file(mps, 0);
                mps->server = 0;
        }
        mps_serve(mps, server);
}

static void mps_advance(struct mps *mps, bool wanted)
{
        bool is_alive = mps->control && mps_begun(mps->control) == mps->begun;

        if (!is_alive && mps->control) {
                bool was_ending = mps->ending_since;

                if (mps->server && mps_begun(mps->server) == mps->server_begun)
                        (void)kill(mps->server, SIGKILL); /* nobody would end it any more */
                mps_forget(mps);
                if (wanted && !was_ending) {
                        emit_fault(mps, "the control daemon is gone; it is started again");
                        mps_fail(mps, "nvidia-cuda-mps-control ended at once; its log is in DIR/mps");
                }
        } else if (mps->ending_since && clock_now() - mps->ending_since > QUIT_TIME) {
                mps_kill(mps);
        } else if (is_alive && !wanted && !mps->ending_since) {
                mps_quit(mps);
        } else if (is_alive && !mps->ending_since) {
                struct mps_at place = at_of(mps); /* of an adopted one the owner is known with its first tenant */

                if (mps->is_open && mps_restrict(&place, NULL) < 0)
                        emit_fault(mps, "the directory of its pipe cannot be closed to other users");
                mps->is_open = false;
                mps_check_server(mps);
        } else if (!mps->control && wanted && clock_now() >= mps->retry_at) {
                bool is_first = !mps->begun && !mps->failure[0];

                if (is_first && has_any(mps, TENANT_AWAITED))
                        return; /* it is told, too */
                if (is_first && has_any(mps, TENANT_RUNNING))
                        emit_fault(mps,
                                   "the control daemon has ended while no daemon was there; another one is started");
                mps_control_start(mps);
        }
}

/* One that nobody wants, and of which nothing is left, is forgotten with its failures. */
static void device_tick(struct daemon *daemon, unsigned int device)
{
        for (struct mps **at = &daemon->devices[device].mps, *mps; (mps = *at);) {
                bool wanted = is_wanted(mps);

                if (wanted || mps->control) {
                        mps_advance(mps, wanted);
                        at = &mps->next;
                } else {
                        struct mps_at place = at_of(mps);

                        if (mps->team && !mps->failure[0])
                                mps_remove_directories(&place);
                        *at = mps->next;
                        free(mps);
                }
        }
}

void mps_tick(struct daemon *daemon)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                        if (tenant_has(t, i) && message_lease_is_client(&t->lease))
                                (void)mps_get(daemon, i, t->lease.team);
                device_tick(daemon, i);
        }
}

bool mps_has(struct daemon *daemon, unsigned int device, pid_t process)
{
        for (struct mps *mps = daemon->devices[device].mps; mps; mps = mps->next) {
                if (mps->control && !mps->server)
                        mps_serve(mps, mps_server(mps->control));
                if (process == mps->server || process == mps->control)
                        return true;
        }
        return false;
}

static void closedirp(DIR **dir)
{
        if (*dir)
                (void)closedir(*dir);
}

/* By the names of the places: a group may have no tenants any more. */
void mps_adopt(struct daemon *daemon)
{
        _cleanup_(closedirp) DIR *dir = NULL;
        const struct dirent *entry;
        char path[MPS_PATH];

        (void)snprintf(path, sizeof(path), "%s/mps", daemon->settings.dir);
        dir = opendir(path);
        while (dir && (entry = readdir(dir))) {
                unsigned int device;
                uint64_t begun;
                uint32_t team;
                pid_t control;
                struct mps *mps;

                if (!mps_place_parse(entry->d_name, &device, &team) || device >= daemon->n_devices)
                        continue;
                control = mps_control(daemon->settings.dir, device, team, &begun);
                mps = control ? mps_get(daemon, device, team) : NULL;
                if (!mps)
                        continue;
                mps->control = control;
                mps->begun = begun;
                mps->is_open = true;
                tenants_spend_team(&daemon->tenants, team);
                mps_serve(mps, mps_server(control));
        }
}

void mps_leave(struct daemon *daemon)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                while (daemon->devices[i].mps) {
                        struct mps *mps = daemon->devices[i].mps;

                        if (mps->control && !is_wanted(mps))
                                mps_kill(mps);
                        daemon->devices[i].mps = mps->next;
                        free(mps);
                }
}
