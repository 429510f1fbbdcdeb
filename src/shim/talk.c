/*
 * What a keeper says and hears. It never waits for a peer: what does not fit into a socket is not said, and
 * the peer reads the board or the report instead. Events come from the gate's threads, the rest from the main one.
 */
#include "shim/inside.h"

#include "base/cleanup.h"
#include "shim/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define EVENT_PERIOD (100 * NSEC_PER_MSEC)

static const struct {
        const char *level, *line;
} event_texts[] = {
#define EVENT(name, level, line, meaning) { #level, line },
#include "sublet/events.def"
#undef EVENT
};

/* The lock is held. A peer that has gone is noticed by the main thread. */
static int say(int socket, json_t *body, const int *fds, size_t n_fds)
{
        if (socket < 0) {
                json_decref(body);
                return MESSAGE_E_CLOSED;
        }
        return message_send(socket, body, fds, n_fds);
}

/* Both get a copy of their own. */
static void say_both(struct keeper *keeper, json_t *body)
{
        (void)say(keeper->run, json_deep_copy(body), NULL, 0);
        (void)say(keeper->daemon, body, NULL, 0);
}

void talk_event(void *context, enum gate_event event, pid_t process, const char *detail)
{
        struct keeper *keeper = context;
        nsec now = clock_now();
        json_t *body;
        LOCKED(&keeper->talk_lock);

        if (keeper->events[event].told_at && now - keeper->events[event].told_at < EVENT_PERIOD) {
                keeper->events[event].n_untold++;
                return;
        }
        body = message_new("event");
        if (!body)
                return;
        (void)json_object_set_new(body, "name", json_string(gate_event_name(event)));
        (void)json_object_set_new(body, "level", json_string(event_texts[event].level));
        (void)json_object_set_new(body, "line", json_string(event_texts[event].line));
        (void)json_object_set_new(body, "tenant", json_string(keeper->terms.tenant));
        (void)json_object_set_new(body, "process", json_integer(process));
        (void)json_object_set_new(body, "text", json_string(detail));
        (void)json_object_set_new(body, "untold", json_integer((json_int_t)keeper->events[event].n_untold));
        keeper->events[event].told_at = now;
        keeper->events[event].n_untold = 0;
        say_both(keeper, body);
}

void talk_failed(struct keeper *keeper, const char *text)
{
        json_t *body = message_new("failed");
        LOCKED(&keeper->talk_lock);

        (void)json_object_set_new(body, "tenant", json_string(keeper->terms.tenant));
        (void)json_object_set_new(body, "text", json_string(text));
        say_both(keeper, body);
}

/* ---- the daemon ---------------------------------------------------------------------------------- */

static bool hello(struct keeper *keeper, int socket)
{
        json_t *body = message_new("hello"), *lease = message_lease_new(&keeper->terms);

        (void)json_object_set_new(body, "tenant", json_string(keeper->terms.tenant));
        (void)json_object_set_new(body, "keeper", json_integer(getpid()));
        (void)json_object_set_new(body, "lease", lease);
        return say(socket, body, &keeper->board_fd, 1) == MESSAGE_OK;
}

bool talk_hello(struct keeper *keeper)
{
        LOCKED(&keeper->talk_lock);

        return hello(keeper, keeper->daemon);
}

