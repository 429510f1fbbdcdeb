/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet dra-driver`: its options and messages. */
#include "kube/dra/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/flags.h"
#include "kube/dra/claim.h"
#include "kube/dra/dra.h"
#include "kube/plugin/plugin_run.h"

#include <errno.h>
#include <string.h>

#define NODE_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789-."

enum {
        NODE_MAX = 253,
};

static const char usage[] =
        "usage: sublet dra-driver [OPTION...]\n"
        "Offers the GPUs of this node to ResourceClaims (DRA), as " DRA_DRIVER ": memory and share of a "
        "device are\ncapacity that many claims consume. Instead of the device plugin, never beside it.\n"
        "\n"
        "\f";

static int configure(struct dra *dra, char url[static API_URL], struct err *err)
{
        if (!dra->node)
                dra->node = getenv("NODE_NAME");
        if (!dra->node || !*dra->node || strspn(dra->node, NODE_LETTERS) != strlen(dra->node) ||
            strlen(dra->node) > NODE_MAX)
                return err_say(err, -EINVAL, "the name of this node is missing: give --node NAME, or $NODE_NAME");
        return api_find(&dra->api_settings, url, err);
}

int dra_driver_main(int argc, char **argv)
{
        struct dra dra = { .registry = "/var/lib/kubelet/plugins_registry",
                           .state = "/var/lib/sublet/claims.json",
                           .runtime_class = "sublet",
                           .cdi = "sublet.dev/gpu",
                           .say = plugin_log };
        const struct flag flags[] = {
                { "dir", 0, flag_text, &dra.dir, "DIR", "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)",
                  NULL },
                { "registry", 0, flag_text, &dra.registry, "DIR", "default: /var/lib/kubelet/plugins_registry", NULL },
                { "state", 0, flag_text, &dra.state, "FILE",
                  "the claims that are prepared (default: /var/lib/sublet/claims.json)", NULL },
                { "ca-file", 0, flag_text, &dra.api_settings.ca_file, "FILE",
                  "CA that signs the API server's certificate", NULL },
                { "server", 0, flag_text, &dra.api_settings.server, "URL",
                  "the API server (default, in a pod that has an account: its own)", NULL },
                { "node", 0, flag_text, &dra.node, "NAME", "this node's name there (default: $NODE_NAME)", NULL },
                { "token-file", 0, flag_text, &dra.api_settings.token_file, "FILE",
                  "a bearer token, read again every minute", NULL },
                { "cdi", 0, flag_text, &dra.cdi, "KIND",
                  "of the CDI devices that a container gets: 'sublet cdi generate' writes sublet.dev/gpu,\n"
                  "the default; an empty one if the runtime class brings the devices",
                  NULL },
                { "runtime-class", 0, flag_text, &dra.runtime_class, "NAME",
                  "in which pods with claims of ours must run (default: sublet)", NULL },
        };
        char url[API_URL];
        struct err err = { 0 };
        int code;

        if (flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 0, &code) < 0)
                return code;
        code = configure(&dra, url, &err) < 0 ? VERB_USAGE : VERB_DONE;
        if (code == VERB_DONE && dra_run(&dra, &err) < 0)
                code = VERB_REFUSED;
        if (code != VERB_DONE)
                (void)flags_failed(&err);
        return code;
}
