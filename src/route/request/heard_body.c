/* SPDX-License-Identifier: Apache-2.0 */
#include "route/request/heard_body.h"

#include "route/request/replica_body.h"

static const char *read_value(const json_t *entry, const char *name, uint64_t *ret)
{
        const json_t *n = json_object_get(entry, name);

        *ret = (uint64_t)json_integer_value(n);
        if (n && (!json_is_integer(n) || json_integer_value(n) < 0 || *ret > HEARD_MAX * POOL_ROUTERS))
                return "what was heard is whole numbers, none below 0";
        return NULL;
}

const char *heard_body_read(const json_t *entry, const char **ret_name, struct heard *ret, bool *ret_is_tripped)
{
        const char *name = json_string_value(json_object_get(entry, "name")), *why = NULL;

        if (!name || !replica_name_is_fine(name))
                return "each entry needs the name of a replica";
        for (int i = 0; i < HEARD_N && !why; i++)
                why = read_value(entry, HEARD_NAMES[i], &ret->value[i]);
        *ret_name = name;
        *ret_is_tripped = json_is_true(json_object_get(entry, "tripped"));
        return why;
}

const char *heard_body_blocks(const json_t *entry, const char **ret_name, uint64_t ret[static HEARD_BLOCKS],
                              size_t *ret_n)
{
        const char *name = json_string_value(json_object_get(entry, "name"));
        const json_t *blocks = json_object_get(entry, "blocks"), *one;
        size_t i;

        *ret_n = 0;
        if (!name || !replica_name_is_fine(name))
                return "each entry needs the name of a replica";
        if (!json_is_array(blocks) || json_array_size(blocks) > HEARD_BLOCKS)
                return "'blocks' is an array of at most 128 hashes";
        json_array_foreach (blocks, i, one) {
                if (!json_is_integer(one))
                        return "the hash of a block is a whole number of 64 bits, with a sign";
                ret[i] = (uint64_t)json_integer_value(one);
        }
        *ret_name = name;
        *ret_n = json_array_size(blocks);
        return NULL;
}

const char *heard_body_key(const json_t *entry, struct heard_of_key *ret)
{
        const char *why;

        *ret = (struct heard_of_key){ 0 };
        if (!json_string_length(json_object_get(entry, "name")))
                return "each entry needs the name of a key";
        why = replica_body_number(entry, "interval_us", &ret->interval_us);
        why = why ? why : replica_body_number(entry, "per_minute", &ret->per_minute);
        for (int k = 0; k < HEARD_KEY_N && !why; k++)
                why = replica_body_number(entry, HEARD_KEY_NAMES[k], &ret->value[k]);
        return why;
}
