/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's options. */
#include "daemon/state/daemon.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/flags.h"
#include "base/when.h"
#include "net/socket.h"
#include "shim/mps_program.h"
#include "wire/own_file.h"

#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_DIR "/run/sublet"
#define DEFAULT_STATE "/var/lib/sublet/sublet.db"

static const char usage[] =
        "usage: sublet daemon [OPTION...]\n"
        "Leases the GPUs of this machine: admits tenants, shares GPU time, keeps accounts, answers the API.\n"
        "\n"
        "\f\n"
        "Tenants go on when the daemon ends, and a new daemon continues where it stopped.\n";

static int copy_path(char *to, size_t room, const char *what, const char *text, struct err *err)
{
        if ((size_t)snprintf(to, room, "%s", text) >= room || !*text)
                return err_say(err, -EINVAL, "%s %s: a path of 1 to %zu bytes", what, text, room - 1);
        return 0;
}

static int read_period(const struct flag *flag, const char *value, struct err *err)
{
        nsec period;

        if (duration_parse(value, &period) < 0 || period < 10 * NSEC_PER_MSEC || period > NSEC_PER_SEC)
                return flag_refuse(flag, value, "a time from 10ms to 1s", err);
        *(nsec *)flag->to = period;
        return 0;
}

static int read_patience(const struct flag *flag, const char *value, struct err *err)
{
        nsec *patience = flag->to;

        if (duration_parse(value, patience) < 0 || *patience > 300 * NSEC_PER_SEC)
                return flag_refuse(flag, value, "a time from 0s to 5m", err);
        return 0;
}

static int read_suspend_by(const struct flag *flag, const char *value, struct err *err)
{
        static const char *const names[] = {
                [SUSPEND_BY_CHECKPOINT] = "checkpoint", [SUSPEND_BY_AUTO] = "auto", [SUSPEND_BY_COPIES] = "copies"
        };

        for (unsigned int i = 0; i < ARRAY_SIZE(names); i++)
                if (!strcmp(value, names[i])) {
                        *(enum suspend_by *)flag->to = i;
                        return 0;
                }
        return flag_refuse(flag, value, "auto, copies or checkpoint", err);
}

static int read_policy(const struct flag *flag, const char *value, struct err *err)
{
        if (turns_policy_parse(value, flag->to) < 0)
                return flag_refuse(flag, value, "auto, slices, turns, strict or none", err);
        return 0;
}

static int read_part(const struct flag *flag, const char *value, struct err *err)
{
        unsigned int part;

        if (permille_parse(value, &part) < 0)
                return flag_refuse(flag, value, "a part of a tenant's time on the device, 0.1% to 100%, such as 10%",
                                   err);
        *(permille *)flag->to = part;
        return 0;
}

static int read_group(const struct flag *flag, const char *value, struct err *err)
{
        const struct group *group = getgrnam(value);

        if (!group)
                return err_say(err, -EINVAL, "--group %s: there is no such group ('groupadd --system %s')", value,
                               value);
        *(gid_t *)flag->to = group->gr_gid;
        return 0;
}

/* dir, state: as they were given; NULL: they were not */
static int choose_paths(struct settings *settings, const char *dir, const char *state, struct err *err)
{
        const char *named = getenv("SUBLET_DIR"), *what = dir ? "--dir" : "SUBLET_DIR";
        bool is_default = !dir && !(named && *named);

        if (!dir)
                dir = is_default ? DEFAULT_DIR : named;
        if (copy_path(settings->dir, sizeof(settings->dir), what, dir, err) < 0 ||
            (state && copy_path(settings->state, sizeof(settings->state), "--state", state, err) < 0))
                return -EINVAL;
        if (!state)
                (void)snprintf(settings->state, sizeof(settings->state), is_default ? DEFAULT_STATE : "%s/sublet.db",
                               settings->dir);
        return 0;
}

static int check_together(const struct settings *settings, struct err *err)
{
        char host[SOCKET_HOST];
        unsigned int port;

        if (settings->listen && socket_where_parse(settings->listen, host, &port, err) < 0)
                return -EINVAL;
        if ((settings->token || settings->cert || settings->key || settings->callers) && !settings->listen)
                return err_say(err, -EINVAL, "--token, --cert, --key and --callers are for --listen ADDR:PORT");
        if (!settings->cert != !settings->key)
                return err_say(err, -EINVAL, "TLS needs both: --cert FILE and --key FILE");
        if (settings->callers && !settings->cert)
                return err_say(err, -EINVAL, "--callers is for HTTPS: give --cert and --key");
        if (settings->swap && settings->overcommits)
                return err_say(err, -EINVAL,
                               "--swap promises what device and host hold together, --overcommit more than there is: "
                               "leave one of them out");
        return 0;
}

