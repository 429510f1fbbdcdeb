/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a request waits for its first byte at a replica before it is looked for elsewhere: from how long the replica
 * took for others, compared with what was expected of them (backlog, length of the prompt, length of the answer).
 *
 * The row lies in shared memory; all zero is valid (nothing known). Any worker may call any function at any time: a
 * lost count is one sample.
 */
#pragma once

#include "base/clock.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
        PATIENCE_BUCKETS = 40, /* of actual / expected: a bucket is half a power of two */
};

struct patience {
        _Atomic uint32_t n;
        _Atomic uint32_t counts[PATIENCE_BUCKETS];
};

/* A first byte that came, or did not come, after `took` where `expected` was expected. */
void patience_learn(struct patience *patience, nsec expected, nsec took);

/* After this long it is overdue; 0: too little is known to say so. */
nsec patience_limit(const struct patience *patience, nsec expected);
