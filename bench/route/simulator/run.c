/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: arrivals and ends of iterations, whichever is first. After each iteration held requests are decided
 * anew, in the queue's order.
 */
#include "simulator/run.h"
#include "simulator/router.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>

struct sim {
        struct router *router;
        size_t next; /* arrival */
        size_t next_change;
};

static void begin_iteration(struct router_replica *replica, nsec now)
{
        nsec span = engine_begin(&replica->engine);

        replica->busy_until = span ? now + span + replica->cold : INT64_MAX;
        replica->cold = span ? 0 : replica->cold;
}

static void arrive(struct sim *sim, nsec now)
{
        struct router_replica *replica = router_arrive(sim->router, &sim->router->flights[sim->next++], now);

        if (replica && !replica->engine.is_busy)
                begin_iteration(replica, now);
}

/* The replica's next event: the end of its iteration, or of its wake-up. */
static nsec next_of(const struct router_replica *replica)
{
        return replica->wakes_at < replica->busy_until ? replica->wakes_at : replica->busy_until;
}

static void happen(struct sim *sim, struct router_replica *replica)
{
        struct router *router = sim->router;
        nsec now = next_of(replica);

        router->now = now;
        if (replica->is_asleep) {
                router_woken(router, replica, now);
        } else {
                engine_finish(&replica->engine);
                replica->busy_until = INT64_MAX;
                router_release(router, replica, now);
        }
        for (size_t i = 0; i < router->setup->n_replicas; i++)
                if (!router->replicas[i].engine.is_busy && router->replicas[i].busy_until == INT64_MAX)
                        begin_iteration(&router->replicas[i], now);
}

/* The next change, if it comes before anything else at `next`. */
static bool change(struct sim *sim, nsec next)
{
        const struct sim_setup *setup = sim->router->setup;
        const struct sim_change *change = &setup->changes[sim->next_change];
        nsec at;

        if (sim->next_change >= setup->n_changes)
                return false;
        at = (nsec)(change->at * NSEC_PER_SEC);
        if (at > next)
                return false;
        router_change(sim->router, change, at);
        sim->next_change++;
        return true;
}

static struct router_replica *first_of(struct sim *sim)
{
        struct router_replica *first = &sim->router->replicas[0];

        for (size_t i = 1; i < sim->router->setup->n_replicas; i++)
                if (next_of(&sim->router->replicas[i]) < next_of(first))
                        first = &sim->router->replicas[i];
        return first;
}

static void loop(struct sim *sim)
{
        const struct load *load = sim->router->setup->load;

        for (;;) {
                nsec pending = sim->next < load->n_requests ? load->requests[sim->next].at : INT64_MAX;
                struct router_replica *first = first_of(sim);

                nsec event = next_of(first);

                if (pending == INT64_MAX && event == INT64_MAX)
                        return;
                if (change(sim, pending < event ? pending : event))
                        continue;
                if (pending < event)
                        arrive(sim, pending);
                else
                        happen(sim, first);
        }
}

static int by_size(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t n, double q)
{
        return n ? sorted[(size_t)((double)(n - 1) * q)] : 0;
}

static double mean(const double *values, size_t n)
{
        double sum = 0;

        for (size_t i = 0; i < n; i++)
                sum += values[i];
        return n ? sum / (double)n : 0;
}

static void sum_up(const struct router *router, double *ttft, double *tpot, struct sim_result *ret)
{
        const struct load *load = router->setup->load;
        size_t n = 0, n_long = 0, n_good = 0;
        uint64_t hit = 0, prompt = 0;

        for (size_t i = 0; i < load->n_requests; i++) {
                const struct flight *f = &router->flights[i];
                uint32_t output = load->requests[i].output;
                double t, per = 0;

                if (!f->replica)
                        continue;
                t = (double)(f->first_at - load->requests[i].at) / NSEC_PER_SEC;
                if (output > 1)
                        per = (double)(f->end_at - f->first_at) / NSEC_PER_SEC / (output - 1);
                ttft[n++] = t;
                if (output >= 8)
                        tpot[n_long++] = per;
                n_good += t < 2 && per < 0.05;
        }
        for (size_t i = 0; i < router->setup->n_replicas; i++) {
                hit += router->replicas[i].engine.n_hit;
                prompt += router->replicas[i].engine.n_prompt;
                ret->n_sent[i] = router->replicas[i].n_sent;
        }
        qsort(ttft, n, sizeof(*ttft), by_size);
        qsort(tpot, n_long, sizeof(*tpot), by_size);
        ret->ttft_mean = mean(ttft, n);
        ret->ttft_p50 = quantile(ttft, n, 0.5);
        ret->ttft_p99 = quantile(ttft, n, 0.99);
        ret->tpot_mean = mean(tpot, n_long);
        ret->tpot_p99 = quantile(tpot, n_long, 0.99);
        ret->goodput = (double)n_good / (double)load->n_requests;
        ret->hit = prompt ? (double)hit / (double)prompt : 0;
        ret->n_refused = load->n_requests - n;
        ret->n_held = router->n_ever_held;
        ret->n_woken = router->n_woken;
}

int sim_run(const struct sim_setup *setup, struct sim_result *ret)
{
        _cleanup_(router_done) struct router router = { 0 };
        _cleanup_(freep) double *ttft = calloc(setup->load->n_requests, sizeof(double));
        _cleanup_(freep) double *tpot = calloc(setup->load->n_requests, sizeof(double));
        struct sim_result result = { 0 };
        struct sim sim = { .router = &router };
        int r;

        if (!ttft || !tpot)
                return -ENOMEM;
        r = router_init(&router, setup);
        if (r < 0)
                return r;
        loop(&sim);
        sum_up(&router, ttft, tpot, &result);
        *ret = result;
        return 0;
}
