/*
 * The sockets at which others come in: tenant.sock, where a command's supervisor asks for a lease, and a container's hook;
 * keeper.sock, where keepers come back to a new daemon; and seccomp.sock, which is the agent's (agent.c).
 *
 * A visitor is a connection that is nobody's yet. At tenant.sock it says «lease», is granted or refused, and
 * with «listener» its socket becomes the keeper's; if it hangs up before, the lease is withdrawn. A hook says «container»,
 * and what it is granted is kept for the container when the hook has gone (arrivals.h). At
 * keeper.sock its first word is «hello», and the socket is the tenant's. Anybody may come: a visitor costs
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
        VISITORS_MAX = 512,
        VISITORS_SPARE = 128, /* of them, for root's: hooks, runtimes */
        VISITORS_PER_USER = 64,
        ATTACHING_MAX = 256,
        PATIENCE_SEC = 60,
        ATTACHING_SEC = 10, /* until the token is said: a library says it at once */
        READY_SEC = 8,      /* run waits 10 for the answer */
};

struct visitor {
        struct visitor *next;
        struct daemon *daemon;
        struct loop_source source; /* owns its descriptor */
        struct pending_asker asker;
        struct ucred who;
        bool is_keeper, is_attach;
        uint64_t attaching;    /* the tenancy whose process it is, at attach.sock */
        struct tenant *tenant; /* admitted, not started */
        bool is_waiting;       /* admitted, and told when the device is ready for it */
        bool is_hook;          /* its container waits for what is allocated to it; --patience bounds that */
        nsec since;
};

static struct door {
        const char *name;
        mode_t mode;
        int type;
        bool is_keepers, is_agents, is_attach;
        struct loop_source source;
} doors[] = {
        { .name = "tenant.sock", .mode = 0666, .type = SOCK_SEQPACKET, .source = { .fd = -1 } },
        { .name = "attach.sock", .mode = 0666, .type = SOCK_SEQPACKET, .is_attach = true, .source = { .fd = -1 } },
        { .name = "keeper.sock", .mode = 0600, .type = SOCK_SEQPACKET, .is_keepers = true, .source = { .fd = -1 } },
        { .name = "seccomp.sock", .mode = 0600, .type = SOCK_STREAM, .is_agents = true, .source = { .fd = -1 } },
};

