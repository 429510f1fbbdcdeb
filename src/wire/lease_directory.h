/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant with libsublet.so inside is given: the lease descriptor, the usage segment and the library. `sublet run
 * --preload` passes descriptors; `sublet lease` makes a directory that a container mounts (preload/lease_descriptor.h
 * says where the library searches).
 *
 * The directory has LEASE_DIRECTORY_FILES:
 *      page            the lease descriptor; read-only to the tenant by its mount
 *      region          the usage segment; the one file that is mounted writable, over itself
 *      libsublet.so    of the build that made the lease descriptor: an upgrade of the node does not separate the two
 *      attach.sock     the daemon's, where there is one (preload/attach.h)
 *      ld.so.preload   names the library where the mount has it; to be mounted at /etc/ld.so.preload
 */
#pragma once

#include "gpu/backend.h"
#include "preload/lease_descriptor.h"

#include <limits.h>

struct err;

/* The path of libsublet.so, beside this program. 0; -ENOENT. */
int lease_directory_library(char ret[static PATH_MAX], struct err *err);

/* Describes a lease on this driver; not sealed yet. */
void lease_directory_describe(const struct gpu_backend *backend, const struct lease *lease,
                              struct lease_descriptor *ret);

/* Whether lease_directory_make can succeed; makes nothing. Returns the same errors. */
int lease_directory_check(const char *dir, struct err *err);

/* Makes the directory: all of it, or nothing. Seals the descriptor. 0; -EEXIST; -EXDEV: not a tmpfs; -errno. */
int lease_directory_make(const char *dir, struct lease_descriptor *descriptor, struct err *err);

/* Removes what lease_directory_make made, and nothing else. 0; -errno. */
int lease_directory_remove(const char *dir, struct err *err);
