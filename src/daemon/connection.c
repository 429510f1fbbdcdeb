/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/connection.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/process.h"
#include "gate/gate.h"
#include "shim/shim.h"
#include "daemon/containers/attach.h"
#include "daemon/state/admit.h"
#include "daemon/state/events.h"
#include "daemon/state/goals.h"
#include "daemon/state/mig.h"
#include "daemon/state/preloads.h"
#include "daemon/state/shims.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

enum {
        LIMIT_SEC = 60,
        FIRST_SEC = 10, /* until the first message, at attach.sock the token, has come: peers send it at once */
};

uint64_t connection_sender(enum connection_kind kind, uid_t uid)
{
        return kind == CONNECTION_ATTACH ? daemon_sender_inside(uid) : daemon_sender(uid);
}

/* Root of the machine is trusted; root of a container is not. */
bool connection_is_late(enum connection_kind kind, uid_t uid)
{
        return (uid != 0 || kind == CONNECTION_ATTACH) && descriptors_are_late(connection_sender(kind, uid));
}

void connection_drop(struct connection *connection)
{
        struct daemon *daemon = connection->daemon;
        struct connection **at = &daemon->connections;

        while (*at != connection)
                at = &(*at)->next;
        *at = connection->next;
        daemon->n_connections--;
        loop_drop(daemon->loop, &connection->source);
        descriptors_drop(connection->source.fd, connection_sender(connection->kind, connection->peer.uid));
        if (connection->tenant)
                admit_undo(daemon, connection->tenant);
        attach_undo(daemon, connection->attaching);
        pending_forget(daemon, &connection->asker);
        free(connection);
}

static const char *code_name(int code)
{
        switch (code) {
        case -ENOSPC:
                return "ENOSPC";
        case -EEXIST:
                return "EEXIST";
        case -EPERM:
                return "EPERM";
        case -ENODEV:
                return "ENODEV";
        default:
                return "EINVAL";
        }
}

static void send_refused(struct connection *connection, int code, const char *text)
{
        json_t *body = message_new("refused");

        (void)json_object_set_new(body, "code", json_string(code_name(code)));
        (void)json_object_set_new(body, "text", json_string(text));
        (void)message_send(connection->source.fd, body, NULL, 0);
}

static void connection_refuse(struct connection *connection, int code, const char *text)
{
        send_refused(connection, code, text);
        event_emit(connection->daemon, EVENT_LEASE_REFUSED, NULL, -1, "user %u: %s", connection->peer.uid, text);
}

/* tenant NULL: a container that may start without a lease. env, mps: consumed; NULL: none is sent. */
static void send_granted(struct connection *connection, const struct tenant *tenant, json_t *env, json_t *mps)
{
        json_t *body = message_new("granted");

        (void)json_object_set_new(body, "tenant", tenant ? json_string(tenant->lease.tenant) : json_null());
        if (env)
                (void)json_object_set_new(body, "env", env);
        if (mps)
                (void)json_object_set_new(body, "mps", mps);
        (void)message_send(connection->source.fd, body, NULL, 0);
}

static void withdraw_lease(struct connection *connection)
{
        if (connection->tenant)
                admit_undo(connection->daemon, connection->tenant);
        connection->tenant = NULL;
        connection->is_waiting = false;
}

/* ---- lease ------------------------------------------------------------------------------------- */

static void answer_lease(struct connection *connection)
{
        const struct message_lease *lease = &connection->tenant->lease;
        const char *why = mps_wait(connection->daemon, connection->tenant);
        json_t *env;

        connection->is_waiting = !why;
        if (!why)
                return;
        if (*why) {
                connection_refuse(connection, -EPERM, why);
                withdraw_lease(connection);
                return;
        }
        env = json_object();
        if (message_lease_is_client(lease))
                mps_environment(connection->daemon, lease, env);
        if (message_lease_is_mig(lease))
                mig_environment(lease, env);
        send_granted(connection, connection->tenant, env, NULL);
}

/* A tenant without a shim: the socket is its own from here on, unless its life is a directory's. */
static void start_preload(struct connection *connection, const struct message_request *request)
{
        struct err err = { 0 };
        int fd = connection->source.fd, r;

        loop_drop(connection->daemon->loop, &connection->source);
        r = preloads_start(connection->daemon, connection->tenant, request, fd, &err);
        if (r < 0) {
                connection_refuse(connection, r, err.text);
                return;
        }
        connection->tenant = NULL;
        if (!request->directory[0])
                connection->source.fd = -1;
}