static void show_out(struct visitor *visitor)
{
        struct daemon *daemon = visitor->daemon;
        struct visitor **at = &daemon->visitors;

        while (*at != visitor)
                at = &(*at)->next;
        *at = visitor->next;
        daemon->n_visitors--;
        loop_drop(daemon->loop, &visitor->source);
        closep(&visitor->source.fd);
        if (visitor->tenant)
                admit_undo(daemon, visitor->tenant);
        attach_undo(daemon, visitor->attaching);
        arrivals_forget(daemon, &visitor->asker);
        free(visitor);
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

static void say_refused(struct visitor *visitor, int code, const char *text)
{
        json_t *body = message_new("refused");

        (void)json_object_set_new(body, "code", json_string(code_name(code)));
        (void)json_object_set_new(body, "text", json_string(text));
        (void)message_send(visitor->source.fd, body, NULL, 0);
}

static void refuse(struct visitor *visitor, int code, const char *text)
{
        say_refused(visitor, code, text);
        event_tell(visitor->daemon, GATE_LEASE_REFUSED, NULL, -1, "user %u: %s", visitor->who.uid, text);
}

static void grant(struct visitor *visitor)
{
        json_t *body = message_new("granted");

        json_t *env = json_object();

        (void)json_object_set_new(body, "tenant", json_string(visitor->tenant->lease.tenant));
        if (message_lease_is_spatial(&visitor->tenant->lease))
                mps_environment(visitor->daemon, &visitor->tenant->lease, env);
        if (message_lease_is_mig(&visitor->tenant->lease))
                mig_environment(&visitor->tenant->lease, env);
        (void)json_object_set_new(body, "env", env);
        (void)message_send(visitor->source.fd, body, NULL, 0);
}

/* No keeper serves it: it has its page and region, and its socket is its life. True: the visitor is done with. */
static bool give_page(struct visitor *visitor, const struct message_request *request)
{
        struct err err = { 0 };
        int fd = visitor->source.fd, r;

        loop_drop(visitor->daemon->loop, &visitor->source);
        r = preloads_start(visitor->daemon, visitor->tenant, request, fd, &err);
        if (r < 0) {
                refuse(visitor, r, err.text);
                return true; /* and the lease is withdrawn */
        }
        visitor->tenant = NULL;
        if (!request->place[0])
                visitor->source.fd = -1;
        return true;
}

/* An MPS server has to be there before its client. Not answered yet: NULL; why not: a text; else "". */
static const char *is_ready(const struct visitor *visitor)
{
        const struct daemon *daemon = visitor->daemon;

        if (!message_lease_is_spatial(&visitor->tenant->lease))
                return "";
        for (unsigned int i = 0; i < daemon->n_devices; i++) {
                if (!tenant_has(visitor->tenant, i) || mps_is_ready(daemon, i))
                        continue;
                if (daemon->devices[i].mps.failure[0])
                        return daemon->devices[i].mps.failure;
                return clock_now() - visitor->tenant->state_since > READY_SEC * NSEC_PER_SEC ?
                               "nvidia-cuda-mps-control does not get ready; its log is in DIR/mps" :
                               NULL;
        }
        return "";
}

static void answer(struct visitor *visitor)
{
        const char *why = is_ready(visitor);

        visitor->is_waiting = !why;
        if (!why)
                return;
        if (!*why) {
                grant(visitor);
                return;
        }
        refuse(visitor, -EPERM, why);
        admit_undo(visitor->daemon, visitor->tenant);
        visitor->tenant = NULL;
}

/* True: the visitor is done with. */
static bool on_lease(struct visitor *visitor, const struct message *message)
{
        struct message_request request;
        const char *field = "";
        struct err err = { 0 };
        int r;

        if (visitor->tenant) { /* asks again: the first one is forgotten */
                admit_undo(visitor->daemon, visitor->tenant);
                visitor->tenant = NULL;
        }
        r = message_request_parse(message->body, &request, &field);
        if (r < 0)
                r = err_say(&err, -EINVAL, "the request's '%s' is too long or out of range", field);
        else
                r = admit(visitor->daemon, &request, visitor->who.uid, &visitor->tenant, &err);
        if (r < 0) {
                refuse(visitor, r, err.text);
                return false;
        }
        daemon_divide(visitor->daemon);
        if (request.plane == PLANE_PRELOAD)
                return give_page(visitor, &request);
        mps_tick(visitor->daemon);
        answer(visitor);
        return false;
}

/* ---- a container's hook -------------------------------------------------------------------------- */

static bool is_master(const struct daemon *daemon, uid_t uid)
{
        return uid == 0 || uid == daemon->uid;
}

/* tenant NULL: it may start, and is leased nothing. */
static void say_granted(struct visitor *visitor, const struct tenant *tenant)
{
        json_t *body = message_new("granted");

        (void)json_object_set_new(body, "tenant", tenant ? json_string(tenant->lease.tenant) : json_null());
        (void)message_send(visitor->source.fd, body, NULL, 0);
}

static void answer_container(struct visitor *visitor, int r, const struct tenant *tenant, const char *why)
{
        if (r < 0)
                say_refused(visitor, r, why);
        else
                say_granted(visitor, tenant);
}

static void on_pending(struct pending_asker *asker, int r, const struct tenant *tenant, const char *why)
{
        struct visitor *visitor = (struct visitor *)((char *)asker - offsetof(struct visitor, asker));

        answer_container(visitor, r, tenant, why);
}

static int read_container(const struct visitor *visitor, const struct message *message, struct oci_container *ret,
                          struct err *err)
{
        char *text = json_dumps(json_object_get(message->body, "state"), JSON_COMPACT);
        const char *wrong = "JSON";
        int r;

        if (!is_master(visitor->daemon, visitor->who.uid))
                r = err_say(err, -EPERM, "containers are announced by their runtime, as root or as the daemon's user");
        else if (!text || oci_state_parse(text, strlen(text), ret, &wrong) != 0)
                r = err_say(err, -EINVAL, "what the hook sent is no state of a container (%s)", wrong);
        else
                r = 0;
        free(text);
        return r;
}

/* The arrival tells of its refusals itself. */
static void on_container(struct visitor *visitor, const struct message *message)
{
        static struct oci_container container; /* large; the loop's */
        const struct tenant *tenant = NULL;
        struct err err = { 0 };
        int r = read_container(visitor, message, &container, &err);

        if (r < 0) {
                refuse(visitor, r, err.text);
                return;
        }
        if (!strcmp(container.status, "stopped")) {
                arrivals_drop(visitor->daemon, container.id);
                say_granted(visitor, NULL);
                return;
        }
        r = arrivals_ask(visitor->daemon, &container, visitor->who.uid, &visitor->asker, &tenant, &err);
        visitor->is_hook = r == ARRIVAL_E_LATER;
        if (r != ARRIVAL_E_LATER)
                answer_container(visitor, r, tenant, err.text);
}

/* ---- who comes ----------------------------------------------------------------------------------- */

/* The keeper has its own copies; the tenant is its from here on. */
static void on_listener(struct visitor *visitor, struct message *message)
{
        _cleanup_(closep) int listener = message_take_fd(message, 0);
        struct err err = { 0 };
        int r = -EINVAL;

        if (listener < 0 || !visitor->tenant || visitor->is_waiting)
                (void)err_say(&err, r, "a listener belongs behind a granted lease");
        else if (!keeper_is_listener(listener)) /* before a process is started for it */
                (void)err_say(&err, r, "what was sent as the tenant's listener is none");
        else
                r = keepers_start(visitor->daemon, visitor->tenant, listener, visitor->source.fd, -1, &err);
        if (r < 0)
                refuse(visitor, r, err.text);
        else
                visitor->tenant = NULL;
}

/* True: the visitor is done with. */
static bool hear(struct visitor *visitor, struct message *message)
{
        const char *type = message_type(message);

        if (visitor->is_attach)
                return attach_hear(visitor->daemon, visitor->source.fd, &visitor->attaching, message);
        if (visitor->is_keeper) {
                int fd = visitor->source.fd;

                loop_drop(visitor->daemon->loop, &visitor->source);
                if (keepers_return(visitor->daemon, message, fd, visitor->who.pid) == 0)
                        visitor->source.fd = -1;
                return true;
        }
        if (!strcmp(type, "lease"))
                return on_lease(visitor, message);
        if (!strcmp(type, "return")) {
                int fd = visitor->source.fd;

                loop_drop(visitor->daemon->loop, &visitor->source);
                if (preloads_return(visitor->daemon, message, fd, &visitor->who) == 0)
                        visitor->source.fd = -1;
                return true;
        }
        if (!strcmp(type, "container"))
                on_container(visitor, message);
        else if (!strcmp(type, "listener")) {
                on_listener(visitor, message);
                return true;
        }
        return false;
}

static void on_word(struct loop_source *source, uint32_t events)
{
        struct visitor *visitor = source->context;
        struct message message;
        bool is_done;
        int r = message_receive(source->fd, &message);

        (void)events;
        if (r == MESSAGE_E_NONE)
                return;
        if (r != MESSAGE_OK) {
                show_out(visitor);
                return;
        }
        is_done = hear(visitor, &message);
        message_done(&message);
        if (is_done)
                show_out(visitor);
}

/* attach.sock is mounted into containers, and their root is no more than anybody there. */
static bool may_come(const struct daemon *daemon, const struct door *door, const struct ucred *who)
{
        bool is_root = who->uid == 0 && !door->is_attach;
        unsigned int n = 0, n_attaching = 0;

        if (door->is_keepers)
                return who->uid == daemon->uid;
        if (door->is_agents)
                return is_master(daemon, who->uid);
        for (const struct visitor *v = daemon->visitors; v; v = v->next) {
                n += v->who.uid == who->uid && v->is_attach == door->is_attach;
                n_attaching += v->is_attach;
        }
        if (door->is_attach && n_attaching >= ATTACHING_MAX)
                return false;
        return is_root ? daemon->n_visitors < VISITORS_MAX :
                         daemon->n_visitors < VISITORS_MAX - VISITORS_SPARE && n < VISITORS_PER_USER;
}

static void on_knock(struct loop_source *source, uint32_t events)
{
        const struct door *door = (const struct door *)((const char *)source - offsetof(struct door, source));
        _cleanup_(closep) int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct daemon *daemon = source->context;
        struct ucred who = { 0 };
        socklen_t size = sizeof(who);
        struct visitor *visitor;

        (void)events;
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
                loop_drop(daemon->loop, source); /* who waits there would wake us without end; until the next tick */
        if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0 || !may_come(daemon, door, &who))
                return;
        if (door->is_agents) {
                agent_knock(daemon, TAKE_FD(fd), &who);
                return;
        }
        visitor = calloc(1, sizeof(*visitor));
        if (!visitor)
                return;
        *visitor = (struct visitor){ .next = daemon->visitors,
                                     .daemon = daemon,
                                     .source = { .fd = TAKE_FD(fd), .ready = on_word, .context = visitor },
                                     .asker = { .answer = on_pending },
                                     .who = who,
                                     .is_keeper = door->is_keepers,
                                     .is_attach = door->is_attach,
                                     .since = clock_now() };
        daemon->visitors = visitor;
        daemon->n_visitors++;
        if (loop_add(daemon->loop, &visitor->source, EPOLLIN) < 0)
                show_out(visitor);
}

