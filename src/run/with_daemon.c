/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet run` on a machine with a daemon: first admission, then the command, then its listener goes to the daemon,
 * which gives it to a shim. This process stays: it passes signals on, prints what the shim reports and waits for the
 * command.
 *
 * The tenant lasts as long as this process. If it is killed, the kernel kills the command (PR_SET_PDEATHSIG), and the
 * shim every other process of the tenant that has made a driver call: what a batch system or a shell ends must not
 * compute on unseen. The daemon's death goes unnoticed: the socket is the shim's by then.
 */
#include "run/run.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "preload/usage_segment.h"
#include "run/spawn.h"
#include "net/socket.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

enum {
        TRIES = 30, /* of 100 ms each: a daemon that is being replaced returns */
        ADMISSION_MS = 10000,
        RETURN_MS = 100,
        WAIT_MS = 500,     /* between two requests of --wait */
        ANSWER_MS = 5000,  /* of the next daemon to our return, within a pass of its loop */
        REPORT_MS = 15000, /* a shim gives the driver 5 s to tear down */
};

static int path_of(const struct run *run, char path[static SOCKET_PATH], struct err *err)
{
        int n = snprintf(path, SOCKET_PATH, "%s/tenant.sock", run->dir);

        if (n < 0 || n >= SOCKET_PATH)
                return err_say(err, -ENAMETOOLONG, "%s: too long for the directory of a socket", run->dir);
        return 0;
}

/* -ENOTCONN: what was asked for needs the daemon that is not there. */
static int refuse_alone(const struct run *run, bool wants, struct err *err)
{
        if (wants)
                return err_say(
                        err, -ENOTCONN,
                        "--share, --cap, --class, --latency, --sleep-after, --swap, --host-swap, --job, --group, "
                        "--label, --mode and "
                        "--wait "
                        "need the daemon, "
                        "and none "
                        "is in %s: "
                        "start it with 'sublet daemon'",
                        run->dir);
        if (run->is_dir_named)
                return err_say(err, -ENOTCONN,
                               "no daemon is in %s: start it with 'sublet daemon --dir %s', or say --no-daemon for a "
                               "quota without it",
                               run->dir, run->dir);
        if (run->attach && !strcmp(run->attach, "required"))
                return err_say(err, -ENOTCONN, "--attach=required needs the daemon: start it with 'sublet daemon'");
        return 0;
}

int run_has_daemon(const struct run *run, bool *ret, struct err *err)
{
        bool wants = run->share || run->cap || run->class || run->goal || run->sleep_after || run->swap ||
                     run->host_swap || run->mode || run->job || run->group || run->labels[0] || run->wait;
        char path[SOCKET_PATH];
        int r = path_of(run, path, err);

        if (r < 0)
                return r;
        if (wants && run->is_alone)
                return err_say(
                        err, -EINVAL,
                        "--share, --cap, --class, --latency, --sleep-after, --swap, --host-swap, --job, --group, "
                        "--label, --mode and --wait "
                        "need the daemon: "
                        "leave --no-daemon "
                        "out");
        if (run->is_alone && run->attach && !strcmp(run->attach, "required"))
                return err_say(err, -EINVAL, "--attach=required needs the daemon: leave --no-daemon out");
        *ret = !run->is_alone && access(path, F_OK) == 0;
        return *ret || run->is_alone ? 0 : refuse_alone(run, wants, err);
}

/* ---- admission ----------------------------------------------------------------------------------- */

static int reach(const struct run *run, struct err *err)
{
        char path[SOCKET_PATH];
        int r = path_of(run, path, err);

        if (r < 0)
                return r;
        for (int i = 0; i < TRIES; i++) {
                r = socket_connect(SOCK_SEQPACKET, 0, "%s", path);
                if (r >= 0)
                        return r;
                if (r != -ECONNREFUSED && r != -ENOENT && r != -EAGAIN)
                        break;
                (void)poll(NULL, 0, 100);
        }
        if (r == -EACCES)
                return socket_refusal_say(path, err);
        return err_set(err, r,
                       "the daemon in %s does not answer (start it with 'sublet daemon', or run without it with "
                       "--no-daemon)",
                       run->dir);
}

static bool text_copy(char *to, size_t room, const char *from)
{
        return !from || (size_t)snprintf(to, room, "%s", from) < room;
}

static int request_send(const struct run *run, int socket, struct err *err)
{
        struct message_request request = { .is_named = run->is_named,
                                           .share = run->share,
                                           .cap = run->cap ? run->cap : TURNS_WHOLE,
                                           .goal = run->goal,
                                           .sleep_after = run->sleep_after,
                                           .swap = run->swap,
                                           .host_swap = run->host_swap,
                                           .ipc_host = run->ipc_host,
                                           .enforcement = run->is_preload ? ENFORCEMENT_PRELOAD : ENFORCEMENT_GATE,
                                           .audit_ms = run->audit_ms };
        const char *slash = strrchr(run->argv[0], '/');

        gpu_machine(request.machine);
        if (run->class)
                (void)turns_class_parse(run->class, &request.class);
        if (!text_copy(request.tenant, sizeof(request.tenant), run->tenant) ||
            !text_copy(request.gpus, sizeof(request.gpus), run->grant.gpus) ||
            !text_copy(request.mem, sizeof(request.mem), run->grant.memory) ||
            !text_copy(request.host, sizeof(request.host), run->grant.host) ||
            !text_copy(request.managed, sizeof(request.managed), run->grant.managed) ||
            !text_copy(request.capabilities, sizeof(request.capabilities), run->grant.capabilities) ||
            !text_copy(request.mode, sizeof(request.mode), run->mode) ||
            !text_copy(request.job, sizeof(request.job), run->job) ||
            !text_copy(request.group, sizeof(request.group), run->group) ||
            !text_copy(request.labels, sizeof(request.labels), run->labels) ||
            !text_copy(request.attach, sizeof(request.attach), run->attach) ||
            !text_copy(request.sms, sizeof(request.sms), run->sms_text) ||
            !text_copy(request.directory, sizeof(request.directory), run->directory))
                return err_say(err, -EINVAL, "an option is longer than the daemon takes (--name: 63 bytes)");
        (void)snprintf(request.command, sizeof(request.command), "%s", slash ? slash + 1 : run->argv[0]);
        if (message_send(socket, message_request_new(&request), NULL, 0) != MESSAGE_OK)
                return err_say(err, -EPIPE, "the daemon in %s hung up", run->dir);
        return 0;
}

/* The daemon decides the tenant's name and variables of its environment. */
static int on_granted(struct run *run, const json_t *body)
{
        const char *name;
        const json_t *value;

        (void)snprintf(run->lease.tenant, sizeof(run->lease.tenant), "%s", message_text(body, "tenant", run->tenant));
        json_object_foreach (json_object_get(body, "env"), name, value)
                if (json_is_string(value) && setenv(name, json_string_value(value), 1) < 0)
                        return -errno;
        return 0;
}

/* -ENOSPC: there may be room later. */
static int refusal(const char *code)
{
        return !strcmp(code, "EINVAL") ? -EINVAL : !strcmp(code, "ENOSPC") ? -ENOSPC : -EPERM;
}

static int await_grant(struct run_talk *talk, struct err *err)
{
        struct pollfd fd = { talk->socket, POLLIN, 0 };
        struct run *run = talk->run;
        _cleanup_(message_done) struct message message = { 0 };
        int r = poll(&fd, 1, ADMISSION_MS);

        if (r == 0)
                return err_say(err, -ETIMEDOUT, "the daemon in %s does not answer", run->dir);
        r = message_receive(talk->socket, &message);
        if (r != MESSAGE_OK)
                return err_say(err, -EPIPE, "the daemon in %s hung up", run->dir);
        if (!strcmp(message_type(&message), "granted")) {
                talk->descriptor = message_take_fd(&message, 0);
                talk->segment = message_take_fd(&message, 1);
                return on_granted(run, message.body);
        }
        if (strcmp(message_type(&message), "refused"))
                return err_say(err, -EPROTO, "the daemon in %s answered '%s'", run->dir, message_type(&message));
        return err_say(err, refusal(message_text(message.body, "code", "")), "%s",
                       message_text(message.body, "text", "refused"));
}

/* ---- messages of the shim ---------------------------------------------------------------------- */

static void on_event(struct run_talk *talk, const json_t *body)
{
        const char *name = message_text(body, "name", "");

        talk->has_faulted |= !strcmp(name, gate_event_name(EVENT_MPS_FAULT));
        for (int event = 0; event < EVENT_N; event++)
                if (!strcmp(name, gate_event_name((enum event_kind)event)))
                        run_print_event(talk->run, (enum event_kind)event, (pid_t)message_number(body, "process", 0),
                                        message_text(body, "text", ""), (uint64_t)message_number(body, "untold", 0));
}

bool run_has_shim(const struct run_talk *talk)
{
        struct usage_segment_totals books;

        return talk->descriptor < 0 ||
               (usage_segment_scan(talk->segment, LEASE_DESCRIPTOR_INHERITED, talk->tenancy, &books) == 0 &&
                books.is_attached);
}

/* A command that had a shim cannot use a device any more, but goes on as it likes, unless its memory was away: that is
 * lost, and what the command has started waits for it. One without a shim does not notice. */
static void on_gone(struct run_talk *talk)
{
        closep(&talk->socket);
        talk->is_looking = !run_has_shim(talk);
        if (talk->is_looking)
                return;
        if (!talk->report && !talk->has_failed)
                (void)fprintf(stderr,
                              "sublet: %s: KEEPER_DIED: the tenant's shim is gone, and its driver calls fail from "
                              "now on ('sublet explain KEEPER_DIED')\n",
                              talk->run->lease.tenant);
        if (talk->is_away && !talk->report)
                (void)kill(talk->run->child, SIGKILL); /* and what it left: spawn_end_all */
}

static void on_failed(struct run_talk *talk, const char *text)
{
        talk->has_failed = true;
        (void)fprintf(stderr, "sublet: %s: %s\n", talk->run->lease.tenant, text);
        (void)kill(talk->run->child, SIGKILL);
}

/* Only ENOENT, no such tenancy, is final: anything else may change in a moment. */
static void on_returned(struct run_talk *talk, const json_t *body)
{
        bool is_back = message_flag(body, "ok", false);
        bool is_over = !is_back && !strcmp(message_text(body, "code", ""), "ENOENT");

        if (!talk->is_looking)
                return;
        talk->is_looking = !is_back && !is_over;
        if (!is_back)
                closep(&talk->socket);
        if (is_over)
                (void)fprintf(stderr,
                              "sublet: %s: the daemon was replaced and has meanwhile given up this lease: the command "
                              "goes on within its quota, but what it holds may be leased to others; end it and start "
                              "it again\n",
                              talk->run->lease.tenant);
}

static void talk_receive(struct run_talk *talk)
{
        _cleanup_(message_done) struct message message = { 0 };
        int r = message_receive(talk->socket, &message);
        const char *type;

        if (r == MESSAGE_E_CLOSED || (r < 0 && r != -EPROTO))
                on_gone(talk);
        if (r != MESSAGE_OK)
                return;
        type = message_type(&message);
        if (!strcmp(type, "event"))
                on_event(talk, message.body);
        else if (!strcmp(type, "report") && !talk->report)
                talk->report = json_incref(message.body);
        else if (!strcmp(type, "away"))
                talk->is_away = message_flag(message.body, "is_away", false);
        else if (!strcmp(type, "end"))
                (void)kill(talk->run->child, SIGKILL);
        else if (!strcmp(type, "returned"))
                on_returned(talk, message.body);
        else if (!strcmp(type, "failed") || !strcmp(type, "refused"))
                on_failed(talk, message_text(message.body, "text", "the shim could not start"));
}

static void return_send(struct run_talk *talk)
{
        _cleanup_(closep) int fd = socket_connect(SOCK_SEQPACKET | SOCK_NONBLOCK, 0, "%s/tenant.sock", talk->run->dir);
        const int fds[] = { talk->descriptor, talk->segment };

        if (fd < 0 || message_send(fd, message_new("return"), fds, ARRAY_SIZE(fds)) != MESSAGE_OK)
                return;
        talk->socket = TAKE_FD(fd);
}

/* The next daemon knows the tenancy by its number, and its lease from its store. Only its answer counts: a daemon that
 * is being killed may still accept a connection after it has closed ours. */
static void daemon_return(struct run_talk *talk)
{
        nsec now = clock_now();

        if (now - talk->tried_at < (talk->socket < 0 ? RETURN_MS : ANSWER_MS) * NSEC_PER_MSEC)
                return;
        closep(&talk->socket);
        talk->tried_at = now;
        return_send(talk);
}

/* Waits for the daemon or a signal; the socket may be another one each time. */
static void talk_poll(struct run_talk *talk, struct pollfd fds[static 2])
{
        if (talk->is_looking)
                daemon_return(talk);
        fds[1].fd = talk->socket;
        if (poll(fds, 2, talk->is_looking ? RETURN_MS : -1) < 0)
                fds[0].revents = fds[1].revents = 0;
}

int run_wait_for_command(struct run_talk *talk, int signals)
{
        int code = 0;

        for (;;) {
                struct pollfd fds[] = { { .fd = signals, .events = POLLIN }, { .events = POLLIN } };

                talk_poll(talk, fds);
                if (fds[1].revents)
                        talk_receive(talk);
                if (fds[0].revents && run_take_signal(talk->run, signals, &code))
                        return code;
        }
}

void run_wait_for_report(struct run_talk *talk)
{
        nsec deadline = clock_now() + (nsec)REPORT_MS * NSEC_PER_MSEC, now;

        while (talk->socket >= 0 && !talk->report && (now = clock_now()) < deadline) {
                struct pollfd fd = { talk->socket, POLLIN, 0 };

                if (poll(&fd, 1, (int)((deadline - now) / NSEC_PER_MSEC) + 1) > 0)
                        talk_receive(talk);
        }
}

/* ---- all of it ----------------------------------------------------------------------------------- */

static int hand_over(struct run *run, int socket, int listener, struct err *err)
{
        int fds[] = { listener, run->record };
        int r = message_send(socket, message_new("listener"), fds, run->record_path ? 2 : 1);

        (void)close(listener);
        if (r == MESSAGE_OK)
                return 0;
        spawn_end_all();
        return err_say(err, -EPIPE, "the daemon in %s hung up; the command has been ended", run->dir);
}

static int ask_once(struct run_talk *talk, struct err *err)
{
        int r = talk->socket = reach(talk->run, err);

        if (r >= 0)
                r = request_send(talk->run, talk->socket, err);
        if (r >= 0)
                r = await_grant(talk, err);
        return r < 0 ? r : 0;
}

/* With --wait: until there is room. For what it waits is said once, and again when that is something else. */
int run_ask(struct run_talk *talk, struct err *err)
{
        nsec deadline = clock_now() + talk->run->wait;
        char said[sizeof(err->text)] = "";
        int r;

        while ((r = ask_once(talk, err)) == -ENOSPC && clock_now() < deadline) {
                if (strcmp(said, err->text) != 0 && !talk->run->is_quiet)
                        (void)fprintf(stderr, "sublet: waiting for room: %s\n", err->text);
                (void)snprintf(said, sizeof(said), "%s", err->text);
                closep(&talk->socket);
                talk->socket = -1;
                (void)poll(NULL, 0, WAIT_MS);
        }
        return r;
}

void run_talk_done(struct run_talk *talk)
{
        closep(&talk->socket);
        closep(&talk->descriptor);
        closep(&talk->segment);
        json_decref(talk->report);
        talk->report = NULL;
}

int run_with_daemon(struct run *run, const struct sock_fprog *filter, struct err *err)
{
        _cleanup_(run_talk_done) struct run_talk talk = { .run = run, .socket = -1, .descriptor = -1, .segment = -1 };
        _cleanup_(closep) int signals = -1;
        nsec start;
        _cleanup_(closep) int executing = -1;
        struct spawned spawned;
        int code, r;

        r = run_ask(&talk, err);
        start = clock_now(); /* it may have waited for room */
        if (r >= 0) {
                signals = r = run_watch_signals();
                if (r >= 0)
                        r = run_detach_output(run, err);
                if (r >= 0)
                        r = spawn_tenant(run->argv, filter, SIGKILL, &spawned, &code, err);
        }
        if (r == SPAWN_E_ENDED)
                return code; /* the daemon withdraws the lease */
        if (r >= 0) {
                run->child = spawned.child;
                executing = spawned.executing;
                r = hand_over(run, talk.socket, spawned.listener, err);
        }
        if (r < 0)
                return r;
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        run_detach_started(run, executing);
        code = run_wait_for_command(&talk, signals);
        spawn_end_all();
        run_wait_for_report(&talk);
        run_print_report(run, talk.report, code, clock_now() - start);
        if (talk.has_failed)
                return EXIT_FAILED;
        return run_again(run, talk.has_faulted, clock_now() - start, code);
}
