/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet end` ends tenants, as docker kill ends containers. */
#include "cli/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "ask/ask.h"
#include "base/flags.h"

#include <stdio.h>

static const char usage[] = "usage: sublet end [--dir DIR] TENANT...\n"
                            "Ends tenants: their processes are killed, and what they hold is freed.\n"
                            "\n"
                            "\f";

static int tenant_end(struct ask *ask, const char *tenant, struct err *err)
{
        char path[ASK_PATH];
        int r;

        r = ask_path(path, "/v1/tenants/", tenant);
        if (r < 0)
                return err_say(err, r, "%s: no tenant has such a long name", tenant);
        r = ask_delete(ask, path, err);
        if (r == 0)
                (void)printf("%s\n", tenant);
        return r;
}

int end_main(int argc, char **argv)
{
        const char *dir = NULL;
        const struct flag flags[] = {
                { "dir", 0, flag_text, &dir, "DIR", "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)",
                  NULL },
        };
        _cleanup_(ask_freep) struct ask *ask = NULL;
        struct err err = { 0 };
        int code, operand = flags_parse(argc, argv, flags, ARRAY_SIZE(flags), usage, &code);

        if (operand < 0)
                return code;
        if (operand == argc) {
                (void)fprintf(stderr, "sublet: which tenant? ('sublet ps' lists them)\n");
                return VERB_USAGE;
        }
        if (ask_new(dir, &ask, &err) < 0)
                return flags_failed(&err);
        for (; operand < argc; operand++)
                if (tenant_end(ask, argv[operand], &err) < 0)
                        code = flags_failed(&err);
                else if (code != VERB_REFUSED)
                        code = VERB_DONE;
        return code;
}
