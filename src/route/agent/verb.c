/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet route`: sends every request to the replica that is expected to answer first. */
#include "route/agent/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "route/agent/agent.h"
#include "route/agent/inspect.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

enum {
        EXIT_FAILED = 1,
        EXIT_USAGE = 2,
        OPTION_MODULE = 256,
        OPTION_TLS,
        OPTION_CHECK,
        OPTION_SETTINGS,
        OPTION_LOG,
        OPTION_JSON,
};

#define DIR_DEFAULT "/run/sublet/route"

static const char usage[] =
        "usage: sublet route [--dir DIR] [--tls CERT:KEY] [--check] CONFIG.yaml\n"
        "       sublet route state [--dir DIR] [--json]\n"
        "       sublet route explain ID [--dir DIR | --log FILE]\n"
        "Routes each inference request to the replica that is expected to answer first. Runs nginx with Sublet's\n"
        "module and keeps the module informed about the replicas. docs/router.md describes the file.\n\n"
        "  -d, --dir DIR         nginx's configuration, log and socket (" DIR_DEFAULT ", or $SUBLET_ROUTE_DIR)\n"
        "      --tls CERT:KEY    TLS on port 8443 with these files\n"
        "      --check           check the file and nginx's configuration, start nothing\n"
        "      --settings        print the keys of the file\n"
        "      --module FILE     Sublet's nginx module, if it is not where it was installed\n"
        "  state                 print the replicas as the router sees them now\n"
        "  explain ID            print why a request was sent to its replica; ID is its X-Request-Id\n";

struct options {
        struct agent_options agent;
        const char *log;
        bool is_json, wants_settings, wants_help;
};

static int parse_options(struct options *options, int argc, char **argv, struct err *err)
{
        static const struct option longs[] = { { "dir", required_argument, NULL, 'd' },
                                               { "module", required_argument, NULL, OPTION_MODULE },
                                               { "tls", required_argument, NULL, OPTION_TLS },
                                               { "check", no_argument, NULL, OPTION_CHECK },
                                               { "settings", no_argument, NULL, OPTION_SETTINGS },
                                               { "log", required_argument, NULL, OPTION_LOG },
                                               { "json", no_argument, NULL, OPTION_JSON },
                                               { "help", no_argument, NULL, 'h' },
                                               { 0 } };
        int c;

        optind = 0;
        opterr = 0;
        while ((c = getopt_long(argc, argv, ":d:h", longs, NULL)) != -1) {
                if (c == ':')
                        return err_say(err, -EINVAL, "%s needs a value", argv[optind - 1]);
                if (c == '?')
                        return err_say(err, -EINVAL, "unknown option %s ('sublet route --help')", argv[optind - 1]);
                options->agent.dir = c == 'd' ? optarg : options->agent.dir;
                options->agent.module = c == OPTION_MODULE ? optarg : options->agent.module;
                options->agent.tls = c == OPTION_TLS ? optarg : options->agent.tls;
                options->log = c == OPTION_LOG ? optarg : options->log;
                options->agent.is_check |= c == OPTION_CHECK;
                options->wants_settings |= c == OPTION_SETTINGS;
                options->is_json |= c == OPTION_JSON;
                options->wants_help |= c == 'h';
        }
        return 0;
}

static int need(int argc, int n, struct err *err)
{
        if (argc - optind == n)
                return 0;
        return err_say(err, -EINVAL,
                       argc - optind < n ? "an argument is missing ('sublet route --help')" :
                                           "too many arguments ('sublet route --help')");
}

static int run_command_line(struct options *options, int argc, char **argv, struct err *err)
{
        const char *first = optind < argc ? argv[optind] : "";
        int r;

        if (!strcmp(first, "state"))
                return (r = need(argc, 1, err)) < 0 ? r : route_state(options->agent.dir, options->is_json, err);
        if (!strcmp(first, "explain"))
                return (r = need(argc, 2, err)) < 0 ?
                               r :
                               route_explain(options->agent.dir, options->log, argv[optind + 1], err);
        if ((r = need(argc, 1, err)) < 0)
                return r;
        options->agent.config = first;
        return agent_run(&options->agent, err);
}

int route_main(int argc, char **argv)
{
        const char *dir = getenv("SUBLET_ROUTE_DIR");
        struct options options = { .agent = { .dir = dir && *dir ? dir : DIR_DEFAULT } };
        struct err err = { 0 };
        int r;

        r = parse_options(&options, argc, argv, &err);
        if (r == 0 && options.wants_help)
                (void)fputs(usage, stdout);
        else if (r == 0 && options.wants_settings)
                route_settings_print(stdout);
        else if (r == 0)
                r = run_command_line(&options, argc, argv, &err);
        if (r < 0)
                (void)fprintf(stderr, "sublet route: %s\n", err.text);
        return r == 0 ? 0 : r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
}
