/* SPDX-License-Identifier: Apache-2.0 */
#include "route/index.h"

enum {
        WINDOW = 8,    /* slots a hash may be in */
        AHEAD = 16,    /* blocks prefetched before they are read */
        CHANCES = 256, /* most hashes in a row that may stay */
};

/* The slots a hash may be in, one cache line for each kind of word: a look-up reads two lines. */
struct window {
        _Atomic uint64_t hash[WINDOW]; /* 0: never used */
        _Atomic uint64_t has[WINDOW];  /* replicas; 0: free */
        _Atomic uint64_t used[WINDOW]; /* used since the ring's last round */
};

struct slot {
        struct window *window; /* NULL: none */
        unsigned int i;
};

struct ring {
        _Atomic uint64_t head;  /* entries ever written */
        _Atomic uint64_t swept; /* entries cleared by index_sweep since it last ended */
        _Atomic uint32_t size;
        _Atomic uint32_t n; /* blocks it has */
};

struct index {
        size_t n_slots, n_blocks;
        struct ring rings[INDEX_REPLICAS];
        struct window windows[] __attribute__((aligned(64))); /* then n_blocks ring entries for each replica */
};

static _Atomic uint64_t *entries_of(const struct index *index, unsigned int replica)
{
        _Atomic uint64_t *first = (_Atomic uint64_t *)(uintptr_t)&index->windows[index->n_slots / WINDOW];

        return first + replica * index->n_blocks;
}

size_t index_size(size_t n_slots, size_t n_blocks)
{
        return sizeof(struct index) + n_slots / WINDOW * sizeof(struct window) +
               n_blocks * INDEX_REPLICAS * sizeof(uint64_t);
}

struct index *index_init(void *memory, size_t n_slots, size_t n_blocks)
{
        struct index *index = memory;

        index->n_slots = n_slots;
        index->n_blocks = n_blocks;
        for (unsigned int i = 0; i < INDEX_REPLICAS; i++)
                index->rings[i].size = (uint32_t)n_blocks;
        return index;
}

/* ---- slots --------------------------------------------------------------------------------------- */

static struct window *window_of(const struct index *index, uint64_t hash)
{
        return (struct window *)(uintptr_t)&index->windows[hash & (index->n_slots / WINDOW - 1)];
}

#define RELAXED(word) atomic_load_explicit(&(word), memory_order_relaxed)

static struct slot slot_find(const struct index *index, uint64_t hash)
{
        struct window *window = window_of(index, hash);

        for (unsigned int i = 0; i < WINDOW; i++)
                if (RELAXED(window->hash[i]) == hash)
                        return (struct slot){ window, i };
        return (struct slot){ 0 };
}

/* The slot of the hash, else an unused one, else the one with the fewest replicas. */
static struct slot slot_take(struct index *index, uint64_t hash)
{
        struct slot slot = slot_find(index, hash);
        int fewest = INDEX_REPLICAS + 1;

        if (slot.window)
                return slot;
        slot.window = window_of(index, hash);
        for (unsigned int i = 0; i < WINDOW; i++) {
                int n = __builtin_popcountll(RELAXED(slot.window->has[i]));

                if (n < fewest) {
                        fewest = n;
                        slot.i = i;
                }
        }
        atomic_store(&slot.window->has[slot.i], 0);
        atomic_store(&slot.window->used[slot.i], 0);
        atomic_store(&slot.window->hash[slot.i], hash);
        return slot;
}

/* ---- matching ------------------------------------------------------------------------------------- */

static void prefetch_windows(const struct index *index, const uint64_t *chain, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                const struct window *window = window_of(index, chain[i]);

                __builtin_prefetch(&window->hash);
                __builtin_prefetch(&window->has);
        }
}

/* Replicas that drop out of the mask at block i have i blocks. */
static void note_dropped(uint64_t gone, uint32_t i, uint32_t ret[static INDEX_REPLICAS])
{
        for (; gone; gone &= gone - 1)
                ret[__builtin_ctzll(gone)] = i;
}

void index_ahead(const struct index *index, const uint64_t *chain, size_t n)
{
        n = n < AHEAD ? n : AHEAD;
        prefetch_windows(index, chain, n);
        for (size_t i = 0; i < n; i++)
                __builtin_prefetch(&window_of(index, chain[i])->used);
}

