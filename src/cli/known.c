/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/known.h"

#include "base/err.h"
#include "ask/ask.h"

#include <errno.h>
#include <stdio.h>

/* 1: the daemon's list for this tenant is not empty; 0; -errno. */
static int has_rows(struct ask *ask, const char *start, const char *tenant, struct err *err)
{
        char path[ASK_PATH];
        json_t *rows = NULL;
        int r;

        (void)snprintf(path, sizeof(path), "%s", start);
        r = ask_query(path, "tenant", tenant);
        if (r == 0)
                r = ask_query(path, "limit", "1");
        if (r < 0)
                return err_say(err, r, "%s: no tenant has such a long name", tenant);
        r = ask_get(ask, path, &rows, err);
        if (r == 0)
                r = json_array_size(rows) > 0;
        json_decref(rows);
        return r;
}

int known_check(struct ask *ask, const char *tenant, struct err *err)
{
        char path[ASK_PATH];
        json_t *found = NULL;
        int r = ask_path(path, "/v1/tenants/", tenant);

        if (r < 0)
                return err_say(err, r, "%s: no tenant has such a long name", tenant);
        r = ask_get(ask, path, &found, err);
        json_decref(found);
        if (r != -ENOENT)
                return r;
        if ((r = has_rows(ask, "/v1/usage", tenant, err)) == 0)
                r = has_rows(ask, "/v1/events", tenant, err);
        if (r == 0)
                return err_say(err, -ENOENT, "there is and was no tenant '%.63s' ('sublet ps -a' lists them)", tenant);
        return r < 0 ? r : 0;
}
