/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/containers/pending.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/gate.h"
#include "daemon/containers/container_request.h"
#include "daemon/containers/ghosts.h"
#include "oci/profile.h"
#include "daemon/state/admit.h"
#include "daemon/state/events.h"
#include "daemon/state/shims.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum {
        PENDING_MAX = 512,
        KEPT_SEC = 60,
};

struct pending_container {
        struct pending_container *next;
        struct daemon *daemon;
        struct oci_container container;
        struct oci_request asked;
        uid_t uid;
        nsec since;              /* when it came, then when it was admitted; clock_now */
        struct tenant *tenant;   /* admitted, not started; NULL: not yet */
        struct loop_source life; /* owns the listener, or the pidfd of the first process; fd -1: neither */
        bool has_listener;
        bool is_alone;               /* no hook came before its listener: nothing of a group's server is in it */
        struct pending_asker *asker; /* NULL: nobody waits for an answer */
};

static void pending_free(struct pending_container *pending)
{
        struct daemon *daemon = pending->daemon;
        struct pending_container **at = &daemon->pending_containers;

        while (*at != pending)
                at = &(*at)->next;
        *at = pending->next;
        daemon->n_pending--;
        loop_drop(daemon->loop, &pending->life);
        closep(&pending->life.fd);
        if (pending->tenant)
                admit_undo(daemon, pending->tenant);
        free(pending);
}

/* Not the first process of its container. runc 1.1.5 names both processes; crun 1.8.1 none, for a container that
 * runs. */
static bool is_exec(const struct oci_container *container)
{
        if (!container->process && !container->pid)
                return !strcmp(container->status, "running");
        return container->process && container->pid && container->process != container->pid;
}

static struct pending_container *pending_find(const struct daemon *daemon, const char *id)
{
        struct pending_container *pending = daemon->pending_containers;

        while (pending && (strcmp(pending->container.id, id) || is_exec(&pending->container)))
                pending = pending->next;
        return pending;
}

static int read_file(const char *path, char **ret_text, size_t *ret_size)
{
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        _cleanup_(freep) char *text = NULL;
        struct stat is;
        ssize_t n;

        if (fd < 0 || fstat(fd, &is) < 0)
                return -errno;
        if (!S_ISREG(is.st_mode) || is.st_size > OCI_CONFIG_MAX)
                return -EINVAL;
        text = malloc((size_t)is.st_size + 1);
        if (!text)
                return -ENOMEM;
        n = read(fd, text, (size_t)is.st_size);
        if (n < 0)
                return -errno;
        *ret_text = TAKE(text);
        *ret_size = (size_t)n;
        return 0;
}

/* What a pod's container asks for does not decide its lease: an unreadable config means that it may want one. */
static int read_asked(const struct oci_container *container, struct oci_request *ret, struct err *err)
{
        _cleanup_(freep) char *text = NULL;
        char path[sizeof(container->bundle) + 16];
        const char *wrong = "";
        size_t size = 0;
        int r;

        *ret = (struct oci_request){ .wants_gpu = true };
        (void)snprintf(path, sizeof(path), "%s/config.json", container->bundle);
        r = container->bundle[0] ? read_file(path, &text, &size) : -ENOENT;
        if (r < 0)
                return container->pod[0] ? 0 : err_set(err, r, "reading %.200s", path);
        r = oci_config_parse(text, size, ret, &wrong);
        return r < 0 ? err_say(err, -EINVAL, "%.200s: its %s is too long or not understood", path, wrong) : 0;
}

static void emit_refused(struct daemon *daemon, const struct oci_container *container, const char *why)
{
        char name[512];

        event_emit(daemon, EVENT_LEASE_REFUSED, NULL, -1, "container %s: %s", oci_container_format(container, name),
                   why);
}

/* 0: the tenant's shim has its listener. */
static int join_tenant(struct pending_container *pending, struct err *err)
{
        struct tenant *tenant = tenants_find_runtime(&pending->daemon->tenants, pending->container.id);
        int r;

        if (!tenant)
                return PENDING_E_NONE;
        r = shims_join(tenant, pending->life.fd);
        if (r < 0)
                return err_set(err, r, "process %d of it: joining tenant '%s'", pending->container.process,
                               tenant->lease.tenant);
        if (r == SHIMS_E_LATER)
                (void)err_say(err, r, "process %d of it: the shim of tenant '%s' does not answer",
                              pending->container.process, tenant->lease.tenant);
        return r == SHIMS_E_LATER ? PENDING_E_LATER : 0;
}