int settings_parse(struct settings *settings, int argc, char **argv, struct err *err)
{
        const char *dir = NULL, *state = NULL, *unmanaged = "report";
        const struct flag flags[] = {
                { "dir", 0, flag_text, &dir, "DIR", "its sockets (default: $SUBLET_DIR, or " DEFAULT_DIR ")", NULL },
                { "state", 0, flag_text, &state, "FILE",
                  "leases, usage and events (default: " DEFAULT_STATE ", or DIR/sublet.db\n"
                  "where another directory was named)",
                  NULL },
                { "policy", 0, read_policy, &settings->turns.policy, "NAME",
                  "how GPU time is shared: auto (default), slices, turns, strict, none", NULL },
                { "period", 0, read_period, &settings->turns.period, "TIME",
                  "of one round of turns: 10ms to 1s (default: 100ms; slices: by the number of tenants)", NULL },
                { "strangers", 0, flag_word, &unmanaged, "=report|stop",
                  "programs on a device that belong to no tenant: report (default), or also end them", NULL },
                { "overcommit", 0, flag_is, &settings->overcommits, NULL,
                  "lease more memory than there is; tenants may then be refused below their quota", NULL },
                { "suspend-by", 0, read_suspend_by, &settings->suspend_by, "WAY",
                  "how memory is moved: auto (default), by copies of the tenant's gate where those can move\n"
                  "most of it, else by checkpoint, the driver's own; copies; checkpoint",
                  NULL },
                { "swap", 0, flag_bytes, &settings->swap, "SIZE",
                  "host memory for suspended tenants, which copies find ready, and lease with --swap up to\n"
                  "it (default: no limit, nothing ready, and no such leases)",
                  NULL },
                { "swap-cost", 0, read_part, &settings->swap_cost, "PERCENT",
                  "what moving a tenant with --swap may cost of its time on the device (default: 10%)", NULL },
                { "patience", 0, read_patience, &settings->patience, "TIME",
                  "how long a pod's container waits for its allocation: 0s to 5m (default: 20s)", NULL },
                { "group", 0, read_group, &settings->group, "NAME",
                  "only root and members of this group may lease and ask (default: every user)", NULL },
                { "own-memory", 0, flag_text, &settings->own_memory, "FILE",
                  "what the driver takes unasked, of 'sublet doctor --measure' (default: " OWN_FILE ")", NULL },
                { "host-root", 0, flag_text, &settings->host_root, "DIR", HOST_ROOT_HELP, NULL },
                { "listen", 0, flag_once, &settings->listen, "ADDR:PORT",
                  "answer GET over TCP to anyone who can reach it; :" DAEMON_PORT " is on this machine\n"
                  "only, 0.0.0.0:" DAEMON_PORT " on all its addresses (default: off)",
                  NULL },
                { "token", 0, flag_text, &settings->token, "FILE",
                  "with --listen: answer who sends what this file holds, as bearer token or password", NULL },
                { "cert", 0, flag_text, &settings->cert, "FILE", "with --listen: certificate, PEM: serve HTTPS", NULL },
                { "key", 0, flag_text, &settings->key, "FILE", "its private key", NULL },
                { "callers", 0, flag_text, &settings->callers, "FILE",
                  "with --cert: authorities, PEM: answer who shows a certificate of one of them", NULL },
        };
        int operand;

        settings->patience = 20 * NSEC_PER_SEC;
        settings->suspend_by = SUSPEND_BY_DEFAULT;
        settings->swap_cost = TURNS_WHOLE / 10;
        settings->group = GROUP_ANY;
        operand = flags_read(argc, argv, flags, ARRAY_SIZE(flags), usage, false, err);
        if (operand <= 0)
                return operand < 0 ? operand : 1;
        if (operand < argc)
                return err_say(err, -EINVAL, "'%s' is one word too many ('sublet daemon --help')", argv[operand]);
        if (check_together(settings, err) < 0)
                return -EINVAL;
        settings->stops_unmanaged = !strcmp(unmanaged, "stop");
        return choose_paths(settings, dir, state, err);
}