uint64_t index_match(const struct index *index, const uint64_t *chain, size_t n, uint64_t mask,
                     uint32_t ret[static INDEX_REPLICAS])
{
        uint64_t left = mask, any = 0;

        index_ahead(index, chain, n);
        for (size_t i = 0; i < n && left; i++) {
                struct slot slot;
                uint64_t has;

                if (i + AHEAD < n)
                        prefetch_windows(index, chain + i + AHEAD, 1);
                slot = slot_find(index, chain[i]);
                has = slot.window ? RELAXED(slot.window->has[slot.i]) & left : 0;
                note_dropped(left & ~has, (uint32_t)i, ret);
                left = has;
                any |= i == 0 ? has : 0;
        }
        note_dropped(left, (uint32_t)n, ret);
        return any;
}

/* ---- putting in ------------------------------------------------------------------------------------- */

static void bit_drop(struct index *index, unsigned int replica, uint64_t hash)
{
        struct slot slot = slot_find(index, hash);

        if (slot.window)
                (void)atomic_fetch_and(&slot.window->has[slot.i], ~((uint64_t)1 << replica));
}

static void ring_count(struct ring *ring, int by)
{
        uint32_t n = ring->n;

        while (!(by < 0 && n == 0) && !atomic_compare_exchange_weak(&ring->n, &n, n + (uint32_t)by))
                ;
}

/* The place of the next old hash that was not used since is taken. One that was used stays where it is and is unused
 * then: so a ring of used hashes gives up its oldest after one round, and never what was put in just now. */
static void ring_put(struct index *index, unsigned int replica, uint64_t hash)
{
        struct ring *ring = &index->rings[replica];
        _Atomic uint64_t *entries = entries_of(index, replica);
        uint64_t bit = (uint64_t)1 << replica;
        uint32_t size = ring->size;

        ring_count(ring, 1);
        for (int chance = 0; size; chance++) {
                _Atomic uint64_t *entry = &entries[atomic_fetch_add(&ring->head, 1) % size];
                uint64_t old = *entry;
                struct slot slot = old ? slot_find(index, old) : (struct slot){ 0 };

                if (slot.window && chance < CHANCES && atomic_fetch_and(&slot.window->used[slot.i], ~bit) & bit)
                        continue;
                old = atomic_exchange(entry, hash); /* perhaps another by now: that one goes */
                if (old) {
                        bit_drop(index, replica, old);
                        ring_count(ring, -1);
                }
                return;
        }
}

void index_put(struct index *index, unsigned int replica, const uint64_t *chain, size_t n)
{
        uint64_t bit = (uint64_t)1 << replica;

        index_ahead(index, chain, n);
        for (size_t i = 0; i < n; i++) {
                struct slot slot;

                if (i + AHEAD < n)
                        prefetch_windows(index, chain + i + AHEAD, 1);
                slot = slot_take(index, chain[i]);
                if (RELAXED(slot.window->has[slot.i]) & bit) {
                        if (!(RELAXED(slot.window->used[slot.i]) & bit))
                                (void)atomic_fetch_or(&slot.window->used[slot.i], bit);
                        continue;
                }
                if (atomic_fetch_or(&slot.window->has[slot.i], bit) & bit)
                        continue;
                if (atomic_load(&slot.window->hash[slot.i]) != chain[i]) /* another process reused the slot */
                        (void)atomic_fetch_and(&slot.window->has[slot.i], ~bit);
                else
                        ring_put(index, replica, chain[i]);
        }
}

/* ---- sizes, and clearing ---------------------------------------------------------------------------------- */

bool index_sweep(struct index *index, unsigned int replica, size_t budget)
{
        struct ring *ring = &index->rings[replica];
        _Atomic uint64_t *entries = entries_of(index, replica);

        while (budget--) {
                uint64_t at = atomic_fetch_add(&ring->swept, 1), old;

                if (at >= index->n_blocks) {
                        ring->swept = ring->head = 0;
                        ring->n = 0;
                        return true;
                }
                old = atomic_exchange(&entries[at], 0);
                if (old)
                        bit_drop(index, replica, old);
        }
        return false;
}

void index_resize(struct index *index, unsigned int replica, size_t n_blocks)
{
        struct ring *ring = &index->rings[replica];
        uint32_t size = (uint32_t)(n_blocks < index->n_blocks ? n_blocks : index->n_blocks);
        _Atomic uint64_t *entries = entries_of(index, replica);

        for (uint32_t i = size; i < ring->size; i++) {
                uint64_t old = atomic_exchange(&entries[i], 0);

                if (old) {
                        bit_drop(index, replica, old);
                        ring_count(ring, -1);
                }
        }
        ring->size = size;
}

size_t index_count(const struct index *index, unsigned int replica)
{
        return index->rings[replica].n;
}
