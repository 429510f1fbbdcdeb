/* SPDX-License-Identifier: Apache-2.0 */
#include "route/index.h"

enum {
        WINDOW = 8,    /* slots a hash may be in */
        PLACES = 16,   /* places a slot's last use may be in: a cache line */
        AHEAD = 16,    /* blocks prefetched before they are read */
        CHANCES = 256, /* most blocks in a row that a full log writes down again */
        SLACK = 32,    /* uses that processes may be writing at once */
        RECENT = 16,   /* a use within this part of the cache after the last one makes no difference */
};

/* The slots a hash may be in, one cache line for each kind of word: a look-up reads two lines. */
struct window {
        _Atomic uint64_t hash[WINDOW]; /* 0: never used */
        _Atomic uint64_t has[WINDOW];  /* replicas; 0: free */
};

/* Of one replica. Uses are numbered; those from tail to head are in its log. */
struct order {
        _Atomic uint64_t head, tail;
        _Atomic uint64_t swept; /* places cleared by index_sweep since it last ended */
        _Atomic uint32_t size;
        _Atomic uint32_t n; /* blocks it has */
};

/*
 * Behind the windows come the places of each replica, and then the log of each. The last use of a slot is in one of the
 * PLACES of line slot % n_lines: above `bits` bits of the use's number it has slot / n_lines + 1, so 0 is a free one.
 */
struct index {
        size_t n_slots, n_blocks, n_uses;
        uint32_t n_lines, bits;
        struct order orders[INDEX_REPLICAS];
        struct window windows[] __attribute__((aligned(64)));
};

#define RELAXED(word) atomic_load_explicit(&(word), memory_order_relaxed)

/* Twice as many places as blocks, so that a line is hardly ever full: then the oldest there goes before its time. */
static size_t lines_for(size_t n_blocks)
{
        return n_blocks * 2 / PLACES + 1;
}

static size_t uses_for(size_t n_blocks)
{
        return n_blocks * 2 + 2 * SLACK;
}

static uint32_t bits_for(size_t n_slots, size_t n_blocks)
{
        return (uint32_t)__builtin_clz((uint32_t)(n_slots / lines_for(n_blocks) + 1));
}

size_t index_size(size_t n_slots, size_t n_blocks)
{
        return sizeof(struct index) + n_slots / WINDOW * sizeof(struct window) +
               INDEX_REPLICAS * (lines_for(n_blocks) * PLACES + uses_for(n_blocks)) * sizeof(uint32_t);
}

size_t index_room(size_t n_slots, size_t size)
{
        size_t n = size / (INDEX_REPLICAS * sizeof(uint32_t));

        while (n && (index_size(n_slots, n) > size || uses_for(n) >> bits_for(n_slots, n)))
                n -= n / 256 + 1;
        return n;
}

struct index *index_init(void *memory, size_t n_slots, size_t n_blocks)
{
        struct index *index = memory;

        index->n_slots = n_slots;
        index->n_blocks = n_blocks;
        index->n_lines = (uint32_t)lines_for(n_blocks);
        index->bits = bits_for(n_slots, n_blocks);
        index->n_uses = uses_for(n_blocks);
        for (unsigned int i = 0; i < INDEX_REPLICAS; i++)
                index->orders[i].size = (uint32_t)n_blocks;
        return index;
}

/* ---- slots --------------------------------------------------------------------------------------- */

static struct window *window_of(const struct index *index, uint64_t hash)
{
        return (struct window *)(uintptr_t)&index->windows[hash & (index->n_slots / WINDOW - 1)];
}

/* Where in its window the hash is; WINDOW: nowhere. */
static unsigned int slot_find(const struct window *window, uint64_t hash)
{
        unsigned int i = 0;

        while (i < WINDOW && RELAXED(window->hash[i]) != hash)
                i++;
        return i;
}

/* The hash's place in its window, else an unused one, else the one with the fewest replicas. */
static unsigned int slot_take(struct window *window, uint64_t hash)
{
        unsigned int at = slot_find(window, hash);
        int fewest = INDEX_REPLICAS + 1;

        if (at < WINDOW)
                return at;
        for (unsigned int i = 0; i < WINDOW; i++) {
                int n = __builtin_popcountll(RELAXED(window->has[i]));

                if (n < fewest) {
                        fewest = n;
                        at = i;
                }
        }
        atomic_store(&window->has[at], 0);
        atomic_store(&window->hash[at], hash);
        return at;
}

/* The first slots of all windows come first: they are in use more than the others, and so spread over all lines. */
static uint32_t slot_number(const struct index *index, const struct window *window, unsigned int at)
{
        return (uint32_t)(at * (index->n_slots / WINDOW) + (size_t)(window - index->windows));
}

