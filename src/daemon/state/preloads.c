/*
 * Tenants without a shim: libsublet.so inside their programs keeps the quota (preload/inside.h). They are leased, listed
 * and counted as the others; what they hold is read from their region.
 *
 * A tenancy lasts as long as somebody holds it, and is known again to the next daemon by the same:
 *      `sublet run --preload`  its socket, or a process with a slot in the usage segment; run comes back with lease descriptor and usage segment;
 *      `sublet lease DIR`      the directory: lease descriptor and usage segment are read from there.
 * A control block of our own stands for the one that a shim would have: API, metrics and usage do not know the difference. No
 * figure in a usage segment is trusted further than to be shown.
 */
#include "daemon/state/daemon.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/policy/filter.h"
#include "gate/gate.h"
#include "preload/usage_segment.h"
#include "wire/lease_directory.h"
#include "shim/report.h"
#include "daemon/store/store.h"
#include "daemon/state/events.h"
#include "daemon/state/preloads.h"
#include "daemon/state/shims.h"
#include "daemon/state/usage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Between two looks at a usage segment. */
#define LOOK_PERIOD (NSEC_PER_SEC / 2)

/* For `sublet run` to come back to a new daemon; it tries ten times a second. */
#define RETURN_TIME (10 * NSEC_PER_SEC)

/* ---- books --------------------------------------------------------------------------------------- */

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
        _cleanup_(closep) int fd = -1; /* of no use to anybody else */
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

static void end(struct daemon *daemon, struct tenant *tenant)
{
        write_report(daemon, tenant);
        shims_finish(daemon, tenant);
}

static bool is_removed(int segment)
{
        struct stat st;

        return fstat(segment, &st) == 0 && st.st_nlink == 0;
}

/* In a container it is a file of a tmpfs of the host's: what a tenant adds to it is given back. */
static void keep_small(int segment)
{
        struct stat st;

        if (fstat(segment, &st) == 0 && st.st_size > (off_t)sizeof(struct usage_segment))
                (void)ftruncate(segment, sizeof(struct usage_segment));
}

/* True: it has ended. A region that is damaged is no reason: its lease is not given to others yet. */
static bool look(struct daemon *daemon, struct tenant *tenant)
{
        struct usage_segment_totals books = { 0 };
        int r;

        if (tenant->lease.directory[0])
                keep_small(tenant->segment);
        r = usage_segment_scan(tenant->segment, tenant_place(tenant), tenant->lease.id, &books);
        if (r == 0) {
                write_control_block(daemon, tenant, &books);
                tenant->attach_error = books.attach_error;
        }
        if (r == 0 && books.n_processes)
                return false;
        return tenant->lease.directory[0] ? is_removed(tenant->segment) : tenant->source.fd < 0;
}

/* The same socket under one more name; where it cannot be, programs stay as they are. A new daemon has a new socket. */
static int link_attach_socket(const struct daemon *daemon, const struct tenant *tenant)
{
        char from[sizeof(daemon->settings.dir) + 16], to[sizeof(tenant->lease.directory) + 16];

        (void)snprintf(from, sizeof(from), "%s/attach.sock", daemon->settings.dir);
        (void)snprintf(to, sizeof(to), "%s/attach.sock", tenant->lease.directory);
        if (unlink(to) < 0 && errno != ENOENT)
                return -errno;
        return link(from, to) < 0 ? -errno : 0;
}

void preloads_tick(struct daemon *daemon)
{
        nsec now = clock_now();

        for (struct tenant *t = daemon->tenants.first, *next; t; t = next) {
                next = t->next;
                if (t->wants_attach_socket) {
                        (void)link_attach_socket(daemon, t);
                        t->wants_attach_socket = false;
                }
                if (t->lease.enforcement != ENFORCEMENT_PRELOAD || now - t->checked_at < LOOK_PERIOD)
                        continue;
                t->checked_at = now;
                if (t->segment < 0 ? t->state == TENANT_AWAITED && now - t->state_since > RETURN_TIME : look(daemon, t))
                        end(daemon, t);
        }
}

