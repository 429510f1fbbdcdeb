/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of a shim. It never waits for a peer: a message that does not fit into the socket is dropped, and the
 * peer reads the control block or the report instead; but how a move has ended is said until it is sent. Events come
 * from the gate's threads, all else from the main one.
 */
#include "shim/inside.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "net/socket.h"
#include "shim/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define EVENT_PERIOD (100 * NSEC_PER_MSEC)

/* The lock is held. The main thread notices a peer that has hung up. */
static int peer_send(int socket, json_t *body, const int *fds, size_t n_fds)
{
        if (socket < 0) {
                json_decref(body);
                return MESSAGE_E_CLOSED;
        }
        return message_send(socket, body, fds, n_fds);
}

/* The lock is held. */
static void peers_send(struct shim *shim, json_t *body)
{
        (void)peer_send(shim->run, json_deep_copy(body), NULL, 0);
        (void)peer_send(shim->daemon, body, NULL, 0);
}

void talk_event(void *context, enum event_kind event, pid_t process, const char *detail)
{
        struct shim *shim = context;
        nsec now = clock_now();
        json_t *body;
        LOCKED(&shim->talk_lock);

        if (shim->events[event].sent_at && now - shim->events[event].sent_at < EVENT_PERIOD) {
                shim->events[event].n_unsent++;
                return;
        }
        body = message_new("event");
        if (!body)
                return;
        (void)json_object_set_new(body, "name", json_string(gate_event_name(event)));
        (void)json_object_set_new(body, "level", json_string(gate_event_level(event)));
        (void)json_object_set_new(body, "line", json_string(gate_event_line(event)));
        (void)json_object_set_new(body, "tenant", json_string(shim->terms.tenant));
        (void)json_object_set_new(body, "process", json_integer(process));
        (void)json_object_set_new(body, "text", json_string(detail));
        (void)json_object_set_new(body, "untold", json_integer((json_int_t)shim->events[event].n_unsent));
        shim->events[event].sent_at = now;
        shim->events[event].n_unsent = 0;
        peers_send(shim, body);
}

void talk_failed(struct shim *shim, const char *text)
{
        json_t *body = message_new("failed");
        LOCKED(&shim->talk_lock);

        (void)json_object_set_new(body, "tenant", json_string(shim->terms.tenant));
        (void)json_object_set_new(body, "text", json_string(text));
        peers_send(shim, body);
}

/* A shim that dies while its tenant's memory is away takes that with it, and `run` knows all of the tenant's processes.
 * One that does not read is told with the next look. */
void talk_away(struct shim *shim)
{
        const struct control_suspension *suspension = &shim->control->suspension;
        bool is_away =
                mover_is_leaving(&shim->mover) || gate_is_moved(shim->gate) || (suspension->state && suspension->n);
        json_t *body;
        LOCKED(&shim->talk_lock);

        if (is_away == shim->is_away_told || shim->run < 0)
                return;
        body = message_new("away");
        (void)json_object_set_new(body, "is_away", json_boolean(is_away));
        if (peer_send(shim->run, body, NULL, 0) == MESSAGE_OK)
                shim->is_away_told = is_away;
}

/* ---- the daemon ---------------------------------------------------------------------------------- */

static bool hello_send(struct shim *shim, int socket)
{
        json_t *body = message_new("hello"), *lease = message_lease_new(&shim->terms);

        (void)json_object_set_new(body, "tenant", json_string(shim->terms.tenant));
        (void)json_object_set_new(body, "keeper", json_integer(getpid()));
        (void)json_object_set_new(body, "lease", lease);
        return peer_send(socket, body, &shim->control_block_fd, 1) == MESSAGE_OK;
}

bool talk_hello(struct shim *shim)
{
        LOCKED(&shim->talk_lock);

        return hello_send(shim, shim->daemon);
}

bool talk_reconnect(struct shim *shim)
{
        int fd = socket_connect(SOCK_SEQPACKET | SOCK_NONBLOCK, 0, "%s/keeper.sock", shim->dir);
        LOCKED(&shim->talk_lock);

        if (fd >= 0 && !hello_send(shim, fd))
                closep(&fd);
        shim->daemon = fd < 0 ? -1 : fd;
        return fd >= 0;
}

static void hang_up(struct shim *shim, int *socket)
{
        LOCKED(&shim->talk_lock);

        descriptors_drop(TAKE_FD(*socket), DESCRIPTORS_OURS);
}

/* "mem": { "0": bytes, ... }. NULL: it fits the lease; otherwise the reason, and nothing is changed. */
static const char *check_memory(const struct shim *shim, const json_t *memory)
{
        const char *name;
        const json_t *size;

        json_object_foreach ((json_t *)(uintptr_t)memory, name, size) {
                uint64_t index;

                if (number_parse(name, &index) < 0 || index >= shim->lease.n_devices ||
                    !shim->lease.devices[index].is_granted)
                        return "the lease has no such device";
                if (!json_is_integer(size) || json_integer_value(size) < 0)
                        return "not a size";
        }
        return NULL;
}

