/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet hook`: a hook of the runtime specification (createRuntime or prestart, and poststop). It reads the
 * container's state on stdin and asks the daemon for its lease before the container's program starts. If the daemon
 * refuses, the container is not started, and the runtime shows the hook's one line. At poststop an unused lease is
 * given back.
 *
 * The hook holds nothing: the lease is the daemon's, and the runtime sends the listener later. Into a container of a
 * trust group it mounts what leads to the group's MPS server (oci/side.h).
 */
#include "wire/messages.h"
#include "oci/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/flags.h"
#include "net/socket.h"
#include "oci/side.h"
#include "oci/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
        ANSWER_MS = 310 * 1000, /* the daemon's --patience is at most 5 minutes; usually it answers at once */
};

static const char usage[] =
        "usage: sublet hook [--dir DIR] [STAGE]\n"
        "For container runtimes: asks the daemon for the lease of the container whose state is on stdin.\n"
        "\n"
        "  STAGE        createRuntime or prestart (default), or poststop: gives back what was not used\n"
        "\f\n"
        "Exit code 0: the container may start; 1: it may not, and stderr says why in one line; 2 for bad use.\n";

struct hook {
        const char *dir;
        bool is_over; /* poststop */
        struct oci_container container;
};

static int parse_stage(struct hook *hook, const char *stage, struct err *err)
{
        hook->is_over = !strcmp(stage, "poststop");
        if (hook->is_over || !strcmp(stage, "createRuntime") || !strcmp(stage, "prestart"))
                return 0;
        return err_say(err, -EINVAL, "hook: '%s' is none of createRuntime, prestart and poststop", stage);
}

/* Returns the state unchanged, since the daemon parses it by the same rules; the caller's. NULL: err. */
static json_t *read_state(struct hook *hook, struct err *err)
{
        _cleanup_(freep) char *text = malloc(OCI_STATE_MAX + 1);
        const char *wrong = "JSON";
        size_t size = 0;
        ssize_t n;

        while (text && size <= OCI_STATE_MAX && (n = read(STDIN_FILENO, text + size, OCI_STATE_MAX + 1 - size)) > 0)
                size += (size_t)n;
        if (!text || oci_state_parse(text, size, &hook->container, &wrong) != 0) {
                (void)err_say(err, -EINVAL,
                              "hook: what is on stdin is no state of a container (%s): runtimes call this", wrong);
                return NULL;
        }
        return json_loadb(text, size, 0, NULL);
}

/* The bundle's config.json, the caller's, and its size; -errno. */
static ssize_t read_config(const struct hook *hook, char **ret, struct err *err)
{
        _cleanup_(freep) char *text = malloc(OCI_CONFIG_MAX + 1);
        char path[sizeof(hook->container.bundle) + 16];
        _cleanup_(closep) int fd = -1;
        ssize_t n;

        (void)snprintf(path, sizeof(path), "%s/config.json", hook->container.bundle);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        n = fd < 0 || !text ? -1 : read(fd, text, OCI_CONFIG_MAX + 1);
        if (n < 0)
                return err_set(err, -errno, "reading %.200s", path);
        *ret = TAKE(text);
        return n;
}

/* A container with a device needs a gate: its profile must have this daemon's listener. */
static int check_gate(const struct hook *hook, struct err *err)
{
        static struct oci_request asked;
        _cleanup_(freep) char *text = NULL;
        const char *wrong = "size";
        struct stat theirs, is;
        char ours[PATH_MAX];
        ssize_t n = read_config(hook, &text, err);

        if (n < 0)
                return (int)n;
        if (oci_config_parse(text, (size_t)n, &asked, &wrong) < 0)
                return err_say(err, -EINVAL, "%.200s/config.json: its %s is too long or not understood",
                               hook->container.bundle, wrong);
        (void)snprintf(ours, sizeof(ours), "%s/seccomp.sock", hook->dir);
        if (!asked.wants_gpu || !strcmp(asked.listener, ours))
                return 0;
        if (asked.listener[0] && stat(asked.listener, &theirs) == 0 && stat(ours, &is) == 0 &&
            theirs.st_dev == is.st_dev && theirs.st_ino == is.st_ino)
                return 0;
        return err_say(
                err, -EPERM,
                "it would have its GPU without a gate: give it a seccomp profile of 'sublet oci profile --dir %s' "
                "(docs/containers.md)",
                hook->dir);
}

/* What is mounted into a container of a group. */
static int hook_mount(const struct hook *hook, const json_t *mps, struct err *err)
{
        const struct side_server server = {
                .control = (pid_t)json_integer_value(json_object_get(mps, "control")),
                .begun = (uint64_t)json_integer_value(json_object_get(mps, "begun")),
                .pipe = message_text(mps, "pipe", ""),
        };
        _cleanup_(freep) char *text = NULL;
        char root[OCI_ROOT];
        ssize_t n;

        if (!mps)
                return 0;
        n = read_config(hook, &text, err);
        if (n < 0)
                return (int)n;
        if (oci_config_root(text, (size_t)n, root) < 0)
                return err_say(err, -EINVAL, "%.200s/config.json: no root.path", hook->container.bundle);
        return side_mount(&server, hook->container.pid, hook->container.bundle, root, err);
}

/* Takes the reference to `state`. */
static int hook_ask(const struct hook *hook, json_t *state, struct err *err)
{
        _cleanup_(message_done) struct message message = { 0 };
        json_t *body = message_new("container");
        _cleanup_(closep) int socket = -1;
        struct pollfd fd;
        int r;

        if (hook->is_over)
                (void)json_object_set_new(state, "status", json_string("stopped"));
        (void)json_object_set_new(body, "state", state);
        socket = socket_connect(SOCK_SEQPACKET, 0, "%s/tenant.sock", hook->dir);
        if (socket < 0) {
                json_decref(body);
                if (socket == -ENAMETOOLONG)
                        return err_say(err, socket, "%s: too long for the directory of a socket", hook->dir);
                return err_say(err, socket, "no daemon answers in %s: start it with 'sublet daemon'", hook->dir);
        }
        r = message_send(socket, body, NULL, 0);
        if (r != MESSAGE_OK)
                return err_say(err, -EPIPE,
                               r == -EMSGSIZE ? "its annotations are more than 64 KiB" : "the daemon hung up");
        fd = (struct pollfd){ socket, POLLIN, 0 };
        if (poll(&fd, 1, ANSWER_MS) <= 0)
                return err_say(err, -ETIMEDOUT, "the daemon in %s does not answer", hook->dir);
        if (message_receive(socket, &message) != MESSAGE_OK)
                return err_say(err, -EPIPE, "the daemon in %s hung up", hook->dir);
        if (!strcmp(message_type(&message), "granted"))
                return hook_mount(hook, json_object_get(message.body, "mps"), err);
        return err_say(err, -EPERM, "%s", message_text(message.body, "text", "refused"));
}

int hook_main(int argc, char **argv)
{
        static struct hook hook; /* large */
        struct err err = { 0 };
        json_t *state;
        char name[512];
        const struct flag flags[] = {
                { "dir", 0, flag_text, &hook.dir, "DIR", "the daemon's directory, or /run/sublet", "SUBLET_DIR" },
        };
        int code, r, stage;

        hook.dir = "/run/sublet";
        stage = flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 1, &code);
        if (stage < 0)
                return code;
        r = stage < argc ? parse_stage(&hook, argv[stage], &err) : 0;
        state = r < 0 ? NULL : read_state(&hook, &err);
        if (!state) {
                (void)fprintf(stderr, "sublet: %s\n", err.text);
                return VERB_USAGE;
        }
        r = hook.is_over ? 0 : check_gate(&hook, &err);
        r = r < 0 ? r : hook_ask(&hook, state, &err);
        if (r < 0 && !hook.is_over) { /* nobody reads a message after the container's end */
                (void)fprintf(stderr, "sublet: no lease for %s: %s\n", oci_container_format(&hook.container, name),
                              err.text);
                return EXIT_FAILURE;
        }
        return 0;
}
