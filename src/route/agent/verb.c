/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet route`: sends every request to the replica that is expected to answer first. */
#include "route/agent/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/flags.h"
#include "route/agent/agent.h"
#include "route/agent/inspect.h"
#include "route/settings/settings.h"

#include <errno.h>
#include <string.h>

enum {
        EXIT_FAILED = 1,
        EXIT_USAGE = 2,
};

#define DIR_DEFAULT "/run/sublet/route"

static const char usage[] =
        "usage: sublet route [--dir DIR] [--tls CERT:KEY] [--check] CONFIG.yaml | URL...\n"
        "       sublet route state [--dir DIR] [--json]\n"
        "       sublet route explain ID [--dir DIR | --log FILE] [--json]\n"
        "Routes each inference request to the replica that is expected to answer first. Runs nginx with Sublet's\n"
        "module and keeps the module informed about the replicas. docs/router.md describes the file; a URL is the "
        "address\n"
        "of a replica, such as http://10.0.0.5:8000.\n\n"
        "\f"
        "  state            print the replicas as the router sees them now\n"
        "  explain ID       print why a request was sent to its replica; ID is its X-Request-Id\n";

struct options {
        struct agent_options agent;
        const char *log;
        int operand; /* the first, in argv */
        bool is_json, wants_settings;
};

/* 0; 1: help was printed; -EINVAL. */
static int parse_options(struct options *options, int argc, char **argv, struct err *err)
{
        const struct flag flags[] = {
                { "dir", 'd', flag_text, &options->agent.dir, "DIR",
                  "nginx's configuration, log and socket (" DIR_DEFAULT ", or $SUBLET_ROUTE_DIR)", NULL },
                { "tls", 0, flag_text, &options->agent.tls, "CERT:KEY", "TLS on port 8443 with these files", NULL },
                { "listen", 0, flag_once, &options->agent.listen, "WHERE",
                  "where clients connect: PORT, ADDRESS:PORT or unix:/PATH (8080, or as the file says)", NULL },
                { "check", 0, flag_is, &options->agent.is_check, NULL,
                  "check the file and nginx's configuration, start nothing", NULL },
                { "settings", 0, flag_is, &options->wants_settings, NULL,
                  "print the keys of the file; --json: for programs", NULL },
                { "module", 0, flag_text, &options->agent.module, "FILE",
                  "Sublet's nginx module, if it is not where it was installed", NULL },
                { "log", 0, flag_text, &options->log, "FILE", NULL, NULL },
                { "json", 0, flag_is, &options->is_json, NULL, NULL, NULL },
        };

        options->operand = flags_read(argc, argv, flags, ARRAY_SIZE(flags), usage, false, err);
        return options->operand > 0 ? 0 : options->operand == 0 ? 1 : options->operand;
}

static void print_settings(bool is_json)
{
        json_t *rows = is_json ? route_settings_rows() : NULL;

        if (!is_json)
                route_settings_print(stdout);
        else
                (void)(json_dumpf(rows, stdout, JSON_INDENT(1)) == 0 && printf("\n"));
        json_decref(rows);
}

static int need(int n_given, int n, struct err *err)
{
        if (n_given == n)
                return 0;
        return err_say(err, -EINVAL,
                       n_given < n ? "an argument is missing ('sublet route --help')" :
                                     "too many arguments ('sublet route --help')");
}

static int run_command_line(struct options *options, int argc, char **argv, struct err *err)
{
        const char *first = options->operand < argc ? argv[options->operand] : "";
        int n = argc - options->operand, r;

        if (!strcmp(first, "state"))
                return (r = need(n, 1, err)) < 0 ? r : route_state(options->agent.dir, options->is_json, err);
        if (!strcmp(first, "explain"))
                return (r = need(n, 2, err)) < 0 ? r :
                                                   route_explain(options->agent.dir, options->log,
                                                                 argv[options->operand + 1], options->is_json, err);
        if (route_is_url(first)) {
                options->agent.urls = argv + options->operand;
                options->agent.n_urls = (size_t)n;
        } else if ((r = need(n, 1, err)) < 0) {
                return r;
        } else {
                options->agent.config = first;
        }
        r = agent_run(&options->agent, err);
        if (r == 0 && options->agent.is_check)
                (void)printf("%s: ok\n", options->agent.config ? first : "the command line");
        return r;
}

int route_main(int argc, char **argv)
{
        const char *dir = getenv("SUBLET_ROUTE_DIR");
        struct options options = { .agent = { .dir = dir && *dir ? dir : DIR_DEFAULT } };
        struct err err = { 0 };
        int r;

        r = parse_options(&options, argc, argv, &err);
        if (r == 1)
                return 0;
        if (r == 0 && options.wants_settings)
                print_settings(options.is_json);
        else if (r == 0)
                r = run_command_line(&options, argc, argv, &err);
        if (r < 0)
                (void)fprintf(stderr, "sublet route: %s\n", err.text);
        return r == 0 ? 0 : r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
}
