/*
 * What all policies share: who may be asked at all, what is said when nobody may, and why.
 *
 * A policy proper is a choice among candidates (struct choice); whether there are any, and whether a
 * sleeping replica is worth waking, is decided here, once. Only "cost" compares sleeping replicas
 * with waking ones; the others wake one when no other can take the request.
 */
#include "route/pick.h"
#include "route/choose.h"

#include <string.h>

const struct pick_tuning PICK_TUNING_DEFAULT = {
        .wait = 1.25,
        .crowd = 0.3,
        .attention = 28000,
        .hold_wait = 0,
        .least = 64,
};

double pick_work(uint32_t from, uint32_t to, double attention)
{
        double n = to > from ? (double)(to - from) : 0;

        return attention > 0 ? n + n * ((double)from + n / 2) / attention : n;
}

static bool fits(const struct pick_view *view, const struct pick_replica *r)
{
        return !r->kv_total || view->prompt < r->kv_total;
}

static bool is_full(const struct pick_view *view, const struct pick_replica *r)
{
        if (r->capacity && r->inflight >= r->capacity)
                return true;
        return view->tuning->hold_wait > 0 && r->backlog > view->tuning->hold_wait * choose_rate(r);
}

/* Candidates are up (and asleep ones, if wanted), large enough, and have room. */
static size_t candidates(const struct pick_view *view, bool asleep, bool tried, uint16_t ret[PICK_REPLICAS_MAX])
{
        size_t n = 0;

        for (size_t i = 0; i < view->n_replicas && i < PICK_REPLICAS_MAX; i++) {
                const struct pick_replica *r = &view->replicas[i];
                bool is_open = r->state == PICK_UP || (asleep && r->state == PICK_ASLEEP);

                if (is_open && (tried || !r->tried) && fits(view, r) && !is_full(view, r))
                        ret[n++] = (uint16_t)i;
        }
        return n;
}

static bool any_full(const struct pick_view *view)
{
        for (size_t i = 0; i < view->n_replicas && i < PICK_REPLICAS_MAX; i++) {
                const struct pick_replica *r = &view->replicas[i];

                if (r->state == PICK_UP && fits(view, r) && is_full(view, r))
                        return true;
        }
        return false;
}

static enum pick_reason why(const struct choice *choice, uint32_t best)
{
        const struct pick_view *view = choice->view;
        uint32_t most = 0;

        if (view->replicas[best].state == PICK_ASLEEP)
                return PICK_BECAUSE_ASLEEP;
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

static void answer(const struct choice *choice, uint32_t best, struct pick *ret)
{
        const struct pick_replica *r = &choice->view->replicas[best];

        *ret = (struct pick){
                .action = r->state == PICK_ASLEEP ? PICK_WAKE : PICK_SEND,
                .reason = why(choice, best),
                .replica = best,
                .matched = r->matched,
                .wait = r->backlog / choose_rate(r),
                .prefill = choose_work(choice->view, r) / choose_rate(r),
                .work = choose_work(choice->view, r),
        };
}

static void nobody(enum pick_action action, enum pick_reason reason, struct pick *ret)
{
        *ret = (struct pick){ .action = action, .reason = reason, .replica = UINT32_MAX };
}

static void decide(const struct pick_view *view, bool asleep, bool is_blind, choose_fn choose, struct pick *ret)
{
        struct choice choice = { .view = view, .is_blind = is_blind };

        choice.n = candidates(view, asleep, false, choice.list);
        if (!choice.n)
                choice.n = candidates(view, true, false, choice.list);
        if (!choice.n && !any_full(view))
                choice.n = candidates(view, true, true, choice.list);
        if (choice.n)
                answer(&choice, choice.n == 1 ? choice.list[0] : choose(&choice), ret);
        else if (any_full(view))
                nobody(PICK_HOLD, PICK_BECAUSE_FULL, ret);
        else
                nobody(PICK_REFUSE, PICK_BECAUSE_NONE, ret);
}

#define POLICY(id, name, asleep, is_blind, about)                                                                      \
        static void pick_##id(const struct pick_view *view, struct pick *ret)                                          \
        {                                                                                                              \
                decide(view, asleep, is_blind, choose_##id, ret);                                                      \
        }
#include "route/policies.def"
#undef POLICY

const struct pick_policy PICK_POLICIES[] = {
#define POLICY(id, name, asleep, is_blind, about) { name, about, pick_##id },
#include "route/policies.def"
#undef POLICY
        { NULL, NULL, NULL },
};

const struct pick_policy *pick_policy_find(const char *name)
{
        for (const struct pick_policy *p = PICK_POLICIES; p->name; p++)
                if (strcmp(p->name, name) == 0)
                        return p;
        return NULL;
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
