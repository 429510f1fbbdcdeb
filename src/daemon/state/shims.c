/*
 * The conversation with each tenant's shim.
 *
 * A shim that we start, or that comes back, says «hello» with its control block, and from then on the scheduler turns
 * its tenant. It says «ended» as its last word. A socket that hangs up without it is either a shim that
 * died (then its process is gone: KEEPER_DIED) or one that comes back by itself, which is awaited.
 */
#include "daemon/state/daemon.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/gate.h"
#include "shim/shim.h"
#include "daemon/state/mig.h"
#include "daemon/store/store.h"
#include "daemon/state/events.h"
#include "daemon/state/preloads.h"
#include "daemon/state/shims.h"
#include "daemon/state/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum {
        /* For a shim to say hello. It opens the driver, which takes seconds on a cold machine. */
        HELLO_SEC = 30,
        /* For one that another daemon started to come back; it tries ten times a second. */
        RETURN_SEC = 10,
};

static void hang_up(struct daemon *daemon, struct tenant *tenant)
{
        loop_drop(daemon->loop, &tenant->source);
        closep(&tenant->source.fd);
}

static void leave_sched(struct daemon *daemon, struct tenant *tenant)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                if (daemon->devices[i].sched && tenant_has(tenant, i))
                        (void)sched_remove(daemon->devices[i].sched, tenant->lease.id, NULL);
}

/* The end of a tenancy, however it came. */
void shims_finish(struct daemon *daemon, struct tenant *tenant)
{
        hang_up(daemon, tenant);
        leave_sched(daemon, tenant);
        usage_count_last(daemon, tenant);
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

static void join_sched(struct daemon *daemon, struct tenant *tenant)
{
        if (message_lease_is_spatial(&tenant->lease) || message_lease_is_mig(&tenant->lease))
                return; /* one of the server's group cannot be turned off alone; an instance is its own */
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                struct sched_tenant row = { .id = tenant->lease.id,
                                            .control = tenant->control,
                                            .share = tenant->share,
                                            .cap = tenant->lease.cap,
                                            .class = tenant->lease.class };

                if (daemon->devices[i].sched && tenant_has(tenant, i) && sched_add(daemon->devices[i].sched, &row) < 0)
                        event_emit(daemon, EVENT_TENANT_NOT_SWITCHED, tenant, (int)i, "it cannot be put on the list");
        }
}

/* Its pages, checked: the shim is ours, but a newer or older one may differ. */
static int take_control_block(struct tenant *tenant, struct message *hello, pid_t process)
{
        _cleanup_(closep) int fd = message_take_fd(hello, 0);
        struct control_block *control;
        int r = fd < 0 ? -EPROTO : control_block_map(fd, &control);

        if (r < 0)
                return r;
        if (strcmp(control->tenant, tenant->lease.tenant) || (process && control->shim != process)) {
                control_block_unmap(control);
                return -EPROTO;
        }
        control_block_unmap(tenant->control);
        tenant->control = control;
        tenant->shim = control->shim;
        return 0;
}

/* With its control block, a tenant is turned, counted and shown. */
static int on_hello(struct daemon *daemon, struct tenant *tenant, struct message *hello)
{
        bool is_back = tenant->state == TENANT_AWAITED;
        int r;

        leave_sched(daemon, tenant);
        r = take_control_block(tenant, hello, tenant->shim);
        if (r < 0)
                return r;
        tenant->control->heartbeat = clock_now();
        tenant->state = TENANT_RUNNING;
        usage_start(daemon, tenant);
        if (!is_back)
                usage_restart(daemon, tenant);
        if (daemon->store)
                daemon_store_result(daemon, store_tenant_set(daemon->store, &tenant->lease, tenant->shim));
        tenant->share = 0; /* so that it is written on the new control block */
        daemon_divide(daemon);
        join_sched(daemon, tenant);
        if (!is_back)
                event_emit(daemon,
                           tenant->lease.enforcement == ENFORCEMENT_ATTACHED ? EVENT_TENANT_ATTACHED :
                                                                               EVENT_TENANT_STARTED,
                           tenant, -1, "%s, user %u", tenant->lease.command, tenant->lease.owner);
        daemon_changed(daemon);
        return 0;
}