/* ---- run's socket -------------------------------------------------------------------------------- */

/* It says nothing: its end is what is heard. What its command left goes on, within the quota. */
static void on_word(struct loop_source *source, uint32_t events)
{
        struct tenant *tenant = source->context;
        struct daemon *daemon = tenant->owner;
        struct message message;
        int r = message_receive(source->fd, &message);

        (void)events;
        if (r == MESSAGE_OK)
                message_done(&message);
        if (r == MESSAGE_OK || r == MESSAGE_E_NONE || r == -EPROTO)
                return;
        loop_drop(daemon->loop, source);
        closep(&source->fd);
        tenant->checked_at = 0; /* now */
}

static int listen_to(struct daemon *daemon, struct tenant *tenant, int socket)
{
        struct ucred who = { 0 };
        socklen_t size = sizeof(who);
        int r;

        (void)getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size);
        tenant->run = who.pid;
        (void)fcntl(socket, F_SETFL, O_NONBLOCK);
        tenant->source = (struct loop_source){ .fd = socket, .ready = on_word, .context = tenant };
        r = loop_add(daemon->loop, &tenant->source, EPOLLIN);
        if (r < 0)
                tenant->source.fd = -1;
        return r;
}

/* ---- beginnings ---------------------------------------------------------------------------------- */

/* For the library to hand itself over (preload/attach.h). */
static int fill_attach(const struct daemon *daemon, const struct tenant *tenant, const char *how,
                       struct lease_descriptor *ret, struct err *err)
{
        struct sock_fprog filter = { 0 };
        int r;

        ret->attach = !strcmp(how, "required") ? LEASE_DESCRIPTOR_ATTACH_REQUIRED :
                      !strcmp(how, "never")    ? LEASE_DESCRIPTOR_ATTACH_NEVER :
                                                 LEASE_DESCRIPTOR_ATTACH_AUTO;
        if (ret->attach == LEASE_DESCRIPTOR_ATTACH_NEVER)
                return 0;
        if (tenant->lease.directory[0])
                (void)snprintf(ret->listening_socket, sizeof(ret->listening_socket), "%s",
                               LEASE_DESCRIPTOR_MOUNT_DIR "/attach.sock");
        else if (snprintf(ret->listening_socket, sizeof(ret->listening_socket), "%s/attach.sock",
                          daemon->settings.dir) >= (int)sizeof(ret->listening_socket))
                return err_say(err, -ENAMETOOLONG, "%s: too long for the directory of a socket", daemon->settings.dir);
        r = filter_build(&daemon->backend.layout, &filter);
        if (r == 0 && filter.len > LEASE_DESCRIPTOR_FILTER_MAX)
                r = -E2BIG;
        if (r < 0)
                return err_set(err, r, "writing the filter");
        memcpy(ret->filter, filter.filter, filter.len * sizeof(*filter.filter));
        ret->n_filter = filter.len;
        free(filter.filter);
        return 0;
}

static int fill_page(const struct daemon *daemon, struct tenant *tenant, struct lease_descriptor *ret)
{
        _cleanup_(freep) struct lease *lease = malloc(sizeof(*lease));
        int r;

        if (!lease)
                return -ENOMEM;
        memcpy(lease, &daemon->machine, sizeof(*lease));
        r = message_lease_apply(&tenant->lease, lease);
        if (r < 0)
                return r;
        lease_directory_describe(&daemon->backend, lease, ret);
        ret->tenancy = tenant->lease.id;
        r = sms_parse(tenant->lease.sms, &ret->sms);
        if (r < 0)
                return r;
        if (getrandom(ret->token, sizeof(ret->token), 0) != sizeof(ret->token))
                return -EIO;
        memcpy(tenant->token, ret->token, sizeof(ret->token));
        return 0;
}

