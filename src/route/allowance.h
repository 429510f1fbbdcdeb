/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate of an API key over several routers. Each router takes what its own requests use and is told what others let
 * pass, so all together let pass the key's rate, and for a moment too much: what the others accepted since they were
 * heard last. That is paid back: it counts before the next one passes.
 *
 * A key's word is the time at which nothing of its burst would be used any more: each request moves it by the interval
 * between two, and it may be at most `burst` intervals ahead of now.
 *
 * Lies in shared memory; all zero is valid. Threads and processes: any, at any time; killed inside, nothing is left.
 */
#pragma once

#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct allowance {
        _Atomic uint64_t name;  /* hash; 0: a free slot */
        _Atomic uint64_t spent; /* requests that passed here, ever */
        _Atomic int64_t until;
};

/* Its slot, a new one if it has none; NULL: there is no room. A slot is never given back. */
struct allowance *allowance_find(struct allowance *table, size_t n, uint64_t name);

bool allowance_take(struct allowance *allowance, nsec interval, uint32_t burst, nsec now); /* false: too many */
void allowance_hear(struct allowance *allowance, nsec interval, uint64_t n, nsec now);     /* n passed elsewhere */