static void on_event(struct daemon *daemon, struct tenant *tenant, const json_t *body)
{
        int kind = event_find(message_text(body, "name", ""));
        nsec now = clock_now();
        char more[64] = "";

        if (kind < 0 || kind >= TENANT_EVENTS)
                return;
        tenant->told[kind].n_dropped += (uint64_t)message_number(body, "untold", 0);
        /* A tenant may cause as many as it likes: one of a kind a second is enough to know. */
        if (tenant->told[kind].at && now - tenant->told[kind].at < NSEC_PER_SEC) {
                tenant->told[kind].n_dropped++;
                return;
        }
        if (tenant->told[kind].n_dropped)
                (void)snprintf(more, sizeof(more), " (and %llu more before)",
                               (unsigned long long)tenant->told[kind].n_dropped);
        event_emit(daemon, kind, tenant, -1, "process %lld: %s%s", (long long)message_number(body, "process", 0),
                   message_text(body, "text", ""), more);
        tenant->told[kind].at = now;
        tenant->told[kind].n_dropped = 0;
}

static void on_changed(struct daemon *daemon, struct tenant *tenant, const json_t *body)
{
        tenant->set_done = (uint64_t)message_number(body, "serial", 0);
        (void)snprintf(tenant->set_text, sizeof(tenant->set_text), "%s",
                       message_flag(body, "ok", true) ? "" : message_text(body, "text", "the shim refused"));
        daemon_changed(daemon);
}

static void on_ended(struct tenant *tenant, const json_t *body)
{
        const json_t *report = json_object_get(body, "report");

        tenant->is_end_received = true;
        free(tenant->report);
        tenant->report = report ? json_dumps(report, JSON_COMPACT) : NULL;
}

/* 0; -EPROTO: it is not understood, and the connection is of no use. */
static int hear(struct daemon *daemon, struct tenant *tenant, struct message *message)
{
        const char *type = message_type(message);

        if (!strcmp(type, "hello"))
                return on_hello(daemon, tenant, message);
        if (!strcmp(type, "event"))
                on_event(daemon, tenant, message->body);
        else if (!strcmp(type, "changed"))
                on_changed(daemon, tenant, message->body);
        else if (!strcmp(type, "ended"))
                on_ended(tenant, message->body);
        else if (!strcmp(type, "failed"))
                event_emit(daemon, EVENT_GATE_FAILED, tenant, -1, "%s", message_text(message->body, "text", ""));
        return 0;
}

/* Whether the process is a shim. A number is used again, after a restart of the machine at the latest. */
static bool is_shim(pid_t process)
{
        char path[64], line[64] = "";
        _cleanup_(closep) int fd = -1;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", process);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);
        return n > 0 && strlen(line) + 1 < (size_t)n && !strcmp(line + strlen(line) + 1, "keeper");
}

/* One that waits to be reaped has ended, too. */
static bool is_gone(pid_t process)
{
        return process > 0 && (waitpid(process, NULL, WNOHANG) == process || !is_shim(process));
}

static void lose(struct daemon *daemon, struct tenant *tenant)
{
        event_emit(daemon, EVENT_KEEPER_DIED, tenant, -1, "process %d", tenant->shim);
        shims_finish(daemon, tenant);
}

static void on_hangup(struct daemon *daemon, struct tenant *tenant)
{
        hang_up(daemon, tenant);
        if (tenant->is_end_received) {
                shims_finish(daemon, tenant);
                return;
        }
        if (is_gone(tenant->shim)) {
                lose(daemon, tenant);
                return;
        }
        tenant->state = TENANT_AWAITED;
        tenant->state_since = clock_now();
}

