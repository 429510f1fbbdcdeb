/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"

int nvml_open(struct nvml_calls *ret)
{
        struct nvml_calls nvml = { .library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL) };
        void *address;

        if (!nvml.library)
                return -ENOTSUP;
#define NVML(result, name, ...)                                                                                        \
        address = dlsym(nvml.library, "nvml" #name);                                                                   \
        if (!address)                                                                                                  \
                goto unusable;                                                                                         \
        memcpy(&nvml.name, &address, sizeof(address)); /* ISO C does not convert it */
#include "gpu/nvml.def"
#undef NVML
        if (nvml.Init_v2() == NVML_SUCCESS) {
                *ret = nvml;
                return 0;
        }
unusable:
        (void)dlclose(nvml.library);
        return -ENOTSUP;
}

/* The library stays loaded: unloading it while its threads end is unsafe. */
void nvml_close(struct nvml_calls *nvml)
{
        if (nvml->library)
                (void)nvml->Shutdown();
        nvml->library = NULL;
}
