/* SPDX-License-Identifier: Apache-2.0 */
#include "route/keys/allowance.h"

#define DEBT_MAX (3600 * NSEC_PER_SEC) /* whatever others say, it ends */

struct allowance *allowance_find(struct allowance *table, size_t n, uint64_t name)
{
        for (size_t i = 0; i < n; i++) {
                struct allowance *at = &table[(name + i) % n];
                uint64_t is = 0;

                if (atomic_load_explicit(&at->name, memory_order_relaxed) == name ||
                    atomic_compare_exchange_strong(&at->name, &is, name) || is == name)
                        return at;
        }
        return NULL;
}

bool allowance_take(struct allowance *allowance, nsec interval, uint32_t burst, nsec now)
{
        int64_t until = atomic_load(&allowance->until), from;

        do {
                from = until > now ? until : now;
                if (from - now > interval * burst)
                        return false;
        } while (!atomic_compare_exchange_weak(&allowance->until, &until, from + interval));
        atomic_fetch_add(&allowance->spent, 1);
        return true;
}

void allowance_hear(struct allowance *allowance, nsec interval, uint64_t n, nsec now)
{
        int64_t until = atomic_load(&allowance->until), next;
        nsec most = n < (uint64_t)(DEBT_MAX / (interval ? interval : 1)) ? (nsec)n * interval : DEBT_MAX;

        do
                next = (until > now ? until : now) + most;
        while (!atomic_compare_exchange_weak(&allowance->until, &until, next));
}

nsec allowance_wait(const struct allowance *allowance, nsec interval, uint32_t burst, nsec now)
{
        nsec wait = atomic_load(&allowance->until) - now - interval * burst;

        return wait > 0 ? wait : 0;
}

bool allowance_enter(struct allowance *allowance, _Atomic uint16_t *row, uint32_t limit, nsec now)
{
        int64_t elsewhere = now < allowance->elsewhere_until ? (int64_t)allowance->elsewhere : 0;

        atomic_fetch_add(row, 1);
        if (atomic_fetch_add(&allowance->at_once, 1) + 1 + elsewhere <= (int64_t)limit)
                return true;
        allowance_leave(allowance, row);
        return false;
}

void allowance_leave(struct allowance *allowance, _Atomic uint16_t *row)
{
        atomic_fetch_sub(row, 1);
        atomic_fetch_sub(&allowance->at_once, 1);
}
