/* SPDX-License-Identifier: Apache-2.0 */
/* A container's specification is given this machine's devices: what a CDI file says, for runtimes that read none. */
#pragma once

#include <jansson.h>

struct err;

/*
 * Applies the edits of `cdi` (of cdi_write) for all devices to `spec`: environment, nodes with the rights to open them,
 * and mounts. A variable is replaced, and what is there already under the same path is left alone, so that it can be
 * done twice. Which of the devices can be used is the lease's affair, as it is on the host.
 *
 * It asks the file system for the nodes' numbers. 0; -EINVAL: it is no specification; -ENOMEM; -errno: a node is
 * missing.
 */
int give_devices(json_t *spec, const json_t *cdi, struct err *err);
