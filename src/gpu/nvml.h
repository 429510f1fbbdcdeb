/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal to gpu: NVML, loaded at run time, as a table of its functions.
 *
 *      if (nvml_open(&nvml) == 0) { nvml.DeviceGetCount_v2(&n); nvml_close(&nvml); }
 */
#pragma once

#include "sublet/sim/nvml.h"

struct nvml_calls {
        void *library;
#define NVML(result, name, ...) result (*name)(__VA_ARGS__);
#include "gpu/nvml.def"
#undef NVML
};

/* Loads and initialises NVML. 0; -ENOTSUP: no NVML, or a required function is missing. */
int nvml_open(struct nvml_calls *ret);
void nvml_close(struct nvml_calls *nvml);
