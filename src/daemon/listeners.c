/*
 * The sockets at which others come in: tenant.sock, where a command's supervisor asks for a lease, and a container's hook;
 * keeper.sock, where shims come back to a new daemon; and seccomp.sock, which is the agent's (agent.c).
 *
 * A connection is a connection that is nobody's yet. At tenant.sock it says «lease», is granted or refused, and
 * with «listener» its socket becomes the shim's; if it hangs up before, the lease is withdrawn. A hook says «container»,
 * and what it is granted is kept for the container when the hook has gone (pending containers.h). At
 * keeper.sock its first word is «hello», and the socket is the tenant's. Anybody may come: a connection costs
 * little, says little, and not for long.
 */
#include "daemon/state/daemon.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/gate.h"
#include "daemon/containers/pending.h"
#include "shim/shim.h"
#include "daemon/state/mig.h"
#include "daemon/containers/agent.h"
#include "daemon/containers/attach.h"
#include "daemon/listeners.h"
#include "daemon/state/admit.h"
#include "daemon/state/events.h"
#include "daemon/state/preloads.h"
#include "daemon/state/shims.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum {
        CONNECTIONS_MAX = 512,
        CONNECTIONS_SPARE = 128, /* of them, for root's: hooks, runtimes */
        CONNECTIONS_PER_USER = 64,
        ATTACHING_MAX = 256,
        PATIENCE_SEC = 60,
        ATTACHING_SEC = 10, /* until the token is said: a library says it at once */
        READY_SEC = 8,      /* run waits 10 for the answer */
};

struct connection {
        struct connection *next;
        struct daemon *daemon;
        struct loop_source source; /* owns its descriptor */
        struct pending_asker asker;
        struct ucred who;
        bool is_shim, is_attach;
        uint64_t attaching;    /* the tenancy whose process it is, at attach.sock */
        struct tenant *tenant; /* admitted, not started */
        bool is_waiting;       /* admitted, and told when the device is ready for it */
        bool is_hook;          /* its container waits for what is allocated to it; --patience bounds that */
        nsec since;
};

static struct listening_socket {
        const char *name;
        mode_t mode;
        int type;
        bool is_shims, is_agents, is_attach;
        struct loop_source source;
} listening_sockets[] = {
        { .name = "tenant.sock", .mode = 0666, .type = SOCK_SEQPACKET, .source = { .fd = -1 } },
        { .name = "attach.sock", .mode = 0666, .type = SOCK_SEQPACKET, .is_attach = true, .source = { .fd = -1 } },
        { .name = "keeper.sock", .mode = 0600, .type = SOCK_SEQPACKET, .is_shims = true, .source = { .fd = -1 } },
        { .name = "seccomp.sock", .mode = 0600, .type = SOCK_STREAM, .is_agents = true, .source = { .fd = -1 } },
};

