/* SPDX-License-Identifier: Apache-2.0 */
/* The program: a table of verbs. Only this file sees every room. */
#include "base/cleanup.h"
#include "base/flags.h"
#include "base/text.h"
#include "bench/verbs.h"
#include "cli/verbs.h"
#include "daemon/verbs.h"
#include "doctor/verbs.h"
#include "kube/dra/verbs.h"
#include "kube/extender/verbs.h"
#include "kube/kubectl/verbs.h"
#include "kube/plugin/verbs.h"
#include "kube/webhook/verbs.h"
#include "oci/node/verbs.h"
#include "oci/verbs.h"
#include "plan/verbs.h"
#include "record/verbs.h"
#include "route/agent/verbs.h"
#include "run/verbs.h"
#include "shim/verbs.h"
#include "sim/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct verb {
        const char *name;
        int (*main)(int argc, char **argv);
        const char *arguments, *meaning;
};

static const struct verb verbs[] = {
#define VERB(name, main, arguments, meaning) { name, main, arguments, meaning },
#include "verbs.def"
#undef VERB
};

static void help(FILE *to)
{
        (void)fprintf(to, "usage: sublet VERB [ARGUMENT...]\n"
                          "Rents out one NVIDIA GPU to many programs.\n\n");
        for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
                if (verbs[i].meaning)
                        (void)fprintf(to, "  %-13s %s\n                sublet %s %s\n", verbs[i].name, verbs[i].meaning,
                                      verbs[i].name, verbs[i].arguments);
        (void)fprintf(to, "\n'sublet help VERB' says more; 'sublet --version' the version.\n");
}

static const struct verb *verb_find(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
                if (!strcmp(name, verbs[i].name))
                        return &verbs[i];
        return NULL;
}

static int refuse_unknown(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
                if (verbs[i].meaning && text_is_like(name, verbs[i].name)) {
                        (void)fprintf(stderr, "sublet: there is no verb '%s': did you mean '%s'? ('sublet help')\n",
                                      name, verbs[i].name);
                        return VERB_USAGE;
                }
        (void)fprintf(stderr, "sublet: there is no verb '%s' ('sublet help')\n", name);
        return VERB_USAGE;
}

/* What a verb printed must have arrived: a full disk is an error of the verb. One that found fault with something, and
 * so ends with 1, has said nothing of a disk; where it has, it has flushed the text, and nothing is left to fail. */
static int end(int code)
{
        int r = fflush(stdout) != 0 ? errno : !code && ferror(stdout) ? EIO : 0;

        if (!r || code > VERB_REFUSED)
                return code;
        (void)fprintf(stderr, "sublet: standard output: %s\n", strerror(r));
        return VERB_REFUSED;
}

/* `sublet help VERB` is `sublet VERB --help`. */
static int help_of(char *name)
{
        char option[] = "--help", *argv[] = { name, option, NULL };
        const struct verb *verb = verb_find(name);

        return verb ? end(verb->main(2, argv)) : refuse_unknown(name);
}

int main(int argc, char **argv)
{
        const char *name = argc > 1 ? argv[1] : "", *slash = argc ? strrchr(argv[0], '/') : NULL;
        const struct verb *verb = verb_find(name);

        if (argc && !strcmp(slash ? slash + 1 : argv[0], "kubectl-sublet"))
                return kubectl_main(argc, argv);
        if (!strcmp(name, "help") && argc > 2)
                return argc > 3 ? flags_surplus(name, argv[3]) : help_of(argv[2]);
        if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
                help(stdout);
                return end(VERB_DONE);
        }
        if (!strcmp(name, "--version")) {
                (void)printf("sublet %s\n", SUBLET_VERSION);
                return end(VERB_DONE);
        }
        if (verb)
                return end(verb->main(argc - 1, argv + 1));
        if (argc > 1)
                return refuse_unknown(name);
        help(stderr);
        return VERB_USAGE;
}