static void set_memory(struct shim *shim, const json_t *memory)
{
        const char *name;
        const json_t *size;

        json_object_foreach ((json_t *)(uintptr_t)memory, name, size) {
                uint64_t index = 0;

                (void)number_parse(name, &index);
                shim->terms.devices[index].quota = (bytes)json_integer_value(size);
                gate_quota_set(shim->gate, (unsigned int)index, shim->terms.devices[index].quota);
        }
}

/* Share, cap and class are in the control block; the copy here is for the next daemon. */
static void set_terms(struct shim *shim, const json_t *body)
{
        int64_t host = message_number(body, "host_bytes", -1);
        int64_t share = message_number(body, "share", shim->terms.share);
        int64_t cap = message_number(body, "cap", shim->terms.cap);
        int64_t goal = message_number(body, "latency_us", shim->terms.goal / NSEC_PER_USEC);
        int64_t sleep = message_number(body, "sleep_after_us", shim->terms.sleep_after / NSEC_PER_USEC);
        int64_t host_swap = message_number(body, "host_swap_bytes", (int64_t)shim->terms.host_swap);

        if (host >= 0) {
                shim->terms.host = (bytes)host;
                gate_host_set(shim->gate, (bytes)host);
        }
        if (share >= 0 && share <= TURNS_WHOLE)
                shim->terms.share = (permille)share;
        if (cap > 0 && cap <= TURNS_WHOLE)
                shim->terms.cap = (permille)cap;
        if (goal >= 0 && goal <= TURNS_GOAL_MOST / NSEC_PER_USEC)
                shim->terms.goal = goal * NSEC_PER_USEC;
        if (sleep >= 0 && sleep <= MESSAGE_SLEEP_MOST / NSEC_PER_USEC)
                shim->terms.sleep_after = sleep * NSEC_PER_USEC;
        if (host_swap >= 0)
                shim->terms.host_swap = (bytes)host_swap;
        (void)turns_class_parse(message_text(body, "class", ""), &shim->terms.class);
}

static void on_set(struct shim *shim, const json_t *body)
{
        const json_t *memory = json_object_get(body, "mem");
        const char *wrong = check_memory(shim, memory);
        json_t *answer = message_new("changed");

        if (!wrong) {
                set_memory(shim, memory);
                set_terms(shim, body);
        }
        (void)json_object_set_new(answer, "serial", json_integer(message_number(body, "serial", 0)));
        (void)json_object_set_new(answer, "ok", json_boolean(!wrong));
        (void)json_object_set_new(answer, "text", json_string(wrong ? wrong : ""));
        {
                LOCKED(&shim->talk_lock);
                (void)peer_send(shim->daemon, answer, NULL, 0);
        }
}

/* The runtime has put another process into the container. A gate that is full, or has ended, closes the listener: then
 * that process has no GPU. */
static void on_join(struct shim *shim, struct message *message)
{
        int listener = message_take_fd(message, 0);

        if (listener >= 0 && gate_join(shim->gate, listener) < 0)
                (void)close(listener);
}

/* ---- moves: what the daemon asks for, and how it ended --------------------------------------------------- */

static const char *const outcomes[] = { [GATE_MOVE_DONE] = "done",
                                        [GATE_MOVE_CANNOT] = "cannot",
                                        [GATE_MOVE_AS_BEFORE] = "as-before",
                                        [GATE_MOVE_LOST] = "lost",
                                        [GATE_MOVE_GONE] = "gone" };

/* False: the daemon does not read now, or is not there. */
static bool moved_send(struct shim *shim, uint64_t serial, const struct gate_moved *moved)
{
        json_t *body = message_new("moved");
        LOCKED(&shim->talk_lock);

        (void)json_object_set_new(body, "serial", json_integer((json_int_t)serial));
        (void)json_object_set_new(body, "outcome", json_string(outcomes[moved->outcome]));
        (void)json_object_set_new(body, "text", json_string(moved->text));
        (void)json_object_set_new(body, "bytes", json_integer((json_int_t)moved->size));
        (void)json_object_set_new(body, "pieces", json_integer((json_int_t)moved->n));
        (void)json_object_set_new(body, "stays", json_integer((json_int_t)moved->stays));
        (void)json_object_set_new(body, "prepared_us", json_integer(moved->prepared / NSEC_PER_USEC));
        (void)json_object_set_new(body, "copied_us", json_integer(moved->copied / NSEC_PER_USEC));
        (void)json_object_set_new(body, "changed_us", json_integer(moved->changed / NSEC_PER_USEC));
        return peer_send(shim->daemon, body, NULL, 0) == MESSAGE_OK;
}

