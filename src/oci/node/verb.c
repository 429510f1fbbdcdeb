/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet node`: a node of Kubernetes gets what its container runtime needs, from a container or by hand, and loses it
 * again.
 *
 * The hook runs on the host, whose libraries this program may not fit: it is copied with its loader and with every
 * library that it has loaded here, and is started by that loader.
 */
#include "oci/node/verbs.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/flags.h"
#include "base/process.h"
#include "gpu/find.h"
#include "net/socket.h"
#include "oci/cdi.h"
#include "oci/node/containerd.h"
#include "oci/node/install.h"
#include "oci/options.h"

#include <ctype.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define CDI_FILE "/etc/cdi/sublet.json"
#define LABELS_FILE "/etc/kubernetes/node-feature-discovery/features.d/sublet"

enum {
        PEER_MS = 10 * 1000, /* in which containerd ends, once told */
        LABEL = 64,          /* of Kubernetes, with its NUL */
};

static const char usage[] =
        "usage: sublet node install [OPTION...]   put on this node what pods that rent need, and say what changed\n"
        "       sublet node watch [OPTION...]     the same, and again when the driver's release or a file changes\n"
        "       sublet node remove [OPTION...]    take all of it back\n"
        "The program with its libraries, the seccomp profile, the base specification, containerd's runtime (version 2 "
        "or\n"
        "3 of its configuration), the devices for CDI, and labels for node feature discovery. Done twice is done "
        "once.\n"
        "\f";

struct node {
        const char *host, *prefix, *root, *restart;
        bool has_no_cdi, is_removed_on_exit;
        nsec every;
        struct oci_options options;
        char program[INSTALL_PATH], file[INSTALL_PATH], loader[INSTALL_PATH], libraries[INSTALL_PATH];
        char last[sizeof(((struct err *)NULL)->text)]; /* what watch said last of what went wrong */
};

/* ---- what is written ------------------------------------------------------------------------- */

struct linked {
        struct install *install;
        struct node *node;
        int r;
};

/* dl_iterate_phdr: the program itself has no name, and the kernel's object no path. */
static int copy_library(struct dl_phdr_info *info, size_t size, void *context)
{
        struct linked *linked = context;
        const char *name = strrchr(info->dlpi_name, '/');

        (void)size;
        if (!name)
                return 0;
        linked->r = install_copy(linked->install, info->dlpi_name, 0755, "%s%s", linked->node->libraries, name);
        if (!strncmp(name, "/ld-linux", 9))
                (void)snprintf(linked->node->loader, sizeof(linked->node->loader), "%.255s%.200s",
                               linked->node->libraries, name);
        return linked->r;
}

static int put_json(struct install *install, json_t *value, bool wakes, const char *path)
{
        char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;
        int r = install_put(install, text, 0644, "%s", path);

        if (r == 0)
                install->files[install->n - 1].wakes = wakes;
        return r;
}

/* Profile and specification. */
static int put_spec(struct node *node, const struct spec_paths *paths, struct install *install, struct err *err)
{
        char path[INSTALL_PATH];
        json_t *profile, *spec = spec_default(), *made = NULL;
        int r = spec ? oci_options_profile(&node->options, &profile, err) : -ENOMEM;

        if (r == 0) {
                r = spec_make(spec, profile, paths, &made, err);
                (void)snprintf(path, sizeof(path), "%.255s/etc/seccomp.json", node->prefix);
                r = r < 0 ? r : put_json(install, profile, false, path);
                r = r < 0 ? r : put_json(install, made, true, node->file);
                json_decref(profile);
                json_decref(made);
        }
        json_decref(spec);
        return r;
}

/* Libraries are found below the host's root and named as the host names them. */
static int put_cdi(const struct node *node, const struct spec_paths *paths, struct install *install, struct err *err)
{
        static struct machine machine; /* some tens of KiB */
        char root[INSTALL_PATH];
        size_t n = strlen(node->host);
        json_t *cdi;
        int r;

        (void)snprintf(root, sizeof(root), "%s%s", node->host, !strcmp(node->root, "/") ? "" : node->root);
        r = machine_find(root[0] ? root : "/", node->options.release, &machine, err);
        if (r < 0)
                return r;
        for (size_t i = 0; i < machine.n_mounts && n; i++) {
                char *host = machine.mounts[i].host;

                if (!strncmp(host, node->host, n) && host[n] == '/')
                        memmove(host, host + n, strlen(host + n) + 1);
        }
        cdi = cdi_write(&machine, paths);
        r = put_json(install, cdi, false, CDI_FILE);
        json_decref(cdi);
        return r;
}

/* A label's value: letters, digits, '-', '_' and '.', of which the first three kinds end it. */
static void label_of(const char *name, char ret[static LABEL])
{
        size_t n = 0;

        for (; *name && n < LABEL - 1; name++)
                if (isalnum((unsigned char)*name) || (n && strchr("-_.", *name)) || n)
                        ret[n++] = isalnum((unsigned char)*name) || strchr("_.", *name) ? *name : '-';
        while (n && !isalnum((unsigned char)ret[n - 1]))
                n--;
        ret[n] = '\0';
}

/* Of devices that differ: the smallest memory, and no model. */
static int put_labels(const struct node *node, struct install *install, struct err *err)
{
        static struct gpu_device devices[GPU_DEVICES_MAX];
        struct gpu_backend backend;
        char model[LABEL] = "", *text = NULL;
        bytes least = 0;
        unsigned int n = 0;
        int r = gpu_backend_find(&backend, err);

        r = r < 0 ? r : gpu_find(&backend, devices, &n, err);
        if (r < 0)
                return err_while(err, "asking the driver for its devices (it takes /dev, and a privileged container)");
        for (unsigned int i = 0; i < n; i++)
                least = !i || devices[i].total < least ? devices[i].total : least;
        label_of(n ? devices[0].name : "", model);
        for (unsigned int i = 1; i < n; i++)
                if (strcmp(devices[i].name, devices[0].name) != 0)
                        (void)strcpy(model, "mixed");
        if (asprintf(&text,
                     "sublet.dev/gpu=true\nsublet.dev/gpu.count=%u\nsublet.dev/gpu.model=%s\n"
                     "sublet.dev/gpu.memory-mib=%llu\nsublet.dev/driver=%s\n",
                     n, model, (unsigned long long)(least / MIB), node->options.release) < 0)
                text = NULL;
        return install_put(install, text, 0644, LABELS_FILE);
}

/* containerd's configuration, last: what it names is there by then. */
static int put_containerd(const struct spec_paths *paths, struct install *install, bool *ret_may_lose, struct err *err)
{
        _cleanup_(freep) char *there = NULL;
        struct containerd_change change;
        size_t size = 0;
        int r = install_read(install, CONTAINERD_CONFIG, &there, &size);

        if (r < 0 && r != -ENOENT)
                return err_set(err, r, "reading %s%s", install->host, CONTAINERD_CONFIG);
        if (there && strlen(there) != size)
                return err_say(err, -EINVAL, "%s%s: not a text", install->host, CONTAINERD_CONFIG);
        r = containerd_with(there ? there : CONTAINERD_LEAST, paths, &change, err);
        if (r < 0)
                return err_while(err, "%s%s", install->host, CONTAINERD_CONFIG);
        *ret_may_lose = change.may_lose;
        r = change.drop_in ? install_put(install, change.drop_in, 0644, CONTAINERD_DROP_IN) : 0;
        if (change.drop_in && r == 0)
                install->files[install->n - 1].wakes = true;
        if (r < 0)
                free(change.text);
        else
                r = install_put(install, change.text, 0644, CONTAINERD_CONFIG);
        if (r == 0)
                install->files[install->n - 1].wakes = install->files[install->n - 1].is_shared = true;
        return r;
}

static int put_all(struct node *node, struct install *install, bool *ret_may_lose, struct err *err)
{
        struct linked linked = { .install = install, .node = node };
        struct spec_paths paths = oci_options_paths(&node->options);
        int r;

        (void)dl_iterate_phdr(copy_library, &linked);
        r = linked.r < 0 ? linked.r : install_copy(install, "/proc/self/exe", 0755, "%s", node->program);
        if (node->loader[0]) {
                paths.loader = node->loader;
                paths.libraries = node->libraries;
        }
        r = r < 0 ? r : put_spec(node, &paths, install, err);
        if (r == 0 && !node->has_no_cdi)
                r = put_cdi(node, &paths, install, err);
        r = r < 0 ? r : put_labels(node, install, err);
        r = r < 0 ? r : put_containerd(&paths, install, ret_may_lose, err);
        return r < 0 && !err->code ? err_set(err, r, "listing what the node gets") : r;
}

/* ---- containerd ------------------------------------------------------------------------------ */

/* Ends the containerd that listens there. Its containers stay; its unit starts it again (Restart=always, as
 * containerd's own unit says). */
static int end_containerd(const char *path, struct err *err)
{
        _cleanup_(closep) int fd = socket_connect(SOCK_STREAM, 5, "%s", path);
        char name[32] = "", comm[64];
        struct ucred peer = { 0 };
        FILE *file;
        int r = fd < 0 ? fd : socket_peer(fd, &peer);

        if (r < 0)
                return err_set(err, r, "finding containerd at %s", path);
        closep(&fd); /* it waits for its connections when it ends */
        (void)snprintf(comm, sizeof(comm), "/proc/%d/comm", (int)peer.pid);
        file = peer.pid > 1 ? fopen(comm, "re") : NULL;
        if (file) {
                (void)fgets(name, sizeof(name), file);
                (void)fclose(file);
        }
        if (strcmp(name, "containerd\n") != 0)
                return err_say(err, -ESRCH, "%s: no process 'containerd' that is seen here (it takes the host's pids)",
                               path);
        if (kill(peer.pid, SIGTERM) < 0)
                return err_set(err, -errno, "ending containerd, process %d", (int)peer.pid);
        for (int ms = 0; ms < PEER_MS && process_is_alive(peer.pid); ms += 50)
                (void)usleep(50 * 1000);
        return process_is_alive(peer.pid) ?
                       err_say(err, -EBUSY, "containerd, process %d, does not end", (int)peer.pid) :
                       0;
}

static int wake_containerd(const struct node *node, struct err *err)
{
        int r;

        if (!node->restart) {
                (void)printf("containerd has to be started again: systemctl restart containerd\n");
                return 0;
        }
        r = end_containerd(node->restart, err);
        if (r == 0)
                (void)printf("containerd was ended, and its unit starts it again\n");
        return r;
}

/* ---- what is asked --------------------------------------------------------------------------- */

static int install_pass(struct node *node, bool says_nothing, struct err *err)
{
        static struct install install; /* some 130 KiB */
        struct install_result result = { 0 };
        bool may_lose = false;
        int r;

        install.host = node->host;
        install.prefix = node->prefix;
        r = oci_options_release(&node->options, err);
        r = r < 0 ? r : put_all(node, &install, &may_lose, err);
        r = r < 0 ? r : install_apply(&install, &result, err);
        install_done(&install);
        if (r < 0)
                return r;
        if (result.n_changed)
                (void)printf("driver %s: %zu file%s written\n", node->options.release, result.n_changed,
                             result.n_changed == 1 ? "" : "s");
        else if (!result.wakes && !says_nothing)
                (void)printf("driver %s: nothing to change\n", node->options.release);
        if (may_lose && (result.n_changed || !says_nothing))
                (void)printf(
                        "look at 'containerd config dump': before containerd 2.0, an imported file with settings of "
                        "the CRI plugin replaces those of " CONTAINERD_CONFIG "\n");
        if (result.wakes) {
                r = wake_containerd(node, err);
                r = r < 0 ? r : install_settle(&install, err);
        }
        (void)fflush(stdout);
        return r;
}

static int node_install(struct node *node, struct err *err)
{
        return install_pass(node, false, err);
}

static int node_remove(struct node *node, struct err *err)
{
        const struct install install = { .host = node->host, .prefix = node->prefix };
        _cleanup_(freep) char *there = NULL, *shared = NULL;
        struct install_result result;
        size_t size;
        int r = install_read(&install, CONTAINERD_CONFIG, &there, &size);

        if (r < 0 && r != -ENOENT)
                return err_set(err, r, "reading %s%s", install.host, CONTAINERD_CONFIG);
        r = there ? containerd_without(there, &shared, err) : 0;
        if (r < 0)
                return err_while(err, "%s%s", install.host, CONTAINERD_CONFIG);
        r = install_remove(&install, CONTAINERD_CONFIG, shared, CONTAINERD_LEAST, &result, err);
        if (r < 0)
                return r;
        (void)printf(result.wakes ? "%zu files taken back\n" : "nothing is here\n", result.n_changed);
        r = result.wakes ? wake_containerd(node, err) : 0;
        (void)fflush(stdout);
        return r;
}

static int node_watch(struct node *node, struct err *err)
{
        const struct timespec pause = { .tv_sec = (time_t)(node->every / NSEC_PER_SEC),
                                        .tv_nsec = (long)(node->every % NSEC_PER_SEC) };
        sigset_t ends;

        (void)sigemptyset(&ends);
        (void)sigaddset(&ends, SIGTERM);
        (void)sigaddset(&ends, SIGINT);
        (void)sigprocmask(SIG_BLOCK, &ends, NULL);
        do {
                struct err wrong = { 0 };

                (void)install_pass(node, true, &wrong);
                if (wrong.code && strcmp(wrong.text, node->last) != 0)
                        (void)fprintf(stderr, "sublet: %s; again every %llu s\n", wrong.text,
                                      (unsigned long long)(node->every / NSEC_PER_SEC));
                memcpy(node->last, wrong.text, sizeof(node->last));
        } while (sigtimedwait(&ends, NULL, &pause) < 0);
        return node->is_removed_on_exit ? node_remove(node, err) : 0;
}

/* Paths: of the host's root, and on the host. */
static int complete(struct node *node, char host[static INSTALL_PATH], struct err *err)
{
        size_t n = strlen(node->host);

        if (node->host[0] != '/' || n > 200 || node->prefix[0] != '/' || strlen(node->prefix) > 200 ||
            node->root[0] != '/' || strlen(node->root) > 200 || strstr(node->prefix, "..") ||
            strpbrk(node->prefix, "\"\\\n\t "))
                return err_say(err, -EINVAL,
                               "--host, --prefix and --driver-root: absolute paths of at most 200 bytes, "
                               "without blanks and quotes");
        memcpy(host, node->host, n + 1);
        while (n && host[n - 1] == '/')
                host[--n] = '\0';
        node->host = host;
        (void)snprintf(node->program, sizeof(node->program), "%s/bin/sublet", node->prefix);
        (void)snprintf(node->file, sizeof(node->file), "%s/etc/containerd.json", node->prefix);
        (void)snprintf(node->libraries, sizeof(node->libraries), "%s/lib", node->prefix);
        node->options.path = node->program;
        node->options.file = node->file;
        return oci_options_complete(&node->options, err);
}

int node_main(int argc, char **argv)
{
        static struct node node = { .host = "/",
                                    .prefix = "/opt/sublet",
                                    .root = "/",
                                    .every = 30 * NSEC_PER_SEC,
                                    .options = { .name = "sublet" } };
        const struct flag flags[] = {
                { "host", 0, flag_text, &node.host, "DIR", "where the host's root directory is (default: /)", NULL },
                { "prefix", 0, flag_text, &node.prefix, "DIR",
                  "on the host, for what is only ours (default: /opt/sublet)", NULL },
                { "dir", 0, flag_text, &node.options.dir, "DIR",
                  "the daemon's directory on the host (default: $SUBLET_DIR, or /run/sublet)", NULL },
                { "driver-root", 0, flag_text, &node.root, "DIR",
                  "where the driver's libraries are on the host (default: /)", NULL },
                { "no-cdi", 0, flag_is, &node.has_no_cdi, NULL, "no description of the devices in /etc/cdi", NULL },
                { "restart", 0, flag_text, &node.restart, "SOCKET",
                  "where it is needed, end the containerd that listens there: its unit starts it again", NULL },
                { "every", 0, flag_span, &node.every, "TIME", "how often watch looks (default: 30s)", NULL },
                { "remove-on-exit", 0, flag_is, &node.is_removed_on_exit, NULL,
                  "watch takes all of it back when it is ended (SIGTERM)", NULL },
        };
        static const struct {
                const char *name;
                int (*act)(struct node *node, struct err *err);
        } parts[] = { { "install", node_install }, { "watch", node_watch }, { "remove", node_remove } };
        char host[INSTALL_PATH];
        struct err err = { 0 };
        int code, operand = flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 1, &code), r;

        if (operand < 0)
                return code;
        for (size_t i = 0; operand < argc && i < ARRAY_SIZE(parts); i++) {
                if (strcmp(argv[operand], parts[i].name) != 0)
                        continue;
                r = complete(&node, host, &err);
                if (r == 0)
                        r = parts[i].act(&node, &err);
                return r < 0 ? flags_failed(&err) : VERB_DONE;
        }
        (void)fprintf(stderr, "sublet: say what to do: install, watch or remove ('sublet node --help')\n");
        return VERB_USAGE;
}
