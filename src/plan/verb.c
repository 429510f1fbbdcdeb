/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet plan`: which way to share which device, and why. */
#include "plan/verbs.h"

#include "ask/ask.h"
#include "base/flags.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "conf/file.h"
#include "plan/change.h"
#include "plan/print.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

enum {
        EXIT_LEFT = 1, /* something does not fit, or was refused */
        EXIT_USAGE = 2,
        EXIT_DIFFERS = 3, /* --diff: something would change */
};

static const char usage[] =
        "usage: sublet plan [--gpus MODEL[=N]]... [--facts[=FILE]] [-o FORMAT] SERVICES.yaml\n"
        "       sublet plan --diff|--apply [--json] [--dir DIR] SERVICES.yaml\n"
        "Says which services should share which device in which way, and why. docs/plan.md describes the file.\n\n"
        "\f"
        "Exits with 0; 1 if something does not fit or was refused; 2 for bad use; 3 if --diff finds a difference.\n";

static void print_fact(const char *name, double value, const char *unit, const char *meaning, const char *source)
{
        (void)printf("%-16s %8.3g %-6s %s\n%34s%s\n", name, value, unit, meaning, "", source);
}

static int print_json(json_t *owned)
{
        _cleanup_(json_decrefp) json_t *found = owned;

        if (!found || json_dumpf(found, stdout, JSON_INDENT(2)) < 0)
                return -ENOMEM;
        return putchar('\n') == EOF ? -EIO : 0;
}

static int print_facts(const struct plan_facts *facts, bool is_json)
{
        static const struct {
                const char *name, *unit, *meaning, *source;
                size_t offset;
        } rows[PLAN_N_FACTS] = {
#define FACT(name, value, unit, meaning, source) { #name, unit, meaning, source, offsetof(struct plan_facts, name) },
#include "plan/facts.def"
#undef FACT
        };
        json_t *list = is_json ? json_array() : NULL;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                double value = *(const double *)((const char *)facts + rows[i].offset);
                const char *source = facts->is_replaced[i] ? facts->from : rows[i].source;

                if (is_json)
                        (void)json_array_append_new(list, json_pack("{s:s, s:f, s:s, s:s, s:s}", "name", rows[i].name,
                                                                    "value", value, "unit", rows[i].unit, "meaning",
                                                                    rows[i].meaning, "source", source));
                else
                        print_fact(rows[i].name, value, rows[i].unit, rows[i].meaning, source);
        }
        return is_json ? print_json(list) : 0;
}

static int print_models(bool is_json)
{
        static const struct {
                const char *name;
                int mib;
                bool has_mig;
        } rows[] = {
#define MODEL(name, word, mib, has_mig, slice) { name, mib, has_mig },
#include "plan/models.def"
#undef MODEL
        };
        json_t *list = is_json ? json_array() : NULL;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (is_json)
                        (void)json_array_append_new(list,
                                                    json_pack("{s:s, s:I, s:b}", "name", rows[i].name, "memory_bytes",
                                                              (json_int_t)((bytes)rows[i].mib * MIB), "has_mig",
                                                              (int)rows[i].has_mig));
                else
                        (void)printf("%-10s %8d MiB%s\n", rows[i].name, rows[i].mib, rows[i].has_mig ? "  MIG" : "");
        return is_json ? print_json(list) : 0;
}

enum output {
        OUTPUT_TEXT,
        OUTPUT_JSON,
        OUTPUT_RUN,
        OUTPUT_KUBERNETES,
};

struct options {
        struct plan_input gpus; /* those of the command line */
        const char *facts, *file, *dir;
        bytes sleepers, host; /* 0: not given */
        enum output output;
        bool is_json, wants_facts, wants_models, wants_diff, wants_apply;
};

static int read_output(const struct flag *flag, const char *value, struct err *err)
{
        static const char *const words[] = { "text", "json", "run", "kubernetes" };

        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (!strcmp(value, words[i])) {
                        *(enum output *)flag->to = (enum output)i;
                        return 0;
                }
        return flag_refuse(flag, value, "text, json, run or kubernetes", err);
}

static int read_gpus(const struct flag *flag, const char *value, struct err *err)
{
        return plan_read_gpus(value, flag->to, err) < 0 ? err_while(err, "--gpus") : 0;
}

/* --facts prints them, --facts=FILE replaces some. */
static int read_facts(const struct flag *flag, const char *value, struct err *err)
{
        struct options *options = flag->to;

        (void)err;
        options->facts = value ? value : options->facts;
        options->wants_facts |= !value;
        return 0;
}

/* 0; 1: help was printed; -EINVAL. */
static int options_parse(struct options *options, int argc, char **argv, struct err *err)
{
        const struct flag flags[] = {
                { "gpus", 'g', read_gpus, &options->gpus, "MODEL[=N]",
                  "devices of a server, instead of the file's; may be repeated. MODEL=N:nvlink: joined by\n"
                  "NVLink, MODEL=N:nvlink=2: in pairs. Without either: those of this machine's daemon,\n"
                  "with what its other tenants have on them",
                  NULL },
                { "facts", 0, read_facts, options, "[=FILE]",
                  "print the figures it reckons with, and where they come from; or replace some by\n"
                  "those of FILE: 'sublet bench --modes' writes one",
                  NULL },
                { "models", 0, flag_is, &options->wants_models, NULL, "print the models it knows", NULL },
                { "output", 'o', read_output, &options->output, "FORMAT",
                  "text (default), json: with a lease for each replica, run: commands that start them,\n"
                  "kubernetes: Deployments",
                  NULL },
                { "json", 0, flag_is, &options->is_json, NULL, "the same as -o json; also of --facts and --models",
                  NULL },
                { "sleepers", 0, flag_bytes, &options->sleepers, "SIZE",
                  "how many more tenants of this size fit if they are suspended almost always", NULL },
                { "host-memory", 0, flag_bytes, &options->host, "SIZE",
                  "what each server has of it for those that are suspended (default: what the daemon\n"
                  "has by --swap, else no bound)",
                  NULL },
                { "diff", 0, flag_is, &options->wants_diff, NULL,
                  "what the daemon's tenants would have to change to be as planned", NULL },
                { "apply", 0, flag_is, &options->wants_apply, NULL,
                  "change it: memory, share and class of who runs; nobody is started or ended", NULL },
                { "dir", 0, flag_text, &options->dir, "DIR",
                  "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)", NULL },
        };
        int operand = flags_read(argc, argv, flags, ARRAY_SIZE(flags), usage, false, err);

        if (operand <= 0)
                return operand < 0 ? operand : 1;
        if (options->is_json)
                options->output = OUTPUT_JSON;
        options->file = argv[operand];
        if (options->wants_facts || options->wants_models)
                return 0;
        if (!options->file)
                return err_say(err, -EINVAL, "no file of services ('sublet plan --help')");
        if (argv[operand + 1])
                return err_say(err, -EINVAL, "'%s' is one too many ('sublet plan --help')", argv[operand + 1]);
        if ((options->wants_diff || options->wants_apply) && options->gpus.n_devices)
                return err_say(err, -EINVAL, "--diff and --apply are for the devices that the daemon has: no --gpus");
        if ((options->wants_diff || options->wants_apply) && options->output > OUTPUT_JSON)
                return err_say(err, -EINVAL, "--diff and --apply are said as text or json");
        return 0;
}

static int load_facts(const char *path, struct plan_facts *ret, struct err *err)
{
        _cleanup_(json_decrefp) json_t *file = NULL;
        int r;

        *ret = plan_facts;
        if (!path)
                return 0;
        r = conf_read(path, &file, NULL, err);
        return r < 0 ? r : plan_read_facts(path, file, ret, err);
}

/* Large, and one of each. */
static struct plan_input input;
static struct plan_live live;
static struct plan plan;

/* A file may name the devices that it is for; then the daemon must have them. */
static int check_devices(const char *file, struct err *err)
{
        bool is_same = input.n_devices == live.n_devices;

        for (size_t i = 0; is_same && i < live.n_devices; i++)
                is_same = !strcmp(input.devices[i]->name, live.models[i].name);
        return is_same ? 0 : err_say(err, -EINVAL, "%s is for other devices than the daemon has: remove 'gpus'", file);
}

/* The devices of the command line, else of the file, else of this machine's daemon. */
static int load(const struct options *options, struct ask *ask, struct err *err)
{
        _cleanup_(json_decrefp) json_t *file = NULL;
        const struct plan_input *gpus = options->gpus.n_devices ? &options->gpus : &input;
        bool is_live = options->wants_diff || options->wants_apply;
        struct conf_lines lines = { 0 };
        int r;

        r = conf_read(options->file, &file, &lines, err);
        if (r == 0)
                r = plan_read(options->file, file, &lines, &input, err);
        conf_lines_done(&lines);
        if (r < 0)
                return r;
        plan.services = input.services;
        plan.n_services = input.n_services;
        if (!gpus->n_devices || is_live) {
                r = plan_live_ask(ask, &input, &live, err);
                if (r < 0 && !is_live)
                        return err_while(err, "%s names no devices ('gpus: [H200=2]', or --gpus H200=2)",
                                         options->file);
                if (r < 0 || (gpus->n_devices && (r = check_devices(options->file, err)) < 0))
                        return r;
                plan_live_fill(&live, &plan);
                return 0;
        }
        plan.n_devices = gpus->n_devices;
        for (size_t i = 0; i < gpus->n_devices; i++)
                plan.devices[i] = (struct plan_device){ .model = gpus->devices[i],
                                                        .server = gpus->servers[i],
                                                        .nvlink = gpus->nvlink[i] };
        return 0;
}

static int print_plan(enum output output)
{
        switch (output) {
        case OUTPUT_JSON:
                return print_json(plan_json(&plan));
        case OUTPUT_RUN:
                plan_print_commands(stdout, &plan);
                return 0;
        case OUTPUT_KUBERNETES:
                plan_print_kubernetes(stdout, &plan);
                return 0;
        default:
                plan_print(stdout, &plan);
                return 0;
        }
}

/* --diff and --apply: the exit code. A plan that leaves a replica out is shown and never applied. */
static int change(const struct options *options, struct ask *ask, struct err *err)
{
        static struct plan_changes changes; /* large */
        bool is_applied = options->wants_apply && !plan.n_left;
        int r = 0;

        plan_changes_find(&plan, &live, &changes);
        if (is_applied)
                r = plan_changes_apply(ask, &changes, err);
        if (options->output == OUTPUT_JSON)
                (void)print_json(plan_changes_json(&changes));
        else
                plan_changes_say(stdout, &changes, is_applied);
        if (plan.n_left)
                (void)err_say(err, -EBUSY, "%s-%u%s not fit: %s: nothing was changed",
                              plan.services[plan.left[0].service].name, plan.left[0].replica + 1,
                              plan.n_left > 1 ? " and others do" : " does", plan.left[0].reason);
        if (r < 0 || plan.n_left)
                return flags_failed(err);
        return !is_applied && plan_changes_count(&changes) ? EXIT_DIFFERS : 0;
}

int plan_main(int argc, char **argv)
{
        static struct options options;
        _cleanup_(ask_freep) struct ask *ask = NULL;
        struct err err = { 0 };
        int r = options_parse(&options, argc, argv, &err);

        if (r == 1)
                return 0;
        if (r == 0 && options.wants_models)
                return print_models(options.output == OUTPUT_JSON) < 0 ? EXIT_USAGE : 0;
        if (r == 0)
                r = load_facts(options.facts, &plan.facts, &err);
        if (r == 0 && options.wants_facts)
                return print_facts(&plan.facts, options.output == OUTPUT_JSON) < 0 ? EXIT_USAGE : 0;
        if (r == 0)
                r = ask_new(options.dir, &ask, &err);
        plan.host = options.host;
        if (r == 0)
                r = load(&options, ask, &err);
        if (r == 0 && options.sleepers && !plan.host)
                r = err_say(&err, -EINVAL,
                            "--sleepers needs --host-memory: no daemon says how much there is for them "
                            "('sublet plan --help')");
        if (r < 0) {
                (void)flags_failed(&err);
                return EXIT_USAGE;
        }
        plan_make(&plan);
        plan.sleepers = (struct plan_sleepers){ .memory = options.sleepers, .host = plan.host };
        if (options.sleepers)
                plan_count_sleepers(&plan);
        if (options.wants_diff || options.wants_apply)
                return change(&options, ask, &err);
        if (print_plan(options.output) < 0)
                return EXIT_USAGE;
        return plan.n_left ? EXIT_LEFT : 0;
}