static nsec patience_with(const struct visitor *visitor)
{
        if (visitor->is_attach && !visitor->attaching)
                return ATTACHING_SEC * NSEC_PER_SEC;
        return PATIENCE_SEC * NSEC_PER_SEC + (visitor->is_hook ? visitor->daemon->settings.patience : 0);
}

void doors_tick(struct daemon *daemon)
{
        nsec now = clock_now();

        agent_tick(daemon);
        arrivals_tick(daemon);
        for (struct visitor *v = daemon->visitors, *next; v; v = next) {
                next = v->next;
                if (v->is_waiting)
                        answer(v);
                if (now - v->since > patience_with(v))
                        show_out(v);
        }
        for (size_t i = 0; i < ARRAY_SIZE(doors); i++)
                if (!doors[i].source.is_added && doors[i].source.fd >= 0)
                        (void)loop_add(daemon->loop, &doors[i].source, EPOLLIN);
}

/* A socket of ours, in place of what a daemon before us left. */
static int door_open(struct daemon *daemon, struct door *door, struct err *err)
{
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int r;

        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", daemon->settings.dir, door->name);
        (void)unlink(address.sun_path);
        door->source = (struct loop_source){ .ready = on_knock, .context = daemon };
        door->source.fd = socket(AF_UNIX, door->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (door->source.fd < 0 || bind(door->source.fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
            chmod(address.sun_path, door->mode) < 0 || listen(door->source.fd, SOMAXCONN) < 0)
                return err_set(err, -errno, "listening on %s", address.sun_path);
        r = loop_add(daemon->loop, &door->source, EPOLLIN);
        return r < 0 ? err_set(err, r, "listening on %s", address.sun_path) : 0;
}

int doors_open(struct daemon *daemon, struct err *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(doors); i++) {
                int r = door_open(daemon, &doors[i], err);

                if (r < 0)
                        return r;
        }
        return 0;
}

void doors_close(struct daemon *daemon)
{
        char path[128];

        while (daemon->visitors)
                show_out(daemon->visitors);
        agent_close(daemon);
        arrivals_close(daemon);
        for (size_t i = 0; i < ARRAY_SIZE(doors); i++) {
                loop_drop(daemon->loop, &doors[i].source);
                closep(&doors[i].source.fd);
                (void)snprintf(path, sizeof(path), "%s/%s", daemon->settings.dir, doors[i].name);
                (void)unlink(path);
        }
}
