/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy "cost": seconds that sending the request there costs, its own and, at a discount, the others'. Least wins.
 *
 *      u    = work of what replica i has not cached          (pick_work; at least tuning.least)
 *      u0   = the least u of all candidates: work that has to be done wherever it goes
 *      b    = its backlog as rate.h presumes it, but not less than what of it is unanswered
 *      cost = 1.5 b / rate + the larger of 2 overdue and (queued / 4 + kv^16 (1.5 + 0.75 unread)) slot
 *           + u0 / rate (0.5 + 0.075 inflight + held)
 *           + (u - u0) / rate (1 + 0.075 inflight + 0.12 mean inflight + held)
 *           + 660 min(inflight, 8) / the highest rate of all + absent
 *      held: requests held, per replica; slot: the time between two ends there; kv: the part of its KV cache in use;
 *      unread: uncached tokens of the prompts that are unanswered there, in mean contexts of what is in flight there;
 *      absent: the time until it has a slot; or the time to wake it / (1 + 0.24 mean inflight), for the more there are
 *      in flight, the more of those who come later it will serve
 *
 * Work that another replica has cached is dearer than work that nobody has (u0). It displaces what is cached here, and
 * the more requests there are, the more it delays: so it is priced by all that are in flight, not only by those there.
 * A formula in which waiting time alone outweighs affinity collapses when no replica can hold all prefixes: queues
 * form, every replica gets every prefix, caches thrash, and the capacity that would drain the queues is gone. Work that
 * nobody has cached, on the other hand, only has to go where the queue is shortest.
 *
 * A replica that owes an answer for longer than all of its work should take may stand still, or wait for room in its
 * KV cache: so `overdue` counts as time that it will go on for, and again as much. Where the cache is nearly full, or
 * the engine says that requests wait, one more waits for the end of another, and of one more for each that waits
 * there already. The engine says that only twice a second; that prompts are unanswered is known at once. Both are the
 * time until an answer comes, so the larger counts, not their sum. Without this, one cached block draws request after
 * request to a replica that is full, while others have a quarter of their cache free: with small caches and long
 * answers, p99 was 17 % above that of a formula that prefers free room.
 *
 * Who shares an engine's iterations waits in each of its tokens for the prompts of the others, and they for its own,
 * however much is cached: so each request that is in flight costs as long as some hundred tokens take, up to a number
 * at which one more makes no difference. It is a time, the same for slow and fast replicas: by their own rates it would
 * double what already makes the slow ones dear (simulated: then p99 is a quarter higher where shares are unequal).
 *
 * A replica at capacity stays in the comparison. Without it, its requests go elsewhere, with the same collapse
 * (simulated, shared-prefix load 40/s, capacity 24 of which 20 are in use on average: mean 151 s without it, 0.7 s with
 * it).
 */
#include "route/choose.h"

enum {
        COMPANY_MOST = 8,
};

double choose_rate(const struct pick_replica *r)
{
        return r->rate > 0 ? r->rate : 1;
}

bool choose_is_full(const struct pick_replica *r)
{
        return r->capacity && r->inflight >= r->capacity;
}

double choose_work(const struct pick_view *view, const struct pick_replica *r)
{
        double work = pick_work(r->matched, view->prompt, view->tuning->attention);

        return work > view->tuning->least ? work : view->tuning->least;
}

/*
 * The candidate with the least price, prices[i] being that of list[i]; among equals one at random. Not
 * uniform to the last bit: a 64-bit number modulo at most 256.
 */
static uint32_t cheapest(const struct choice *choice, const double *prices)
{
        uint64_t random = choice->view->random, equals = 1;
        double least = prices[0];
        size_t best = 0;

        for (size_t i = 1; i < choice->n; i++) {
                if (prices[i] > least)
                        continue;
                equals = prices[i] < least ? 1 : equals + 1;
                least = prices[i];
                if (equals == 1 || random % equals == 0) /* each of k equals stays with 1/k */
                        best = i;
                random = random * 6364136223846793005u + 1442695040888963407u;
                random ^= random >> 33;
        }
        return choice->list[best];
}

uint32_t choose_least(const struct choice *choice, double (*price)(const struct choice *, const struct pick_replica *))
{
        double prices[PICK_REPLICAS_MAX];

        for (size_t i = 0; i < choice->n; i++)
                prices[i] = price(choice, &choice->view->replicas[choice->list[i]]);
        return cheapest(choice, prices);
}

/* What all candidates have in common. */
struct common {
        double work;     /* the least of them */
        double held;     /* per candidate */
        double rate;     /* the highest */
        double pressure; /* mean inflight, weighted */
};

/* How many requests there must end before it has room for one more. */
static double ahead(const struct pick_tuning *t, const struct pick_replica *r)
{
        double kv = r->kv_permille * 1e-3, unread = 0;

        if (!r->queued && kv < 0.7) /* kv^16 is nothing there */
                return 0;
        for (int i = 0; i < 4; i++)
                kv *= kv;
        if (r->held)
                unread = (double)r->prefill * r->inflight / r->held;
        return t->queued * r->queued + t->kv * kv * (2 + unread);
}

static double larger(double a, double b)
{
        return a > b ? a : b;
}

static double cost(const struct pick_view *view, const struct common *all, const struct pick_replica *r, double work)
{
        const struct pick_tuning *t = view->tuning;
        double backlog = larger(r->backlog, r->prefill);
        double others = t->interference * r->inflight + all->held;
        double prefill = all->work * (t->fresh + others) + (work - all->work) * (t->again + others + all->pressure);
        double absent = r->state == PICK_ASLEEP ? r->wake / (1 + 2 * all->pressure) : choose_is_full(r) ? r->slot : 0;
        double late = larger(t->overdue * r->overdue, ahead(t, r) * r->slot);
        double company = t->company * (r->inflight < COMPANY_MOST ? r->inflight : COMPANY_MOST) / all->rate;

        return (t->wait * backlog + prefill) / choose_rate(r) + company + late + absent;
}

uint32_t choose_cost(const struct choice *choice)
{
        const struct pick_view *view = choice->view;
        struct common all = { .held = (double)view->n_held / (double)choice->n };
        double prices[PICK_REPLICAS_MAX]; /* first the work, then what it costs */

        for (size_t i = 0; i < choice->n; i++) {
                const struct pick_replica *r = &view->replicas[choice->list[i]];

                prices[i] = choose_work(view, r);
                all.work = i && all.work < prices[i] ? all.work : prices[i];
                all.pressure += r->inflight;
                all.rate = larger(all.rate, choose_rate(r));
        }
        all.pressure *= view->tuning->pressure / (double)choice->n;
        for (size_t i = 0; i < choice->n; i++)
                prices[i] = cost(view, &all, &view->replicas[choice->list[i]], prices[i]);
        return cheapest(choice, prices);
}
