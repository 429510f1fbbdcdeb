/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several routers before the same replicas: each says what it has there, and counts what the others have as if it were
 * its own. What was heard stands until a time that is given with it: a router that is gone, or whose agent is, is
 * forgotten.
 */
#include "route/pool.h"

_Static_assert((int)POOL_INFLIGHT == HEARD_INFLIGHT && (int)POOL_UNANSWERED == HEARD_UNANSWERED &&
                       (int)POOL_CONTEXT == HEARD_CONTEXT && (int)POOL_PREFILL == HEARD_PREFILL,
               "the loads come first, in the order of enum pool_load");

void pool_say(const struct pool *pool, int replica, nsec now, struct heard *ret)
{
        *ret = (struct heard){ 0 };
        for (int what = HEARD_INFLIGHT; what <= HEARD_PREFILL; what++)
                ret->value[what] = (uint64_t)pool_load(pool, replica, (enum pool_load)what);
        ret->value[HEARD_SENT] = pool->replicas[replica].sent;
        rate_say(&pool->replicas[replica].rate, now, ret);
        for (int i = 0; i < HEARD_N; i++)
                ret->value[i] = ret->value[i] < HEARD_MAX ? ret->value[i] : HEARD_MAX;
}

void pool_hear(struct pool *pool, int replica, const struct heard *sum, nsec until)
{
        struct pool_replica *r = &pool->replicas[replica];

        for (int i = 0; i < HEARD_N; i++)
                atomic_store_explicit(&r->heard[i], sum->value[i], memory_order_relaxed);
        atomic_store(&r->heard_until, until);
        rate_hear(&r->rate, sum, until);
}

uint32_t pool_routers(const struct pool *pool, nsec now)
{
        return now < pool->routers_until ? pool->n_routers : 0;
}

/* All of the chain, also what the index had: the others' index ages by what they hear. */
void pool_sent(struct pool *pool, int replica, const uint64_t *chain, size_t n, nsec now)
{
        index_put(pool->index, (unsigned int)replica, chain, n);
        if (pool_routers(pool, now))
                news_put(&pool->news, (unsigned int)replica, chain, n);
}

int64_t pool_elsewhere(const struct pool *pool, int replica, enum heard_what what, nsec now)
{
        const struct pool_replica *r = &pool->replicas[replica];

        if (now >= atomic_load_explicit(&r->heard_until, memory_order_relaxed))
                return 0;
        return (int64_t)atomic_load_explicit(&r->heard[what], memory_order_relaxed);
}
