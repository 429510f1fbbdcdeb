/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs of a tenant without a shim are given: the lease descriptor and the usage segment, on descriptors or
 * in a directory that a container mounts (wire/lease_directory.h). Thread: the loop.
 */
#pragma once

#include "daemon/state/daemon.h"

/* Writes the descriptor of an admitted, numbered tenant, and makes both: tenant->segment, and *ret_fd, which is the
 * caller's (-1: they are in a directory). attach: "auto", "required", "never". 0; -errno. */
int preload_lease_make(const struct daemon *daemon, struct tenant *tenant, const char *attach, int *ret_fd,
                       struct err *err);

/* Reads them from the tenant's directory. *ret_segment is the caller's, also on failure (negative: none). 0; -EAGAIN:
 * somebody in the container keeps others from opening them; -errno. */
int preload_lease_open(const struct tenant *tenant, struct lease_descriptor *ret, int *ret_segment);

/* Links this daemon's attach.sock into the tenant's directory, in place of an earlier daemon's. 0; -errno. */
int preload_lease_link_socket(const struct daemon *daemon, const struct tenant *tenant);
