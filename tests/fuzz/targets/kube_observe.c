/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon's answer about its tenants, for `kubectl sublet`: for any input no sum exceeds its whole. */
#include "kube/kubectl/observe.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
        if (!holds)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        json_t *said = json_loadb((const char *)data, size, 0, NULL);
        struct observe observe = { .tenants = json_object() };
        struct observe_sum all, one;
        bool is_there = said != NULL;

        require(observe.tenants != NULL);
        (void)json_object_set_new(observe.tenants, "n1", said);
        for (size_t device = 0; device < 4; device++) {
                require(observe_sum(&observe, "n1", device, NULL, NULL, &all) == is_there);
                require(observe_sum(&observe, "n1", device, "1", "main", &one) == is_there);
                require(one.n <= all.n && one.busy <= all.busy && one.held <= all.held && all.busy <= all.n * 1000);
                require(!observe_sum(&observe, "n2", device, NULL, NULL, &one) && !one.n);
        }
        observe_done(&observe);
        return 0;
}