static void show_out(struct connection *connection)
{
        struct daemon *daemon = connection->daemon;
        struct connection **at = &daemon->connections;

        while (*at != connection)
                at = &(*at)->next;
        *at = connection->next;
        daemon->n_connections--;
        loop_drop(daemon->loop, &connection->source);
        closep(&connection->source.fd);
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

static void say_refused(struct connection *connection, int code, const char *text)
{
        json_t *body = message_new("refused");

        (void)json_object_set_new(body, "code", json_string(code_name(code)));
        (void)json_object_set_new(body, "text", json_string(text));
        (void)message_send(connection->source.fd, body, NULL, 0);
}

static void refuse(struct connection *connection, int code, const char *text)
{
        say_refused(connection, code, text);
        event_emit(connection->daemon, EVENT_LEASE_REFUSED, NULL, -1, "user %u: %s", connection->who.uid, text);
}

static void grant(struct connection *connection)
{
        json_t *body = message_new("granted");

        json_t *env = json_object();

        (void)json_object_set_new(body, "tenant", json_string(connection->tenant->lease.tenant));
        if (message_lease_is_spatial(&connection->tenant->lease))
                mps_environment(connection->daemon, &connection->tenant->lease, env);
        if (message_lease_is_mig(&connection->tenant->lease))
                mig_environment(&connection->tenant->lease, env);
        (void)json_object_set_new(body, "env", env);
        (void)message_send(connection->source.fd, body, NULL, 0);
}

/* No shim serves it: it has its lease descriptor and usage segment, and its socket is its life. True: the connection is done with. */
static bool give_page(struct connection *connection, const struct message_request *request)
{
        struct err err = { 0 };
        int fd = connection->source.fd, r;

        loop_drop(connection->daemon->loop, &connection->source);
        r = preloads_start(connection->daemon, connection->tenant, request, fd, &err);
        if (r < 0) {
                refuse(connection, r, err.text);
                return true; /* and the lease is withdrawn */
        }
        connection->tenant = NULL;
        if (!request->directory[0])
                connection->source.fd = -1;
        return true;
}

/* An MPS server has to be there before its client. Not answered yet: NULL; why not: a text; else "". */
static const char *is_ready(const struct connection *connection)
{
        const struct daemon *daemon = connection->daemon;

        if (!message_lease_is_spatial(&connection->tenant->lease))
                return "";
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                if (!tenant_has(connection->tenant, i) || mps_is_ready(daemon, i))
                        continue;
                if (daemon->devices[i].mps.failure[0])
                        return daemon->devices[i].mps.failure;
                return clock_now() - connection->tenant->state_since > READY_SEC * NSEC_PER_SEC ?
                               "nvidia-cuda-mps-control does not get ready; its log is in DIR/mps" :
                               NULL;
        }
        return "";
}

static void answer(struct connection *connection)
{
        const char *why = is_ready(connection);

        connection->is_waiting = !why;
        if (!why)
                return;
        if (!*why) {
                grant(connection);
                return;
        }
        refuse(connection, -EPERM, why);
        admit_undo(connection->daemon, connection->tenant);
        connection->tenant = NULL;
}

/* True: the connection is done with. */
static bool on_lease(struct connection *connection, const struct message *message)
{
        struct message_request request;
        const char *field = "";
        struct err err = { 0 };
        int r;

        if (connection->tenant) { /* asks again: the first one is forgotten */
                admit_undo(connection->daemon, connection->tenant);
                connection->tenant = NULL;
        }
        r = message_request_parse(message->body, &request, &field);
        if (r < 0)
                r = err_say(&err, -EINVAL, "the request's '%s' is too long or out of range", field);
        else
                r = admit(connection->daemon, &request, connection->who.uid, &connection->tenant, &err);
        if (r < 0) {
                refuse(connection, r, err.text);
                return false;
        }
        daemon_divide(connection->daemon);
        if (request.enforcement == ENFORCEMENT_PRELOAD)
                return give_page(connection, &request);
        mps_tick(connection->daemon);
        answer(connection);
        return false;
}

/* ---- a container's hook -------------------------------------------------------------------------- */

static bool is_master(const struct daemon *daemon, uid_t uid)
{
        return uid == 0 || uid == daemon->uid;
}

/* tenant NULL: it may start, and is leased nothing. */
static void say_granted(struct connection *connection, const struct tenant *tenant)
{
        json_t *body = message_new("granted");

        (void)json_object_set_new(body, "tenant", tenant ? json_string(tenant->lease.tenant) : json_null());
        (void)message_send(connection->source.fd, body, NULL, 0);
}

static void answer_container(struct connection *connection, int r, const struct tenant *tenant, const char *why)
{
        if (r < 0)
                say_refused(connection, r, why);
        else
                say_granted(connection, tenant);
}

static void on_pending(struct pending_asker *asker, int r, const struct tenant *tenant, const char *why)
{
        struct connection *connection = (struct connection *)((char *)asker - offsetof(struct connection, asker));

        answer_container(connection, r, tenant, why);
}

static int read_container(const struct connection *connection, const struct message *message, struct oci_container *ret,
                          struct err *err)
{
        char *text = json_dumps(json_object_get(message->body, "state"), JSON_COMPACT);
        const char *wrong = "JSON";
        int r;

