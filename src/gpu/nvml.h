/*
 * Inside the room: NVML, found at run time. One table of what is wanted of it.
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

/* Loads and starts it. 0; -ENOTSUP: no NVML here, or one without a call that is needed. */
int nvml_open(struct nvml_calls *ret);
void nvml_close(struct nvml_calls *nvml);
