/* SPDX-License-Identifier: Apache-2.0 */
/* PUT /v1/routers of the agent's API: what the other routers have at the replicas, for what this one has there. */
#include "route/nginx/module.h"

#include "route/request/heard_body.h"
#include "route/request/replica_body.h"

static json_t *say_replica(const struct pool *pool, int i, nsec now)
{
        const struct pool_replica *r = &pool->replicas[i];
        struct pool_config config;
        struct heard said;
        json_t *entry;

        if (!pool_read(pool, i, &config))
                return NULL;
        pool_say(pool, i, now, &said);
        entry = json_pack("{ss sI}", "name", config.name, "trips", (json_int_t)r->trips);
        for (int k = 0; k < HEARD_N; k++)
                (void)json_object_set_new(entry, HEARD_NAMES[k], json_integer((json_int_t)said.value[k]));
        return entry;
}

static struct allowance *allowance_of(struct pool *pool, const json_t *name)
{
        return allowance_find(pool->keys, POOL_KEYS,
                              pool_model_hash(json_string_value(name), json_string_length(name)));
}

static json_t *say_key(struct pool *pool, json_t *name)
{
        static const struct allowance none;
        const struct allowance *found = allowance_of(pool, name), *a = found ? found : &none;
        const uint64_t value[HEARD_KEY_N] = { [HEARD_KEY_AT_ONCE] = (uint64_t)ngx_max(a->at_once, 0),
                                              [HEARD_KEY_SPENT] = a->spent,
                                              [HEARD_KEY_TOKENS] = a->tokens.taken,
                                              [HEARD_KEY_RETURNED] = a->tokens.returned };
        json_t *entry = json_pack("{sO}", "name", name);

        for (int k = 0; k < HEARD_KEY_N; k++)
                (void)json_object_set_new(entry, HEARD_KEY_NAMES[k],
                                          json_integer((json_int_t)ngx_min(value[k], HEARD_MAX)));
        return entry;
}

/* Of the keys that were asked about. */
static json_t *say_keys(struct pool *pool, const json_t *asked)
{
        json_t *list = json_array();

        for (size_t k = 0; k < json_array_size(asked); k++)
                (void)json_array_append_new(list, say_key(pool, json_object_get(json_array_get(asked, k), "name")));
        return list;
}

static json_t *say_piece(const struct pool *pool, const struct news_piece *piece)
{
        json_t *list = json_array();
        struct pool_config config;

        for (size_t i = 0; i < piece->n; i++)
                (void)json_array_append_new(list, json_integer((json_int_t)piece->block[i]));
        if (!pool_read(pool, (int)piece->replica, &config)) {
                json_decref(list);
                return NULL;
        }
        return json_pack("{ss so}", "name", config.name, "blocks", list);
}

/* Of the requests since this was asked last. */
static json_t *say_blocks(struct pool *pool)
{
        json_t *list = json_array();
        struct news_piece piece;

        for (int i = 0; i < NEWS_PIECES && news_next(&pool->news, &piece); i++) {
                json_t *entry = piece.replica < POOL_REPLICAS ? say_piece(pool, &piece) : NULL;

                if (entry)
                        (void)json_array_append_new(list, entry);
        }
        return list;
}

static json_t *say_all(struct pool *pool, const json_t *body, nsec now)
{
        json_t *list = json_array();

        for (int i = 0; i < POOL_REPLICAS; i++) {
                json_t *entry = say_replica(pool, i, now);

                if (entry)
                        (void)json_array_append_new(list, entry);
        }
        return json_pack("{so so so}", "replicas", list, "keys", say_keys(pool, json_object_get(body, "keys")),
                         "blocks", say_blocks(pool));
}

static const char *hear_all(struct pool *pool, const json_t *list, nsec until, nsec now)
{
        for (size_t k = 0; k < json_array_size(list); k++) {
                struct heard heard;
                const char *name, *why;
                bool is_tripped;
                int i;

                why = heard_body_read(json_array_get(list, k), &name, &heard, &is_tripped);
                if (why)
                        return why;
                i = pool_find(pool, name);
                if (i < 0)
                        continue;
                pool_hear(pool, i, &heard, until);
                if (is_tripped)
                        pool_hear_trip(pool, i, now);
        }
        return NULL;
}

static void hear_key(struct allowance *allowance, const struct heard_of_key *heard, nsec until, nsec now)
{
        if (heard->interval_us && heard->value[HEARD_KEY_SPENT])
                allowance_hear(allowance, (nsec)heard->interval_us * NSEC_PER_USEC, heard->value[HEARD_KEY_SPENT], now);
        if (heard->per_minute)
                tokens_hear(&allowance->tokens, heard->per_minute, heard->value[HEARD_KEY_TOKENS],
                            heard->value[HEARD_KEY_RETURNED], now);
        allowance->elsewhere = heard->value[HEARD_KEY_AT_ONCE];
        allowance->elsewhere_until = until;
}

static const char *hear_keys(struct pool *pool, const json_t *list, nsec until, nsec now)
{
        for (size_t k = 0; k < json_array_size(list); k++) {
                const json_t *entry = json_array_get(list, k);
                struct allowance *allowance;
                struct heard_of_key heard;
                const char *why = heard_body_key(entry, &heard);

                if (why)
                        return why;
                allowance = allowance_of(pool, json_object_get(entry, "name"));
                if (allowance)
                        hear_key(allowance, &heard, until, now);
        }
        return NULL;
}

static const char *hear_blocks(struct pool *pool, const json_t *list)
{
        uint64_t blocks[HEARD_BLOCKS];

        for (size_t k = 0; k < json_array_size(list); k++) {
                const char *name, *why;
                size_t n;
                int i;

                why = heard_body_blocks(json_array_get(list, k), &name, blocks, &n);
                if (why)
                        return why;
                i = pool_find(pool, name);
                if (i >= 0)
                        index_put(pool->index, (unsigned int)i, blocks, n); /* and not told again */
        }
        return NULL;
}

json_t *sublet_hear(struct pool *pool, const json_t *body, const char **ret_why)
{
        uint32_t keep_ms = 0, n = 0;
        nsec now = clock_now(), until;
        uint64_t before = pool->serial;
        const char *why = replica_body_number(body, "keep_ms", &keep_ms);

        why = why ? why : replica_body_number(body, "routers", &n);
        why = why ? why : n > POOL_ROUTERS ? "there are more routers than 16" : NULL;
        until = now + (nsec)keep_ms * NSEC_PER_MSEC;
        why = why ? why : hear_all(pool, json_object_get(body, "replicas"), until, now);
        why = why ? why : hear_keys(pool, json_object_get(body, "keys"), until, now);
        why = why ? why : hear_blocks(pool, json_object_get(body, "blocks"));
        *ret_why = why;
        if (why)
                return NULL;
        pool->n_routers = n;
        pool->routers_until = until;
        if (pool->serial != before || pool_load(pool, POOL_ALL, POOL_HELD)) /* a slot may be free elsewhere */
                sublet_ring();
        return say_all(pool, body, now);
}
