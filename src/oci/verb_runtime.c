/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet oci runtime`: a container runtime for engines that pass no listener on (Docker before 23) or that take a
 * runtime more easily than a profile and a hook. Before `create` and `run` it writes the profile, the hook and, for a
 * container that asks for a lease, the devices into the bundle's config.json. Then it becomes runc, with the same
 * arguments.
 *
 * A container whose specification was not written is not started (exit 1, as runc's own failures), and the reason goes
 * where runc's would: to stderr, and to the file of --log, from which the engine takes its message.
 */
#include "oci/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/flags.h"
#include "oci/cdi.h"
#include "oci/options.h"
#include "oci/runtime.h"
#include "oci/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "oci/give.h"

static const char usage[] =
        "usage: sublet oci runtime [OPTION...] [ARGUMENT...]\n"
        "For Docker and other engines: runc, whose containers are tenants of the daemon. Its arguments are runc's.\n"
        "\n"
        "\f"
        "\n"
        "In /etc/docker/daemon.json:\n"
        "  {\"runtimes\": {\"sublet\": {\"path\": \"/usr/bin/sublet\", \"runtimeArgs\": [\"oci\", \"runtime\"]}}}\n"
        "then: docker run --runtime sublet -e SUBLET_MEM=8G -e SUBLET_SHARE=50 IMAGE (docs/containers.md)\n";

struct runtime {
        struct oci_options options;
        const char *runc, *root, *group;
};

static void json_freep(json_t **json)
{
        json_decref(*json);
}

/* Whether it asks for a lease, by the rules by which the daemon reads the same file. */
static int wants_lease(const json_t *spec, bool *ret, struct err *err)
{
        static struct oci_request asked;
        _cleanup_(freep) char *text = json_dumps(spec, JSON_COMPACT);
        const char *wrong = "size";

        if (!text)
                return err_set(err, -ENOMEM, "reading the specification");
        if (oci_config_parse(text, strlen(text), &asked, &wrong) < 0)
                return err_say(err, -EINVAL, "config.json: its %s is too long or not understood", wrong);
        *ret = asked.has_annotations || asked.mem[0] || asked.share[0] || asked.cap[0] || asked.class[0] ||
               asked.latency[0] || asked.sleep_after[0] || asked.swap[0] || asked.host_swap[0] || asked.gpus[0] ||
               asked.mode[0] || asked.job[0] || asked.group[0] || asked.capabilities[0];
        return 0;
}

static int give_all(const struct runtime *runtime, json_t *spec, struct err *err)
{
        static struct machine machine; /* some tens of KiB */
        _cleanup_(json_freep) json_t *cdi = NULL;
        struct oci_options options = runtime->options;
        int r = oci_options_release(&options, err);

        r = r < 0 ? r : machine_find(runtime->root, options.release, &machine, err);
        if (r < 0)
                return r;
        cdi = cdi_write(&machine, NULL);
        return cdi ? give_devices(spec, cdi, err) : err_set(err, -ENOMEM, "describing the devices");
}

/* The group of this runtime, which its annotation may name too. */
static int put_group(const struct runtime *runtime, json_t *spec, struct err *err)
{
        json_t *annotations = json_object_get(spec, "annotations");

        if (!runtime->group || json_object_get(annotations, "sublet.dev/group"))
                return 0;
        if (!annotations) {
                annotations = json_object();
                (void)json_object_set_new(spec, "annotations", annotations);
        }
        return json_object_set_new(annotations, "sublet.dev/group", json_string(runtime->group)) < 0 ?
                       err_set(err, -ENOMEM, "writing the group") :
                       0;
}

static int write_bundle(const struct runtime *runtime, const char *bundle, struct err *err)
{
        const struct spec_paths paths = oci_options_paths(&runtime->options);
        _cleanup_(json_freep) json_t *spec = NULL, *profile = NULL, *made = NULL;
        char path[PATH_MAX];
        bool wants = false;
        int r;

        if (snprintf(path, sizeof(path), "%s/config.json", bundle) >= (int)sizeof(path))
                return err_set(err, -ENAMETOOLONG, "the bundle");
        r = oci_options_read(path, &spec, err);
        r = r < 0 ? r : wants_lease(spec, &wants, err);
        r = r < 0 ? r : oci_options_profile(&runtime->options, &profile, err);
        r = r < 0 ? r : spec_make(spec, profile, &paths, &made, err);
        if (r == 0 && wants)
                r = put_group(runtime, made, err);
        if (r == 0 && wants)
                r = give_all(runtime, made, err);
        return r < 0 ? r : oci_options_write(path, made, err);
}

/* As logrus writes, which is what engines read: one line, in either form. */
static void log_failure(const struct runtime_call *call, const struct err *err)
{
        _cleanup_(closep) int fd = call->log ? open(call->log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
        _cleanup_(json_freep) json_t *line = NULL;
        _cleanup_(freep) char *text = NULL;
        char now[32] = "";
        time_t seconds = time(NULL);
        struct tm utc;

        (void)fprintf(stderr, "sublet: %s\n", err->text);
        if (fd < 0 || !gmtime_r(&seconds, &utc) || !strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", &utc))
                return;
        line = json_pack("{s:s, s:o, s:s}", "level", "error", "msg", json_sprintf("sublet: %s", err->text), "time",
                         now);
        text = line ? json_dumps(line, JSON_COMPACT) : NULL;
        if (text && call->is_log_json)
                (void)dprintf(fd, "%s\n", text);
        else if (text)
                (void)dprintf(fd, "time=\"%s\" level=error msg=\"sublet: %s\"\n", now, err->text);
}

/* How many of the arguments are ours: from the first that is not, all are runc's. */
static int count_ours(int argc, char **argv, const struct flag *flags, size_t n_flags)
{
        int at = 1;

        while (at < argc && !strncmp(argv[at], "--", 2)) {
                const char *name = argv[at] + 2;
                size_t length = strcspn(name, "="), i = 0;

                while (i < n_flags && (strlen(flags[i].name) != length || strncmp(flags[i].name, name, length) != 0))
                        i++;
                if (i == n_flags)
                        break;
                at += flags[i].argument && !name[length] ? 2 : 1;
        }
        return at < argc ? at : argc;
}

static int prepare(struct runtime *runtime, const struct runtime_call *call, struct err *err)
{
        int r = oci_options_complete(&runtime->options, err);

        if (r == 0 && runtime->root[0] != '/')
                r = err_say(err, -EINVAL, "--driver-root %s: an absolute path", runtime->root);
        return r < 0 ? r : write_bundle(runtime, call->bundle, err);
}

int oci_runtime_main(int argc, char **argv)
{
        struct runtime runtime = { .runc = "runc", .root = "/" };
        const struct flag flags[] = {
                { "dir", 0, flag_text, &runtime.options.dir, "DIR",
                  "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)", NULL },
                { "runc", 0, flag_text, &runtime.runc, "PROGRAM", "the runtime: runc (default) or crun, or its path",
                  NULL },
                { "base", 0, flag_text, &runtime.options.base, "FILE", "as of sublet oci profile, like the next three",
                  NULL },
                { "caps", 0, flag_text, &runtime.options.caps, "LIST", "", NULL },
                { "driver", 0, flag_text, &runtime.options.driver, "RELEASE", "", NULL },
                { "wait-killable", 0, flag_is, &runtime.options.is_killable, NULL, "", NULL },
                { "driver-root", 0, flag_text, &runtime.root, "DIR", "as of sublet cdi generate", NULL },
                { "group", 0, flag_text, &runtime.group, "NAME",
                  "the trust group of its containers that ask for a lease", NULL },
                { "program", 0, flag_text, &runtime.options.path, "FILE",
                  "where the runtime finds sublet on the host (default: this program)", NULL },
        };
        bool is_help = argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
        int ours = is_help ? argc : count_ours(argc, argv, flags, ARRAY_SIZE(flags)), code, r;
        _cleanup_(freep) char **mine = calloc((size_t)argc + 1, sizeof(*mine));
        struct runtime_call call = { .bundle = "." };
        struct err err = { 0 };

        if (!mine)
                return EXIT_FAILURE;
        memcpy(mine, argv, (size_t)ours * sizeof(*mine));
        if (flags_parse_most(ours, mine, flags, ARRAY_SIZE(flags), usage, 0, &code) < 0)
                return code;
        r = runtime_call_read((const char *const *)argv + ours, &call, &err);
        if (r == 0 && call.is_start)
                r = prepare(&runtime, &call, &err);
        if (r == 0) {
                argv[ours - 1] = (char *)(uintptr_t)runtime.runc;
                (void)execvp(runtime.runc, argv + ours - 1);
                (void)err_set(&err, -errno, "starting %s", runtime.runc);
        }
        log_failure(&call, &err);
        return EXIT_FAILURE;
}
