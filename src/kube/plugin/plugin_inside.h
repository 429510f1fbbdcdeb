/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that encode answers: the messages of plugin.proto, and ids counted by device. */
#pragma once

#include "kube/plugin/plugin.h"

#include "plugin.pb-c.h"

/* How many of a request's ids are on a device. */
struct plugin_amount {
        unsigned int n;
};

/* amounts: of each of the node's devices. 0; -ENOENT, -EINVAL, -EBUSY with err (P1); -EAGAIN: the daemon does not
 * answer. */
int plugin_count_ids(const struct plugin_resource *resource, const struct plugin_node *node, char **ids, size_t n_ids,
                     struct plugin_amount amounts[static PLUGIN_DEVICES], struct err *err);

#define PLUGIN_FREEP(name, type, function)                                                                             \
        static inline void name(type **message)                                                                        \
        {                                                                                                              \
                if (*message)                                                                                          \
                        function(*message, NULL);                                                                      \
        }
PLUGIN_FREEP(pre_start_freep, Plugin__PreStartRequest, plugin__pre_start_request__free_unpacked)
PLUGIN_FREEP(allocate_freep, Plugin__AllocateRequest, plugin__allocate_request__free_unpacked)
PLUGIN_FREEP(prefer_freep, Plugin__PreferRequest, plugin__prefer_request__free_unpacked)
#undef PLUGIN_FREEP
