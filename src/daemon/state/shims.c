/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants' shims: their start, their return to a new daemon, and the end of a tenancy.
 *
 * A shim that we start, or that comes back, sends "hello" with its control block; its tenant is scheduled from then on.
 * Its last message is "ended". A socket that hangs up without it is that of a shim that died (then its process is gone:
 * KEEPER_DIED), or of one that comes back by itself and is awaited.
 */
#include "daemon/state/daemon.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/process.h"
#include "gate/gate.h"
#include "shim/shim.h"
#include "daemon/state/events.h"
#include "daemon/state/preloads.h"
#include "daemon/state/shims.h"
#include "daemon/state/usage.h"
#include "daemon/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum {
        HELLO_SEC = 30,  /* until hello: a shim opens the driver, which takes seconds on a cold machine */
        RETURN_SEC = 10, /* until a shim of the daemon before has come back; it tries ten times a second */
};

int shims_connect(struct tenant *tenant, int socket, void (*ready)(struct loop_source *source, uint32_t events))
{
        int r;

        (void)fcntl(socket, F_SETFL, O_NONBLOCK);
        tenant->source = (struct loop_source){ .fd = socket, .ready = ready, .context = tenant };
        r = loop_add(tenant->daemon->loop, &tenant->source, EPOLLIN);
        if (r < 0)
                tenant->source.fd = -1;
        return r;
}

void shims_disconnect(struct tenant *tenant)
{
        loop_drop(tenant->daemon->loop, &tenant->source);
        descriptors_drop(TAKE_FD(tenant->source.fd), daemon_sender(tenant->lease.owner)); /* may be run's */
}

static void tenant_leave(struct daemon *daemon, struct tenant *tenant)
{
        suspend_leave(tenant);
        shims_disconnect(tenant);
        daemon_unschedule(daemon, tenant);
        usage_count_last(daemon, tenant);
}

void shims_finish(struct daemon *daemon, struct tenant *tenant)
{
        tenant_leave(daemon, tenant);
        if (preloads_resume(daemon, tenant))
                return;
        if (daemon->store)
                daemon_store_result(
                        daemon, store_tenant_end(daemon->store, tenant->lease.id, clock_realtime(), tenant->report));
        event_emit(daemon, EVENT_TENANT_ENDED, tenant, -1, "after %lld s",
                   (long long)((clock_realtime() - tenant->since) / NSEC_PER_SEC));
        tenants_take(&daemon->tenants, tenant);
        tenant_free(tenant);
        daemon_divide(daemon);
        daemon_changed(daemon);
}

/* Process numbers are used again, after a restart of the machine at the latest: the command line is checked, too, once
 * it is that of a process of ours: this loop would wait for another's (process_is_near). */
