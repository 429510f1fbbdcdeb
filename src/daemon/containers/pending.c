#include "daemon/containers/pending.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/gate.h"
#include "daemon/containers/container_request.h"
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
        ARRIVALS_MAX = 512,
        KEPT_SEC = 60,
};

struct arrival {
        struct arrival *next;
        struct daemon *daemon;
        struct oci_container who;
        struct oci_request asked;
        uid_t uid;
        nsec since;              /* it came, or was granted its lease */
        struct tenant *tenant;   /* admitted, not started; NULL: it waits */
        struct loop_source life; /* owns the listener, or the pidfd of the first process; fd -1: neither is there */
        bool has_listener;
        struct pending_asker *asker; /* waits for an answer; or NULL */
};

static void drop(struct arrival *arrival)
{
        struct daemon *daemon = arrival->daemon;
        struct arrival **at = &daemon->arrivals;

        while (*at != arrival)
                at = &(*at)->next;
        *at = arrival->next;
        daemon->n_arrivals--;
        loop_drop(daemon->loop, &arrival->life);
        closep(&arrival->life.fd);
        if (arrival->tenant)
                admit_undo(daemon, arrival->tenant);
        free(arrival);
}

/* Exec: it is not the first process of its container. runc 1.1.5 names both; crun 1.8.1 none, of a container that runs. */
static bool is_put_in(const struct oci_container *who)
{
        if (!who->process && !who->pid)
                return !strcmp(who->status, "running");
        return who->process && who->pid && who->process != who->pid;
}

static struct arrival *find(const struct daemon *daemon, const char *id)
{
        struct arrival *arrival = daemon->arrivals;

        while (arrival && (strcmp(arrival->who.id, id) || is_put_in(&arrival->who)))
                arrival = arrival->next;
        return arrival;
}

/* ---- what it asks for ---------------------------------------------------------------------------- */

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

/* A pod's container is not leased what it asks for, so that it cannot be read changes little: it may want one. */
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

/* ---- to a lease ---------------------------------------------------------------------------------- */

static void tell_refused(struct daemon *daemon, const struct oci_container *who, const char *why)
{
        char name[512];

        event_tell(daemon, GATE_LEASE_REFUSED, NULL, -1, "container %s: %s", oci_container_format(who, name), why);
}

/* 0: its listener is the tenant's keeper's. */
static int join(struct arrival *arrival, struct err *err)
{
        struct tenant *tenant = tenants_find_runtime(&arrival->daemon->tenants, arrival->who.id);
        int r;

        if (!tenant)
                return ARRIVAL_E_NONE;
        r = keepers_join(tenant, arrival->life.fd);
        if (r < 0)
                return err_set(err, r, "process %d of it: joining tenant '%s'", arrival->who.process,
                               tenant->lease.tenant);
        if (r == KEEPERS_E_LATER)
                (void)err_say(err, r, "process %d of it: the keeper of tenant '%s' does not answer",
                              arrival->who.process, tenant->lease.tenant);
        return r == KEEPERS_E_LATER ? ARRIVAL_E_LATER : 0;
}

/* 0: arrival->tenant is there, or it has joined one. What is full may have an ended container's keeper in it still, which pods are not to notice. */
static int try(struct arrival *arrival, struct err *err)
{
        struct daemon *daemon = arrival->daemon;
        struct message_request request;
        int r;

        if (arrival->tenant)
                return 0;
        if (is_put_in(&arrival->who))
                return join(arrival, err);
        r = claim_request(&daemon->tenants, &daemon->allocations, &arrival->who, &arrival->asked, &request, err);
        if (r == CLAIM_E_NONE)
                return ARRIVAL_E_NONE;
        if (r == CLAIM_E_LATER)
                return ARRIVAL_E_LATER;
        if (r == 0)
                r = admit(daemon, &request, arrival->uid, &arrival->tenant, err);
        if (r == -ENOSPC && arrival->who.pod[0])
                return ARRIVAL_E_LATER;
        if (r < 0)
                return r;
        claim_container(&arrival->who, &arrival->tenant->lease.container);
        arrival->since = clock_now();
        daemon_divide(daemon);
        return 0;
}

static void start_keeper(struct arrival *arrival)
{
        pid_t first = arrival->who.pid ? arrival->who.pid : arrival->who.process;
        _cleanup_(closep) int init = first ? (int)syscall(SYS_pidfd_open, first, 0) : -1;
        struct daemon *daemon = arrival->daemon;
        struct err err = { 0 };
        int r = keepers_start(daemon, arrival->tenant, arrival->life.fd, -1, init, &err);

        if (r < 0)
                tell_refused(daemon, &arrival->who, err.text);
        else
                arrival->tenant = NULL; /* its keeper's, and the table's */
}

/* With its lease and its listener there, or having joined a tenant. */
static void start(struct arrival *arrival)
{
        if (arrival->tenant)
                start_keeper(arrival);
        drop(arrival);
}

static void refuse(struct arrival *arrival, int r, const char *why)
{
        tell_refused(arrival->daemon, &arrival->who, why);
        if (arrival->asker)
                arrival->asker->answer(arrival->asker, r, NULL, why);
        drop(arrival);
}

static void tick(struct arrival *arrival)
{
        nsec waited = clock_now() - arrival->since;
        struct err err = { 0 };
        int r;

        if (arrival->tenant) {
                if (waited > KEPT_SEC * NSEC_PER_SEC)
                        drop(arrival);
                return;
        }
        r = try(arrival, &err);
        if (r == ARRIVAL_E_LATER && waited > arrival->daemon->settings.patience)
                r = -EPERM;
        if (r == 0 && arrival->asker) {
                arrival->asker->answer(arrival->asker, 0, arrival->tenant, NULL);
                arrival->asker = NULL;
        }
        if (r == 0 && arrival->has_listener)
                start(arrival);
        else if (r < 0)
                refuse(arrival, r, err.text);
        else if (r == ARRIVAL_E_NONE)
                refuse(arrival, -ENOENT, "what was allocated to it has been taken back");
}

