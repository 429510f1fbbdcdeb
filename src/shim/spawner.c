/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet keepers`: the shim spawner; see spawner.h. */
#include "shim/spawner.h"

#include "base/cleanup.h"
#include "base/process.h"
#include "base/err.h"
#include "base/flags.h"
#include "wire/directory.h"
#include "shim/verbs.h"
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

static const char usage[] =
        "usage: sublet keepers [OPTION...]\n"
        "Starts shims, the processes that enforce tenants' quotas, for a daemon that is replaced together with its "
        "container:\n"
        "the shims are children of this process and outlive the daemon, and so are the control daemons of MPS. A "
        "daemon "
        "with\n"
        "the same DIR finds it there. After SIGTERM it ends with its last shim.\n\n"
        "\f\n";

enum {
        PATIENCE_SEC = 2, /* for the request on a connection: no other is served meanwhile */
};

struct spawner {
        const char *option, *host_root;
        char dir[PATH_MAX];   /* `option` as an absolute path */
        int listening_socket; /* -1: no more shims are started (H3) */
        int signals;          /* signalfd */
        unsigned int n_shims;
        pid_t *others; /* of MPS */
        size_t n_others;
};

/* ---- a request --------------------------------------------------------------------------------- */

static void spawner_reply(int socket, const char *type, pid_t process, const char *text)
{
        json_t *body = message_new(type);

        (void)json_object_set_new(body, "process", json_integer(process));
        (void)json_object_set_new(body, "text", json_string(text));
        (void)message_send(socket, body, NULL, 0);
}

static int mps_serve(struct spawner *spawner, const struct message *message, pid_t *ret, struct err *err)
{
        struct mps_at at = { .dir = spawner->dir, .root = spawner->host_root };
        pid_t *others = realloc(spawner->others, (spawner->n_others + 1) * sizeof(*others));
        bool quits;
        int r;

        if (!others)
                return err_set(err, -ENOMEM, "starting " MPS_PROGRAM);
        spawner->others = others;
        if (message->n_fds || mps_request_parse(message->body, &at, &quits) < 0)
                return err_say(err, -EPROTO, "the request is not understood");
        r = mps_start_here(&at, quits, ret, err);
        if (r == 0)
                others[spawner->n_others++] = *ret;
        return r;
}

static int shim_serve(struct spawner *spawner, const struct message *message, pid_t *ret, struct err *err)
{
        struct shim_request request;
        struct shim_start start = { .lease = &request.lease,
                                    .dir = spawner->dir,
                                    .listener = -1,
                                    .daemon = -1,
                                    .run = -1,
                                    .init = -1,
                                    .record = -1 };
        int *const to[SHIM_N_FDS] = { [SHIM_FD_LISTENER] = &start.listener,
                                      [SHIM_FD_DAEMON] = &start.daemon,
                                      [SHIM_FD_RUN] = &start.run,
                                      [SHIM_FD_INIT] = &start.init,
                                      [SHIM_FD_RECORD] = &start.record };

        int r;

        if (strcmp(message_type(message), "start") != 0 ||
            shim_request_parse(message->body, message->n_fds, &request) < 0)
                return err_say(err, -EPROTO, "the request is not understood");
        for (size_t i = 0; i < message->n_fds; i++)
                *to[request.numbers[i]] = message->fds[i];
        r = shim_spawn_here(&start, ret, err);
        spawner->n_shims += r == 0;
        return r;
}

/* H2 */
static bool is_same_user(int socket)
{
        struct ucred who;

        return socket_peer(socket, &who) == 0 && who.uid == geteuid();
}

static void spawner_serve(struct spawner *spawner)
{
        _cleanup_(closep) int fd = accept4(spawner->listening_socket, NULL, NULL, SOCK_CLOEXEC);
        _cleanup_(message_done) struct message message = { 0 };
        const struct timeval patience = { .tv_sec = PATIENCE_SEC };
        struct err err = { 0 };
        pid_t process;
        int r;

        if (fd < 0 || !is_same_user(fd) || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
                return;
        if (message_receive(fd, &message) != MESSAGE_OK)
                return;
        r = (!strcmp(message_type(&message), "start_mps") ? mps_serve : shim_serve)(spawner, &message, &process, &err);
        if (r < 0) {
                spawner_reply(fd, "failed", 0, err.text);
                (void)fprintf(stderr, "sublet keepers: %s\n", err.text);
                return;
        }
        spawner_reply(fd, "started", process, "");
}

/* ---- until SIGTERM ----------------------------------------------------------------------------- */

/* Whether it was one. */
static bool other_forget(struct spawner *spawner, pid_t process)
{
        for (size_t i = 0; i < spawner->n_others; i++)
                if (spawner->others[i] == process) {
                        spawner->others[i] = spawner->others[--spawner->n_others];
                        return true;
                }
        return false;
}

static void on_signal(struct spawner *spawner)
{
        struct signalfd_siginfo info;
        pid_t process;

        while (read(spawner->signals, &info, sizeof(info)) == sizeof(info))
                if (info.ssi_signo != SIGCHLD)
                        closep(&spawner->listening_socket);
        while ((process = waitpid(-1, NULL, WNOHANG)) > 0)
                spawner->n_shims -= !other_forget(spawner, process);
}

static int open_signals(void)
{
        sigset_t set;

        (void)sigemptyset(&set);
        (void)sigaddset(&set, SIGTERM);
        (void)sigaddset(&set, SIGINT);
        (void)sigaddset(&set, SIGCHLD);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Replaces an older socket: the spawner there keeps its shims and starts no more. */
static int open_listening_socket(struct spawner *spawner, struct err *err)
{
        int r;

        if (mkdir(spawner->option, 0755) < 0 && errno != EEXIST)
                return err_set(err, -errno, "making %s", spawner->option);
        if (!realpath(spawner->option, spawner->dir)) /* for shims, whose working directory may differ */
                return err_set(err, -errno, "looking for %s", spawner->option);
        r = directory_check(spawner->dir, err);
        if (r < 0)
                return r;
        r = socket_listen(SOCK_SEQPACKET | SOCK_NONBLOCK, 0600, "%s/keepers.sock", spawner->dir);
        return r < 0 ? err_set(err, r, "listening on %s/keepers.sock", spawner->dir) : r;
}

/* -1; or how the verb ends */
static int options(struct spawner *spawner, int argc, char **argv)
{
        const struct flag flags[] = {
                { "dir", 0, flag_text, &spawner->option, "DIR",
                  "the directory of the daemon's sockets (default: /run/sublet)", "SUBLET_DIR" },
                { "host-root", 0, flag_text, &spawner->host_root, "DIR", HOST_ROOT_HELP, NULL },
        };
        int code;

        spawner->option = "/run/sublet";
        return flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 0, &code) < 0 ? code : -1;
}

int shims_main(int argc, char **argv)
{
        struct spawner spawner = { .listening_socket = -1, .signals = -1 };
        struct err err = { 0 };
        int r = options(&spawner, argc, argv);

        if (r >= 0)
                return r;
        (void)process_children_prepare(); /* a failure is said where a child is made */
        spawner.signals = open_signals();
        spawner.listening_socket = spawner.signals < 0 ? -1 : open_listening_socket(&spawner, &err);
        if (spawner.listening_socket < 0) {
                (void)fprintf(stderr, "sublet keepers: %s\n", err.text[0] ? err.text : strerror(-spawner.signals));
                return 1;
        }
        (void)fprintf(stderr, "sublet keepers: at %s/keepers.sock\n", spawner.dir);
        while (spawner.listening_socket >= 0 || spawner.n_shims) { /* H3 */
                struct pollfd fds[] = { { spawner.signals, POLLIN, 0 }, { spawner.listening_socket, POLLIN, 0 } };

                if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
                        return 1;
                if (fds[0].revents)
                        on_signal(&spawner);
                if (fds[1].revents && spawner.listening_socket >= 0)
                        spawner_serve(&spawner);
        }
        return 0;
}
