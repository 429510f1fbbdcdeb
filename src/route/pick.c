/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all policies share: which replicas are candidates, the verdict when there is none, and its reason.
 *
 * A policy proper is a choice among candidates (struct choice). A patient policy ("cost") prices replicas that sleep
 * or are at capacity, and may prefer to wait for one. The others compare the replicas that can take the request now,
 * wake one if there is none, and hold the request only if all are at capacity.
 */
#include "route/pick.h"
#include "route/choose.h"

#include <string.h>

const struct pick_tuning PICK_TUNING_DEFAULT = {
        .wait = 1.5,
        .overdue = 2,
        .fresh = 0.5,
        .again = 1,
        .pressure = 0.12,
        .interference = 0.075,
        .company = 660,
        .queued = 0.25,
        .kv = 0.75,
        .attention = 32768,
        .least = 64,
};

static bool fits(const struct pick_view *view, const struct pick_replica *r)
{
        return !r->kv_total || view->prompt < r->kv_total;
}

/* Candidates are up (if wanted: asleep, at capacity, tried before) and large enough. */
enum {
        ASLEEP = 1,
        FULL = 2,
        TRIED = 4,
};

static size_t candidates(const struct pick_view *view, unsigned int wanted, uint16_t ret[PICK_REPLICAS_MAX])
{
        size_t n = 0;

        for (size_t i = 0; i < view->n_replicas && i < PICK_REPLICAS_MAX; i++) {
                const struct pick_replica *r = &view->replicas[i];
                bool is_open = r->state == PICK_UP || (r->state == PICK_ASLEEP && wanted & ASLEEP);

                if (is_open && (!r->tried || wanted & TRIED) && (!choose_is_full(r) || wanted & FULL) && fits(view, r))
                        ret[n++] = (uint16_t)i;
        }
        return n;
}

static size_t n_candidates(const struct pick_view *view, unsigned int wanted)
{
        uint16_t list[PICK_REPLICAS_MAX];

        return candidates(view, wanted, list);
}

static enum pick_reason why(const struct choice *choice, uint32_t best)
{
        const struct pick_view *view = choice->view;
        uint32_t most = 0;

        if (view->replicas[best].state == PICK_ASLEEP)
                return PICK_BECAUSE_ASLEEP;
        if (choose_is_full(&view->replicas[best]))
                return PICK_BECAUSE_FULL;
        if (choice->n == 1)
                return PICK_BECAUSE_ONLY;
        if (choice->is_blind)
                return PICK_BECAUSE_POLICY;
        for (size_t i = 0; i < choice->n; i++)
                if (view->replicas[choice->list[i]].matched > most)
                        most = view->replicas[choice->list[i]].matched;
        if (!most)
                return PICK_BECAUSE_RATE;
        return view->replicas[best].matched == most ? PICK_BECAUSE_CACHE : PICK_BECAUSE_LOAD;
}

static void send_to(const struct choice *choice, uint32_t best, struct pick *ret)
{
        const struct pick_replica *r = &choice->view->replicas[best];

        *ret = (struct pick){
                .action = r->state == PICK_ASLEEP ? PICK_WAKE :
                          choose_is_full(r)       ? PICK_HOLD :
                                                    PICK_SEND,
                .reason = why(choice, best),
                .replica = best,
                .matched = r->matched,
                .wait = r->backlog / choose_rate(r),
                .prefill = choose_work(choice->view, r) / choose_rate(r),
                .work = choose_work(choice->view, r),
        };
}

static void send_nowhere(enum pick_action action, enum pick_reason reason, struct pick *ret)
{
        *ret = (struct pick){ .action = action, .reason = reason, .replica = UINT32_MAX };
}

/* Candidates that the policy compares come first, then sleepers, then replicas that failed this request before. */
void pick_decide(const struct pick_policy *policy, const struct pick_view *view, struct pick *ret)
{
        struct choice choice = { .view = view, .is_blind = policy->is_blind };

        choice.n = candidates(view, policy->is_patient ? ASLEEP | FULL : 0, choice.list);
        if (!choice.n)
                choice.n = candidates(view, ASLEEP, choice.list);
        if (!choice.n && !n_candidates(view, FULL))
                choice.n = candidates(view, ASLEEP | TRIED, choice.list);
        if (choice.n)
                send_to(&choice, choice.n == 1 ? choice.list[0] : policy->choose(&choice), ret);
        else if (n_candidates(view, FULL | TRIED))
                send_nowhere(PICK_HOLD, PICK_BECAUSE_FULL, ret);
        else
                send_nowhere(PICK_REFUSE, PICK_BECAUSE_NONE, ret);
}

const struct pick_policy *pick_policy_find(const char *name)
{
        for (const struct pick_policy *p = PICK_POLICIES; p->name; p++)
                if (strcmp(p->name, name) == 0)
                        return p;
        return NULL;
}

const char *pick_state_name(enum pick_state state)
{
        static const char *const names[] = {
                [PICK_UP] = "up", [PICK_ASLEEP] = "asleep", [PICK_DRAINING] = "draining", [PICK_DOWN] = "down"
        };

        return names[state];
}

const char *pick_reason_name(enum pick_reason reason)
{
        static const char *const names[] = {
                [PICK_BECAUSE_ONLY] = "only",     [PICK_BECAUSE_CACHE] = "cache",   [PICK_BECAUSE_LOAD] = "load",
                [PICK_BECAUSE_RATE] = "rate",     [PICK_BECAUSE_POLICY] = "policy", [PICK_BECAUSE_FULL] = "full",
                [PICK_BECAUSE_ASLEEP] = "asleep", [PICK_BECAUSE_NONE] = "none",
        };

        return names[reason];
}
