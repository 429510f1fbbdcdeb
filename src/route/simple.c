/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies that use little knowledge: round robin, load, and a hash of the prompt's beginning.
 *
 * "prefix-hash" is as in SMG (lightseekorg/smg 73da68ca): a ring on the first 256 tokens; over 1.25 of the mean load,
 * least load.
 */
#include "route/choose.h"

static uint64_t mix(uint64_t x)
{
        x ^= x >> 31;
        x *= 0x7fb5d329728ea185u;
        x ^= x >> 27;
        x *= 0x81dadef4bc2dd44du;
        return x ^ x >> 33;
}

uint32_t choose_round_robin(const struct choice *choice)
{
        return choice->list[choice->view->turn % choice->n];
}

static double inflight(const struct choice *choice, const struct pick_replica *r)
{
        (void)choice;
        return r->inflight;
}

uint32_t choose_least_load(const struct choice *choice)
{
        return choose_least(choice, inflight);
}

uint32_t choose_two(const struct choice *choice)
{
        uint64_t random = choice->view->random;
        size_t a = random % choice->n, b = (a + 1 + (random >> 32) % (choice->n - 1)) % choice->n;
        const struct pick_replica *replicas = choice->view->replicas;

        return replicas[choice->list[b]].inflight < replicas[choice->list[a]].inflight ? choice->list[b] :
                                                                                         choice->list[a];
}

/* Rendezvous hashing in place of the ring: the same minimal movement, and no ring to keep. */
uint32_t choose_prefix_hash(const struct choice *choice)
{
        const struct pick_replica *replicas = choice->view->replicas;
        uint64_t most = 0, total = 0;
        uint32_t best = choice->list[0];

        for (size_t i = 0; i < choice->n; i++) {
                uint64_t h = mix(choice->view->prefix ^ mix(choice->list[i] + 1u));

                total += replicas[choice->list[i]].inflight;
                if (h >= most) {
                        most = h;
                        best = choice->list[i];
                }
        }
        if (replicas[best].inflight > 1.25 * (double)(total + 1) / (double)choice->n)
                return choose_least_load(choice);
        return best;
}