/* A lease of this machine would hold nobody on another: a gate knows its own driver only. */
static int check_machine(const struct message_request *request, struct err *err)
{
        char ours[GPU_MACHINE];

        if (request->directory[0]) /* the container that gets it may be on it; root says so */
                return 0;
        gpu_machine(ours);
        if (!strcmp(ours, request->machine) && strcmp(ours, "?") != 0)
                return 0;
        return err_say(err, -EPERM,
                       "the caller is on %s, this daemon on %s: name the daemon of that machine with --dir",
                       request->machine[0] ? "another simulated machine" : "the machine itself",
                       ours[0] ? "a simulated one" : "the machine itself");
}

/* True: drop the connection. */
static bool on_lease(struct connection *connection, const struct message *message)
{
        struct message_request request;
        const char *field = "";
        struct err err = { 0 };
        int r;

        withdraw_lease(connection); /* that of an earlier request */
        r = message_request_parse(message->body, &request, &field);
        if (r < 0)
                r = err_say(&err, -EINVAL, "the request's '%s' is too long or out of range", field);
        else if ((r = check_machine(&request, &err)) == 0)
                r = admit(connection->daemon, &request, connection->peer.uid, NULL, &connection->tenant, &err);
        if (r < 0) {
                connection_refuse(connection, r, err.text);
                return false;
        }
        daemon_divide(connection->daemon);
        if (request.enforcement == ENFORCEMENT_PRELOAD) {
                start_preload(connection, &request);
                return true;
        }
        mps_tick(connection->daemon);
        answer_lease(connection);
        return false;
}

/* The shim gets copies of both descriptors, and the tenant is the shim's from here on. */
static void on_listener(struct connection *connection, const struct message *message)
{
        int listener = message_fd(message, 0), record = message_fd(message, 1);
        struct err err = { 0 };
        int r = -EINVAL;

        if (listener < 0 || !connection->tenant || connection->is_waiting)
                (void)err_say(&err, r, "a listener belongs behind a granted lease");
        else if (!shim_is_listener(listener)) /* before a process is started for it */
                (void)err_say(&err, r, "what was sent as the tenant's listener is none");
        else if (record >= 0 && !descriptors_is_plain(record)) /* which a child closes, for which this loop waits */
                (void)err_say(&err, r,
                              "--record: not a plain file on a file system that is mounted here and no FUSE: name one");
        else
                r = shims_start(connection->daemon, connection->tenant, listener, connection->source.fd, -1, record,
                                &err);
        if (r < 0)
                connection_refuse(connection, r, err.text);
        else
                connection->tenant = NULL;
}

/* ---- container --------------------------------------------------------------------------------- */

static void answer_container(struct connection *connection, int r, const struct tenant *tenant, const char *why)
{
        if (r < 0)
                send_refused(connection, r, why);
        else
                send_granted(connection, tenant, NULL,
                             tenant && tenant->lease.team ? mps_for_container(connection->daemon, &tenant->lease) :
                                                            NULL);
}

static void on_pending(struct pending_asker *asker, int r, const struct tenant *tenant, const char *why)
{
        answer_container((struct connection *)((char *)asker - offsetof(struct connection, asker)), r, tenant, why);
}

static int read_container(const struct connection *connection, const struct message *message, struct oci_container *ret,
                          struct err *err)
{
        _cleanup_(freep) char *text = json_dumps(json_object_get(message->body, "state"), JSON_COMPACT);
        const char *wrong = "JSON";

        if (!daemon_is_master(connection->daemon, connection->peer.uid))
                return err_say(err, -EPERM,
                               "containers are announced by their runtime, as root or as the daemon's user");
        if (!text || oci_state_parse(text, strlen(text), ret, &wrong) != 0)
                return err_say(err, -EINVAL, "what the hook sent is no state of a container (%s)", wrong);
        if (!process_is_near(connection->peer.pid, connection->peer.uid)) /* numbers of another PID namespace */
                ret->pid = ret->process = 0;
        return 0;
}

/* pending.c emits the events of its refusals itself. */
static void on_container(struct connection *connection, const struct message *message)
{
        static struct oci_container container; /* large; the loop's */
        const struct tenant *tenant = NULL;
        struct err err = { 0 };
        int r = read_container(connection, message, &container, &err);

        if (r < 0) {
                connection_refuse(connection, r, err.text);
                return;
        }
        if (!strcmp(container.status, "stopped")) {
                pending_drop(connection->daemon, container.id);
                send_granted(connection, NULL, NULL, NULL);
                return;
        }
        r = pending_ask(connection->daemon, &container, connection->peer.uid, &connection->asker, &tenant, &err);
        connection->is_hook = r == PENDING_E_LATER;
        if (r != PENDING_E_LATER)
                answer_container(connection, r, tenant, err.text);
}

