/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants without a shim: libsublet.so inside their programs keeps the quota. They are leased, listed and counted like
 * the others; what they hold is read from their usage segment, whose figures are trusted for display only.
 *
 * A tenancy lasts as long as somebody holds it, and the next daemon knows it again by the same:
 *      `sublet run --preload`  its socket, or a process with a slot in the usage segment; run comes back with both;
 *      `sublet lease DIR`      the directory: lease descriptor and usage segment are read from there.
 * A control block of our own stands in for the shim's: API, metrics and usage see no difference.
 *
 * The segment is the tenant's to write, and so is how long a look at it takes (usage_segment_scan.c). A user may have
 * many, and this is the loop that answers everybody:
 *      E1  a look that took long is followed by a rest of that segment's, two hundred times as long;
 *      E2  all looks of ticks together have a fifth of the loop: when they have taken some milliseconds, the others'
 *          come after four times as long, the next one first.
 */
#include "daemon/state/daemon.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "gate/gate.h"
#include "preload/usage_segment.h"
#include "shim/report.h"
#include "wire/lease_directory.h"
#include "daemon/state/events.h"
#include "daemon/state/preload_lease.h"
#include "daemon/state/preloads.h"
#include "daemon/state/shims.h"
#include "daemon/state/usage.h"
#include "daemon/store/store.h"
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define SCAN_PERIOD (NSEC_PER_SEC / 2)  /* between two scans of a usage segment */
#define RETURN_TIME (10 * NSEC_PER_SEC) /* for `sublet run` to come back; it tries ten times a second */

#define LOOK_LONG (2 * NSEC_PER_MSEC)  /* CPU time; without a tenant's doing it takes less than 1 ms */
#define LOOKS_LONG (5 * NSEC_PER_MSEC) /* of one tick */

enum {
        REST = 200, /* E1 */
        PART = 4,   /* E2 */
};

static bytes at_most(bytes size, bytes most)
{
        return size < most ? size : most;
}

static void write_control_block(const struct daemon *daemon, struct tenant *tenant,
                                const struct usage_segment_totals *books)
{
        struct control_block *control = tenant->control;

        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                bytes total = daemon->tenants.totals[i];

                control->devices[i].held = at_most(books->held[i], total);
                control->devices[i].peak = at_most(books->peak[i], total);
                control->devices[i].n_refused = at_most(books->n_refused[i], INT32_MAX);
        }
        control->host_held = at_most(books->held[USAGE_SEGMENT_HOST], INT64_MAX);
        control->n_processes = (uint32_t)books->n_processes;
}

static int new_control_block(const struct daemon *daemon, struct tenant *tenant)
{
        _cleanup_(closep) int fd = -1; /* nobody else maps it */
        int r = control_block_new(tenant->lease.tenant, tenant->lease.owner, daemon->n_devices, &tenant->control, &fd);

        if (r < 0)
                return r;
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                tenant->control->devices[i].quota = tenant->lease.devices[i].quota;
                tenant->control->devices[i].cap = tenant->lease.cap;
                tenant->control->devices[i].class = tenant->lease.class;
        }
        tenant->control->host_quota = tenant->lease.host;
        return 0;
}

/* As a shim's, for `sublet ps -a`. */
static void write_report(struct daemon *daemon, struct tenant *tenant)
{
        _cleanup_(freep) struct lease *lease = malloc(sizeof(*lease));
        struct report what = { .tenant = tenant->lease.tenant,
                               .lease = lease,
                               .elapsed = clock_realtime() - tenant->since };
        json_t *report;

        if (!lease)
                return;
        memcpy(lease, &daemon->machine, sizeof(*lease));
        (void)message_lease_apply(&tenant->lease, lease);
        for (unsigned int i = 0; i < daemon->n_devices && tenant->control; i++) {
                lease->devices[i].quota.peak = tenant->control->devices[i].peak;
                lease->devices[i].quota.n_refused = tenant->control->devices[i].n_refused;
        }
        report = report_new(&what);
        free(tenant->report);
        tenant->report = report ? json_dumps(report, JSON_COMPACT) : NULL;
        json_decref(report);
}

