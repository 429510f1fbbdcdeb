/* SPDX-License-Identifier: Apache-2.0 */
/* Options of both `sublet run` and `sublet lease`, and what run.c has no room for. */
#include "run/run.h"

#include "base/err.h"
#include "base/flags.h"
#include "base/when.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int run_read_sms(const struct flag *flag, const char *value, struct err *err)
{
        struct run *run = flag->to;

        if (!*value || sms_parse(value, &run->sms) < 0)
                return flag_refuse(flag, value, "a part of the multiprocessors, such as 25% or 32", err);
        run->sms_text = value;
        return 0;
}

static const char *last_part(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash && slash[1] ? slash + 1 : path;
}

void run_fill_in(struct run *run, const char *path)
{
        run->is_named = run->tenant != NULL;
        if (!run->tenant)
                run->tenant = last_part(path);
        (void)snprintf(run->lease.tenant, sizeof(run->lease.tenant), "%s", run->tenant);
        run->is_dir_named = run->dir || getenv("SUBLET_DIR");
        if (!run->dir)
                run->dir = getenv("SUBLET_DIR") ? getenv("SUBLET_DIR") : "/run/sublet";
}

int run_read_sleep(const struct flag *flag, const char *value, struct err *err)
{
        nsec *after = flag->to;

        if (duration_parse(value, after) < 0 || *after < MESSAGE_SLEEP_LEAST || *after > MESSAGE_SLEEP_MOST)
                return flag_refuse(flag, value, "a time from 1s to 7d, such as 30s", err);
        return 0;
}
