/* SPDX-License-Identifier: Apache-2.0 */
/* `sublet device-plugin`: its options and messages. */
#include "kube/plugin/verbs.h"

#include "base/flags.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "kube/client/names.h"
#include "kube/nvidia/nvidia.h"
#include "kube/plugin/plugin_run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
        "usage: sublet device-plugin [OPTION...]\n"
        "Offers the GPUs of this node to kubelet, by memory and by share. The daemon reports the GPUs and their "
        "health.\n"
        "\n"
        "\f";

#define NODE_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789-."

struct options {
        const char *unit, *seats_name, *config_file;
        unsigned int seats;
        bool is_aliyun, is_preload;
        struct nvidia_config nvidia; /* with config_file */
};

static int read_inject(const struct flag *flag, const char *words, struct err *err)
{
        struct plugin_ways *ways = flag->to;
        const struct {
                const char *word;
                bool *to;
        } known[] = { { "cdi", &ways->has_cdi },
                      { "annotation", &ways->has_annotation },
                      { "nodes", &ways->has_nodes } };

        while (*words) {
                size_t size = strcspn(words, ","), i;

                for (i = 0; i < ARRAY_SIZE(known); i++)
                        if (strlen(known[i].word) == size && !strncmp(known[i].word, words, size))
                                break;
                if (i == ARRAY_SIZE(known))
                        return err_say(err, -EINVAL, "--inject %s: cdi, annotation, nodes", words);
                *known[i].to = true;
                words += size + (words[size] == ',');
        }
        return 0;
}

static int endpoint_add(struct plugin *plugin, struct plugin_resource resource, struct err *err)
{
        struct endpoint *endpoint = &plugin->endpoints[plugin->n_endpoints++];
        char path[PLUGIN_PATH];

        endpoint->plugin = plugin;
        endpoint->resource = resource;
        if (strlen(resource.name) > 58 || !strchr(resource.name, '/'))
                return err_say(err, -EINVAL, "%s: a resource is called DOMAIN/NAME, of at most 58 characters",
                               resource.name);
        (void)snprintf(endpoint->name, sizeof(endpoint->name), "%s.sock", resource.name);
        *strchr(endpoint->name, '/') = '_';
        if (strchr(endpoint->name, '/'))
                return err_say(err, -EINVAL, "%s: a resource is called DOMAIN/NAME", resource.name);
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", plugin->kubelet, endpoint->name) >= sizeof(path))
                return err_say(err, -ENAMETOOLONG, "%s: too long for a socket's directory", plugin->kubelet);
        memcpy(endpoint->path, path, sizeof(path));
        return 0;
}

/* What NVIDIA's file says, as the options that say the same. */
static int read_config_file(struct plugin *plugin, struct options *options, struct err *err)
{
        struct nvidia_config *config = &options->nvidia;
        int r;

        if (!options->config_file || !*options->config_file)
                return 0;
        if (options->seats || options->seats_name || options->is_preload || options->is_aliyun ||
            plugin->ways.is_placed || options->unit)
                return err_say(err, -EINVAL,
                               "--config-file says what is offered: it goes with neither --seats, --seats-name, "
                               "--unit, --aliyun, --placed nor --preload");
        r = nvidia_config_load(options->config_file, config, err);
        if (r < 0)
                return r;
        if (config->is_mps != (plugin->ways.mps != NULL))
                return err_say(
                        err, -EINVAL,
                        config->is_mps ?
                                "%s: sharing.mps needs --mps DIR, where the pipes of the MPS control daemon are" :
                                "%s has no sharing.mps: leave --mps out",
                        options->config_file);
        options->seats = config->replicas;
        options->seats_name = config->name;
        plugin->ways.has_cdi |= config->has_cdi;
        plugin->ways.has_annotation |= config->has_annotation;
        plugin->ways.has_nodes |= config->has_nodes;
        return 0;
}

static int add_endpoints(struct plugin *plugin, const struct options *options, struct err *err)
{
        bool has_mps = plugin->ways.mps != NULL;
        char wrong[BYTES_WRONG];
        bytes unit = GIB;
        int r;

        if (options->is_preload &&
            (options->seats || plugin->ways.is_placed)) /* a lease needs a quota and a known device */
                return err_say(err, -EINVAL, "--preload goes with neither --placed nor --seats");
        if (*plugin->leases.path != '/' || strlen(plugin->leases.path) > PLUGIN_MOUNT_PATH - 64)
                return err_say(err, -EINVAL, "--lease-dir %s: an absolute path of at most %d characters",
                               plugin->leases.path, PLUGIN_MOUNT_PATH - 64);
        if (options->is_preload)
                plugin->ways.lease = leases_lease;
        if (has_mps && !options->seats)
                return err_say(err, -EINVAL, "--mps needs --seats");
        if (options->seats)
                return endpoint_add(plugin,
                                    (struct plugin_resource){ .name = options->seats_name ? options->seats_name :
                                                                                            "nvidia.com/gpu.shared",
                                                              .kind = has_mps ? PLUGIN_MPS : PLUGIN_SEATS,
                                                              .is_single = options->nvidia.is_single,
                                                              .seats = options->seats },
                                    err);
        if (options->unit && (bytes_parse(options->unit, 0, &unit) < 0 || unit % MIB))
                return err_say(err, -EINVAL, "--unit %s: %s", options->unit,
                               bytes_wrong(options->unit, "a size of whole MiB", wrong));
        r = endpoint_add(plugin,
                         (struct plugin_resource){ .name = options->is_aliyun ? NAME_ALIYUN_MEMORY : NAME_MEMORY,
                                                   .kind = PLUGIN_MEMORY,
                                                   .is_aliyun = options->is_aliyun,
                                                   .unit = unit },
                         err);
        if (r == 0)
                r = endpoint_add(plugin,
                                 (struct plugin_resource){ .name = options->is_aliyun ? NAME_ALIYUN_COUNT : NAME_COUNT,
                                                           .kind = PLUGIN_COUNT },
                                 err);
        if (r == 0 && !options->is_aliyun && !options->is_preload)
                r = endpoint_add(plugin, (struct plugin_resource){ .name = NAME_SHARE, .kind = PLUGIN_SHARE }, err);
        return r;
}

