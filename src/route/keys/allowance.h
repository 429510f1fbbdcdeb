/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an API key uses: its rate, its requests at once, its tokens (tokens.h), here and over several routers.
 *
 * The rate: Each router takes what its own requests use and is told what others let
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
#include "route/keys/tokens.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct allowance {
        _Atomic uint64_t name;  /* hash; 0: a free slot */
        _Atomic uint64_t spent; /* requests that passed here, ever */
        _Atomic int64_t until;
        _Atomic int64_t at_once;         /* requests now, here ... */
        _Atomic uint64_t elsewhere;      /* ... and at the other routers ... */
        _Atomic int64_t elsewhere_until; /* ... until then; later they are not counted */
        struct tokens tokens;
};

/* Its slot, a new one if it has none; NULL: there is no room. A slot is never given back. */
struct allowance *allowance_find(struct allowance *table, size_t n, uint64_t name);

bool allowance_take(struct allowance *allowance, nsec interval, uint32_t burst, nsec now); /* false: too many */
void allowance_hear(struct allowance *allowance, nsec interval, uint64_t n, nsec now);     /* n passed elsewhere */

/* How long until the next one may pass; 0: now. */
nsec allowance_wait(const struct allowance *allowance, nsec interval, uint32_t burst, nsec now);

/*
 * One more request at once, in the row of the worker that counts it, which is subtracted when that worker was killed.
 * False: here and elsewhere there are as many as `limit` allows, and it does not count.
 */
bool allowance_enter(struct allowance *allowance, _Atomic uint16_t *row, uint32_t limit, nsec now);
void allowance_leave(struct allowance *allowance, _Atomic uint16_t *row);
