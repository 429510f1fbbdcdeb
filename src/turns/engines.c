/* SPDX-License-Identifier: Apache-2.0 */
#include "turns/engines.h"

#include "turns/inside.h"

#include <errno.h>
#include <stdlib.h>

#define LOOK_CONTENDED (2 * NSEC_PER_MSEC) /* a holder without work is found so soon */
#define LOOK_QUIET (20 * NSEC_PER_MSEC)
#define HELD_MIN (2 * NSEC_PER_MSEC)
#define CAP_SPAN (100 * NSEC_PER_MSEC) /* of which a cap's credit is at most */

struct user {
        uint64_t id;
        nsec owed;   /* of earlier turns; negative: it had more than its turn */
        nsec credit; /* until its cap blocks it */
        nsec used;   /* as of the latest call */
        uint32_t share;
        bool is_blocked, wants;
};

struct engine_turns {
        bool is_metered_only;
        nsec round, now;
        struct user users[TURNS_TENANTS_MAX], spare[TURNS_TENANTS_MAX];
        size_t n;
        uint64_t holder; /* 0: nobody; also whom the next turn comes after */
        bool is_held;
        nsec hold_from, hold_until, planned;
};

int engine_turns_new(const struct turns_settings *settings, struct engine_turns **ret)
{
        struct engine_turns *turns = calloc(1, sizeof(*turns));

        if (!turns)
                return -ENOMEM;
        turns->round = turns_period(settings);
        turns->is_metered_only = turns_policy_in_force(settings) == TURNS_POLICY_NONE;
        *ret = turns;
        return 0;
}

struct engine_turns *engine_turns_free(struct engine_turns *turns)
{
        free(turns);
        return NULL;
}

/* ---- from one call to the next ----------------------------------------------------------------- */

static struct user *user_of(struct user *users, size_t n, uint64_t id)
{
        for (size_t i = 0; i < n; i++)
                if (users[i].id == id)
                        return &users[i];
        return NULL;
}

static nsec cap_span(const struct engine_tenant *tenant, nsec span)
{
        return span * tenant->cap / TURNS_WHOLE;
}

static void follow(struct engine_turns *turns, const struct engine_tenant *tenants, size_t n)
{
        size_t n_before = turns->n;

        for (size_t i = 0; i < n_before; i++)
                turns->spare[i] = turns->users[i];
        for (size_t i = 0; i < n; i++) {
                const struct user *before = user_of(turns->spare, n_before, tenants[i].id);

                turns->users[i] = before ? *before :
                                           (struct user){ .id = tenants[i].id,
                                                          .used = tenants[i].used,
                                                          .credit = cap_span(&tenants[i], CAP_SPAN) };
        }
        turns->n = n;
}

/* E3 */
static void cap_count(struct user *user, const struct engine_tenant *tenant, nsec span)
{
        nsec most = cap_span(tenant, CAP_SPAN);

        user->credit += cap_span(tenant, span) - (tenant->used - user->used);
        user->credit = nsec_min(user->credit, most);
        user->used = tenant->used;
        if (tenant->cap >= TURNS_WHOLE)
                user->is_blocked = false;
        else if (user->credit <= 0)
                user->is_blocked = true;
        else if (user->credit >= most / 10)
                user->is_blocked = false;
}

static void update(struct engine_turns *turns, const struct engine_tenant *tenants, nsec span)
{
        permille promised = 0;
        size_t n_equal = 0;
        uint32_t part;

        for (size_t i = 0; i < turns->n; i++) {
                promised += tenants[i].share;
                n_equal += !tenants[i].share;
        }
        part = turns_equal_part(promised, n_equal);
        for (size_t i = 0; i < turns->n; i++) {
                struct user *user = &turns->users[i];

                cap_count(user, &tenants[i], span);
                user->share = tenants[i].share ? tenants[i].share * TURNS_PPM : part;
                user->wants = tenants[i].wants && !user->is_blocked;
        }
}

/* ---- turns ------------------------------------------------------------------------------------- */

static size_t n_wanting(const struct engine_turns *turns, uint64_t *ret_shares)
{
        size_t n = 0;

        *ret_shares = 0;
        for (size_t i = 0; i < turns->n; i++)
                if (turns->users[i].wants) {
                        *ret_shares += turns->users[i].share;
                        n++;
                }
        return n;
}

/* What it had less, or more, than its turn is in its next one. A turn that it left early it did not want. */
static void turn_end(struct engine_turns *turns)
{
        struct user *holder = turns->is_held ? user_of(turns->users, turns->n, turns->holder) : NULL;
        nsec had = turns->now - turns->hold_from;

        turns->is_held = false;
        if (!holder)
                return;
        holder->owed = holder->wants || had > turns->planned ? turns->planned - had : 0;
        holder->owed = nsec_max(holder->owed, -turns->round);
}

static const struct user *next_wanting(const struct engine_turns *turns)
{
        size_t at = turns->n - 1;

        for (size_t i = 0; i < turns->n; i++)
                if (turns->users[i].id == turns->holder)
                        at = i;
        for (size_t k = 1; k <= turns->n; k++)
                if (turns->users[(at + k) % turns->n].wants)
                        return &turns->users[(at + k) % turns->n];
        return NULL;
}

static void turn_begin(struct engine_turns *turns, uint64_t shares)
{
        const struct user *next = next_wanting(turns);

        turns->is_held = true;
        turns->holder = next->id;
        turns->hold_from = turns->now;
        turns->planned = nsec_max((nsec)(turns->round * next->share / (nsec)shares) + next->owed, HELD_MIN);
        turns->hold_until = turns->now + turns->planned;
}

static bool holder_goes_on(struct engine_turns *turns)
{
        const struct user *holder = turns->is_held ? user_of(turns->users, turns->n, turns->holder) : NULL;

        return holder && holder->wants && turns->now < turns->hold_until;
}

nsec engine_turns_next(struct engine_turns *turns, nsec now, const struct engine_tenant *tenants, size_t n,
                       bool *ret_is_disabled)
{
        nsec span = turns->now ? nsec_max(now - turns->now, 0) : 0;
        uint64_t shares;
        bool is_contended;

        n = n < TURNS_TENANTS_MAX ? n : TURNS_TENANTS_MAX;
        turns->now = nsec_max(now, turns->now);
        follow(turns, tenants, n);
        update(turns, tenants, span);
        is_contended = n_wanting(turns, &shares) > 1 && !turns->is_metered_only;
        if (is_contended && !holder_goes_on(turns)) {
                turn_end(turns);
                turn_begin(turns, shares);
        } else if (!is_contended) {
                turns->is_held = false;
                for (size_t i = 0; i < n; i++)
                        turns->users[i].owed = 0;
        }
        for (size_t i = 0; i < n; i++) {
                const struct user *user = &turns->users[i];

                ret_is_disabled[i] = user->is_blocked || (turns->is_held && user->wants && user->id != turns->holder);
        }
        return is_contended ? nsec_min(turns->hold_until, turns->now + LOOK_CONTENDED) : turns->now + LOOK_QUIET;
}