void talk_moved(struct shim *shim)
{
        if (!shim->owes_moved)
                return;
        shim->control->move.is_away = gate_is_moved(shim->gate);
        control_block_notify(shim->control);
        /* a next way, or one that has begun: a daemon asked that is not there any more */
        shim->owes_moved = !shim->mover.has_next && shim->mover.is_told &&
                           !moved_send(shim, shim->mover.way.serial, &shim->mover.moved);
}

static void on_move(struct shim *shim, const json_t *body)
{
        struct mover_way way = { .serial = (uint64_t)message_number(body, "serial", 0),
                                 .is_out = message_flag(body, "out", false),
                                 .is_steered = message_flag(body, "steered", false),
                                 .part = (unsigned int)message_number(body, "part", 0),
                                 .bound = shim->terms.host_swap };
        int r;

        shim->owes_moved &= shim->mover.has_thread; /* else that is of a daemon before */
        mover_announce(&shim->mover, &way);
        talk_away(shim); /* before anything of it is away */
        r = mover_start(&shim->mover, &way);
        if (r == 0)
                return;
        shim->mover.way = way;
        shim->mover.moved = (struct gate_moved){ .outcome = GATE_MOVE_AS_BEFORE };
        (void)snprintf(shim->mover.moved.text, sizeof(shim->mover.moved.text), "starting a move: %s", strerror(-r));
        shim->owes_moved = shim->mover.is_told = true;
        talk_moved(shim);
}

/* From the daemon to `sublet run`: a device is lost, for example. */
static void event_pass_on(struct shim *shim, json_t *body)
{
        LOCKED(&shim->talk_lock);

        (void)peer_send(shim->run, json_incref(body), NULL, 0);
}

void talk_daemon(struct shim *shim)
{
        _cleanup_(message_done) struct message message = { 0 };
        int r = message_receive(shim->daemon, &message);

        if (r == MESSAGE_E_CLOSED || (r < 0 && r != -EPROTO))
                hang_up(shim, &shim->daemon);
        else if (r == MESSAGE_OK && !strcmp(message_type(&message), "set"))
                on_set(shim, message.body);
        else if (r == MESSAGE_OK && !strcmp(message_type(&message), "join"))
                on_join(shim, &message);
        else if (r == MESSAGE_OK && !strcmp(message_type(&message), "move"))
                on_move(shim, message.body);
        else if (r == MESSAGE_OK && !strcmp(message_type(&message), "room"))
                mover_keep(&shim->mover, (bytes)message_number(message.body, "bytes", 0));
        else if (r == MESSAGE_OK && !strcmp(message_type(&message), "end"))
                shim_end_tenant(shim);
        else if (r == MESSAGE_OK && !strcmp(message_type(&message), "event"))
                event_pass_on(shim, message.body);
}

/* ---- `sublet run` -------------------------------------------------------------------------------- */

/* It sends nothing and lasts as long as its command. If it hangs up first, it was killed, and its tenant ends with it
 * (run/with_daemon.c). What sends descriptors that do not close is no `sublet run`. */
void talk_run(struct shim *shim)
{
        _cleanup_(message_done) struct message message = { 0 };
        int r = message_receive(shim->run, &message);

        if (r != MESSAGE_E_CLOSED && (r >= 0 || r == -EPROTO) && !descriptors_are_late(DESCRIPTORS_OURS))
                return;
        hang_up(shim, &shim->run);
        shim_end_tenant(shim);
}

/* ---- the end ------------------------------------------------------------------------------------- */

/* The lock is held. The daemon first: when `sublet run` ends, the name and the memory must be free (shims_settle). */
static bool ended_send(struct shim *shim, json_t *report)
{
        json_t *ended = message_new("ended"), *body = message_new("report");
        bool is_sent;

        (void)json_object_set_new(ended, "tenant", json_string(shim->terms.tenant));
        (void)json_object_set(ended, "report", report);
        (void)json_object_update(body, report);
        is_sent = peer_send(shim->daemon, ended, NULL, 0) == MESSAGE_OK;
        (void)peer_send(shim->run, body, NULL, 0);
        descriptors_drop(TAKE_FD(shim->run), DESCRIPTORS_OURS);
        return is_sent;
}

bool talk_ended(struct shim *shim, nsec elapsed)
{
        struct report what = { .tenant = shim->terms.tenant, .lease = &shim->lease, .elapsed = elapsed };
        json_t *report;
        bool is_sent;

        gate_stats(shim->gate, &what.stats);
        report = report_new(&what);
        {
                LOCKED(&shim->talk_lock);
                is_sent = ended_send(shim, report);
        }
        json_decref(report);
        return is_sent;
}
