/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases as directories, for containers whose quota is kept by the preload library (`device-plugin --preload`): one for
 * each Allocate, made by `sublet lease`, mounted by kubelet.
 *
 *  L1  The directories are the only state: a name tells the ids and the time. A plugin that starts finds them all.
 *  L2  A lease has expired when no row of kubelet's checkpoint has exactly its ids; of several with the same ids the
 *      newest stay, as many as there are rows. None expires in its first minute, because kubelet writes the checkpoint
 *      after Allocate.
 *  L3  Ids that kubelet allocates again are free, though the checkpoint still lists them: leases of rows with one of
 *      these ids have expired. Leases of the last 10 s have not: a pod's containers reuse ids of its init containers,
 *      admitted together with them.
 *  L4  A checkpoint that cannot be read changes nothing.
 */
#pragma once

#include "base/loop.h"
#include "kube/plugin/plugin.h"

#include <stdint.h>

struct checkpoint;

enum {
        LEASES_MAX = 1024,
        LEASES_NAME = 40, /* "k8s-", two numbers of 16 hexadecimal digits, and a '-' between them */
};

struct plugin_leases {
        /* Set before leases_start; borrowed. */
        const char *path;          /* a directory on a tmpfs; made if absent, its parents are not */
        const char *dir, *kubelet; /* the daemon's directory, or NULL; kubelet's directory for plugins */
        void (*say)(const char *format, ...) __attribute__((format(printf, 1, 2)));

        struct loop *loop; /* NULL: never started */
        struct loop_timer timer;
};

struct leases_name {
        uint64_t ids; /* leases_hash */
        nsec since;   /* clock_realtime */
};

/* 0; -errno with err. */
int leases_start(struct plugin_leases *leases, struct loop *loop, struct err *err);
void leases_stop(struct plugin_leases *leases);  /* the directories stay, for their containers do */
void leases_sweep(struct plugin_leases *leases); /* kubelet's checkpoint has changed */

/* The `lease` of plugin_ways, with a struct plugin_leases as context. Takes at most 5 s. */
int leases_lease(void *context, const struct plugin_lease_request *asked, struct plugin_mount ret[static PLUGIN_MOUNTS],
                 struct err *err);

/* Pure. The order of ids does not matter. */
uint64_t leases_hash(const char *resource, const char *const *ids, size_t n_ids);
void leases_name_format(struct leases_name name, char ret[static LEASES_NAME]);
int leases_name_parse(const char *text, struct leases_name *ret); /* 0; -EINVAL */

/* L2, L3: whether list[at] has expired; the newest is first. asked: being allocated now; NULL: nothing. */
bool leases_is_expired(const struct leases_name *list, size_t at, const struct checkpoint *checkpoint,
                       const struct plugin_lease_request *asked, nsec now);
