/* SPDX-License-Identifier: Apache-2.0 */
/* Options of both `sublet run` and `sublet lease`. */
#include "run/run.h"

#include "base/err.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int parse_attach(struct run *run, const char *value, struct err *err)
{
        if (strcmp(value, "auto") && strcmp(value, "never") && strcmp(value, "required"))
                return err_say(err, -EINVAL, "--attach=%s: auto, never or required", value);
        run->attach = value;
        return 0;
}

static int parse_sms(struct run *run, const char *value, struct err *err)
{
        if (!*value || sms_parse(value, &run->sms) < 0)
                return err_say(err, -EINVAL, "--sms %s: a part of the multiprocessors, such as 25%% or 32", value);
        run->sms_text = value;
        return 0;
}

int run_take_option(struct run *run, int option, char **argv, const char *verb, struct err *err)
{
        switch (option) {
        case RUN_OPTION_ATTACH:
                return parse_attach(run, optarg, err);
        case RUN_OPTION_DIR:
                run->dir = optarg;
                return 0;
        case RUN_OPTION_GPU:
                run->grant.gpus = optarg;
                return 0;
        case RUN_OPTION_HOST:
                run->grant.host = optarg;
                return 0;
        case RUN_OPTION_MANAGED:
                run->grant.managed = optarg;
                return 0;
        case RUN_OPTION_MEM:
                run->grant.memory = optarg;
                return 0;
        case RUN_OPTION_NAME:
                run->tenant = optarg;
                run->is_named = true;
                return 0;
        case RUN_OPTION_NO_DAEMON:
                run->is_alone = true;
                return 0;
        case RUN_OPTION_SMS:
                return parse_sms(run, optarg, err);
        case ':':
                return err_say(err, -EINVAL, "%s needs a value", argv[optind - 1]);
        default:
                return err_say(err, -EINVAL, "unknown option %s ('sublet %s --help')", argv[optind - 1], verb);
        }
}

static const char *last_part(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash && slash[1] ? slash + 1 : path;
}

void run_fill_in(struct run *run, const char *path)
{
        if (!run->tenant)
                run->tenant = last_part(path);
        (void)snprintf(run->lease.tenant, sizeof(run->lease.tenant), "%s", run->tenant);
        if (!run->dir)
                run->dir = getenv("SUBLET_DIR") ? getenv("SUBLET_DIR") : "/run/sublet";
}
