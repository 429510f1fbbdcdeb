/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads kubelet's checkpoint of device allocations: the file `kubelet_internal_checkpoint` beside the plugins' sockets.
 * Only there do an allocation and its pod stand together, for Allocate names no pod. Kubelet writes it before it
 * creates the container.
 *
 * DeviceIDs are a list until 1.19, and a list per NUMA node since 1.20. The checksum is not verified: the file is
 * replaced by rename, so it is complete. Malformed rows are skipped; a file that is no checkpoint is refused, and
 * callers keep what they had.
 *
 * Threads: any; nothing is shared.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#define CHECKPOINT_FILE "kubelet_internal_checkpoint"

enum {
        CHECKPOINT_MAX = 32 << 20, /* bytes of the file */
        CHECKPOINT_ROWS = 1 << 16, /* of all plugins on the node: a bound of the file */
        CHECKPOINT_NAME = 254,     /* of a pod's UID or a container, with the NUL */
};

/* One container's devices of one resource; borrowed from the checkpoint. */
struct checkpoint_row {
        const char *pod, *container, *resource;
        const char **ids;
        size_t n_ids;
};

struct checkpoint {
        json_t *root;
        const char **ids; /* of all rows */
        struct checkpoint_row *rows;
        size_t n_rows;
};

/* 0; -EPROTO: not a checkpoint; -EFBIG; -ENOMEM. */
int checkpoint_read(const char *text, size_t size, struct checkpoint *ret);
/* The file in that directory. As checkpoint_read; -ENOENT: kubelet has never written one; -errno. */
int checkpoint_load(const char *folder, struct checkpoint *ret);
void checkpoint_done(struct checkpoint *checkpoint);