static int reach(const char *dir)
{
        _cleanup_(closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/keeper.sock", dir);

        if (fd < 0 || n < 0 || (size_t)n >= sizeof(address.sun_path) ||
            connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
                return -ENOENT;
        return TAKE_FD(fd);
}

bool talk_reconnect(struct keeper *keeper)
{
        int fd = reach(keeper->dir);
        LOCKED(&keeper->talk_lock);

        if (fd >= 0 && !hello(keeper, fd))
                closep(&fd);
        keeper->daemon = fd < 0 ? -1 : fd;
        return fd >= 0;
}

static void hang_up(struct keeper *keeper, int *socket)
{
        LOCKED(&keeper->talk_lock);

        closep(socket);
}

/* "mem": { "0": bytes, ... }; what does not fit the lease changes nothing. NULL: fine, or what is wrong. */
static const char *check_memory(const struct keeper *keeper, const json_t *memory)
{
        const char *name;
        const json_t *size;

        json_object_foreach((json_t *)(uintptr_t)memory, name, size)
        {
                uint64_t index;

                if (number_parse(name, &index) < 0 || index >= keeper->lease.n_devices ||
                    !keeper->lease.devices[index].is_granted)
                        return "the lease has no such device";
                if (!json_is_integer(size) || json_integer_value(size) < 0)
                        return "not a size";
        }
        return NULL;
}

static void set_memory(struct keeper *keeper, const json_t *memory)
{
        const char *name;
        const json_t *size;

        json_object_foreach((json_t *)(uintptr_t)memory, name, size)
        {
                uint64_t index = 0;

                (void)number_parse(name, &index);
                keeper->terms.devices[index].quota = (bytes)json_integer_value(size);
                gate_quota_set(keeper->gate, (unsigned int)index, keeper->terms.devices[index].quota);
        }
}

/* Share, cap and class are on the board; here they are kept for the next daemon. */
static void set_terms(struct keeper *keeper, const json_t *body)
{
        int64_t host = message_number(body, "host_bytes", -1);
        int64_t share = message_number(body, "share", keeper->terms.share);
        int64_t cap = message_number(body, "cap", keeper->terms.cap);

        if (host >= 0) {
                keeper->terms.host = (bytes)host;
                gate_host_set(keeper->gate, (bytes)host);
        }
        if (share >= 0 && share <= TURNS_WHOLE)
                keeper->terms.share = (permille)share;
        if (cap > 0 && cap <= TURNS_WHOLE)
                keeper->terms.cap = (permille)cap;
        (void)turns_class_parse(message_text(body, "class", ""), &keeper->terms.class);
}

static void on_set(struct keeper *keeper, const json_t *body)
{
        const json_t *memory = json_object_get(body, "mem");
        const char *wrong = check_memory(keeper, memory);
        json_t *answer = message_new("changed");

        if (!wrong) {
                set_memory(keeper, memory);
                set_terms(keeper, body);
        }
        (void)json_object_set_new(answer, "serial", json_integer(message_number(body, "serial", 0)));
        (void)json_object_set_new(answer, "ok", json_boolean(!wrong));
        (void)json_object_set_new(answer, "text", json_string(wrong ? wrong : ""));
        {
                LOCKED(&keeper->talk_lock);
                (void)say(keeper->daemon, answer, NULL, 0);
        }
}

/* The container's runtime put another process into it. A gate that is full, or over, closes it: that process has no GPU. */
static void on_join(struct keeper *keeper, struct message *message)
{
        int listener = message_take_fd(message, 0);

        if (listener >= 0 && gate_join(keeper->gate, listener) < 0)
                (void)close(listener);
}

/* What the daemon has to say to whoever waits for the tenant: its device is lost, say. */
static void pass_on(struct keeper *keeper, json_t *body)
{
        LOCKED(&keeper->talk_lock);

        (void)say(keeper->run, json_incref(body), NULL, 0);
}

void talk_daemon(struct keeper *keeper)
{
        _cleanup_(message_done) struct message message = { 0 };
        int r = message_receive(keeper->daemon, &message);

        if (r == MESSAGE_E_CLOSED || (r < 0 && r != -EPROTO))
                hang_up(keeper, &keeper->daemon);
        else if (r == MESSAGE_OK && !strcmp(message_type(&message), "set"))
                on_set(keeper, message.body);
        else if (r == MESSAGE_OK && !strcmp(message_type(&message), "join"))
                on_join(keeper, &message);
        else if (r == MESSAGE_OK && !strcmp(message_type(&message), "end"))
                keeper_end_tenant(keeper);
        else if (r == MESSAGE_OK && !strcmp(message_type(&message), "event"))
                pass_on(keeper, message.body);
}

/* ---- `sublet run` -------------------------------------------------------------------------------- */

/* It says nothing, and lasts as long as its command: when it is gone first, it was killed, and its tenant ends with
 * it (run_daemon.c). */
void talk_run(struct keeper *keeper)
{
        _cleanup_(message_done) struct message message = { 0 };
        int r = message_receive(keeper->run, &message);

        if (r != MESSAGE_E_CLOSED && (r >= 0 || r == -EPROTO))
                return;
        hang_up(keeper, &keeper->run);
        keeper_end_tenant(keeper);
}

/* ---- the end ------------------------------------------------------------------------------------- */

/* Last words; the lock is held. The daemon first: when run ends, who comes next finds the name and the memory free (keepers_settle). */
static bool say_ended(struct keeper *keeper, json_t *report)
{
        json_t *ended = message_new("ended"), *body = message_new("report");
        bool is_told;

        (void)json_object_set_new(ended, "tenant", json_string(keeper->terms.tenant));
        (void)json_object_set(ended, "report", report);
        (void)json_object_update(body, report);
        is_told = say(keeper->daemon, ended, NULL, 0) == MESSAGE_OK;
        (void)say(keeper->run, body, NULL, 0);
        closep(&keeper->run);
        return is_told;
}

bool talk_ended(struct keeper *keeper, nsec elapsed)
{
        struct report what = { .tenant = keeper->terms.tenant, .lease = &keeper->lease, .elapsed = elapsed };
        json_t *report;
        bool is_told;

        gate_stats(keeper->gate, &what.stats);
        report = report_new(&what);
        {
                LOCKED(&keeper->talk_lock);
                is_told = say_ended(keeper, report);
        }
        json_decref(report);
        return is_told;
}
