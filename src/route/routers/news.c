/* SPDX-License-Identifier: Apache-2.0 */
#include "route/routers/news.h"

#define RELAXED memory_order_relaxed
#define BEING_WRITTEN UINT64_MAX

static void put_piece(struct news *news, unsigned int replica, const uint64_t *blocks, size_t n)
{
        uint64_t order = atomic_fetch_add(&news->head, 1) + 1;
        struct news_slot *slot = &news->slots[(order - 1) % NEWS_PIECES];

        if (atomic_exchange(&slot->order, BEING_WRITTEN) == BEING_WRITTEN)
                return;
        atomic_thread_fence(memory_order_release);
        atomic_store_explicit(&slot->what, (uint64_t)replica << 32 | n, RELAXED);
        for (size_t i = 0; i < n; i++)
                atomic_store_explicit(&slot->block[i], blocks[i], RELAXED);
        atomic_store_explicit(&slot->order, order, memory_order_release);
}

void news_put(struct news *news, unsigned int replica, const uint64_t *chain, size_t n)
{
        for (size_t at = 0; at < n; at += NEWS_BLOCKS)
                put_piece(news, replica, chain + at, n - at < NEWS_BLOCKS ? n - at : NEWS_BLOCKS);
}

static bool read_piece(const struct news_slot *slot, uint64_t order, struct news_piece *ret)
{
        uint64_t what;

        if (atomic_load_explicit(&slot->order, memory_order_acquire) != order)
                return false;
        what = atomic_load_explicit(&slot->what, RELAXED);
        for (size_t i = 0; i < NEWS_BLOCKS; i++)
                ret->block[i] = atomic_load_explicit(&slot->block[i], RELAXED);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&slot->order, RELAXED) != order)
                return false; /* overtaken */
        ret->replica = (unsigned int)(what >> 32);
        ret->n = (size_t)(what & UINT32_MAX);
        return ret->n <= NEWS_BLOCKS;
}

bool news_next(struct news *news, struct news_piece *ret)
{
        uint64_t head = news->head, at = news->read;
        bool is_whole = false;

        if (head - at > NEWS_PIECES)
                at = head - NEWS_PIECES;
        while (!is_whole && at < head) {
                at++;
                is_whole = read_piece(&news->slots[(at - 1) % NEWS_PIECES], at, ret);
        }
        news->read = at;
        return is_whole;
}
