/* SPDX-License-Identifier: Apache-2.0 */
/* An API server's endpoints: from any JSON come endpoints with a name and an address that the module takes. */
#include "route/agent/kube.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        static struct kube_slice slice;
        json_t *object = json_loadb((const char *)data, size, 0, NULL);

        if (object && kube_read(object, size & 1 ? "http" : "", &slice))
                for (size_t i = 0; i < slice.n; i++)
                        if (!route_settings_is_name(slice.at[i].name) || !*slice.at[i].address)
                                abort();
        json_decref(object);
        return 0;
}
