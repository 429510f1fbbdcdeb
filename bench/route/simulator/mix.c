/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/mix.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define PER_TOKEN 0.03 /* seconds that an answer's token is taken to need before the next turn */

static uint32_t uniform(struct mix_range range, uint64_t *random)
{
        return range.to > range.from ? range.from + (uint32_t)(load_random(random) % (range.to - range.from + 1)) :
                                       range.from;
}

/* The square of a uniform number: half are in the lower quarter of the range. */
static uint32_t skewed(struct mix_range range, uint64_t *random)
{
        double u = load_uniform(random);

        return range.to > range.from ? range.from + (uint32_t)((range.to - range.from) * u * u) : range.from;
}

/* Between 1 and peak. */
static double factor_at(const struct load_mix *mix, double at)
{
        double phase = mix->period > 0 ? at / mix->period - (double)(uint64_t)(at / mix->period) : 0;
        double up = phase < 0.5 ? 2 * phase : 2 - 2 * phase;

        switch (mix->shape) {
        case MIX_BURSTS:
                return phase < mix->part ? mix->peak : 1;
        case MIX_DAY:
                return 1 + (mix->peak - 1) * up;
        default:
                return 1;
        }
}

/* A session: whose beginning it has, and how much of it. */
struct session {
        uint64_t tenant, id; /* seeds of keys */
        uint32_t common;
};

static struct session new_session(const struct load_mix *mix, uint64_t seed, uint64_t *random)
{
        struct session session = { .id = load_random(random) };
        uint64_t which = load_random(random), tenant;

        if (!mix->tenants)
                return session;
        which = which & 1 ? which / 2 % (mix->tenants / 8 + 1) : which / 2 % mix->tenants;
        tenant = seed ^ (which + 1) << 20;
        session.tenant = load_random(&tenant);
        session.common = uniform(mix->common, &tenant);
        return session;
}

static int add_turn(struct load *load, const struct session *session, double at, uint32_t input, uint32_t answer)
{
        size_t first = load->n_keys;

        for (uint32_t i = 0; i < input / LOAD_BLOCK; i++) {
                uint64_t key = ((i + 1) * LOAD_BLOCK <= session->common ? session->tenant : session->id) + i;

                if (load_add_key(load, load_random(&key)) < 0)
                        return -ENOMEM;
        }
        return load_add(load, &(struct load_request){ .at = (nsec)(at * NSEC_PER_SEC),
                                                      .input = input ? input : 1,
                                                      .output = answer ? answer : 1,
                                                      .keys = first });
}

static int add_session(struct load *load, const struct load_mix *mix, double at, uint64_t seed, uint64_t *random)
{
        struct session session = new_session(mix, seed, random);
        bool is_long = load_uniform(random) < mix->long_part;
        uint32_t n = uniform(mix->turns, random), input = session.common;

        input += skewed(is_long ? mix->lengthy : mix->own, random);
        for (uint32_t i = 0; i < (n ? n : 1) && at < mix->seconds; i++) {
                uint32_t answer = skewed(mix->answer, random);

                if (add_turn(load, &session, at, input, answer) < 0)
                        return -ENOMEM;
                input += answer + skewed(mix->more, random);
                at += answer * PER_TOKEN + mix->pause * load_exponential(random);
        }
        return 0;
}

static int by_time(const void *a, const void *b)
{
        const struct load_request *x = a, *y = b;

        return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->keys > y->keys) - (x->keys < y->keys);
}

/* Sessions at the highest rate, of which those are kept that the present rate would have. */
int mix_make(const struct load_mix *mix, uint64_t seed, struct load *ret)
{
        _cleanup_(load_done) struct load load = { 0 };
        double peak = mix->shape == MIX_STEADY ? 1 : mix->peak;
        uint64_t random = seed;

        for (double at = 0; (at += load_exponential(&random) / (mix->qps * peak)) < mix->seconds;) {
                if (load_uniform(&random) * peak >= factor_at(mix, at))
                        continue;
                if (add_session(&load, mix, at, seed, &random) < 0)
                        return -ENOMEM;
        }
        if (load.n_requests)
                qsort(load.requests, load.n_requests, sizeof(*load.requests), by_time);
        *ret = TAKE(load);
        return 0;
}
