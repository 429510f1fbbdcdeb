/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a gate may use of the machine's processors. Its work is done for one tenant, and that tenant's cgroup does not
 * count it: one processor's time comes in, what the gate has used goes out, and what is left over is kept for a burst.
 * Spent, the gate takes calls slowly until time has come in again.
 *
 * Pure. Threads: one at a time.
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>

#define BUDGET_BURST (5 * NSEC_PER_SEC)

struct budget {
        nsec left, counted_at, used; /* when it was counted last, and how much had been used by then */
};

/* used: by this process, ever. True: it is spent. The first count begins with a full burst. */
bool budget_count(struct budget *budget, nsec now, nsec used);