        if (!is_master(connection->daemon, connection->who.uid))
                r = err_say(err, -EPERM, "containers are announced by their runtime, as root or as the daemon's user");
        else if (!text || oci_state_parse(text, strlen(text), ret, &wrong) != 0)
                r = err_say(err, -EINVAL, "what the hook sent is no state of a container (%s)", wrong);
        else
                r = 0;
        free(text);
        return r;
}

/* The pending container tells of its refusals itself. */
static void on_container(struct connection *connection, const struct message *message)
{
        static struct oci_container container; /* large; the loop's */
        const struct tenant *tenant = NULL;
        struct err err = { 0 };
        int r = read_container(connection, message, &container, &err);

        if (r < 0) {
                refuse(connection, r, err.text);
                return;
        }
        if (!strcmp(container.status, "stopped")) {
                pending_drop(connection->daemon, container.id);
                say_granted(connection, NULL);
                return;
        }
        r = pending_ask(connection->daemon, &container, connection->who.uid, &connection->asker, &tenant, &err);
        connection->is_hook = r == PENDING_E_LATER;
        if (r != PENDING_E_LATER)
                answer_container(connection, r, tenant, err.text);
}

/* ---- who comes ----------------------------------------------------------------------------------- */

/* The shim has its own copies; the tenant is its from here on. */
static void on_listener(struct connection *connection, struct message *message)
{
        _cleanup_(closep) int listener = message_take_fd(message, 0);
        struct err err = { 0 };
        int r = -EINVAL;

        if (listener < 0 || !connection->tenant || connection->is_waiting)
                (void)err_say(&err, r, "a listener belongs behind a granted lease");
        else if (!shim_is_listener(listener)) /* before a process is started for it */
                (void)err_say(&err, r, "what was sent as the tenant's listener is none");
        else
                r = shims_start(connection->daemon, connection->tenant, listener, connection->source.fd, -1, &err);
        if (r < 0)
                refuse(connection, r, err.text);
        else
                connection->tenant = NULL;
}

/* True: the connection is done with. */
static bool hear(struct connection *connection, struct message *message)
{
        const char *type = message_type(message);

        if (connection->is_attach)
                return attach_hear(connection->daemon, connection->source.fd, &connection->attaching, message);
        if (connection->is_shim) {
                int fd = connection->source.fd;

                loop_drop(connection->daemon->loop, &connection->source);
                if (shims_return(connection->daemon, message, fd, connection->who.pid) == 0)
                        connection->source.fd = -1;
                return true;
        }
        if (!strcmp(type, "lease"))
                return on_lease(connection, message);
        if (!strcmp(type, "return")) {
                int fd = connection->source.fd;

                loop_drop(connection->daemon->loop, &connection->source);
                if (preloads_return(connection->daemon, message, fd, &connection->who) == 0)
                        connection->source.fd = -1;
                return true;
        }
        if (!strcmp(type, "container"))
                on_container(connection, message);
        else if (!strcmp(type, "listener")) {
                on_listener(connection, message);
                return true;
        }
        return false;
}

static void on_word(struct loop_source *source, uint32_t events)
{
        struct connection *connection = source->context;
        struct message message;
        bool is_done;
        int r = message_receive(source->fd, &message);

        (void)events;
        if (r == MESSAGE_E_NONE)
                return;
        if (r != MESSAGE_OK) {
                show_out(connection);
                return;
        }
        is_done = hear(connection, &message);
        message_done(&message);
        if (is_done)
                show_out(connection);
}

/* attach.sock is mounted into containers, and their root is no more than anybody there. */
static bool may_come(const struct daemon *daemon, const struct listening_socket *listening_socket,
                     const struct ucred *who)
{
        bool is_root = who->uid == 0 && !listening_socket->is_attach;
        unsigned int n = 0, n_attaching = 0;

        if (listening_socket->is_shims)
                return who->uid == daemon->uid;
        if (listening_socket->is_agents)
                return is_master(daemon, who->uid);
        for (const struct connection *v = daemon->connections; v; v = v->next) {
                n += v->who.uid == who->uid && v->is_attach == listening_socket->is_attach;
                n_attaching += v->is_attach;
        }
        if (listening_socket->is_attach && n_attaching >= ATTACHING_MAX)
                return false;
        return is_root ? daemon->n_connections < CONNECTIONS_MAX :
                         daemon->n_connections < CONNECTIONS_MAX - CONNECTIONS_SPARE && n < CONNECTIONS_PER_USER;
}

