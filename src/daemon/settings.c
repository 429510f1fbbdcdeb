/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's options. */
#include "daemon/state/daemon.h"

#include "base/err.h"
#include "base/when.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        OPTION_DIR = 256,
        OPTION_LISTEN,
        OPTION_OVERCOMMIT,
        OPTION_PATIENCE,
        OPTION_PERIOD,
        OPTION_POLICY,
        OPTION_STATE,
        OPTION_UNMANAGED,
};

#define DEFAULT_DIR "/run/sublet"
#define DEFAULT_STATE "/var/lib/sublet/sublet.db"

static const struct option options[] = {
        { "dir", required_argument, NULL, OPTION_DIR },
        { "listen", required_argument, NULL, OPTION_LISTEN },
        { "overcommit", no_argument, NULL, OPTION_OVERCOMMIT },
        { "patience", required_argument, NULL, OPTION_PATIENCE },
        { "period", required_argument, NULL, OPTION_PERIOD },
        { "policy", required_argument, NULL, OPTION_POLICY },
        { "state", required_argument, NULL, OPTION_STATE },
        { "strangers", required_argument, NULL, OPTION_UNMANAGED },
        { "help", no_argument, NULL, 'h' },
        { 0 },
};

const char settings_usage[] =
        "usage: sublet daemon [OPTION...]\n"
        "Leases the GPUs of this machine: admits tenants, shares GPU time, keeps accounts, answers the API.\n"
        "\n"
        "  --dir DIR           its sockets (default: $SUBLET_DIR, or /run/sublet)\n"
        "  --state FILE        leases, usage and events (default: /var/lib/sublet/sublet.db, or DIR/sublet.db\n"
        "                      where another directory was named)\n"
        "  --policy NAME       how GPU time is shared: auto (default), slices, turns, strict, none\n"
        "  --period TIME       of one round of turns: 10ms to 1s (default: 100ms; slices: by the number of tenants)\n"
        "  --strangers=report|stop  programs on a device that belong to no tenant: report (default), or also end them\n"
        "  --overcommit        lease more memory than there is; tenants may then be refused below their quota\n"
        "  --patience TIME     how long a pod's container waits for its allocation: 0s to 5m (default: 20s)\n"
        "  --listen ADDR:PORT  answer GET over TCP to anyone who can reach it, e.g. :" DAEMON_PORT " (default: off)\n"
        "  -h, --help          this text\n"
        "\n"
        "Tenants go on when the daemon ends, and a new daemon continues where it stopped.\n";

static int copy_path(char *to, size_t room, const char *what, const char *text, struct err *err)
{
        if ((size_t)snprintf(to, room, "%s", text) >= room || !*text)
                return err_say(err, -EINVAL, "%s %s: a path of 1 to %zu bytes", what, text, room - 1);
        return 0;
}

static int parse_period(struct settings *settings, const char *text, struct err *err)
{
        nsec period;

        if (duration_parse(text, &period) < 0 || period < 10 * NSEC_PER_MSEC || period > NSEC_PER_SEC)
                return err_say(err, -EINVAL, "--period %s: a time from 10ms to 1s", text);
        settings->turns.period = period;
        return 0;
}

static int parse_patience(struct settings *settings, const char *text, struct err *err)
{
        if (duration_parse(text, &settings->patience) < 0 || settings->patience > 300 * NSEC_PER_SEC)
                return err_say(err, -EINVAL, "--patience %s: a time from 0s to 5m", text);
        return 0;
}

static int parse_option(struct settings *settings, int option, const char *word, struct err *err)
{
        switch (option) {
        case OPTION_DIR:
                return copy_path(settings->dir, sizeof(settings->dir), "--dir", optarg, err);
        case OPTION_LISTEN:
                settings->listen = optarg;
                return 0;
        case OPTION_OVERCOMMIT:
                settings->overcommits = true;
                return 0;
        case OPTION_PATIENCE:
                return parse_patience(settings, optarg, err);
        case OPTION_PERIOD:
                return parse_period(settings, optarg, err);
        case OPTION_POLICY:
                if (turns_policy_parse(optarg, &settings->turns.policy) < 0)
                        return err_say(err, -EINVAL, "--policy %s: auto, slices, turns, strict or none", optarg);
                return 0;
        case OPTION_STATE:
                return copy_path(settings->state, sizeof(settings->state), "--state", optarg, err);
        case OPTION_UNMANAGED:
                if (strcmp(optarg, "report") && strcmp(optarg, "stop"))
                        return err_say(err, -EINVAL, "--strangers=%s: report or stop", optarg);
                settings->stops_unmanaged = !strcmp(optarg, "stop");
                return 0;
        case 'h':
                return 1;
        case ':':
                return err_say(err, -EINVAL, "%s needs a value", word);
        default:
                return err_say(err, -EINVAL, "unknown option %s ('sublet daemon --help')", word);
        }
}

static int choose_paths(struct settings *settings, struct err *err)
{
        const char *named = getenv("SUBLET_DIR");
        bool is_default = !settings->dir[0] && !(named && *named);

        if (!settings->dir[0] &&
            copy_path(settings->dir, sizeof(settings->dir), "SUBLET_DIR", is_default ? DEFAULT_DIR : named, err) < 0)
                return -EINVAL;
        if (!settings->state[0])
                (void)snprintf(settings->state, sizeof(settings->state), is_default ? DEFAULT_STATE : "%s/sublet.db",
                               settings->dir);
        return 0;
}

int settings_parse(struct settings *settings, int argc, char **argv, struct err *err)
{
        int option, r;

        settings->patience = 20 * NSEC_PER_SEC;
        opterr = 0;
        optind = 1;
        while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
                r = parse_option(settings, option, argv[optind - 1], err);
                if (r)
                        return r;
        }
        if (optind < argc)
                return err_say(err, -EINVAL, "'%s' is one word too many ('sublet daemon --help')", argv[optind]);
        return choose_paths(settings, err);
}
