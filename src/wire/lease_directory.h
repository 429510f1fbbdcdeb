/*
 * The directory that `sublet lease` makes and a container mounts: what a tenant with libsublet.so needs. (`sublet run --preload`
 * passes the first two as descriptors; preload/lease_descriptor.h.)
 *
 *      page            the lease descriptor, read-only to the tenant by its mount
 *      region          the usage segment, the only file that is mounted writable, over itself
 *      libsublet.so    of this build: an upgrade of the node does not separate it from its descriptor
 *      attach.sock     the daemon's, where there is one (preload/attach.h)
 *      ld.so.preload   names the library where the mount has it; to be mounted at /etc/ld.so.preload
 */
#pragma once

#include "gpu/backend.h"
#include "preload/lease_descriptor.h"

#include <limits.h>

struct err;

/* Where libsublet.so lies beside this program. 0; -ENOENT. */
int lease_directory_library(char ret[static PATH_MAX], struct err *err);

/* Describes a lease on this driver; not sealed yet. */
void lease_directory_describe(const struct gpu_backend *backend, const struct lease *lease,
                              struct lease_descriptor *ret);

/* Whether lease_directory_make would succeed; makes nothing. 0, or as there. */
int lease_directory_check(const char *dir, struct err *err);

/* Makes all of the directory or nothing, and seals the descriptor. 0; -EEXIST: the path exists; -EXDEV: not a tmpfs; -errno. */
int lease_directory_make(const char *dir, struct lease_descriptor *descriptor, struct err *err);

/* Removes what lease_directory_make made, and nothing else. 0; -errno. */
int lease_directory_remove(const char *dir, struct err *err);