/* Without --placed the API server is optional: it is used where the pod has an account. */
static int configure_api(struct plugin *plugin, char url[static API_URL], struct err *err)
{
        struct allocation_reporter *reporter = &plugin->reporter;
        bool is_wanted = plugin->ways.is_placed || reporter->api.server || access(API_ACCOUNT "/token", R_OK) == 0;
        int r;

        if (!reporter->node)
                reporter->node = getenv("NODE_NAME");
        if (!is_wanted)
                return 0;
        r = api_find(&reporter->api, url, err);
        if (r < 0)
                return plugin->ways.is_placed ? err_while(err, "--placed") : r;
        if (!reporter->node || !*reporter->node || strspn(reporter->node, NODE_LETTERS) != strlen(reporter->node) ||
            strlen(reporter->node) > 253)
                return err_say(err, -EINVAL, "the name of this node is missing: give --node NAME, or $NODE_NAME");
        reporter->has_api = true;
        return 0;
}

int device_plugin_main(int argc, char **argv)
{
        struct plugin plugin = { .kubelet = "/var/lib/kubelet/device-plugins",
                                 .leases = { .path = "/run/sublet/leases" },
                                 .say = plugin_log };
        struct options options = { 0 };
        const struct flag flags[] = {
                { "dir", 0, flag_text, &plugin.dir, "DIR",
                  "the daemon's directory (default: $SUBLET_DIR, or /run/sublet)", NULL },
                { "kubelet", 0, flag_text, &plugin.kubelet, "DIR", "default: /var/lib/kubelet/device-plugins", NULL },
                { "unit", 0, flag_text, &options.unit, "SIZE", "size of one " NAME_MEMORY " (default: 1G)", NULL },
                { "placed", 0, flag_is, &plugin.ways.is_placed, NULL,
                  "sublet extender places the pods: it names the device, an allocation is only an amount", NULL },
                { "node", 0, flag_text, &plugin.reporter.node, "NAME",
                  "this node's name at the API server (default: $NODE_NAME)", NULL },
                { "server", 0, flag_text, &plugin.reporter.api.server, "URL",
                  "the API server (default, in a pod that has an account: its own)", NULL },
                { "token-file", 0, flag_text, &plugin.reporter.api.token_file, "FILE",
                  "a bearer token, read again every minute", NULL },
                { "ca-file", 0, flag_text, &plugin.reporter.api.ca_file, "FILE",
                  "CA that signs the API server's certificate", NULL },
                { "aliyun", 0, flag_is, &options.is_aliyun, NULL,
                  "offer " NAME_ALIYUN_MEMORY " and " NAME_ALIYUN_COUNT " instead, as gpushare does", NULL },
                { "inject", 0, read_inject, &plugin.ways, "WORDS",
                  "how a container gets its device besides NVIDIA_VISIBLE_DEVICES: any of\n"
                  "cdi (kubelet 1.28 and later), annotation, nodes; separated by commas",
                  NULL },
                { "preload", 0, flag_is, &options.is_preload, NULL,
                  "without a supervisor: each container of " NAME_MEMORY " mounts a lease with libsublet.so\n"
                  "('sublet lease'). Not with --placed; no " NAME_SHARE,
                  NULL },
                { "lease-dir", 0, flag_text, &plugin.leases.path, "DIR",
                  "directory of these leases, on a tmpfs (default: /run/sublet/leases)", NULL },
                { "seats", 0, flag_count, &options.seats, "N",
                  "plain sharing without quotas, as other plugins offer it: each GPU is offered N\n"
                  "times, and shared by time-slicing",
                  NULL },
                { "mps", 0, flag_text, &plugin.ways.mps, "DIR", "... and by MPS, whose pipes are in DIR", NULL },
                { "seats-name", 0, flag_text, &options.seats_name, "NAME", "default: nvidia.com/gpu.shared", NULL },
                { "config-file", 0, flag_text, &options.config_file, "FILE",
                  "configuration of NVIDIA's device plugin, version v1: seats, their name, how devices get in",
                  "CONFIG_FILE" },
        };
        struct err err = { 0 };
        char url[API_URL];
        int code;

        if (flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 0, &code) < 0)
                return code;
        if (read_config_file(&plugin, &options, &err) < 0 || add_endpoints(&plugin, &options, &err) < 0 ||
            configure_api(&plugin, url, &err) < 0) {
                (void)flags_failed(&err);
                return VERB_USAGE;
        }
        if (plugin_run(&plugin, &err) < 0)
                return flags_failed(&err);
        return plugin.code == 0 ? VERB_DONE : VERB_REFUSED;
}