static void preload_finish(struct daemon *daemon, struct tenant *tenant)
{
        write_report(daemon, tenant);
        shims_finish(daemon, tenant);
}

static bool is_removed(int segment)
{
        struct stat st;

        return fstat(segment, &st) == 0 && st.st_nlink == 0;
}

/* A container's segment lies in a tmpfs of the host: what a tenant appends to it is given back. */
static void truncate_segment(int segment)
{
        struct stat st;

        if (fstat(segment, &st) == 0 && st.st_size > (off_t)sizeof(struct usage_segment))
                (void)ftruncate(segment, sizeof(struct usage_segment));
}

int preloads_look(struct tenant *tenant, struct usage_segment_totals *ret)
{
        nsec now = clock_now(), since = clock_cpu(), took;
        int r;

        if (now < tenant->rests_until)
                return -EAGAIN;
        r = usage_segment_scan(tenant->segment, tenant_place(tenant), tenant->lease.id, ret);
        took = clock_cpu() - since;
        tenant->daemon->looks_took += took;
        if (took > LOOK_LONG)
                tenant->rests_until = now + REST * took;
        return r;
}

/* True: the tenancy has ended. A damaged segment does not end it: its memory is not leased to others yet. */
static bool scan_segment(struct daemon *daemon, struct tenant *tenant)
{
        struct usage_segment_totals books = { 0 };
        int r;

        if (tenant->lease.directory[0])
                truncate_segment(tenant->segment);
        r = preloads_look(tenant, &books);
        if (r == 0) {
                write_control_block(daemon, tenant, &books);
                tenant->attach_error = books.attach_error;
        }
        if (r == 0 && books.n_processes)
                return false;
        return tenant->lease.directory[0] ? is_removed(tenant->segment) : tenant->source.fd < 0;
}

/* True: its usage segment is to be looked at now, or it is awaited no longer. */
static bool is_due(const struct tenant *tenant, nsec now)
{
        return tenant->lease.enforcement == ENFORCEMENT_PRELOAD && now - tenant->checked_at >= SCAN_PERIOD &&
               now >= tenant->rests_until;
}

static void check(struct daemon *daemon, struct tenant *tenant, nsec now)
{
        tenant->checked_at = now;
        if (tenant->segment < 0 && tenant->lease.directory[0])
                preloads_recover(daemon, tenant);
        else if (tenant->segment < 0 ? tenant->state == TENANT_AWAITED && now - tenant->state_since > RETURN_TIME :
                                       scan_segment(daemon, tenant))
                preload_finish(daemon, tenant);
}

/* Those whose number is above `above`, or all. The number of the last one that there was time for; 0: there was for
 * all. */
static uint64_t check_above(struct daemon *daemon, uint64_t above)
{
        nsec now = clock_now();

        for (struct tenant *t = daemon->tenants.first, *next; t; t = next) {
                uint64_t id = t->lease.id;

                next = t->next;
                if (id <= above || !is_due(t, now))
                        continue;
                check(daemon, t, now);
                if (daemon->looks_took > LOOKS_LONG)
                        return id;
        }
        return 0;
}

/* E2 */
static void look_at_segments(struct daemon *daemon)
{
        if (clock_now() < daemon->looks_at)
                return;
        daemon->looks_took = 0;
        daemon->looked_at = check_above(daemon, daemon->looked_at);
        if (daemon->looks_took > LOOKS_LONG)
                daemon->looks_at = clock_now() + PART * daemon->looks_took;
}

void preloads_tick(struct daemon *daemon)
{
        for (struct tenant *t = daemon->tenants.first; t; t = t->next) {
                if (t->wants_attach_socket)
                        (void)preload_lease_link_socket(daemon, t);
                t->wants_attach_socket = false;
        }
        look_at_segments(daemon);
}

/* run sends nothing on it; its hanging up is the signal, and so are descriptors that do not close. What its command
 * left behind goes on, within the quota. */
