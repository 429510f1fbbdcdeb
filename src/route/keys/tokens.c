/* SPDX-License-Identifier: Apache-2.0 */
#include "route/keys/tokens.h"

#define MINUTE (60 * NSEC_PER_SEC)
#define DEBT_MAX (60 * MINUTE) /* whatever an answer says, it ends */

/* The time in which so many come again. */
static nsec span_of(uint64_t n, uint64_t per_minute)
{
        double span = (double)n * (double)MINUTE / (double)(per_minute ? per_minute : 1);

        return span < (double)DEBT_MAX ? (nsec)span : DEBT_MAX;
}

static nsec later(nsec a, nsec b)
{
        return a > b ? a : b;
}

nsec tokens_take(struct tokens *tokens, uint64_t per_minute, uint64_t n, nsec now)
{
        int64_t until = atomic_load(&tokens->until), from;
        nsec span = span_of(n, per_minute);

        do {
                from = later(until, now);
                if (from > now && from + span > now + MINUTE)
                        return span > MINUTE ? from - now : from + span - now - MINUTE;
        } while (!atomic_compare_exchange_weak(&tokens->until, &until, from + span));
        atomic_fetch_add(&tokens->taken, n);
        return 0;
}

static void move(struct tokens *tokens, nsec forth, nsec back, nsec now)
{
        int64_t until = atomic_load(&tokens->until), next;

        do {
                next = later(until, now) + forth - back;
                next = next < now + DEBT_MAX ? next : now + DEBT_MAX;
        } while (!atomic_compare_exchange_weak(&tokens->until, &until, next));
}

void tokens_settle(struct tokens *tokens, uint64_t per_minute, uint64_t reserved, uint64_t used, nsec now)
{
        if (used > reserved)
                atomic_fetch_add(&tokens->taken, used - reserved);
        else
                atomic_fetch_add(&tokens->returned, reserved - used);
        move(tokens, span_of(used, per_minute), span_of(reserved, per_minute), now);
}

nsec tokens_owed(const struct tokens *tokens, nsec now)
{
        nsec until = atomic_load(&tokens->until);

        return until > now + MINUTE ? until - now - MINUTE : 0;
}

void tokens_hear(struct tokens *tokens, uint64_t per_minute, uint64_t taken, uint64_t returned, nsec now)
{
        if (taken || returned)
                move(tokens, span_of(taken, per_minute), span_of(returned, per_minute), now);
}
