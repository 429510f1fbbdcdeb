/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formulas of other routers, with their defaults, on our view: for comparison in one run.
 *
 *      cache-aware   SMG (lightseekorg/smg 73da68ca): imbalance gate max - min > 64 and max > 1.5 min; match > 0.3,
 *                    else least load
 *      llm-d         llm-d router 520af478: 3 prefix + 2 queue + 2 (1 - kv), highest wins
 *      dynamo        Dynamo's linear cost: active prefill + uncached + active decode + incoming, least wins
 *      lmetric       arXiv 2603.15202, as Dynamo's policy of that name
 *
 * None of them knows how fast a replica is now. The caller decides how much of the cache each of them sees
 * (llm-d by default only the first 4,096 tokens).
 */
#include "rivals.h"

static double llm_d(const struct choice *choice, const struct pick_replica *r)
{
        const struct pick_replica *replicas = choice->view->replicas;
        uint32_t most = 0, least = UINT32_MAX;
        double prefix = choice->view->prompt ? (double)r->matched / choice->view->prompt : 0, queue = 1;

        for (size_t i = 0; i < choice->n; i++) {
                uint32_t waiting = replicas[choice->list[i]].waiting;

                most = waiting > most ? waiting : most;
                least = waiting < least ? waiting : least;
        }
        if (most > least)
                queue = (double)(most - r->waiting) / (double)(most - least);
        return -(3 * prefix + 2 * queue + 2 * (1 - r->kv_permille / 1000.0));
}

uint32_t choose_llm_d(const struct choice *choice)
{
        return choose_least(choice, llm_d);
}

static double dynamo(const struct choice *choice, const struct pick_replica *r)
{
        double prompt = choice->view->prompt, prefill = r->prefill + prompt - r->matched;

        return (prefill > 0 ? prefill : 0) + r->held + prompt;
}

uint32_t choose_dynamo(const struct choice *choice)
{
        return choose_least(choice, dynamo);
}

static double lmetric(const struct choice *choice, const struct pick_replica *r)
{
        uint32_t fresh = choice->view->prompt > r->matched ? choice->view->prompt - r->matched : 0;

        return ((double)r->prefill + fresh) * (r->inflight + 1.0);
}

uint32_t choose_lmetric(const struct choice *choice)
{
        return choose_least(choice, lmetric);
}

static bool is_unbalanced(const struct choice *choice)
{
        const struct pick_replica *replicas = choice->view->replicas;
        uint32_t most = 0, least = UINT32_MAX;

        for (size_t i = 0; i < choice->n; i++) {
                uint32_t n = replicas[choice->list[i]].inflight;

                most = n > most ? n : most;
                least = n < least ? n : least;
        }
        return most - least > 64 && most > 1.5 * least;
}

static double unmatched(const struct choice *choice, const struct pick_replica *r)
{
        (void)choice;
        return -(double)r->matched;
}

uint32_t choose_smg(const struct choice *choice)
{
        uint32_t best;

        if (is_unbalanced(choice))
                return choose_least_load(choice);
        best = choose_least(choice, unmatched);
        if (choice->view->replicas[best].matched > 0.3 * choice->view->prompt)
                return best;
        return choose_least_load(choice);
}