/* *ret_page: -1 where they are in a directory. */
static int make(const struct daemon *daemon, struct tenant *tenant, struct lease_descriptor *descriptor, int *ret_page,
                struct err *err)
{
        char path[sizeof(tenant->lease.directory) + 16];
        int r;

        if (!tenant->lease.directory[0]) {
                if ((r = lease_descriptor_new(descriptor, ret_page)) < 0 ||
                    (r = usage_segment_new(descriptor->tenancy, &tenant->segment)) < 0)
                        return err_set(err, r, "writing the lease for libsublet.so");
                return 0;
        }
        r = lease_directory_make(tenant->lease.directory, descriptor, err);
        if (r < 0)
                return r;
        (void)snprintf(path, sizeof(path), "%s/region", tenant->lease.directory);
        tenant->segment = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (descriptor->attach != LEASE_DESCRIPTOR_ATTACH_NEVER && (r = link_attach_socket(daemon, tenant)) < 0 &&
            descriptor->attach == LEASE_DESCRIPTOR_ATTACH_REQUIRED) {
                (void)lease_directory_remove(tenant->lease.directory, NULL);
                return err_set(err, r, "putting attach.sock into %s (it must be on the file system of %s)",
                               tenant->lease.directory, daemon->settings.dir);
        }
        return tenant->segment < 0 ? err_set(err, -errno, "opening %s", path) : 0;
}

static void begin(struct daemon *daemon, struct tenant *tenant)
{
        tenant->state = TENANT_RUNNING;
        tenant->state_since = clock_now();
        usage_start(daemon, tenant);
        if (daemon->store)
                daemon_store_result(daemon, store_tenant_set(daemon->store, &tenant->lease, 0));
        daemon_divide(daemon);
        daemon_changed(daemon);
}

static int grant(const struct tenant *tenant, int socket, int descriptor)
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
        _cleanup_(freep) struct lease_descriptor *descriptor = malloc(sizeof(*descriptor));
        _cleanup_(closep) int fd = -1;
        int r;

        if (!descriptor)
                return err_set(err, -ENOMEM, "leasing");
        shims_number(daemon, tenant);
        r = fill_page(daemon, tenant, descriptor);
        if (r < 0)
                err_set(err, r, "leasing");
        if (r == 0)
                r = fill_attach(daemon, tenant, request->attach, descriptor, err);
        if (r == 0)
                r = make(daemon, tenant, descriptor, &fd, err);
        if (r == 0 && (r = new_control_block(daemon, tenant)) < 0)
                err_set(err, r, "leasing");
        if (r == 0 && ((r = grant(tenant, socket, fd)) < 0 || (fd >= 0 && (r = listen_to(daemon, tenant, socket)) < 0)))
                err_set(err, r, "answering");
        if (r < 0) {
                if (daemon->store)
                        (void)store_tenant_end(daemon->store, tenant->lease.id, clock_realtime(), NULL);
                return r;
        }
        begin(daemon, tenant);
        event_emit(daemon, EVENT_TENANT_STARTED, tenant, -1, "%s, user %u, plane preload", tenant->lease.command,
                   tenant->lease.owner);
        return 0;
}

/* ---- after another daemon ------------------------------------------------------------------------ */

static int come_back(struct daemon *daemon, struct tenant *tenant, const struct lease_descriptor *descriptor,
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
        begin(daemon, tenant);
        return 0;
}

/* run has not heard our answer, and comes once more. Another process of the tenant's does not take its place. */
static void forget_socket(struct daemon *daemon, struct tenant *tenant, pid_t run)
{
        if (tenant->source.fd < 0 || tenant->run != run)
                return;
        loop_drop(daemon->loop, &tenant->source);
        closep(&tenant->source.fd);
}

