/*
 * What a tenant is given that has libsublet.so inside: the lease descriptor, the usage segment, and the library. On descriptors for
 * `sublet run --preload`; as a directory that a container mounts for `sublet lease` (preload/lease_descriptor.h says where it looks).
 *
 * The directory, LEASE_DIRECTORY_FILES:
 *      page            read-only to the tenant by its mount
 *      region          the one file that is mounted writable, over itself
 *      libsublet.so    of this build, whose page this is: an upgrade of the node does not part the two
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

/* A lease on this driver, not sealed yet. */
void lease_directory_describe(const struct gpu_backend *backend, const struct lease *lease,
                              struct lease_descriptor *ret);

/* Whether lease_directory_make could make it; nothing is made. 0, or as there. */
int lease_directory_check(const char *dir, struct err *err);

/* Makes the directory: all of it, or nothing. The page is sealed. -EEXIST: there is something; -EXDEV: not a tmpfs. */
int lease_directory_make(const char *dir, struct lease_descriptor *descriptor, struct err *err);

/* Removes what lease_directory_make made, and nothing else. 0; -errno. */
int lease_directory_remove(const char *dir, struct err *err);
