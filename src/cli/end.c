/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet end` ends tenants, as docker kill ends containers; `sublet suspend` moves what they hold from the device to
 * host memory, `sublet resume` brings it back. */
#include "cli/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "ask/ask.h"
#include "ask/field.h"
#include "base/flags.h"

#include <stdio.h>

#define PATIENCE (15 * 60 * NSEC_PER_SEC) /* the daemon gives up before */

static const char end_usage[] = "usage: sublet end [--dir DIR] TENANT...\n"
                                "Ends tenants: their processes are killed, and what they hold is freed.\n"
                                "\n"
                                "\f";

static const char suspend_usage[] =
        "usage: sublet suspend [--dir DIR] TENANT...\n"
        "Moves what tenants hold from the GPU to host memory. Their programs notice nothing, but that CUDA calls\n"
        "wait. One that goes on putting work wakes at once, unless it has --swap; the others stay out until\n"
        "'sublet resume', or until they have work.\n"
        "\n"
        "\f"
        "\n"
        "By copies 40 GiB take about a second, and so does the way back; by the driver's checkpoint, which is for\n"
        "what copies cannot move, ten seconds and more. What cannot be suspended is refused and runs on. A tenant\n"
        "that is suspended already is left as it is. The exit code is 0; 1 if one was refused; 2 for bad use.\n";

static const char resume_usage[] =
        "usage: sublet resume [--dir DIR] TENANT...\n"
        "Brings back to the GPU what suspended tenants held, at the same addresses, and lets them go on.\n"
        "\n"
        "\f"
        "\n"
        "A tenant that is not suspended is left as it is. The exit code is 0; 1 if one could not be resumed, which\n"
        "then stays suspended; 2 for bad use.\n";

static int tenant_end(struct ask *ask, const char *path, const char *tenant, struct err *err)
{
        int r = ask_delete(ask, path, err);

        if (r == 0)
                (void)printf("%s\n", tenant);
        return r;
}

static int tenant_move(struct ask *ask, const char *path, const char *tenant, bool suspends, struct err *err)
{
        json_t *body = json_pack("{s:b}", "suspended", (int)suspends), *after = NULL;
        int r = ask_patch_within(ask, path, body, PATIENCE, &after, err);

        if (r == 0)
                (void)printf("%s: %s\n", tenant, field_text(after, "state"));
        json_decref(after);
        json_decref(body);
        return r;
}

static int tenant_suspend(struct ask *ask, const char *path, const char *tenant, struct err *err)
{
        return tenant_move(ask, path, tenant, true, err);
}

static int tenant_resume(struct ask *ask, const char *path, const char *tenant, struct err *err)
{
        return tenant_move(ask, path, tenant, false, err);
}

/* All that are named, also behind one that was refused. */
static int each_tenant(int argc, char **argv, const char *usage,
                       int (*act)(struct ask *ask, const char *path, const char *tenant, struct err *err))
{
        const char *dir = NULL;
        const struct flag flags[] = {
                { "dir", 0, flag_text, &dir, "DIR", "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)",
                  NULL },
        };
        _cleanup_(ask_freep) struct ask *ask = NULL;
        struct err err = { 0 };
        char path[ASK_PATH];
        int code, operand = flags_parse(argc, argv, flags, ARRAY_SIZE(flags), usage, &code);

        if (operand < 0)
                return code;
        if (operand == argc) {
                (void)fprintf(stderr, "sublet: which tenant? ('sublet ps' lists them)\n");
                return VERB_USAGE;
        }
        if (ask_new(dir, &ask, &err) < 0)
                return flags_failed(&err);
        for (code = VERB_DONE; operand < argc; operand++) {
                int r = ask_path(path, "/v1/tenants/", argv[operand]);

                if (r < 0)
                        r = err_say(&err, r, "%s: no tenant has such a long name", argv[operand]);
                else
                        r = act(ask, path, argv[operand], &err);
                if (r < 0)
                        code = flags_failed(&err);
        }
        return code;
}

int end_main(int argc, char **argv)
{
        return each_tenant(argc, argv, end_usage, tenant_end);
}

int suspend_main(int argc, char **argv)
{
        return each_tenant(argc, argv, suspend_usage, tenant_suspend);
}

int resume_main(int argc, char **argv)
{
        return each_tenant(argc, argv, resume_usage, tenant_resume);
}