static int admit_pending(struct pending_container *pending, const struct message_request *request, struct err *err)
{
        struct message_container identity;

        if (pending->is_alone && request->group[0])
                return err_say(err, -EPERM,
                               "group '%s': no hook came before its listener, and it has nothing of the group's "
                               "server; 'sublet oci spec' writes the hook",
                               request->group);
        container_request_identity(&pending->container, &identity);
        return admit(pending->daemon, request, pending->uid, &identity, &pending->tenant, err);
}

/* 0: pending->tenant is admitted, or an exec has joined a tenant. A pod waits where a device is full: an ended
 * container's shim may still hold its memory for a moment. */
static int try_lease(struct pending_container *pending, struct err *err)
{
        struct daemon *daemon = pending->daemon;
        struct message_request request;
        int r;

        if (pending->tenant)
                return 0;
        if (is_exec(&pending->container))
                return join_tenant(pending, err);
        r = container_request_fill(&daemon->tenants, &daemon->allocations, &pending->container, &pending->asked,
                                   &request, err);
        if (r == CONTAINER_REQUEST_E_NONE)
                return PENDING_E_NONE;
        if (r == CONTAINER_REQUEST_E_LATER)
                return PENDING_E_LATER;
        if (r == 0)
                r = admit_pending(pending, &request, err);
        if (r == -ENOSPC && pending->container.pod[0])
                return PENDING_E_LATER;
        if (r < 0)
                return r;
        pending->since = clock_now();
        daemon_divide(daemon);
        mps_tick(daemon); /* its group's server begins */
        return 0;
}

/* A hook is answered when the server of its group is there: it mounts what leads to it. Returns as try_lease. */
static int try_ready(struct pending_container *pending, struct err *err)
{
        int r = try_lease(pending, err);
        const char *why;

        if (r != 0 || !pending->tenant)
                return r;
        why = mps_wait(pending->daemon, pending->tenant);
        if (!why)
                return PENDING_E_LATER;
        return *why ? err_say(err, -EPERM, "%s", why) : 0;
}

static void start_shim(struct pending_container *pending)
{
        pid_t first = pending->container.pid ? pending->container.pid : pending->container.process;
        _cleanup_(closep) int init = first ? (int)syscall(SYS_pidfd_open, first, 0) : -1;
        struct daemon *daemon = pending->daemon;
        struct err err = { 0 };
        int r = shims_start(daemon, pending->tenant, pending->life.fd, -1, init, -1, &err);

        if (r < 0)
                emit_refused(daemon, &pending->container, err.text);
        else
                pending->tenant = NULL; /* the shim serves it */
}

/* Its lease and its listener are there, or it has joined a tenant. */
static void pending_start(struct pending_container *pending)
{
        if (pending->tenant)
                start_shim(pending);
        pending_free(pending);
}

static void pending_refuse(struct pending_container *pending, int r, const char *why)
{
        emit_refused(pending->daemon, &pending->container, why);
        if (pending->asker)
                pending->asker->answer(pending->asker, r, NULL, why);
        pending_free(pending);
}

static void pending_retry(struct pending_container *pending, nsec now)
{
        nsec waited = now - pending->since;
        struct err err = { 0 };
        int r;

        if (pending->tenant && !pending->asker) {
                if ((!pending->life.is_added && waited > KEPT_SEC * NSEC_PER_SEC) ||
                    ghosts_is_due(pending->daemon, pending->tenant))
                        pending_free(pending);
                return;
        }
        r = try_ready(pending, &err);
        if (r == PENDING_E_LATER && !pending->tenant && waited > pending->daemon->settings.patience)
                r = -EPERM;
        if (r == 0 && pending->asker) {
                pending->asker->answer(pending->asker, 0, pending->tenant, NULL);
                pending->asker = NULL;
        }
        if (r == 0 && pending->has_listener)
                pending_start(pending);
        else if (r < 0)
                pending_refuse(pending, r, err.text);
        else if (r == PENDING_E_NONE)
                pending_refuse(pending, -ENOENT, "what was allocated to it has been taken back");
}

void pending_tick(struct daemon *daemon, nsec now)
{
        for (struct pending_container *a = daemon->pending_containers, *next; a; a = next) {
                next = a->next;
                pending_retry(a, now);
        }
}

/* The first process, or every process under the filter, is gone. */
static void on_end(struct loop_source *source, uint32_t events)
{
        struct pending_container *pending = source->context;

        (void)events;
        if (pending->asker)
                pending->asker->answer(pending->asker, -ESRCH, NULL, "the container has ended");
        pending_free(pending);
}