void arrivals_tick(struct daemon *daemon)
{
        for (struct arrival *a = daemon->arrivals, *next; a; a = next) {
                next = a->next;
                tick(a);
        }
}

/* ---- who comes ----------------------------------------------------------------------------------- */

/* The first process, or all that the filter covers, is gone. */
static void on_end(struct loop_source *source, uint32_t events)
{
        struct arrival *arrival = source->context;

        (void)events;
        if (arrival->asker)
                arrival->asker->answer(arrival->asker, -ESRCH, NULL, "the container has ended");
        drop(arrival);
}

/* Its end is watched: by a pidfd, which is then readable, or by a listener, which hangs up (and is not to be read). */
static int watch_life(struct arrival *arrival, int fd, uint32_t events)
{
        int r;

        loop_drop(arrival->daemon->loop, &arrival->life);
        closep(&arrival->life.fd);
        arrival->life = (struct loop_source){ .fd = fd, .ready = on_end, .context = arrival };
        r = fd < 0 ? 0 : loop_add(arrival->daemon->loop, &arrival->life, events);
        return r;
}

static struct arrival *add(struct daemon *daemon, const struct oci_container *container, uid_t uid)
{
        struct arrival *arrival = daemon->n_arrivals < ARRIVALS_MAX ? calloc(1, sizeof(*arrival)) : NULL;

        if (!arrival)
                return NULL;
        *arrival = (struct arrival){ .next = daemon->arrivals,
                                     .daemon = daemon,
                                     .who = *container,
                                     .uid = uid,
                                     .since = clock_now(),
                                     .life = { .fd = -1 } };
        daemon->arrivals = arrival;
        daemon->n_arrivals++;
        return arrival;
}

static int add_asked(struct daemon *daemon, const struct oci_container *container, uid_t uid, struct arrival **ret,
                     struct err *err)
{
        struct arrival *arrival = add(daemon, container, uid);
        int r;

        if (!arrival)
                return err_say(err, -EBUSY, "%u containers are starting already", daemon->n_arrivals);
        r = is_put_in(container) ? 0 : read_asked(container, &arrival->asked, err);
        if (r < 0)
                drop(arrival);
        else
                *ret = arrival;
        return r;
}

int arrivals_ask(struct daemon *daemon, const struct oci_container *container, uid_t uid, struct pending_asker *asker,
                 const struct tenant **ret_tenant, struct err *err)
{
        struct arrival *arrival = find(daemon, container->id);
        int r;

        if (!arrival) {
                r = add_asked(daemon, container, uid, &arrival, err);
                if (r < 0) {
                        tell_refused(daemon, container, err->text);
                        return r;
                }
                if (container->pid > 0) /* without, KEPT_SEC are its only bound */
                        (void)watch_life(arrival, (int)syscall(SYS_pidfd_open, container->pid, 0), EPOLLIN);
        }
        r = try(arrival, err);
        if (r == ARRIVAL_E_NONE && arrival->asked.wants_gpu)
                r = err_say(err, -EPERM,
                            "it is given a GPU and asks for no lease: name one, as with the annotation "
                            "sublet.dev/mem=8G (docs/containers.md)");
        if (r < 0)
                tell_refused(daemon, container, err->text);
        if (r == ARRIVAL_E_LATER)
                arrival->asker = asker;
        else if (r == 0)
                *ret_tenant = arrival->tenant;
        else
                drop(arrival);
        return r;
}

void arrivals_forget(struct daemon *daemon, const struct pending_asker *asker)
{
        for (struct arrival *a = daemon->arrivals; a; a = a->next)
                if (a->asker == asker)
                        a->asker = NULL;
}

void arrivals_drop(struct daemon *daemon, const char *id)
{
        struct arrival *arrival = find(daemon, id);

        if (arrival && !arrival->asker)
                drop(arrival);
}

void arrivals_listener(struct daemon *daemon, const struct oci_container *container, uid_t uid, int listener)
{
        struct arrival *arrival = is_put_in(container) ? NULL : find(daemon, container->id);
        struct err err = { 0 };
        int r = 0;

        if (arrival && arrival->has_listener) {
                tell_refused(daemon, container, "a second listener of it came while the first one waits");
                (void)close(listener);
                return;
        }
        if (!profile_is_for(container->metadata, daemon->backend.release))
                r = err_say(&err, -EPERM,
                            "its seccomp profile ('%s') is not one for driver %s: write it anew with 'sublet oci "
                            "profile' or 'sublet oci spec'",
                            container->metadata, daemon->backend.release);
        else if (!arrival)
                r = add_asked(daemon, container, uid, &arrival, &err);
        if (r < 0) {
                tell_refused(daemon, container, err.text);
                (void)close(listener);
                return;
        }
        r = watch_life(arrival, listener, 0); /* takes it over */
        if (r < 0)
                (void)err_set(&err, r, "watching it");
        arrival->has_listener = true;
        if (r == 0)
                r = try(arrival, &err);
        if (r == 0)
                start(arrival);
        else if (r < 0)
                refuse(arrival, r, err.text);
        else if (r == ARRIVAL_E_NONE)
                drop(arrival);
}

void arrivals_close(struct daemon *daemon)
{
        while (daemon->arrivals)
                drop(daemon->arrivals);
}
