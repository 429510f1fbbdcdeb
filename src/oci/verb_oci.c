/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet oci`: the files by which container runtimes make their containers tenants. */
#include "oci/verbs.h"

#include "base/flags.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "oci/options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define CONFIG_MOST (16 << 20)

static const char usage[] =
        "usage: sublet oci profile [OPTION...]          a seccomp profile: runc, crun, podman, Docker, kubelet\n"
        "       sublet oci spec [OPTION...] < SPEC      a specification (of ctr oci spec, runc spec) with it and our "
        "hook\n"
        "       sublet oci config [--class]             containerd's settings; or the RuntimeClass\n"
        "       sublet oci runtime ...                  for Docker: runc, with such specifications (its own --help)\n"
        "What container runtimes are given so that their containers are tenants of the daemon.\n"
        "\n"
        "\f"
        "\n"
        "A profile is for one release of the driver: after an update of either, write it anew.\n";

static int print_json(const json_t *value, struct err *err)
{
        if (json_dumpf(value, stdout, JSON_INDENT(2)) < 0 || putchar('\n') < 0 || fflush(stdout) < 0)
                return err_set(err, errno ? -errno : -EIO, "standard output");
        return 0;
}

static int print_text(char *text, struct err *err)
{
        int r = !text ? -ENOMEM : fputs(text, stdout) < 0 || fflush(stdout) < 0 ? -EIO : 0;

        free(text);
        return r < 0 ? err_set(err, r, "standard output") : 0;
}

static int do_profile(const struct oci_options *options, struct err *err)
{
        json_t *profile;
        int r = oci_options_profile(options, &profile, err);

        if (r < 0)
                return r;
        r = print_json(profile, err);
        json_decref(profile);
        return r;
}

static int do_spec(const struct oci_options *options, struct err *err)
{
        const char *from = options->runtime ? options->runtime : "-";
        const struct spec_paths paths = oci_options_paths(options);
        json_t *profile, *spec, *made;
        int r;

        if (!options->runtime && isatty(STDIN_FILENO))
                return err_say(err, -EINVAL, "no specification to start from: ctr oci spec | sublet oci spec");
        r = oci_options_profile(options, &profile, err);
        if (r < 0)
                return r;
        r = oci_options_read(from, &spec, err);
        if (r == 0) {
                r = spec_make(spec, profile, &paths, &made, err);
                json_decref(spec);
        }
        if (r == 0) {
                r = print_json(made, err);
                json_decref(made);
        }
        json_decref(profile);
        return r;
}

/* The file that standard output is appended to has the handler already: containerd does not start with two. */
static bool has_handler(const char *name)
{
        _cleanup_(closep) int fd = open("/proc/self/fd/1", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        _cleanup_(freep) char *text = NULL;
        char table[128];
        struct stat status;
        ssize_t n;

        if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size > CONFIG_MOST)
                return false;
        text = calloc(1, (size_t)status.st_size + 1);
        n = text ? read(fd, text, (size_t)status.st_size) : 0;
        (void)snprintf(table, sizeof(table), ".containerd.runtimes.%.63s]", name);
        return n > 0 && strstr(text, table);
}

static int do_config(const struct oci_options *options, struct err *err)
{
        const struct spec_paths paths = oci_options_paths(options);

        if (!options->is_class && has_handler(paths.name))
                return err_say(err, -EINVAL, "runtime %s is in that file already: remove it there to write it anew",
                               paths.name);
        return print_text(options->is_class ? spec_class(&paths) : spec_containerd(&paths), err);
}

static bool is_name(const char *name)
{
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

        return n && n < 64 && !name[n] && name[0] != '-' && name[n - 1] != '-';
}

int oci_main(int argc, char **argv)
{
        struct oci_options options = { .name = "sublet", .file = "/etc/sublet/containerd.json" };
        const struct flag flags[] = {
                { "dir", 0, flag_text, &options.dir, "DIR",
                  "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)", NULL },
                { "base", 0, flag_text, &options.base, "FILE",
                  "join our rules to this profile, of Docker's or the runtimes' form (default: our own,\n"
                  "which allows what Docker and containerd allow, and no more)",
                  NULL },
                { "caps", 0, flag_text, &options.caps, "LIST",
                  "what a container may do besides, for a --base with conditions (default: Docker's)", NULL },
                { "driver", 0, oci_options_driver, &options.driver, "RELEASE",
                  "the driver that it will meet (default: this machine's)", NULL },
                { "runtime", 0, flag_text, &options.runtime, "FILE",
                  "the specification to start from (default: standard input)", NULL },
                { "name", 0, flag_text, &options.name, "NAME",
                  "of containerd's runtime and of the RuntimeClass (default: sublet)", NULL },
                { "file", 0, flag_text, &options.file, "FILE",
                  "where the specification will lie (default: /etc/sublet/containerd.json)", NULL },
                { "wait-killable", 0, flag_is, &options.is_killable, NULL,
                  "no signal interrupts a call that is decided; crun takes it, runc 1.1 does not", NULL },
                { "program", 0, flag_text, &options.path, "FILE",
                  "where the runtime finds sublet on the host (default: this program)", NULL },
                { "class", 0, flag_is, &options.is_class, NULL, NULL, NULL },
        };
        static const struct {
                const char *name;
                int (*act)(const struct oci_options *options, struct err *err);
        } parts[] = { { "profile", do_profile }, { "spec", do_spec }, { "config", do_config } };
        struct err err = { 0 };
        int code, operand, r;

        if (argc > 1 && !strcmp(argv[1], "runtime")) /* most of its arguments are another program's */
                return oci_runtime_main(argc - 1, argv + 1);
        operand = flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 1, &code);
        if (operand < 0)
                return code;
        for (size_t i = 0; operand < argc && i < ARRAY_SIZE(parts); i++) {
                if (strcmp(argv[operand], parts[i].name) != 0)
                        continue;
                r = oci_options_complete(&options, &err);
                if (r == 0 && (!is_name(options.name) || options.file[0] != '/' || strpbrk(options.file, "\"\\\n")))
                        r = err_say(&err, -EINVAL, "--name is letters, digits and '-'; --file an absolute path");
                if (r == 0)
                        r = parts[i].act(&options, &err);
                return r < 0 ? flags_failed(&err) : VERB_DONE;
        }
        (void)fprintf(stderr, "sublet: say what to write: profile, spec, config or runtime ('sublet oci --help')\n");
        return VERB_USAGE;
}
