/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kubectl/kubectl_pod.h"

#include "base/cleanup.h"

#include <string.h>

static bool is_setting(const char *word)
{
        static const char *const keys[] = {
                "mem=", "share=", "cap=", "class=", "latency=", "sleep-after=", "host-swap="
        };

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                if (!strncmp(word, keys[i], strlen(keys[i])))
                        return true;
        return false;
}

/* The pod is the first word: an option's value may look like anything. */
void kubectl_words(int argc, char **argv, bool has_settings, struct kubectl_words *ret)
{
        int n = 0;

        *ret = (struct kubectl_words){ .kubectl.options = argv };
        for (int i = 0; i < argc; i++)
                if (i == 0 && argv[i][0] != '-')
                        ret->pod = argv[i];
                else if (has_settings && is_setting(argv[i]) && ret->n_words < ARRAY_SIZE(ret->words))
                        ret->words[ret->n_words++] = argv[i];
                else
                        argv[n++] = argv[i];
        ret->kubectl.n_options = n;
}