/* The user can have made a page of its own; what counts is the lease in our store, and that it is the user's. */
static int take_back(struct daemon *daemon, struct message *message, int socket, const struct ucred *who)
{
        _cleanup_(freep) struct lease_descriptor *descriptor = malloc(sizeof(*descriptor));
        _cleanup_(closep) int fd = message_take_fd(message, 0);
        _cleanup_(closep) int segment = message_take_fd(message, 1);
        struct tenant *tenant;
        int r;

        if (!descriptor || fd < 0 || segment < 0 ||
            lease_descriptor_read(fd, LEASE_DESCRIPTOR_INHERITED, descriptor) < 0)
                return -EPROTO;
        tenant = tenants_find_id(&daemon->tenants, descriptor->tenancy);
        if (!tenant)
                return -ENOENT;
        if (tenant->lease.enforcement != ENFORCEMENT_PRELOAD || tenant->lease.directory[0] ||
            tenant->lease.owner != who->uid)
                return -EPERM;
        forget_socket(daemon, tenant, who->pid);
        if (tenant->source.fd >= 0)
                return -EPERM;
        if (tenant->segment < 0) {
                r = come_back(daemon, tenant, descriptor, segment);
                if (r < 0)
                        return r;
                segment = -1;
        }
        return listen_to(daemon, tenant, socket);
}

/* run believes nothing but an answer. */
int preloads_return(struct daemon *daemon, struct message *message, int socket, const struct ucred *who)
{
        int r = take_back(daemon, message, socket, who);
        json_t *body = message_new("returned");

        (void)json_object_set_new(body, "ok", json_boolean(r == 0));
        if (r < 0)
                (void)json_object_set_new(body, "code", json_string(r == -ENOENT ? "ENOENT" : "EAGAIN"));
        (void)message_send(socket, body, NULL, 0);
        return r;
}

static int open_place(const struct tenant *tenant, struct lease_descriptor *descriptor, int *ret_region)
{
        char path[sizeof(tenant->lease.directory) + 16];
        _cleanup_(closep) int fd = -1;

        (void)snprintf(path, sizeof(path), "%s/page", tenant->lease.directory);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        (void)snprintf(path, sizeof(path), "%s/region", tenant->lease.directory);
        *ret_region = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 || *ret_region < 0 || pread(fd, descriptor, sizeof(*descriptor), 0) != sizeof(*descriptor))
                return -ENOENT;
        return lease_descriptor_parse(descriptor, sizeof(*descriptor), descriptor);
}

/* One whose directory has gone meanwhile has ended; one that has a shim waits for it. */
void preloads_recover(struct daemon *daemon, struct tenant *tenant)
{
        _cleanup_(freep) struct lease_descriptor *descriptor = malloc(sizeof(*descriptor));
        _cleanup_(closep) int segment = -1;
        int r;

        if (!tenant->lease.directory[0])
                return; /* its run is awaited, or its shim */
        r = descriptor ? open_place(tenant, descriptor, &segment) : -ENOMEM;
        if (r == 0 && tenant->lease.enforcement == ENFORCEMENT_ATTACHED) {
                tenant->segment = TAKE_FD(segment);
                memcpy(tenant->token, descriptor->token, sizeof(descriptor->token));
        } else if (r == 0) {
                r = come_back(daemon, tenant, descriptor, segment);
                if (r == 0)
                        segment = -1;
        }
        if (r < 0 && tenant->lease.enforcement == ENFORCEMENT_PRELOAD)
                end(daemon, tenant);
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
        begin(daemon, tenant);
        usage_restart(daemon, tenant);
        return true;
}

/* ---- the end ------------------------------------------------------------------------------------- */

/* A directory goes with its tenancy; what has it mounted can make no new process with a lease. */
int preloads_end(struct tenant *tenant)
{
        int r = tenant->lease.directory[0] ? lease_directory_remove(tenant->lease.directory, NULL) : 0;

        return tenant->lease.enforcement != ENFORCEMENT_PRELOAD || !tenant->lease.directory[0] ? shims_end(tenant) : r;
}