static void on_accept(struct loop_source *source, uint32_t events)
{
        const struct listening_socket *listening_socket =
                (const struct listening_socket *)((const char *)source - offsetof(struct listening_socket, source));
        _cleanup_(closep) int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct daemon *daemon = source->context;
        struct ucred who = { 0 };
        socklen_t size = sizeof(who);
        struct connection *connection;

        (void)events;
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
                loop_drop(daemon->loop, source); /* who waits there would wake us without end; until the next tick */
        if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0 ||
            !may_come(daemon, listening_socket, &who))
                return;
        if (listening_socket->is_agents) {
                agent_accept(daemon, TAKE_FD(fd), &who);
                return;
        }
        connection = calloc(1, sizeof(*connection));
        if (!connection)
                return;
        *connection = (struct connection){ .next = daemon->connections,
                                           .daemon = daemon,
                                           .source = { .fd = TAKE_FD(fd), .ready = on_word, .context = connection },
                                           .asker = { .answer = on_pending },
                                           .who = who,
                                           .is_shim = listening_socket->is_shims,
                                           .is_attach = listening_socket->is_attach,
                                           .since = clock_now() };
        daemon->connections = connection;
        daemon->n_connections++;
        if (loop_add(daemon->loop, &connection->source, EPOLLIN) < 0)
                show_out(connection);
}

static nsec patience_with(const struct connection *connection)
{
        if (connection->is_attach && !connection->attaching)
                return ATTACHING_SEC * NSEC_PER_SEC;
        return PATIENCE_SEC * NSEC_PER_SEC + (connection->is_hook ? connection->daemon->settings.patience : 0);
}

void listeners_tick(struct daemon *daemon)
{
        nsec now = clock_now();

        agent_tick(daemon);
        pending_tick(daemon);
        for (struct connection *v = daemon->connections, *next; v; v = next) {
                next = v->next;
                if (v->is_waiting)
                        answer(v);
                if (now - v->since > patience_with(v))
                        show_out(v);
        }
        for (size_t i = 0; i < ARRAY_SIZE(listening_sockets); i++)
                if (!listening_sockets[i].source.is_added && listening_sockets[i].source.fd >= 0)
                        (void)loop_add(daemon->loop, &listening_sockets[i].source, EPOLLIN);
}

/* A socket of ours, in place of what a daemon before us left. */
static int listening_socket_open(struct daemon *daemon, struct listening_socket *listening_socket, struct err *err)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int r;

        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", daemon->settings.dir,
                       listening_socket->name);
        (void)unlink(address.sun_path);
        listening_socket->source = (struct loop_source){ .ready = on_accept, .context = daemon };
        listening_socket->source.fd = socket(AF_UNIX, listening_socket->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (listening_socket->source.fd < 0 ||
            bind(listening_socket->source.fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
            chmod(address.sun_path, listening_socket->mode) < 0 || listen(listening_socket->source.fd, SOMAXCONN) < 0)
                return err_set(err, -errno, "listening on %s", address.sun_path);
        r = loop_add(daemon->loop, &listening_socket->source, EPOLLIN);
        return r < 0 ? err_set(err, r, "listening on %s", address.sun_path) : 0;
}

int listeners_open(struct daemon *daemon, struct err *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(listening_sockets); i++) {
                int r = listening_socket_open(daemon, &listening_sockets[i], err);

                if (r < 0)
                        return r;
        }
        return 0;
}

void listeners_close(struct daemon *daemon)
{
        char path[128];

        while (daemon->connections)
                show_out(daemon->connections);
        agent_close(daemon);
        pending_close(daemon);
        for (size_t i = 0; i < ARRAY_SIZE(listening_sockets); i++) {
                loop_drop(daemon->loop, &listening_sockets[i].source);
                closep(&listening_sockets[i].source.fd);
                (void)snprintf(path, sizeof(path), "%s/%s", daemon->settings.dir, listening_sockets[i].name);
                (void)unlink(path);
        }
}