/* ---- messages ---------------------------------------------------------------------------------- */

/* The socket of a tenant that comes back; it is the tenant's on success. */
static void on_return(struct connection *connection, struct message *message)
{
        int fd = connection->source.fd, r;

        loop_drop(connection->daemon->loop, &connection->source);
        if (connection->kind == CONNECTION_SHIM) {
                r = shims_return(connection->daemon, message, fd, connection->peer.pid);
                if (r == 0)
                        goals_recheck(connection->daemon, connection->peer.pid);
        } else
                r = preloads_return(connection->daemon, message, fd, &connection->peer);
        if (r == 0)
                connection->source.fd = -1;
}

/* True: drop the connection. */
static bool connection_handle(struct connection *connection, struct message *message)
{
        const char *type = message_type(message);

        if (connection->kind == CONNECTION_ATTACH)
                return attach_handle(connection->daemon, connection->source.fd, &connection->attaching, message);
        if (connection->kind == CONNECTION_SHIM || !strcmp(type, "return")) {
                on_return(connection, message);
                return true;
        }
        if (!strcmp(type, "lease"))
                return on_lease(connection, message);
        if (!strcmp(type, "listener")) {
                on_listener(connection, message);
                return true;
        }
        if (!strcmp(type, "container"))
                on_container(connection, message);
        return false;
}

/* How many descriptors a message may bring. */
static size_t n_wanted(enum connection_kind kind, const char *type)
{
        if (kind == CONNECTION_SHIM)
                return MESSAGE_FDS; /* ours */
        if (!strcmp(type, "listener"))
                return kind == CONNECTION_ATTACH ? 1 : 2;
        return !strcmp(type, "return") ? 2 : 0;
}

/* Whoever sends descriptors that nobody wants is not heard any more. */
static void on_message(struct loop_source *source, uint32_t events)
{
        struct connection *connection = source->context;
        uint64_t sender = connection_sender(connection->kind, connection->peer.uid);
        bool is_over = connection_is_late(connection->kind, connection->peer.uid);
        struct message message;

        (void)events;
        if (!is_over) {
                int r = message_receive_from(source->fd, sender, &message);

                is_over = r != MESSAGE_OK && r != MESSAGE_E_NONE;
                if (r == MESSAGE_OK) {
                        connection->has_spoken = true;
                        is_over = message_keep_fds(&message, n_wanted(connection->kind, message_type(&message)));
                        is_over = is_over || connection_handle(connection, &message) || message_has_fd(&message);
                        message_done(&message);
                }
        }
        if (is_over)
                connection_drop(connection);
}

void connection_new(struct daemon *daemon, enum connection_kind kind, int socket, const struct ucred *peer)
{
        struct connection *connection = calloc(1, sizeof(*connection));

        if (!connection) {
                descriptors_drop(socket, connection_sender(kind, peer->uid));
                return;
        }
        *connection = (struct connection){ .next = daemon->connections,
                                           .daemon = daemon,
                                           .source = { .fd = socket, .ready = on_message, .context = connection },
                                           .asker = { .answer = on_pending },
                                           .peer = *peer,
                                           .kind = kind,
                                           .since = clock_now() };
        daemon->connections = connection;
        daemon->n_connections++;
        if (loop_add(daemon->loop, &connection->source, EPOLLIN) < 0)
                connection_drop(connection);
}

static nsec time_limit(const struct connection *connection)
{
        if (!connection->has_spoken || (connection->kind == CONNECTION_ATTACH && !connection->attaching))
                return FIRST_SEC * NSEC_PER_SEC;
        return LIMIT_SEC * NSEC_PER_SEC + (connection->is_hook ? connection->daemon->settings.patience : 0);
}

void connections_tick(struct daemon *daemon, nsec now)
{
        for (struct connection *c = daemon->connections, *next; c; c = next) {
                next = c->next;
                if (c->is_waiting)
                        answer_lease(c);
                if (now - c->since > time_limit(c))
                        connection_drop(c);
        }
}

void connections_drop(struct daemon *daemon)
{
        while (daemon->connections)
                connection_drop(daemon->connections);
}