static void on_run_socket(struct loop_source *source, uint32_t events)
{
        struct tenant *tenant = source->context;
        uint64_t sender = daemon_sender(tenant->lease.owner);
        struct message message;
        int r = message_receive_from(source->fd, sender, &message);

        (void)events;
        if (r == MESSAGE_OK)
                message_done(&message);
        if ((r == MESSAGE_OK || r == MESSAGE_E_NONE || r == -EPROTO) && !descriptors_are_late(sender))
                return;
        shims_disconnect(tenant);
        tenant->checked_at = 0; /* scanned at the next tick */
}

static int connect_run(struct tenant *tenant, int socket)
{
        struct ucred peer = { 0 };

        (void)socket_peer(socket, &peer);
        tenant->run = peer.pid;
        return shims_connect(tenant, socket, on_run_socket);
}

static void preload_begin(struct daemon *daemon, struct tenant *tenant)
{
        tenant->state = TENANT_RUNNING;
        tenant->state_since = clock_now();
        usage_start(daemon, tenant);
        if (daemon->store)
                daemon_store_result(daemon, store_tenant_set(daemon->store, &tenant->lease, 0));
        daemon_divide(daemon);
        daemon_changed(daemon);
}

static int send_granted(const struct tenant *tenant, int socket, int descriptor)
{
        json_t *body = message_new("granted");
        const int fds[] = { descriptor, tenant->segment };

        (void)json_object_set_new(body, "tenant", json_string(tenant->lease.tenant));
        (void)json_object_set_new(body, "env", json_object());
        return message_send(socket, body, fds, descriptor < 0 ? 0 : ARRAY_SIZE(fds)) == MESSAGE_OK ? 0 : -EPIPE;
}

int preloads_start(struct daemon *daemon, struct tenant *tenant, const struct message_request *request, int socket,
                   struct err *err)
{
        _cleanup_(closep) int fd = -1;
        int r;

        shims_number(daemon, tenant);
        r = preload_lease_make(daemon, tenant, request->attach, &fd, err);
        if (r == 0 && (r = new_control_block(daemon, tenant)) < 0)
                err_set(err, r, "leasing");
        if (r == 0 &&
            ((r = send_granted(tenant, socket, fd)) < 0 || (fd >= 0 && (r = connect_run(tenant, socket)) < 0)))
                err_set(err, r, "answering");
        if (r < 0) {
                if (daemon->store)
                        (void)store_tenant_end(daemon->store, tenant->lease.id, clock_realtime(), NULL);
                return r;
        }
        preload_begin(daemon, tenant);
        event_emit(daemon, EVENT_TENANT_STARTED, tenant, -1, "%s, user %u, plane preload", tenant->lease.command,
                   tenant->lease.owner);
        return 0;
}

/* Takes the segment over on success. 0; -EPROTO: it is not this tenancy's; -errno. */
static int preload_restore(struct daemon *daemon, struct tenant *tenant, const struct lease_descriptor *descriptor,
                           int segment)
{
        struct usage_segment_totals books;
        int r;

        if (descriptor->tenancy != tenant->lease.id ||
            usage_segment_scan(segment, tenant_place(tenant), tenant->lease.id, &books) < 0)
                return -EPROTO;
        r = new_control_block(daemon, tenant);
        if (r < 0)
                return r;
        memcpy(tenant->token, descriptor->token, sizeof(descriptor->token));
        tenant->segment = segment;
        preload_begin(daemon, tenant);
        return 0;
}

/* Both are files in memory with seals, which answer whoever looks at them: another one need not. */
static bool is_sealed(int fd)
{
        return fd >= 0 && fcntl(fd, F_GET_SEALS) >= 0;
}