static void on_word(struct loop_source *source, uint32_t events)
{
        struct tenant *tenant = source->context;
        struct daemon *daemon = tenant->owner;
        struct message message;
        int r = message_receive(source->fd, &message);

        (void)events;
        if (r == MESSAGE_E_NONE || r == -EPROTO)
                return;
        if (r == MESSAGE_OK) {
                r = hear(daemon, tenant, &message);
                message_done(&message);
        }
        if (r != MESSAGE_OK)
                on_hangup(daemon, tenant);
}

static int listen_to(struct daemon *daemon, struct tenant *tenant, int socket)
{
        int r;

        (void)fcntl(socket, F_SETFL, O_NONBLOCK);
        tenant->source = (struct loop_source){ .fd = socket, .ready = on_word, .context = tenant };
        r = loop_add(daemon->loop, &tenant->source, EPOLLIN);
        if (r < 0)
                tenant->source.fd = -1;
        return r;
}

/* Without a store, or when it fails, a number that none had before. */
void shims_number(struct daemon *daemon, struct tenant *tenant)
{
        int r = -EIO;

        if (tenant->lease.id)
                return; /* one that had a page before it has a shim */
        if (daemon->store) {
                r = store_tenant_new(daemon->store, &tenant->lease, tenant->since, &tenant->lease.id);
                daemon_store_result(daemon, r);
        }
        if (r < 0)
                tenant->lease.id = (uint64_t)clock_realtime();
}

