/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of this machine, as a lease numbers them. */
#pragma once

#include "gate/gate.h"
#include "gpu/backend.h"

struct err;

/* How a gate reaches the driver of this backend; valid as long as the backend. */
struct gate_driver machine_driver(const struct gpu_backend *backend);

/* Fills the devices of ret through a client of its own, which is closed again. Blocks: driver calls. 0; -errno. */
int machine_probe(const struct gpu_backend *backend, struct lease *ret, struct err *err);