/* A user can write a descriptor of its own; what counts is the lease in our store, and that it is the user's. */
static int take_back(struct daemon *daemon, struct message *message, int socket, const struct ucred *peer)
{
        _cleanup_(freep) struct lease_descriptor *descriptor = malloc(sizeof(*descriptor));
        int fd = message_fd(message, 0), segment = message_fd(message, 1), r;
        struct tenant *tenant;

        if (!descriptor || !is_sealed(fd) || !is_sealed(segment) ||
            lease_descriptor_read(fd, LEASE_DESCRIPTOR_INHERITED, descriptor) < 0)
                return -EPROTO;
        tenant = tenants_find_id(&daemon->tenants, descriptor->tenancy);
        if (!tenant)
                return -ENOENT;
        if (tenant->lease.enforcement != ENFORCEMENT_PRELOAD || tenant->lease.directory[0] ||
            tenant->lease.owner != peer->uid)
                return -EPERM;
        /* A run that missed our answer comes once more; no other process of the tenant may take its part. */
        if (tenant->source.fd >= 0 && tenant->run == peer->pid)
                shims_disconnect(tenant);
        if (tenant->source.fd >= 0)
                return -EPERM;
        if (tenant->segment < 0) {
                r = preload_restore(daemon, tenant, descriptor, segment);
                if (r < 0)
                        return r;
                (void)message_take_fd(message, 1);
        }
        return connect_run(tenant, socket);
}

int preloads_return(struct daemon *daemon, struct message *message, int socket, const struct ucred *peer)
{
        int r = take_back(daemon, message, socket, peer);
        json_t *body = message_new("returned");

        (void)json_object_set_new(body, "ok", json_boolean(r == 0));
        if (r < 0)
                (void)json_object_set_new(body, "code", json_string(r == -ENOENT ? "ENOENT" : "EAGAIN"));
        (void)message_send(socket, body, NULL, 0);
        return r;
}

/* A tenancy whose directory is gone has ended, unless it has a shim, which is waited for. */
void preloads_recover(struct daemon *daemon, struct tenant *tenant)
{
        _cleanup_(freep) struct lease_descriptor *descriptor = malloc(sizeof(*descriptor));
        _cleanup_(closep) int segment = -1;
        int r;

        if (!tenant->lease.directory[0])
                return; /* its run is awaited, or its shim */
        r = descriptor ? preload_lease_open(tenant, descriptor, &segment) : -ENOMEM;
        if (r == -EAGAIN)
                return; /* it stays leased, and is asked again */
        if (r == 0 && tenant->lease.enforcement == ENFORCEMENT_ATTACHED) {
                tenant->segment = TAKE_FD(segment);
                memcpy(tenant->token, descriptor->token, sizeof(descriptor->token));
        } else if (r == 0 && (r = preload_restore(daemon, tenant, descriptor, segment)) == 0)
                segment = -1;
        if (r < 0 && tenant->lease.enforcement == ENFORCEMENT_PRELOAD)
                preload_finish(daemon, tenant);
        else if (r == 0 && descriptor->attach != LEASE_DESCRIPTOR_ATTACH_NEVER)
                tenant->wants_attach_socket = true; /* ours is not open yet */
}

/* A container that is started again: its directory is still there, and its first process attaches anew. */
bool preloads_resume(struct daemon *daemon, struct tenant *tenant)
{
        if (tenant->lease.enforcement != ENFORCEMENT_ATTACHED || tenant->segment < 0 || !tenant->lease.directory[0] ||
            is_removed(tenant->segment))
                return false;
        control_block_unmap(tenant->control);
        tenant->control = NULL;
        if (usage_segment_set_attached(tenant->segment, false) < 0 || new_control_block(daemon, tenant) < 0)
                return false;
        tenant->lease.enforcement = ENFORCEMENT_PRELOAD;
        tenant->shim = 0;
        tenant->is_end_received = false;
        preload_begin(daemon, tenant);
        usage_restart(daemon, tenant);
        return true;
}

/* A directory goes with its tenancy: programs that still have it mounted cannot start a process with a lease any
 * more. */
int preloads_end(struct tenant *tenant)
{
        int r = tenant->lease.directory[0] ? lease_directory_remove(tenant->lease.directory, NULL) : 0;

        return tenant->lease.enforcement != ENFORCEMENT_PRELOAD || !tenant->lease.directory[0] ? shims_end(tenant) : r;
}