static struct window *window_at(struct index *index, uint32_t slot, unsigned int *ret_at)
{
        *ret_at = (unsigned int)(slot / (index->n_slots / WINDOW));
        return &index->windows[slot & (index->n_slots / WINDOW - 1)];
}

static void bit_drop(struct index *index, unsigned int replica, uint32_t slot)
{
        unsigned int at;
        struct window *window = window_at(index, slot, &at);

        (void)atomic_fetch_and(&window->has[at], ~((uint64_t)1 << replica));
}

/* ---- matching ------------------------------------------------------------------------------------- */

void index_ahead(const struct index *index, const uint64_t *chain, size_t n)
{
        n = n < AHEAD ? n : AHEAD;
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

uint64_t index_match(const struct index *index, const uint64_t *chain, size_t n, uint64_t mask,
                     uint32_t ret[static INDEX_REPLICAS])
{
        uint64_t left = mask, any = 0;

        index_ahead(index, chain, n);
        for (size_t i = 0; i < n && left; i++) {
                const struct window *window = window_of(index, chain[i]);
                unsigned int at;
                uint64_t has;

                if (i + AHEAD < n)
                        index_ahead(index, chain + i + AHEAD, 1);
                at = slot_find(window, chain[i]);
                has = at < WINDOW ? RELAXED(window->has[at]) & left : 0;
                note_dropped(left & ~has, (uint32_t)i, ret);
                left = has;
                any |= i == 0 ? has : 0;
        }
        note_dropped(left, (uint32_t)n, ret);
        return any;
}

/* ---- the order of use ------------------------------------------------------------------------------- */

static _Atomic uint32_t *line_of(const struct index *index, unsigned int replica, uint32_t slot)
{
        _Atomic uint32_t *first = (_Atomic uint32_t *)(uintptr_t)&index->windows[index->n_slots / WINDOW];

        return first + ((size_t)replica * index->n_lines + slot % index->n_lines) * PLACES;
}

static _Atomic uint32_t *use_at(const struct index *index, unsigned int replica, uint64_t number)
{
        return line_of(index, INDEX_REPLICAS, 0) + replica * index->n_uses + number % index->n_uses;
}

static uint32_t place_word(const struct index *index, uint32_t slot, uint64_t number)
{
        return (slot / index->n_lines + 1) << index->bits | ((uint32_t)number & ((1u << index->bits) - 1));
}

static bool is_of_slot(const struct index *index, uint32_t word, uint32_t slot)
{
        return word >> index->bits == slot / index->n_lines + 1;
}

/* How many uses ago. */
static uint32_t age_of(const struct index *index, uint32_t word, uint64_t head)
{
        return ((uint32_t)head - word) & ((1u << index->bits) - 1);
}

/* The place of the slot's last use, else a free one, else that of the oldest use there. */
static _Atomic uint32_t *place_take(const struct index *index, _Atomic uint32_t *line, uint32_t slot, uint64_t head)
{
        uint32_t tag = slot / index->n_lines + 1, oldest = 0, best = 0;

        for (uint32_t i = 0; i < PLACES; i++)
                if (RELAXED(line[i]) >> index->bits == tag)
                        return &line[i];
        for (uint32_t i = 0; i < PLACES; i++) {
                uint32_t word = RELAXED(line[i]), age = word ? age_of(index, word, head) : UINT32_MAX;

                if (age >= oldest) {
                        oldest = age;
                        best = i;
                }
        }
        return &line[best];
}

static void order_count(struct order *order, int by)
{
        uint32_t n = order->n;

        while (!(by < 0 && n == 0) && !atomic_compare_exchange_weak(&order->n, &n, n + (uint32_t)by))
                ;
}

static void forget(struct index *index, unsigned int replica, bool is_kept);

/* First the log, then the place: a place that is written has its use in the log. No use that is still there is written
 * over, however many workers put something in at once. */
static void use(struct index *index, unsigned int replica, uint32_t slot, _Atomic uint32_t *place)
{
        struct order *order = &index->orders[replica];
        uint64_t number = atomic_fetch_add(&order->head, 1);
        uint32_t old;

        while ((int64_t)(number - order->tail) >= (int64_t)index->n_uses)
                forget(index, replica, false);
        atomic_store(use_at(index, replica, number), slot + 1);
        old = atomic_exchange(place, place_word(index, slot, number));
        if (!old)
                order_count(order, 1);
        else if (!is_of_slot(index, old, slot)) /* of the same line */
                bit_drop(index, replica, ((old >> index->bits) - 1) * index->n_lines + slot % index->n_lines);
}

/* The oldest use leaves the log. If it is the last one of its slot, that is given up, or used now to be kept. */
static void forget(struct index *index, unsigned int replica, bool is_kept)
{
        struct order *order = &index->orders[replica];
        uint64_t number = atomic_fetch_add(&order->tail, 1);
        uint32_t used = *use_at(index, replica, number), slot = used - 1;
        _Atomic uint32_t *line = line_of(index, replica, slot);

        for (uint32_t i = 0; used && i < PLACES; i++) { /* 0: its writer was killed */
                uint32_t word = place_word(index, slot, number);

                if (RELAXED(line[i]) != word)
                        continue;
                if (is_kept) {
                        use(index, replica, slot, &line[i]);
                } else if (atomic_compare_exchange_strong(&line[i], &word, 0)) {
                        order_count(order, -1);
                        bit_drop(index, replica, slot);
                }
                return;
        }
}

/* More blocks than the cache holds, or the log is full of later uses of the same ones. */
static void make_room(struct index *index, unsigned int replica)
{
        struct order *order = &index->orders[replica];

        for (int chances = CHANCES;; chances--) {
                int64_t n = (int64_t)(order->head - order->tail);
                bool is_over = order->n > order->size;

                if (n <= 0 || (!is_over && n < (int64_t)index->n_uses - SLACK))
                        return;
                forget(index, replica, !is_over && chances > 0);
        }
}

/* ---- putting in ------------------------------------------------------------------------------------- */

static void put_block(struct index *index, unsigned int replica, uint32_t slot, uint64_t hash)
{
        unsigned int at;
        struct window *window = window_at(index, slot, &at);
        struct order *order = &index->orders[replica];
        uint64_t bit = (uint64_t)1 << replica, had = RELAXED(window->has[at]) & bit, head = RELAXED(order->head);
        _Atomic uint32_t *place = place_take(index, line_of(index, replica, slot), slot, head);
        uint32_t word = RELAXED(*place);

        if (had && is_of_slot(index, word, slot) && age_of(index, word, head) <= RELAXED(order->size) / RECENT)
                return;
        use(index, replica, slot, place);
        if (had)
                return;
        (void)atomic_fetch_or(&window->has[at], bit);
        if (atomic_load(&window->hash[at]) != hash) /* another process reused the slot */
                (void)atomic_fetch_and(&window->has[at], ~bit);
}

/* From the end: an engine gives up a prompt's end before its beginning. */
void index_put(struct index *index, unsigned int replica, const uint64_t *chain, size_t n)
{
        uint32_t slots[AHEAD];

        for (size_t part; n; n -= part) {
                part = n < AHEAD ? n : AHEAD;
                index_ahead(index, chain + n - part, part);
                for (size_t i = n - part; i < n; i++) {
                        struct window *window = window_of(index, chain[i]);
                        uint32_t slot = slot_number(index, window, slot_take(window, chain[i]));

                        __builtin_prefetch(line_of(index, replica, slot));
                        slots[i - (n - part)] = slot;
                }
                for (size_t i = part; i-- > 0;)
                        put_block(index, replica, slots[i], chain[n - part + i]);
                make_room(index, replica);
        }
}

/* ---- sizes, and clearing ---------------------------------------------------------------------------------- */

/* Anew: a process that was killed may have left a wrong number. */
static void count_anew(struct index *index, unsigned int replica)
{
        const _Atomic uint32_t *places = line_of(index, replica, 0);
        uint32_t n = 0;

        for (size_t i = 0; i < (size_t)index->n_lines * PLACES; i++)
                n += RELAXED(places[i]) != 0;
        index->orders[replica].n = n;
}

/* What is put in meanwhile, behind the sweep, stays with its use in the log. */
bool index_sweep(struct index *index, unsigned int replica, size_t budget)
{
        struct order *order = &index->orders[replica];
        _Atomic uint32_t *places = line_of(index, replica, 0);

        while (budget--) {
                uint64_t at = atomic_fetch_add(&order->swept, 1);
                uint32_t old;

                if (at >= (uint64_t)index->n_lines * PLACES) {
                        count_anew(index, replica); /* first: who comes now begins another sweep */
                        order->swept = 0;
                        return true;
                }
                old = atomic_exchange(&places[at], 0);
                if (!old)
                        continue;
                order_count(order, -1);
                bit_drop(index, replica, ((old >> index->bits) - 1) * index->n_lines + (uint32_t)(at / PLACES));
        }
        return false;
}

void index_resize(struct index *index, unsigned int replica, size_t n_blocks)
{
        index->orders[replica].size = (uint32_t)(n_blocks < index->n_blocks ? n_blocks : index->n_blocks);
        make_room(index, replica);
}

size_t index_count(const struct index *index, unsigned int replica)
{
        return index->orders[replica].n;
}
