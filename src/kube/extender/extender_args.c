/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/extender/extender_args.h"

#include <errno.h>
#include <string.h>

int extender_args_read(const char *body, size_t size, bytes unit, struct extender_args *ret)
{
        struct extender_args args = { .root = json_loadb(body, size, 0, NULL) };

        if (!json_is_object(args.root)) {
                extender_args_done(&args);
                return -EINVAL;
        }
        args.has_pod = object_pod_read(json_object_get(args.root, "Pod"), unit, &args.pod) == 0;
        args.nodes = json_object_get(args.root, "NodeNames");
        if (!json_is_array(args.nodes)) {
                args.nodes = json_object_get(json_object_get(args.root, "Nodes"), "items");
                args.has_whole_nodes = args.nodes != NULL;
        }
        *ret = args;
        return 0;
}

const char *extender_args_name(const struct extender_args *args, size_t i)
{
        const json_t *entry = json_array_get(args->nodes, i);

        if (args->has_whole_nodes)
                entry = json_object_get(json_object_get(entry, "metadata"), "name");
        return json_string_value(entry);
}

const char *extender_args_name_for_log(const json_t *args, const char *key)
{
        const char *text = json_string_value(json_object_get(args, key));

        return text && *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.")] == '\0' ? text : "?";
}

void extender_args_done(struct extender_args *args)
{
        json_decref(args->root);
        *args = (struct extender_args){ 0 };
}
