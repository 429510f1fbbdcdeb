/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a decision costs: pick_decide() with each policy on a view that is already filled, in nanoseconds, and the
 * rate of one replica (send, first byte, backlog).
 */
#include "base/clock.h"
#include "base/cleanup.h"
#include "route/pick.h"
#include "route/rate.h"

#include <stdio.h>

enum {
        N = 200000,
        ROUNDS = 5,
};

static volatile uint64_t sink; /* what was computed is used */
static struct pick_replica rows[PICK_REPLICAS_MAX];

static void fill(void)
{
        for (uint32_t i = 0; i < PICK_REPLICAS_MAX; i++)
                rows[i] = (struct pick_replica){ .rate = 5000 + 100 * i % 17000,
                                                 .backlog = 1000 * (i * 7 % 31),
                                                 .matched = i * 37 % 4000,
                                                 .inflight = i * 13 % 40,
                                                 .prefill = i * 91 % 9000,
                                                 .held = i * 113 % 90000,
                                                 .kv_permille = i * 31 % 1000,
                                                 .capacity = 256 };
}

/* The best of some rounds: the machine may have other things to do. */
static double time_decisions(const struct pick_policy *policy, size_t n)
{
        double best = 1e18;

        for (int round = 0; round < ROUNDS; round++) {
                nsec began = clock_now();
                uint64_t sum = 0;

                for (uint64_t i = 0; i < N / n; i++) {
                        struct pick_view view = { .replicas = rows,
                                                  .n_replicas = n,
                                                  .tuning = &PICK_TUNING_DEFAULT,
                                                  .random = i * 0x9e3779b97f4a7c15u,
                                                  .turn = i,
                                                  .prefix = i,
                                                  .prompt = 5000 };
                        struct pick verdict;

                        pick_decide(policy, &view, &verdict);
                        sum += verdict.replica;
                }
                double each = (double)(clock_now() - began) / (double)(N / n);

                sink = sum;
                best = each < best ? each : best;
        }
        return best;
}

static double account(void)
{
        struct rate rate = { 0 };
        double best = 1e18, sum = 0;

        rate_seed(&rate, 20000);
        for (int round = 0; round < ROUNDS; round++) {
                nsec began = clock_now(), now = began;

                for (int i = 0; i < N; i++) {
                        struct rate_ticket ticket;

                        sum += rate_backlog(&rate, now);
                        rate_send(&rate, 1000, now, &ticket);
                        rate_first(&rate, &ticket, true, now += 50 * NSEC_PER_MSEC);
                        rate_end(&rate, now);
                }
                double each = (double)(clock_now() - began) / N;

                sink = (uint64_t)sum;
                best = each < best ? each : best;
        }
        return best;
}

/* What a decision needs of the rates of n replicas. */
static double time_rates(size_t n)
{
        static struct rate rates[PICK_REPLICAS_MAX];
        double best = 1e18, sum = 0;

        for (size_t i = 0; i < n; i++) {
                struct rate_ticket ticket;

                rate_send(&rates[i], 1000, 1, &ticket);
                rate_first(&rates[i], &ticket, true, 50 * NSEC_PER_MSEC);
                rate_send(&rates[i], 1000, 60 * NSEC_PER_MSEC, &ticket);
        }
        for (int round = 0; round < ROUNDS; round++) {
                nsec began = clock_now();

                for (uint64_t k = 0; k < N / n; k++) {
                        struct rate_peers peers = { 0 };

                        for (size_t i = 0; i < n; i++)
                                rate_add(&peers, &rates[i], 70 * NSEC_PER_MSEC);
                        rate_added(&peers);
                        for (size_t i = 0; i < n; i++) {
                                struct rate_view view;

                                rate_look(&rates[i], &peers, 70 * NSEC_PER_MSEC, &view);
                                sum += view.backlog;
                        }
                }
                double each = (double)(clock_now() - began) / (double)(N / n);

                sink = (uint64_t)sum;
                best = each < best ? each : best;
        }
        return best;
}

int main(void)
{
        static const size_t SIZES[] = { 8, 64, 256 };

        fill();
        printf("ns per decision       8 replicas         64        256\n");
        for (const struct pick_policy *p = PICK_POLICIES; p->name; p++) {
                printf("  %-16s", p->name);
                for (size_t i = 0; i < ARRAY_SIZE(SIZES); i++)
                        printf(" %12.0f", time_decisions(p, SIZES[i]));
                printf("\n");
        }
        printf("  %-16s", "rates of a view");
        for (size_t i = 0; i < ARRAY_SIZE(SIZES); i++)
                printf(" %12.0f", time_rates(SIZES[i]));
        printf("\n");
        printf("ns per request of rate and backlog, all calls together: %.0f\n", account());
        return 0;
}
