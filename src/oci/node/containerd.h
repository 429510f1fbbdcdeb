/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of containerd's configuration when a node gets our runtime, and when it is taken back.
 *
 *      D1  the text of others stays byte for byte: what is ours is put between it, and cut out again;
 *      D2  it can be done twice: what is ours is cut out first, so the second time changes nothing;
 *      D3  what is not understood is refused, and nothing is written.
 *
 * Version 3 (containerd 2) gets a drop-in, and an import of it where no import covers it. Version 2 gets the tables at
 * its end: containerd before 2.0 replaces all settings of the CRI plugin by those of an imported file (source:
 * containerd/containerd#5837, and #9982, which changed it), so a drop-in would take away the node's own.
 *
 * Pure.
 */
#pragma once

#include "oci/spec.h"

#include <stdbool.h>

#define CONTAINERD_DIR "/etc/containerd"
#define CONTAINERD_CONFIG CONTAINERD_DIR "/config.toml"
#define CONTAINERD_DROP_INS CONTAINERD_DIR "/conf.d"
#define CONTAINERD_DROP_IN CONTAINERD_DROP_INS "/sublet.toml"
#define CONTAINERD_LEAST "version = 2\n" /* where there is no configuration: every containerd since 1.3 reads it */

struct containerd_change {
        char *text;    /* of config.toml; the caller's */
        char *drop_in; /* of CONTAINERD_DROP_IN; the caller's; NULL: none is needed */
        bool may_lose; /* a file that it imports may replace our runtime (containerd before 2.0) */
};

/* Adds the runtime. 0; -EINVAL: not understood, another version, or the runtime is there already; -ENOMEM. */
int containerd_with(const char *text, const struct spec_paths *paths, struct containerd_change *ret, struct err *err);

/* Cuts out what containerd_with has added. *ret is the caller's. 0; -EINVAL: the end of it is missing; -ENOMEM. */
int containerd_without(const char *text, char **ret, struct err *err);
