/* SPDX-License-Identifier: Apache-2.0 */
/* A claim and, after a NUL, a pod that it is reserved for: what they give is a row that the daemon accepts. */
#include "kube/dra/claim.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(json_t *made)
{
        const json_t *row;
        size_t i;

        assert(json_array_size(json_object_get(made, "rows")) == json_array_size(json_object_get(made, "devices")));
        json_array_foreach (json_object_get(made, "rows"), i, row) {
                json_int_t share = json_integer_value(json_object_get(row, "share_permille"));

                assert(json_integer_value(json_object_get(row, "mem_bytes")) > 0);
                assert(share >= 0 && share <= 1000);
                assert(!strcmp(claim_text(row, "uuid"), "GPU-A"));
        }
        json_decref(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const uint8_t *end = size ? memchr(data, 0, size) : NULL;
        size_t first = end ? (size_t)(end - data) : size;
        json_t *claim = json_loadb((const char *)data, first, 0, NULL), *made = NULL,
               *pod = end ? json_loadb((const char *)end + 1, size - first - 1, 0, NULL) : NULL,
               *devices = json_pack("[{s:s}]", "uuid", "GPU-A");
        const json_t *pods[] = { pod };
        struct claim_pod of[CLAIM_PODS];
        const struct claim_view view = { .node = "n1",
                                         .runtime_class = "sublet",
                                         .devices = devices,
                                         .claim = claim,
                                         .pods = pods,
                                         .n_pods = pod != NULL };

        assert(claim_pods(claim, of, NULL) <= CLAIM_PODS);
        if (claim_read(&view, &made, NULL) == 0)
                check(made);
        json_decref(claim);
        json_decref(pod);
        json_decref(devices);
        return 0;
}