static bool is_shim(pid_t process)
{
        char path[64], line[64] = "";
        _cleanup_(closep) int fd = -1;
        ssize_t n;

        if (!process_is_near(process, geteuid()))
                return false;
        (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", process);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);
        return n > 0 && strlen(line) + 1 < (size_t)n && !strcmp(line + strlen(line) + 1, "keeper");
}

/* A process that waits to be reaped has ended, too. */
static bool is_gone(pid_t process)
{
        return process > 0 && (waitpid(process, NULL, WNOHANG) == process || !is_shim(process));
}

static void shim_lose(struct daemon *daemon, struct tenant *tenant)
{
        unsigned int n = suspend_strand(tenant);

        event_emit(daemon, EVENT_KEEPER_DIED, tenant, -1,
                   n ? "process %d; ended with it, because suspended: %u" : "process %d", tenant->shim, n);
        shims_finish(daemon, tenant);
}

static void shim_await(struct tenant *tenant)
{
        tenant->state = TENANT_AWAITED;
        tenant->state_since = clock_now();
}

static void on_hangup(struct daemon *daemon, struct tenant *tenant)
{
        shims_disconnect(tenant);
        if (tenant->is_end_received)
                shims_finish(daemon, tenant);
        else if (is_gone(tenant->shim))
                shim_lose(daemon, tenant);
        else
                shim_await(tenant);
}

static void on_message(struct loop_source *source, uint32_t events)
{
        struct tenant *tenant = source->context;
        struct daemon *daemon = tenant->daemon;
        struct message message;
        int r = message_receive(source->fd, &message);

        (void)events;
        if (r == MESSAGE_E_NONE || r == -EPROTO)
                return;
        if (r == MESSAGE_OK) {
                r = shims_handle(daemon, tenant, &message);
                message_done(&message);
        }
        if (r != MESSAGE_OK)
                on_hangup(daemon, tenant);
}

void shims_number(struct daemon *daemon, struct tenant *tenant)
{
        int r = -EIO;

        if (tenant->lease.id)
                return; /* it had a lease descriptor before it has a shim */
        starts_note(&daemon->starts, tenant->lease.owner, clock_now());
        if (daemon->store) {
                r = store_tenant_new(daemon->store, &tenant->lease, tenant->since, &tenant->lease.id);
                daemon_store_result(daemon, r);
        }
        if (r < 0)
                tenant->lease.id = (uint64_t)clock_realtime();
}

int shims_start(struct daemon *daemon, struct tenant *tenant, int listener, int run, int init, int record,
                struct err *err)
{
        struct shim_start start = { .lease = &tenant->lease,
                                    .dir = daemon->settings.dir,
                                    .listener = listener,
                                    .run = run,
                                    .init = init,
                                    .record = record };
        _cleanup_(closep) int ours = -1;
        _cleanup_(closep) int theirs = -1;
        int sockets[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
                return err_set(err, -errno, "starting the shim of '%s'", tenant->lease.tenant);
        ours = sockets[0];
        theirs = start.daemon = sockets[1];
        shims_number(daemon, tenant);
        r = shim_spawn(&start, &tenant->shim, err);
        if (r == 0 && (r = shims_connect(tenant, ours, on_message)) < 0)
                r = err_set(err, r, "starting the shim of '%s'", tenant->lease.tenant);
        if (r < 0) {
                if (daemon->store)
                        (void)store_tenant_end(daemon->store, tenant->lease.id, clock_realtime(), NULL);
                return r;
        }
        ours = -1;
        tenant->state = TENANT_STARTED;
        tenant->state_since = clock_now();
        if (daemon->store)
                daemon_store_result(daemon, store_tenant_set(daemon->store, &tenant->lease, tenant->shim));
        return 0;
}

/* A tenant that another daemon admitted. *ret_tenant is the table's. 0; -ENOMEM. */
static int tenant_restore(struct daemon *daemon, const struct message_lease *lease, pid_t shim, nsec since,
                          struct tenant **ret_tenant)
{
        int r = tenants_put(&daemon->tenants, lease, ret_tenant);

        if (r < 0)
                return r;
        (*ret_tenant)->daemon = daemon;
        (*ret_tenant)->shim = shim;
        (*ret_tenant)->since = since;
        shim_await(*ret_tenant);
        return 0;
}

/* A shim of a daemon with another store. It lives, so its tenant is taken in. */
static int tenant_adopt(struct daemon *daemon, const struct message_lease *lease, pid_t process, struct tenant **ret)
{
        int r = tenants_find(&daemon->tenants, lease->tenant) ?
                        -EPROTO :
                        tenant_restore(daemon, lease, process, lease->since * NSEC_PER_SEC, ret);

        if (r < 0)
                return r;
        if (!(*ret)->lease.id)
                (*ret)->lease.id = (uint64_t)clock_realtime();
        if (daemon->store)
                daemon_store_result(daemon, store_tenant_adopt(daemon->store, &(*ret)->lease, process, (*ret)->since));
        return 0;
}

static bool leases_differ(const struct message_lease *a, const struct message_lease *b)
{
        return memcmp(a->devices, b->devices, sizeof(a->devices)) || a->share != b->share || a->cap != b->cap ||
               a->class != b->class || a->goal != b->goal || a->sleep_after != b->sleep_after ||
               a->host_swap != b->host_swap;
}

int shims_return(struct daemon *daemon, struct message *hello, int socket, pid_t process)
{
        struct message_lease lease;
        struct tenant *tenant;
        int r;

        if (strcmp(message_type(hello), "hello") ||
            message_lease_parse(json_object_get(hello->body, "lease"), &lease) < 0)
                return -EPROTO;
        tenant = tenants_find_id(&daemon->tenants, lease.id);
        if (!tenant && (r = tenant_adopt(daemon, &lease, process, &tenant)) < 0)
                return r;
        if (strcmp(tenant->lease.tenant, lease.tenant) || (tenant->shim && tenant->shim != process))
                return -EPROTO;
        shims_disconnect(tenant); /* an older connection of the same shim */
        tenant->shim = process;
        shim_await(tenant);
        r = shims_handle(daemon, tenant, hello);
        if (r == 0)
                r = shims_connect(tenant, socket, on_message);
        if (r == 0 && leases_differ(&tenant->lease, &lease))
                (void)shims_set(tenant); /* a change that the daemon before could not deliver */
        return r;
}

/* A shim that is gone may still have its last message in a connection that was not accepted yet: hence the second. */
static void check_limits(struct daemon *daemon, struct tenant *tenant)
{
        nsec waited = clock_now() - tenant->state_since;

        if (tenant->state == TENANT_AWAITED && waited > NSEC_PER_SEC && is_gone(tenant->shim))
                shim_lose(daemon, tenant);
        else if (tenant->state == TENANT_STARTED && waited > HELLO_SEC * NSEC_PER_SEC) {
                (void)kill(tenant->shim, SIGKILL); /* it serves nobody yet */
                shim_lose(daemon, tenant);
        }
}

static unsigned int count_awaited(const struct daemon *daemon)
{
        unsigned int n = 0;

        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                n += t->state == TENANT_AWAITED;
        return n;
}

void shims_tick(struct daemon *daemon)
{
        unsigned int n;

        for (struct tenant *t = daemon->tenants.first, *next; t; t = next) {
                next = t->next;
                check_limits(daemon, t);
        }
        if (!daemon->is_recovering)
                return;
        n = count_awaited(daemon);
        if (n && clock_realtime() - daemon->since <= RETURN_SEC * NSEC_PER_SEC)
                return;
        daemon->is_recovering = false;
        event_emit(daemon, EVENT_DAEMON_RECOVERED, NULL, -1, "%zu tenants, %u still awaited", daemon->tenants.n, n);
}

/* Reads what the shim has sent already, up to its last message. 0; as shims_handle. */
static int receive_rest(struct daemon *daemon, struct tenant *tenant)
{
        int r = 0;

        while (r == 0 && tenant->source.fd >= 0 && !tenant->is_end_received) {
                struct message message;
                int got = message_receive(tenant->source.fd, &message);

                if (got == MESSAGE_OK) {
                        r = shims_handle(daemon, tenant, &message);
                        message_done(&message);
                } else if (got != -EPROTO)
                        break;
        }
        return r;
}

/* Its process has ended. */
static void shim_end(struct daemon *daemon, struct tenant *tenant)
{
        (void)receive_rest(daemon, tenant);
        if (tenant->is_end_received)
                shims_finish(daemon, tenant);
        else
                shim_lose(daemon, tenant);
}

/* A shim's process may take a while to end after its last message, but holds nothing of the tenant's then. A tenancy
 * that lasts as long as a directory outlives its shim: there the process is waited for. */
void shims_settle(struct daemon *daemon)
{
        for (struct tenant *t = daemon->tenants.first, *next; t; t = next) {
                next = t->next;
                if (t->lease.enforcement == ENFORCEMENT_PRELOAD || t->lease.directory[0] ||
                    (t->control && !t->control->has_ended))
                        continue;
                if (receive_rest(daemon, t) < 0)
                        on_hangup(daemon, t);
                else if (t->is_end_received)
                        shims_finish(daemon, t);
        }
}

void shims_reap(struct daemon *daemon)
{
        pid_t process;
        int status;

        while ((process = waitpid(-1, &status, WNOHANG)) > 0) {
                struct tenant *tenant = tenants_find_shim(&daemon->tenants, process);

                if (!tenant) {
                        suspend_reap(daemon, process, status);
                        continue;
                }
                shim_end(daemon, tenant);
        }
}

bool shims_notice(struct daemon *daemon, struct tenant *tenant)
{
        if (!is_gone(tenant->shim))
                return false;
        shim_end(daemon, tenant);
        return true;
}

static void on_stored(void *context, const struct message_lease *lease, pid_t shim, nsec since)
{
        struct tenant *tenant;

        (void)tenant_restore(context, lease, shim, since, &tenant);
}

void shims_recover(struct daemon *daemon)
{
        if (!daemon->store)
                return;
        daemon_store_result(daemon, store_tenants_living(daemon->store, on_stored, daemon));
        for (struct tenant *t = daemon->tenants.first, *next; t; t = next) {
                next = t->next;
                if (t->lease.enforcement != ENFORCEMENT_GATE)
                        preloads_recover(daemon, t);
        }
        daemon->is_recovering = count_awaited(daemon);
        daemon_divide(daemon);
}

void shims_leave(struct daemon *daemon)
{
        while (daemon->tenants.first) {
                struct tenant *tenant = daemon->tenants.first;

                tenant_leave(daemon, tenant);
                if (tenant->control)
                        tenant->control->heartbeat = 0;
                tenants_take(&daemon->tenants, tenant);
                tenant_free(tenant);
        }
}
