/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What took longest of a hundred, four times over: late enough that a replica is seldom left in vain (its work is lost,
 * and done again elsewhere), early enough for those who wait. A first byte that was given up counts as having come
 * then: if a replica has become slower, it is waited for longer after a while, and not left by everybody.
 */
#include "route/patience.h"

enum {
        ENOUGH = 32, /* samples before anything is said */
        MOST = 512,  /* samples; then each counts half */
        RARE = 100,  /* one of so many may be slower than all others */
        ZERO = 12,   /* bucket of actual == expected */
        SLACK = 4,
};

#define FLOOR (NSEC_PER_SEC / 4) /* added to what is expected: small times differ by more than their size */
#define LEAST (2 * NSEC_PER_SEC)

/* Bounds of the half powers of two: bucket b holds ratios below 2^((b - ZERO + 1) / 2). */
static double bound_of(int bucket)
{
        int half = bucket - ZERO + 1;
        double bound = half & 1 ? 1.4142135623730951 : 1;

        for (half -= half & 1; half > 0; half -= 2)
                bound *= 2;
        for (; half < 0; half += 2)
                bound /= 2;
        return bound;
}

static void fade(struct patience *patience)
{
        uint32_t n = 0;

        for (int i = 0; i < PATIENCE_BUCKETS; i++) {
                uint32_t half = atomic_load(&patience->counts[i]) / 2;

                atomic_store(&patience->counts[i], half);
                n += half;
        }
        atomic_store(&patience->n, n);
}

void patience_learn(struct patience *patience, nsec expected, nsec took)
{
        double ratio = (double)took / (double)(expected + FLOOR);
        int bucket = 0;

        while (bucket < PATIENCE_BUCKETS - 1 && ratio >= bound_of(bucket))
                bucket++;
        atomic_fetch_add(&patience->counts[bucket], 1);
        if (atomic_fetch_add(&patience->n, 1) + 1 >= MOST)
                fade(patience);
}

nsec patience_limit(const struct patience *patience, nsec expected)
{
        uint32_t n = atomic_load(&patience->n), rare = n / RARE;
        int bucket = PATIENCE_BUCKETS;
        nsec limit;

        if (n < ENOUGH)
                return 0;
        for (uint32_t above = 0; bucket > 1 && above <= rare;)
                above += atomic_load(&patience->counts[--bucket]);
        limit = (nsec)(SLACK * bound_of(bucket) * (double)(expected + FLOOR));
        return limit > LEAST ? limit : LEAST;
}
