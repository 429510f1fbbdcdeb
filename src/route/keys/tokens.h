/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many tokens an API key has used of those that it has a minute. What a request will need is estimated and taken
 * before it is sent; when its answer has ended the estimate is given back and what it used is taken. So a budget is
 * never used twice by requests that run at once, and what was estimated too low is paid back before the next one.
 *
 * The word is the time at which all of the budget would be there again: it is at most a minute ahead of now when a
 * request passes. One that needs more than a minute's budget passes when nothing is used, and is paid off afterwards.
 *
 * Lies in shared memory; all zero is valid. Threads and processes: any, at any time; killed inside, nothing is left.
 */
#pragma once

#include "base/clock.h"

#include <stdatomic.h>
#include <stdint.h>

struct tokens {
        _Atomic int64_t until;
        _Atomic uint64_t taken, returned; /* ever, here; for the other routers. Both only grow */
};

/* 0: taken. Else the time until so many may be there, and nothing is taken. */
nsec tokens_take(struct tokens *tokens, uint64_t per_minute, uint64_t n, nsec now);

/* In place of the `reserved` that were taken, `used` are. */
void tokens_settle(struct tokens *tokens, uint64_t per_minute, uint64_t reserved, uint64_t used, nsec now);

/* The time until what was used above a minute's budget is paid back; 0: nothing is owed. */
nsec tokens_owed(const struct tokens *tokens, nsec now);

/* Other routers have taken and given back so many. */
void tokens_hear(struct tokens *tokens, uint64_t per_minute, uint64_t taken, uint64_t returned, nsec now);
