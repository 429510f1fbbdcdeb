/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp.sock: where a container runtime sends a container's notify descriptor. One connection is one container: one
 * JSON object, a containerProcessState, and one descriptor. Runtimes send nothing else and read no answer, so an error
 * becomes an event, and the descriptor is closed: the container runs without a GPU.
 *
 * Root and the daemon's own user may connect (mode 0600, SO_PEERCRED). Even so callers are bounded: CALLERS_MAX at
 * once, OCI_STATE_MAX bytes each, CALL_SEC seconds from the first of them on, and the loop never waits for one. crun
 * connects when it makes a container and sends when that starts, which may be days later: who has sent nothing has no
 * deadline, and the oldest of them gives way to a newcomer where there are too many.
 */
#include "daemon/containers/pending.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/err.h"
#include "base/rights.h"
#include "gate/gate.h"
#include "shim/shim.h"
#include "daemon/containers/agent.h"
#include "daemon/state/events.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
        CALLERS_MAX = 256,
        CALL_SEC = 5,
        PIECE = 16 * 1024,
};

struct caller {
        struct caller *next;
        struct daemon *daemon;
        struct loop_source source; /* owns its descriptor */
        struct ucred peer;
        char *text;
        size_t size;
        int listener; /* -1: not received */
        size_t n_fds; /* received in all, or 2 of more */
        nsec since;   /* when the first byte came; 0: none has */
};

static void caller_drop(struct caller *caller)
{
        struct daemon *daemon = caller->daemon;
        struct caller **at = &daemon->callers;

        while (*at != caller)
                at = &(*at)->next;
        *at = caller->next;
        daemon->n_callers--;
        loop_drop(daemon->loop, &caller->source);
        descriptors_drop(caller->source.fd, daemon_sender(caller->peer.uid));
        descriptors_drop(caller->listener, daemon_sender(caller->peer.uid));
        free(caller->text);
        free(caller);
}

static void caller_refuse(struct caller *caller, const char *why)
{
        event_emit(caller->daemon, EVENT_LEASE_REFUSED, NULL, -1, "process %d at seccomp.sock: %s", caller->peer.pid,
                   why);
        caller_drop(caller);
}

/* How many bytes came; 0: the end; -EAGAIN: no more for now; -errno. */
static ssize_t receive(struct caller *caller)
{
        struct iovec data = { caller->text + caller->size, PIECE };
        struct rights rights;
        ssize_t n = rights_receive(caller->source.fd, &data, 1, caller->listener < 0, MSG_DONTWAIT,
                                   daemon_sender(caller->peer.uid), &rights);

        if (n < 0)
                return n;
        if (!caller->since)
                caller->since = clock_now();
        if (rights.n)
                caller->listener = rights.fds[0];
        caller->n_fds += rights.n + (rights.flags & MSG_CTRUNC ? 1 : 0);
        caller->size += (size_t)n;
        return n;
}

/* One piece; the loop calls again for the rest. */
static ssize_t read_piece(struct caller *caller)
{
        char *text = caller->size <= OCI_STATE_MAX ? realloc(caller->text, caller->size + PIECE) : NULL;

        if (!text)
                return caller->size > OCI_STATE_MAX ? -EMSGSIZE : -ENOMEM;
        caller->text = text;
        return receive(caller);
}

static void caller_finish(struct caller *caller, const struct oci_container *container)
{
        const char *wrong = NULL;

        if (!caller->n_fds)
                wrong = "no descriptor came with the state";
        else if (!shim_is_listener(caller->listener))
                wrong = "what came with the state is no notify descriptor of seccomp";
        if (wrong) {
                caller_refuse(caller, wrong);
                return;
        }
        pending_listener(caller->daemon, container, caller->peer.uid, TAKE_FD(caller->listener));
        caller_drop(caller);
}

/* Only a text that may be whole is parsed, so that a slow caller costs no more than a quick one. */
static bool may_be_whole(const struct caller *caller)
{
        size_t n = caller->size;

        while (n && strchr(" \t\r\n", caller->text[n - 1]))
                n--;
        return n && caller->text[n - 1] == '}';
}

static void parse_state(struct caller *caller, bool is_all)
{
        static struct oci_container container; /* large; the loop's */
        const char *wrong = "";
        char text[128];
        int r;

        if (!is_all && !may_be_whole(caller))
                return;
        r = oci_state_parse(caller->text ? caller->text : "", caller->size, &container, &wrong);
        if (r == OCI_E_NOT_WHOLE && !is_all)
                return;
        if (r == 0) {
                if (!caller->peer.pid) /* the runtime is in a foreign PID namespace: its numbers mean nothing here */
                        container.pid = container.process = 0;
                caller_finish(caller, &container);
                return;
        }
        (void)snprintf(text, sizeof(text), "what came is no state of a container (%s)", wrong);
        caller_refuse(caller, text);
}

static void on_piece(struct loop_source *source, uint32_t events)
{
        struct caller *caller = source->context;
        ssize_t n = read_piece(caller);

        (void)events;
        if (n == -EAGAIN)
                return;
        if (n == -EMSGSIZE)
                caller_refuse(caller, "the state is larger than 256 KiB");
        else if (n < 0)
                caller_drop(caller);
        else if (caller->n_fds > 1)
                caller_refuse(caller, "more than one descriptor came with the state");
        else
                parse_state(caller, n == 0);
}

/* The list has the newest first. */
static void drop_oldest_silent(struct daemon *daemon)
{
        struct caller *found = NULL;

        for (struct caller *c = daemon->callers; c; c = c->next)
                if (!c->since)
                        found = c;
        if (found)
                caller_refuse(found, "nothing came yet, and too many others have connected since");
}

void agent_accept(struct daemon *daemon, int fd, const struct ucred *peer)
{
        struct caller *caller;

        if (daemon->n_callers >= CALLERS_MAX)
                drop_oldest_silent(daemon);
        caller = daemon->n_callers < CALLERS_MAX ? calloc(1, sizeof(*caller)) : NULL;
        if (!caller) {
                descriptors_drop(fd, daemon_sender(peer->uid));
                return;
        }
        *caller = (struct caller){ .next = daemon->callers,
                                   .daemon = daemon,
                                   .source = { .fd = fd, .ready = on_piece, .context = caller },
                                   .peer = *peer,
                                   .listener = -1 };
        daemon->callers = caller;
        daemon->n_callers++;
        if (loop_add(daemon->loop, &caller->source, EPOLLIN) < 0)
                caller_drop(caller);
}

void agent_tick(struct daemon *daemon, nsec now)
{
        for (struct caller *c = daemon->callers, *next; c; c = next) {
                next = c->next;
                if (c->since && now - c->since > CALL_SEC * NSEC_PER_SEC)
                        caller_refuse(c, "the state did not come within 5 s of its beginning");
        }
}

void agent_close(struct daemon *daemon)
{
        while (daemon->callers)
                caller_drop(daemon->callers);
}
