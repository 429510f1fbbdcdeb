/*
 * Kubelet's checkpoint of what its device plugins have allocated, read: the file `kubelet_internal_checkpoint` in the folder of the plugins'
 * sockets. It is the only place where an allocation and its pod stand together, for Allocate names no pod; and it is written before the
 * container is created.
 *
 * DeviceIDs are a list until 1.19, and a list per NUMA node since 1.20. The checksum is kubelet's business: the file is replaced by rename,
 * so it is whole. What is no row of ours is skipped; a file that is no checkpoint is refused, and whoever reads it keeps what was known.
 *
 * Threads: any; nothing is shared.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#define CHECKPOINT_FILE "kubelet_internal_checkpoint"

enum {
        CHECKPOINT_MAX = 32 << 20, /* bytes of the file */
        CHECKPOINT_ROWS = 1 << 16, /* of all plugins: a bound of the file, not of what is ours */
        CHECKPOINT_NAME = 254,     /* of a pod's UID, of a container, with the NUL */
};

/* One container's devices of one resource. All of it is borrowed from the checkpoint. */
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
/* The file in that folder. As checkpoint_read; -ENOENT: kubelet has never written one; -errno. */
int checkpoint_load(const char *folder, struct checkpoint *ret);
void checkpoint_done(struct checkpoint *checkpoint);
