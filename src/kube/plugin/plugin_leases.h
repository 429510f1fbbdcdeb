/*
 * Leases as directories, for containers whose programs keep their quota themselves (`device-plugin --preload`): one for each Allocate, made
 * by `sublet lease`, mounted by kubelet.
 *
 *  L1  nothing is kept but the directories: a name says for which ids, and since when. A plugin that begins knows them all;
 *  L2  a lease is over when no row of kubelet's checkpoint has just its ids; of several with the same ids the newest stay, as many as there
 *      are rows. None is over in its first minute, for kubelet writes the checkpoint after Allocate;
 *  L3  ids that kubelet allocates anew are free, though its checkpoint, written later, says otherwise: leases of rows that have one of
 *      them are over. Those of the last seconds are not: a pod's containers have ids of its init containers, admitted with them;
 *  L4  a checkpoint that cannot be read changes nothing.
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
        /* Set before leases_begin; borrowed. */
        const char *path;          /* a directory on a tmpfs, not its parents, is made */
        const char *dir, *kubelet; /* the daemon's directory, or NULL; kubelet's folder for plugins */
        void (*say)(const char *format, ...) __attribute__((format(printf, 1, 2)));

        struct loop *loop; /* NULL: it was never begun */
        struct loop_timer timer;
};

struct leases_name {
        uint64_t ids; /* leases_hash */
        nsec since;   /* clock_realtime */
};

/* 0; -errno with err. */
int leases_begin(struct plugin_leases *leases, struct loop *loop, struct err *err);
void leases_end(struct plugin_leases *leases);   /* the directories stay: their containers do */
void leases_sweep(struct plugin_leases *leases); /* kubelet's checkpoint is new */

/* The `lease` of plugin_ways; context is a plugin_leases. Takes at most 5 s. */
int leases_lease(void *context, const struct plugin_lease_request *asked, struct plugin_mount ret[static PLUGIN_MOUNTS],
                 struct err *err);

/* Pure. The order of ids does not matter. */
uint64_t leases_hash(const char *resource, const char *const *ids, size_t n_ids);
void leases_name_format(struct leases_name name, char ret[static LEASES_NAME]);
int leases_name_parse(const char *text, struct leases_name *ret); /* 0; -EINVAL */

/* L2, L3: whether list[at] is over; the list has the newest first. asked NULL: nothing is allocated now. */
bool leases_is_over(const struct leases_name *list, size_t at, const struct checkpoint *checkpoint,
                    const struct plugin_lease_request *asked, nsec now);