int shims_start(struct daemon *daemon, struct tenant *tenant, int listener, int run, int init, struct err *err)
{
        struct shim_start start = {
                .lease = &tenant->lease, .dir = daemon->settings.dir, .listener = listener, .run = run, .init = init
        };
        _cleanup_(closep) int ours = -1;
        _cleanup_(closep) int theirs = -1;
        int sockets[2], r;

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
                return err_set(err, -errno, "starting the shim of '%s'", tenant->lease.tenant);
        ours = sockets[0];
        theirs = start.daemon = sockets[1];
        shims_number(daemon, tenant);
        r = shim_spawn(&start, &tenant->shim, err);
        if (r == 0 && (r = listen_to(daemon, tenant, ours)) < 0)
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

/* One that we do not know: another daemon's, whose store is not ours. It lives, so it is let in. */
static int adopt(struct daemon *daemon, const struct message_lease *lease, pid_t process, struct tenant **ret)
{
        int r = tenants_find(&daemon->tenants, lease->tenant) ? -EPROTO : tenants_put(&daemon->tenants, lease, ret);

        if (r < 0)
                return r;
        if (!(*ret)->lease.id)
                (*ret)->lease.id = (uint64_t)clock_realtime();
        (*ret)->owner = daemon;
        (*ret)->since = lease->since * NSEC_PER_SEC;
        (*ret)->state = TENANT_AWAITED;
        if (daemon->store)
                daemon_store_result(daemon, store_tenant_adopt(daemon->store, &(*ret)->lease, process, (*ret)->since));
        return 0;
}

static bool differs(const struct message_lease *a, const struct message_lease *b)
{
        return memcmp(a->devices, b->devices, sizeof(a->devices)) || a->share != b->share || a->cap != b->cap ||
               a->class != b->class;
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
        if (!tenant && (r = adopt(daemon, &lease, process, &tenant)) < 0)
                return r;
        if (strcmp(tenant->lease.tenant, lease.tenant) || (tenant->shim && tenant->shim != process))
                return -EPROTO;
        hang_up(daemon, tenant); /* an older connection of the same shim */
        tenant->shim = process;
        tenant->state = TENANT_AWAITED;
        tenant->state_since = clock_now();
        r = on_hello(daemon, tenant, hello);
        if (r == 0)
                r = listen_to(daemon, tenant, socket);
        if (r == 0 && differs(&tenant->lease, &lease))
                (void)shims_set(tenant); /* a change that the daemon before did not get through */
        return r;
}

/* ---- those who are awaited --------------------------------------------------------------------- */

static void look_after(struct daemon *daemon, struct tenant *tenant)
{
        nsec waited = clock_now() - tenant->state_since;

        /* One that has said its last words and is gone may still wait at our door with them. */
        if (tenant->state == TENANT_AWAITED && waited > NSEC_PER_SEC && is_gone(tenant->shim))
                lose(daemon, tenant);
        else if (tenant->state == TENANT_STARTED && waited > HELLO_SEC * NSEC_PER_SEC) {
                (void)kill(tenant->shim, SIGKILL); /* it serves nobody yet */
                lose(daemon, tenant);
        }
}

static unsigned int count_awaited(const struct daemon *daemon)
{
        unsigned int n = 0;

        for (const struct tenant *t = daemon->tenants.first; t; t = t->next)
                n += t->state == TENANT_AWAITED;
        return n;
}

static void end_recovery(struct daemon *daemon, unsigned int n_awaited)
{
        daemon->is_recovering = false;
        event_emit(daemon, EVENT_DAEMON_RECOVERED, NULL, -1, "%zu tenants, %u still awaited", daemon->tenants.n,
                   n_awaited);
}

void shims_tick(struct daemon *daemon)
{
        unsigned int n;

        for (struct tenant *t = daemon->tenants.first, *next; t; t = next) {
                next = t->next;
                look_after(daemon, t);
        }
        if (!daemon->is_recovering)
                return;
        n = count_awaited(daemon);
        if (!n || clock_realtime() - daemon->since > RETURN_SEC * NSEC_PER_SEC)
                end_recovery(daemon, n);
}

/* What a shim has said and nobody has read yet, up to its last words. 0; -EPROTO, as `hear`. */
static int hear_rest(struct daemon *daemon, struct tenant *tenant)
{
        int r = 0;

        while (r == 0 && tenant->source.fd >= 0 && !tenant->is_end_received) {
                struct message message;
                int got = message_receive(tenant->source.fd, &message);

                if (got == MESSAGE_OK) {
                        r = hear(daemon, tenant, &message);
                        message_done(&message);
                } else if (got != -EPROTO)
                        break;
        }
        return r;
}

/* Its process may take a while yet to end, and has nothing of the tenant's any more. Whose lease is a directory's lives on; that one is waited for. */
void shims_settle(struct daemon *daemon)
{
        for (struct tenant *t = daemon->tenants.first, *next; t; t = next) {
                next = t->next;
                if (t->lease.enforcement == ENFORCEMENT_PRELOAD || t->lease.directory[0] ||
                    (t->control && !t->control->has_ended))
                        continue;
                if (hear_rest(daemon, t) < 0)
                        on_hangup(daemon, t);
                else if (t->is_end_received)
                        shims_finish(daemon, t);
        }
}

void shims_reap(struct daemon *daemon)
{
        pid_t process;

        while ((process = waitpid(-1, NULL, WNOHANG)) > 0) {
                struct tenant *tenant = tenants_find_shim(&daemon->tenants, process);

                if (!tenant)
                        continue;
                (void)hear_rest(daemon, tenant);
                if (tenant->is_end_received)
                        shims_finish(daemon, tenant);
                else
                        lose(daemon, tenant);
        }
}

static void await(void *context, const struct message_lease *lease, pid_t shim, nsec since)
{
        struct daemon *daemon = context;
        struct tenant *tenant;

        if (tenants_put(&daemon->tenants, lease, &tenant) < 0)
                return;
        tenant->owner = daemon;
        tenant->shim = shim;
        tenant->since = since;
        tenant->state = TENANT_AWAITED;
        tenant->state_since = clock_now();
}

void shims_recover(struct daemon *daemon)
{
        if (!daemon->store)
                return;
        daemon_store_result(daemon, store_tenants_living(daemon->store, await, daemon));
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

                hang_up(daemon, tenant);
                leave_sched(daemon, tenant);
                usage_count_last(daemon, tenant);
                if (tenant->control)
                        tenant->control->heartbeat = 0;
                tenants_take(&daemon->tenants, tenant);
                tenant_free(tenant);
        }
}
