/* SPDX-License-Identifier: Apache-2.0 */
/* An entry of PUT /v1/routers, whatever it says: refused with a reason, or a name and numbers in their range. */
#include "route/request/heard_body.h"
#include "route/request/replica_body.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void need(int is_so)
{
        if (!is_so)
                abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        json_t *entry = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL);
        const char *name = NULL, *why;
        struct heard heard;
        uint64_t blocks[HEARD_BLOCKS];
        struct heard_of_key key;
        size_t n_blocks;
        bool is_tripped;

        why = heard_body_read(entry, &name, &heard, &is_tripped);
        need(!why || why[0]);
        need(why || replica_name_is_fine(name));
        for (int i = 0; !why && i < HEARD_N; i++)
                need(heard.value[i] <= HEARD_MAX * POOL_ROUTERS);
        why = heard_body_key(entry, &key);
        need(why ? why[0] : key.interval_us <= INT32_MAX && json_string_length(json_object_get(entry, "name")));
        for (int k = 0; !why && k < HEARD_KEY_N; k++)
                need(key.value[k] <= INT32_MAX);
        why = heard_body_blocks(entry, &name, blocks, &n_blocks);
        need(why ? why[0] && !n_blocks : n_blocks <= HEARD_BLOCKS && replica_name_is_fine(name));
        json_decref(entry);
        return 0;
}