/* Watches for its end: a pidfd becomes readable, a listener hangs up (and must not be read). Takes fd over. */
static int watch_life(struct pending_container *pending, int fd, uint32_t events)
{
        int r;

        loop_drop(pending->daemon->loop, &pending->life);
        closep(&pending->life.fd);
        pending->life = (struct loop_source){ .fd = fd, .ready = on_end, .context = pending };
        r = fd < 0 ? 0 : loop_add(pending->daemon->loop, &pending->life, events);
        return r;
}

static struct pending_container *pending_add(struct daemon *daemon, const struct oci_container *container, uid_t uid)
{
        struct pending_container *pending = daemon->n_pending < PENDING_MAX ? calloc(1, sizeof(*pending)) : NULL;

        if (!pending)
                return NULL;
        *pending = (struct pending_container){ .next = daemon->pending_containers,
                                               .daemon = daemon,
                                               .container = *container,
                                               .uid = uid,
                                               .since = clock_now(),
                                               .life = { .fd = -1 } };
        daemon->pending_containers = pending;
        daemon->n_pending++;
        return pending;
}

static int pending_add_asked(struct daemon *daemon, const struct oci_container *container, uid_t uid,
                             struct pending_container **ret, struct err *err)
{
        struct pending_container *pending = pending_add(daemon, container, uid);
        int r;

        if (!pending)
                return err_say(err, -EBUSY, "%u containers are starting already", daemon->n_pending);
        r = is_exec(container) ? 0 : read_asked(container, &pending->asked, err);
        if (r < 0)
                pending_free(pending);
        else
                *ret = pending;
        return r;
}

int pending_ask(struct daemon *daemon, const struct oci_container *container, uid_t uid, struct pending_asker *asker,
                const struct tenant **ret_tenant, struct err *err)
{
        struct pending_container *pending = pending_find(daemon, container->id);
        int r;

        if (!pending) {
                r = pending_add_asked(daemon, container, uid, &pending, err);
                if (r < 0) {
                        emit_refused(daemon, container, err->text);
                        return r;
                }
                if (container->pid > 0) /* else KEPT_SEC is its limit */
                        (void)watch_life(pending, (int)syscall(SYS_pidfd_open, container->pid, 0), EPOLLIN);
        }
        r = try_ready(pending, err);
        if (r == PENDING_E_NONE && pending->asked.wants_gpu)
                r = err_say(err, -EPERM,
                            "it is given a GPU and asks for no lease: name one, as with the annotation "
                            "sublet.dev/mem=8G (docs/containers.md)");
        if (r < 0)
                emit_refused(daemon, container, err->text);
        if (r == PENDING_E_LATER)
                pending->asker = asker;
        else if (r == 0)
                *ret_tenant = pending->tenant;
        else
                pending_free(pending);
        return r;
}

void pending_forget(struct daemon *daemon, const struct pending_asker *asker)
{
        for (struct pending_container *a = daemon->pending_containers; a; a = a->next)
                if (a->asker == asker)
                        a->asker = NULL;
}

void pending_drop(struct daemon *daemon, const char *id)
{
        struct pending_container *pending = pending_find(daemon, id);

        if (pending && !pending->asker)
                pending_free(pending);
}

void pending_listener(struct daemon *daemon, const struct oci_container *container, uid_t uid, int listener)
{
        struct pending_container *pending = is_exec(container) ? NULL : pending_find(daemon, container->id);
        bool is_alone = !pending && !is_exec(container);
        struct err err = { 0 };
        int r = 0;

        if (pending && pending->has_listener) {
                emit_refused(daemon, container, "a second listener of it came while the first one waits");
                (void)close(listener);
                return;
        }
        if (!profile_is_for(container->metadata, daemon->backend.release))
                r = err_say(&err, -EPERM,
                            "its seccomp profile ('%s') is not one for driver %s: write it anew with 'sublet oci "
                            "profile' or 'sublet oci spec'",
                            container->metadata, daemon->backend.release);
        else if (!pending)
                r = pending_add_asked(daemon, container, uid, &pending, &err);
        if (r < 0) {
                emit_refused(daemon, container, err.text);
                (void)close(listener);
                return;
        }
        pending->is_alone = is_alone;
        r = watch_life(pending, listener, 0);
        if (r < 0)
                (void)err_set(&err, r, "watching it");
        pending->has_listener = true;
        if (r == 0)
                r = try_lease(pending, &err);
        if (r == 0)
                pending_start(pending);
        else if (r < 0)
                pending_refuse(pending, r, err.text);
        else if (r == PENDING_E_NONE)
                pending_free(pending);
}

void pending_close(struct daemon *daemon)
{
        while (daemon->pending_containers)
                pending_free(daemon->pending_containers);
}
