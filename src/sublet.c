/* SPDX-License-Identifier: Apache-2.0 */
/* The program: a table of verbs. Only this file sees every room. */
#include "base/cleanup.h"
#include "bench/verbs.h"
#include "cli/verbs.h"
#include "daemon/verbs.h"
#include "doctor/verbs.h"
#include "kube/extender/verbs.h"
#include "kube/kubectl/verbs.h"
#include "kube/plugin/verbs.h"
#include "kube/webhook/verbs.h"
#include "oci/verbs.h"
#include "plan/verbs.h"
#include "route/agent/verbs.h"
#include "run/verbs.h"
#include "shim/verbs.h"
#include "sim/verbs.h"

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
        (void)fprintf(to, "\n'sublet VERB --help' says more; 'sublet --version' the version.\n");
}

int main(int argc, char **argv)
{
        const char *name = argc > 1 ? argv[1] : "", *slash = argc ? strrchr(argv[0], '/') : NULL;

        if (argc && !strcmp(slash ? slash + 1 : argv[0], "kubectl-sublet"))
                return kubectl_main(argc, argv);
        if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
                help(stdout);
                return 0;
        }
        if (!strcmp(name, "--version")) {
                (void)printf("sublet %s\n", SUBLET_VERSION);
                return 0;
        }
        for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
                if (!strcmp(name, verbs[i].name))
                        return verbs[i].main(argc - 1, argv + 1);
        if (argc > 1)
                (void)fprintf(stderr, "sublet: there is no verb '%s' ('sublet help')\n", name);
        else
                help(stderr);
        return 2;
}
