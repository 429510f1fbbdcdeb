/* `sublet plan`: which way to share which device, and why. */
#include "plan/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "conf/file.h"
#include "plan/read.h"
#include "plan/say.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

enum {
        EXIT_LEFT = 1, /* something does not fit */
        EXIT_USAGE = 2,
        OPTION_FACTS = 256,
        OPTION_MODELS,
};

static const char usage[] =
        "usage: sublet plan [--gpus MODEL[=N]]... [--facts[=FILE]] [--json] SERVICES.yaml\n"
        "Says which services should share which device in which way, and why. docs/plan.md describes the file.\n\n"
        "  -g, --gpus MODEL[=N]  devices there are, instead of the file's; may be repeated\n"
        "      --facts           print the figures it reckons with, and where they come from\n"
        "      --facts=FILE      replace some by those of FILE: {\"turn_loss\": 0.03}\n"
        "      --models          print the models it knows\n"
        "      --json            the plan as JSON, with a lease for each replica\n"
        "Exits with 1 if something does not fit.\n";

static void print_facts(const struct plan_facts *facts)
{
#define FACT(name, value, unit, meaning, source)                                                                       \
        (void)printf("%-16s %8.3g %-6s %s\n%34s%s\n", #name, facts->name, unit, meaning, "", source);
#include "plan/facts.def"
#undef FACT
}

static void print_models(void)
{
#define MODEL(name, mib, has_mig, slice) (void)printf("%-10s %8d MiB%s\n", name, mib, (has_mig) ? "  MIG" : "");
#include "plan/models.def"
#undef MODEL
}

struct options {
        struct plan_input gpus; /* those of the command line */
        const char *facts, *file;
        bool is_json, wants_facts, wants_models, wants_help;
};

static int parse(struct options *options, int argc, char **argv, struct err *err)
{
        static const struct option longs[] = { { "gpus", required_argument, NULL, 'g' },
                                               { "facts", optional_argument, NULL, OPTION_FACTS },
                                               { "models", no_argument, NULL, OPTION_MODELS },
                                               { "json", no_argument, NULL, 'j' },
                                               { "help", no_argument, NULL, 'h' },
                                               { 0 } };
        int c, r;

        optind = 0;
        opterr = 0;
        while ((c = getopt_long(argc, argv, ":g:jh", longs, NULL)) != -1)
                switch (c) {
                case 'g':
                        if ((r = plan_read_gpus(optarg, &options->gpus, err)) < 0)
                                return err_while(err, "--gpus");
                        break;
                case OPTION_FACTS:
                        options->facts = optarg;
                        options->wants_facts = !optarg;
                        break;
                case OPTION_MODELS:
                        options->wants_models = true;
                        break;
                case 'j':
                        options->is_json = true;
                        break;
                case 'h':
                        options->wants_help = true;
                        break;
                case ':':
                        return err_say(err, -EINVAL, "%s needs a value", argv[optind - 1]);
                default:
                        return err_say(err, -EINVAL, "unknown option %s ('sublet plan --help')", argv[optind - 1]);
                }
        options->file = argv[optind];
        if (!options->file && !options->wants_facts && !options->wants_models && !options->wants_help)
                return err_say(err, -EINVAL, "no file of services ('sublet plan --help')");
        return 0;
}

static void unref(json_t **value)
{
        json_decref(*value);
}

static int load_facts(const char *path, struct plan_facts *ret, struct err *err)
{
        _cleanup_(unref) json_t *file = NULL;
        int r;

        *ret = plan_facts;
        if (!path)
                return 0;
        r = conf_read(path, &file, err);
        return r < 0 ? r : plan_read_facts(path, file, ret, err);
}

static int load(const struct options *options, struct plan_input *input, struct plan *plan, struct err *err)
{
        _cleanup_(unref) json_t *file = NULL;
        const struct plan_input *gpus = options->gpus.n_devices ? &options->gpus : input;
        int r;

        if ((r = conf_read(options->file, &file, err)) < 0 || (r = plan_read(options->file, file, input, err)) < 0)
                return r;
        if (!gpus->n_devices)
                return err_say(err, -EINVAL, "%s names no devices: add «gpus: [H200=2]», or --gpus H200=2",
                               options->file);
        plan->services = input->services;
        plan->n_services = input->n_services;
        plan->n_devices = gpus->n_devices;
        for (size_t i = 0; i < gpus->n_devices; i++)
                plan->devices[i].model = gpus->devices[i];
        return 0;
}

static int print_json(const struct plan *plan)
{
        _cleanup_(unref) json_t *found = plan_json(plan);

        if (!found || json_dumpf(found, stdout, JSON_INDENT(2)) < 0)
                return -ENOMEM;
        return putchar('\n') == EOF ? -EIO : 0;
}

int plan_main(int argc, char **argv)
{
        static struct options options;
        static struct plan_input input; /* large */
        static struct plan plan;
        struct err err = { 0 };
        int r = parse(&options, argc, argv, &err);

        if (r == 0 && options.wants_help)
                return fputs(usage, stdout) < 0;
        if (r == 0 && options.wants_models) {
                print_models();
                return 0;
        }
        if (r == 0)
                r = load_facts(options.facts, &plan.facts, &err);
        if (r == 0 && options.wants_facts) {
                print_facts(&plan.facts);
                return 0;
        }
        if (r == 0)
                r = load(&options, &input, &plan, &err);
        if (r < 0) {
                (void)fprintf(stderr, "sublet: %s\n", err.text);
                return EXIT_USAGE;
        }
        plan_make(&plan);
        if (!options.is_json)
                plan_say(stdout, &plan);
        else if (print_json(&plan) < 0)
                return EXIT_USAGE;
        return plan.n_left ? EXIT_LEFT : 0;
}
