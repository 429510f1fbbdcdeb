/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy "cost".
 *
 *      u    = work of what replica i has not cached          (pick_work; at least tuning.least)
 *      wait = 1.25 backlog / rate                            backlog and rate as rate.h sees them
 *      pre  = u / rate
 *      cost = wait + pre (1 + 0.3 inflight + held) + absent  least wins
 *      held: requests held, per replica; absent: the time to wake it, or until it has a slot
 *
 * The product keeps affinity under load. A formula that only adds waiting time collapses when no replica can hold all
 * prefixes: queues form, load outweighs affinity, every replica gets every prefix, caches thrash, and the capacity that
 * would drain the queues is gone. Repeated prefill is therefore priced by the requests that it delays: those in flight
 * there a little, held ones in full.
 *
 * For the same reason a replica at capacity stays in the comparison. Without it, its requests go elsewhere, with the
 * same collapse (simulated, shared-prefix load 40/s, capacity 24 of which 20 are in use on average: mean 151 s without
 * it, 0.7 s with it).
 */
#include "route/choose.h"

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

/* Not uniform to the last bit: a 64-bit number modulo at most 256. */
uint32_t choose_least(const struct choice *choice, double (*price)(const struct choice *, const struct pick_replica *))
{
        const struct pick_replica *replicas = choice->view->replicas;
        uint64_t random = choice->view->random;
        double least = price(choice, &replicas[choice->list[0]]);
        uint32_t best = choice->list[0];
        uint64_t equals = 1;

        for (size_t i = 1; i < choice->n; i++) {
                double p = price(choice, &replicas[choice->list[i]]);

                equals = p < least ? 1 : p > least ? equals : equals + 1;
                if (p < least || (p == least && random % equals == 0)) { /* each of k equals stays with 1/k */
                        best = choice->list[i];
                        least = p;
                }
                random = random * 6364136223846793005u + 1442695040888963407u;
                random ^= random >> 33;
        }
        return best;
}

static double cost(const struct choice *choice, const struct pick_replica *r)
{
        const struct pick_tuning *t = choice->view->tuning;
        double rate = choose_rate(r), pre = choose_work(choice->view, r) / rate;
        double absent = r->state == PICK_ASLEEP ? r->wake : choose_is_full(r) ? r->slot : 0;

        double held = (double)choice->view->n_held / (double)choice->n;

        return t->wait * r->backlog / rate + pre * (1 + t->interference * r->inflight + held) + absent;
}

uint32_t choose_cost(const struct choice *choice)
{
        return choose_least(choice, cost);
}
