/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What services that launch and wait get, on the model of the device: a table for docs/time.md, no test. Each mix by
 * the driver's default, by turns of a period (launches not seen), and by turns that know what a step is.
 *
 *      turns-services [rough]              rough: late calls
 *
 * Per tenant: its part of what all had in percent, and the greatest error of that over a second in points; p50 and p99
 * of its steps in ms. The steps are those of ResNet-50, batch 1 and 16, on an H200. Sum: work, of the device's time.
 */
#include "base/cleanup.h"
#include "turns/model.h"

#include <stdio.h>
#include <string.h>

enum {
        WARM_UP = 1000, /* ms; percentiles are of all */
        TENANTS = 4,
};

static struct model model;

struct mix {
        const char *name;
        struct model_tenant tenants[TENANTS];
};

#define BATCH_1(s)                                                                                                     \
        {                                                                                                              \
                .kind = SYNC, .share = s, .work = 760 * USEC, .gap = 15 * USEC                                         \
        }
#define BATCH_16(s)                                                                                                    \
        {                                                                                                              \
                .kind = SYNC, .share = s, .work = 1370 * USEC, .gap = 15 * USEC                                        \
        }
#define DEEP_OF(s, c)                                                                                                  \
        {                                                                                                              \
                .kind = DEEP, .share = s, .class = c                                                                   \
        }
#define OPEN                                                                                                           \
        {                                                                                                              \
                .kind = SERVER, .share = 250, .work = 775 * USEC, .gap = 5167 * USEC                                   \
        }

#define GOAL(s, step, ms)                                                                                              \
        {                                                                                                              \
                .kind = SYNC, .share = s, .work = step * USEC, .gap = 15 * USEC, .goal = ms * MSEC                     \
        }
#define OPEN_GOAL                                                                                                      \
        {                                                                                                              \
                .kind = SERVER, .share = 250, .work = 775 * USEC, .gap = 5167 * USEC, .goal = 20 * MSEC                \
        }

static const struct mix mixes[] = {
        { "batch 1, 50 : 50", { BATCH_1(500), BATCH_1(500) } },
        { "batch 16, 50 : 50", { BATCH_16(500), BATCH_16(500) } },
        { "batch 1, 70 : 30", { BATCH_1(700), BATCH_1(300) } },
        { "batch 16, 70 : 30", { BATCH_16(700), BATCH_16(300) } },
        { "batch 1, 90 : 10", { BATCH_1(900), BATCH_1(100) } },
        { "batch 1, 4 x 25", { BATCH_1(250), BATCH_1(250), BATCH_1(250), BATCH_1(250) } },
        { "batch 1 30 : deep 70", { BATCH_1(300), DEEP_OF(700, TURNS_NORMAL) } },
        { "the same, latency : batch",
          { { .kind = SYNC, .share = 300, .work = 760 * USEC, .gap = 15 * USEC, .class = TURNS_LATENCY },
            DEEP_OF(700, TURNS_BATCH) } },
        { "open loop, 4 x 15 of 25", { OPEN, OPEN, OPEN, OPEN } },
        { "50 of 5 ms : 50", { GOAL(500, 770, 5), BATCH_1(500) } },
        { "30 of 10 ms : deep 70", { GOAL(300, 770, 10), DEEP_OF(700, TURNS_BATCH) } },
        { "30 of 6 ms : deep 70", { GOAL(300, 770, 6), DEEP_OF(700, TURNS_BATCH) } },
        { "4 x 25 of 20 ms", { GOAL(250, 1370, 20), GOAL(250, 770, 20), GOAL(250, 770, 20), GOAL(250, 770, 20) } },
        { "10 of 32 ms : 90", { GOAL(100, 770, 32), BATCH_1(900) } },
        { "open 15 of 25, goal 20, x4", { OPEN_GOAL, OPEN_GOAL, OPEN_GOAL, OPEN_GOAL } },
        { "3 of those, deep 25", { OPEN_GOAL, OPEN_GOAL, OPEN_GOAL, DEEP_OF(250, TURNS_NORMAL) } },
        { "one of those, deep 75", { OPEN_GOAL, DEEP_OF(750, TURNS_NORMAL) } },
        { "3 of them, deep 25", { OPEN, OPEN, OPEN, DEEP_OF(250, TURNS_NORMAL) } },
};

static const struct {
        const char *name;
        enum turns_policy policy;
        bool has_signal;
} ways[] = {
        { "default", TURNS_POLICY_NONE, false },
        { "period", TURNS_POLICY_TURNS, false },
        { "steps", TURNS_POLICY_TURNS, true },
};

static double part_of(int tenant, int from, int length)
{
        double sum = 0;

        for (int i = 0; i < model.n_tenants; i++)
                sum += (double)model_had(&model, i, from, length);
        return sum > 0 ? 100 * (double)model_had(&model, tenant, from, length) / sum : 0;
}

static double worst(int tenant, double mean)
{
        double most = 0;

        for (int t = WARM_UP; t + 1000 <= (int)(model.options.length / MSEC); t += 10) {
                double error = part_of(tenant, t, 1000) - mean;

                most = error > most ? error : -error > most ? -error : most;
        }
        return most;
}

static void show(const struct mix *mix, size_t way, bool is_rough)
{
        nsec done = 0;

        model_init(&model, &(struct model_options){ .seed = 1,
                                                    .length = 5 * SEC,
                                                    .policy = ways[way].policy,
                                                    .has_signal = ways[way].has_signal,
                                                    .is_rough = is_rough });
        for (size_t i = 0; i < TENANTS && mix->tenants[i].share; i++)
                model_add(&model, mix->tenants[i]);
        model_run(&model);
        printf("%-26s %-8s", mix->name, ways[way].name);
        for (int i = 0; i < model.n_tenants; i++) {
                double mean = part_of(i, WARM_UP, (int)(model.options.length / MSEC) - WARM_UP);

                done += model.tenants[i].done;
                printf(" | %4.1f (%.1f)", mean, worst(i, mean));
                if (model.tenants[i].kind != DEEP)
                        printf(" %5.2f %5.2f", (double)model_latency(&model, i, 50) / 1e6,
                               (double)model_latency(&model, i, 99) / 1e6);
        }
        printf(" | sum %.3f, %ld calls/s\n", (double)done / (double)model.options.length,
               (long)(model.n_calls / (model.options.length / SEC)));
        model_done(&model);
}

int main(int argc, char **argv)
{
        bool is_rough = argc > 1 && !strcmp(argv[1], "rough");

        for (size_t i = 0; i < ARRAY_SIZE(mixes); i++)
                for (size_t way = 0; way < ARRAY_SIZE(ways); way++)
                        show(&mixes[i], way, is_rough);
        return 0;
}
