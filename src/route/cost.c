/*
 * The policy "cost".
 *
 *      u    = work of what replica i has not cached          (pick_work; at least tuning.least)
 *      wait = 1.25 backlog / rate                            backlog and rate as rate.h sees them
 *      pre  = u / rate
 *      cost = wait + pre (1 + 0.3 inflight) + wake           least wins
 *
 * The product is what keeps affinity under load. A formula that only adds waiting time collapses when
 * no replica can hold all prefixes: queues form, load beats affinity, every replica is then sent
 * every prefix, caches thrash, and the capacity that would drain the queues is gone. Repeated prefill
 * is therefore priced by how many it delays: the busier, the dearer.
 */
#include "route/choose.h"

double choose_rate(const struct pick_replica *r)
{
        return r->rate > 0 ? r->rate : 1;
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
        double wake = r->state == PICK_ASLEEP ? r->wake : 0;

        return t->wait * r->backlog / rate + pre * (1 + t->crowd * r->inflight) + wake;
}

uint32_t choose_cost(const struct choice *choice)
{
        return choose_least(choice, cost);
}
