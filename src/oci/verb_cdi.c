/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet cdi`: the devices of this machine, for podman, containerd and kubelet. */
#include "oci/verbs.h"

#include "base/flags.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "oci/cdi.h"
#include "oci/options.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
        "usage: sublet cdi generate [OPTION...]\n"
        "       sublet cdi list [--json]\n"
        "Describes the devices of this machine for container engines: " CDI_KIND "=0, =GPU-..., =all.\n"
        "\n"
        "\f"
        "\n"
        "A description cannot carry a seccomp profile: give the container one of 'sublet oci profile' as well.\n"
        "The hook refuses to start a container without it.\n";

struct cdi {
        struct oci_options options;
        const char *output, *root;
        bool has_no_hook, is_json;
};

static int machine_of(const struct cdi *cdi, struct machine *machine, struct err *err)
{
        struct oci_options options = cdi->options;
        int r = oci_options_release(&options, err);

        return r < 0 ? r : machine_find(cdi->root, options.release, machine, err);
}

static int cdi_generate(const struct cdi *cdi, struct err *err)
{
        const struct spec_paths paths = oci_options_paths(&cdi->options);
        static struct machine machine; /* some tens of KiB */
        json_t *made;
        int r;

        r = machine_of(cdi, &machine, err);
        if (r < 0)
                return r;
        made = cdi_write(&machine, cdi->has_no_hook ? NULL : &paths);
        if (!made)
                return err_set(err, -ENOMEM, "describing the devices");
        if (cdi->output)
                r = oci_options_write(cdi->output, made, err);
        else if (json_dumpf(made, stdout, JSON_INDENT(2)) < 0 || putchar('\n') < 0 || fflush(stdout) < 0)
                r = err_set(err, errno ? -errno : -EIO, "standard output");
        json_decref(made);
        return r;
}

static int cdi_list(const struct cdi *cdi, struct err *err)
{
        static struct machine machine;
        json_t *made, *names, *device;
        size_t i;
        int r;

        r = machine_of(cdi, &machine, err);
        if (r < 0)
                return r;
        made = cdi_write(&machine, NULL);
        names = json_array();
        json_array_foreach (json_object_get(made, "devices"), i, device) {
                const char *name = json_string_value(json_object_get(device, "name"));

                (void)json_array_append_new(names, json_sprintf(CDI_KIND "=%s", name));
                if (!cdi->is_json)
                        (void)printf(CDI_KIND "=%s\n", name);
        }
        if (cdi->is_json)
                (void)json_dumpf(names, stdout, JSON_INDENT(1));
        if (cdi->is_json)
                (void)putchar('\n');
        json_decref(names);
        json_decref(made);
        return fflush(stdout) < 0 ? err_set(err, errno ? -errno : -EIO, "standard output") : 0;
}

int cdi_main(int argc, char **argv)
{
        struct cdi cdi = { .root = "/" };
        const struct flag flags[] = {
                { "output", 'o', flag_text, &cdi.output, "FILE",
                  "write it there, in one step (/etc/cdi/sublet.json; default: standard output)", NULL },
                { "driver-root", 0, flag_text, &cdi.root, "DIR", "where the driver's libraries are (default: /)",
                  NULL },
                { "dir", 0, flag_text, &cdi.options.dir, "DIR",
                  "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)", NULL },
                { "program", 0, flag_text, &cdi.options.path, "FILE",
                  "where the runtime finds sublet on the host (default: this program)", NULL },
                { "no-hook", 0, flag_is, &cdi.has_no_hook, NULL,
                  "without sublet hook, where the runtime has it already (sublet oci spec)", NULL },
                { "json", 0, flag_is, &cdi.is_json, NULL, "the list as JSON", NULL },
        };
        struct err err = { 0 };
        int code, operand = flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 1, &code), r;
        bool is_list;

        if (operand < 0)
                return code;
        is_list = operand < argc && !strcmp(argv[operand], "list");
        if (!is_list && (operand == argc || strcmp(argv[operand], "generate") != 0)) {
                (void)fprintf(stderr, "sublet: say what to do: generate or list ('sublet cdi --help')\n");
                return VERB_USAGE;
        }
        r = oci_options_complete(&cdi.options, &err);
        if (r == 0 && cdi.root[0] != '/')
                r = err_say(&err, -EINVAL, "--driver-root %s: an absolute path", cdi.root);
        if (r == 0)
                r = is_list ? cdi_list(&cdi, &err) : cdi_generate(&cdi, &err);
        return r < 0 ? flags_failed(&err) : VERB_DONE;
}
