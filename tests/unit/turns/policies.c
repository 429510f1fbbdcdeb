/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each policy gives, on the model of the device: a table for docs/time.md, no test.
 *
 *      turns-policies turns signal         with signs of launches; also: rough (late calls), 50 (a period of 50 ms)
 *
 * Per tenant: its time in percent, the worst error over a second and over 100 ms in points, the longest wait with
 * work in ms, and for requests their number and latency.
 */
#include "base/cleanup.h"
#include "turns/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        WARM_UP = 1000, /* ms that are not looked at */
        SHOWN = 3,
};

static struct model model;

struct mix {
        const char *name;
        struct model_tenant tenants[3];
        int n_copies; /* of the first; 0: one */
};

#define MS(x) ((nsec)((x)*1000) * USEC)
#define DEEP_OF(s)                                                                                                     \
        {                                                                                                              \
                .kind = DEEP, .share = s                                                                               \
        }
#define SYNC_OF(s, w, g)                                                                                               \
        {                                                                                                              \
                .kind = SYNC, .share = s, .work = MS(w), .gap = MS(g)                                                  \
        }
#define PERIODIC_OF(s, w, g)                                                                                           \
        {                                                                                                              \
                .kind = PERIODIC, .share = s, .work = MS(w), .gap = MS(g)                                              \
        }

static const struct mix mixes[] = {
        { "deep 50, deep 50", { DEEP_OF(500), DEEP_OF(500) }, 0 },
        { "deep 70, deep 30", { DEEP_OF(700), DEEP_OF(300) }, 0 },
        { "deep 90, deep 10", { DEEP_OF(900), DEEP_OF(100) }, 0 },
        { "deep 4 x 25", { DEEP_OF(250) }, 4 },
        { "sync 1.4 ms 50, the same", { SYNC_OF(500, 1.4, 0.05), SYNC_OF(500, 1.4, 0.05) }, 0 },
        { "sync 0.1 ms 70, deep 30", { SYNC_OF(700, 0.1, 0.01), DEEP_OF(300) }, 0 },
        { "sync 100 ms 70, deep 30", { SYNC_OF(700, 100, 0.02), DEEP_OF(300) }, 0 },
        { "endless 50, sync 0.1 ms 50", { { .kind = ENDLESS, .share = 500 }, SYNC_OF(500, 0.1, 0.01) }, 0 },
        { "idle 50, deep 50", { { .kind = IDLE, .share = 500 }, DEEP_OF(500) }, 0 },
        { "1 of 5 ms 50, deep 50", { PERIODIC_OF(500, 1, 5), DEEP_OF(500) }, 0 },
        { "8 of 33 ms 50, deep 50", { PERIODIC_OF(500, 8, 33), DEEP_OF(500) }, 0 },
        { "sync 1 + 1 ms 60, deep 40", { SYNC_OF(600, 1, 1), DEEP_OF(400) }, 0 },
        { "latency 2 of 10 ms, batch",
          { { .kind = PERIODIC, .share = 500, .work = MS(2), .gap = MS(10), .class = TURNS_LATENCY },
            { .kind = DEEP, .share = 500, .class = TURNS_BATCH } },
          0 },
        { "greedy latency 20, deep 80", { { .kind = DEEP, .share = 200, .class = TURNS_LATENCY }, DEEP_OF(800) }, 0 },
        { "cap 30 alone", { { .kind = DEEP, .share = 500, .cap = 300 } }, 0 },
        { "cap 30, deep", { { .kind = DEEP, .share = 500, .cap = 300 }, DEEP_OF(500) }, 0 },
        { "deep 200 x 0.5", { DEEP_OF(5) }, 200 },
};

static double worst(int tenant, int length, double mean)
{
        double most = 0;

        for (int t = WARM_UP; t + length <= (int)(model.options.length / MSEC); t++) {
                double error = (double)model_had(&model, tenant, t, length) / length / 10 - mean;

                most = error > most ? error : -error > most ? -error : most;
        }
        return most;
}

static void show_tenant(int i)
{
        int length = (int)(model.options.length / MSEC) - WARM_UP;
        double mean = (double)model_had(&model, i, WARM_UP, length) / length / 10;

        printf(" | %5.2f (%.2f %.2f w%d)", mean, worst(i, 1000, mean), worst(i, 100, mean),
               (int)model_longest_wait(&model, i, WARM_UP));
        if (model.tenants[i].kind == PERIODIC)
                printf(" p50 %.2f p99 %.2f", (double)model_latency(&model, i, 50) / 1e6,
                       (double)model_latency(&model, i, 99) / 1e6);
}

static void show(const struct model_options *options, const struct mix *mix)
{
        nsec done = 0, seconds = options->length / SEC;

        model_init(&model, options);
        for (int i = 0; i < (mix->n_copies ? mix->n_copies : 1); i++)
                model_add(&model, mix->tenants[0]);
        for (size_t i = 1; i < ARRAY_SIZE(mix->tenants); i++)
                if (mix->tenants[i].share)
                        model_add(&model, mix->tenants[i]);
        model_run(&model);
        printf("%-27s", mix->name);
        for (int i = 0; i < model.n_tenants; i++)
                done += model.tenants[i].done;
        for (int i = 0; i < model.n_tenants && i < SHOWN; i++)
                show_tenant(i);
        printf(" | sum %.3f, %ld calls/s, %ld switches/s\n", (double)done / (double)options->length,
               (long)(model.n_calls / seconds), (long)(model.n_switches / seconds));
        model_done(&model);
}

int main(int argc, char **argv)
{
        struct model_options options = { .seed = 1, .policy = TURNS_POLICY_TURNS, .length = 5 * SEC };

        for (int i = 1; i < argc; i++)
                if (!strcmp(argv[i], "signal"))
                        options.has_signal = true;
                else if (!strcmp(argv[i], "rough"))
                        options.is_rough = true;
                else if (turns_policy_parse(argv[i], &options.policy) < 0)
                        options.period = atoi(argv[i]) * MSEC;
        for (size_t i = 0; i < ARRAY_SIZE(mixes); i++)
                show(&options, &mixes[i]);
        return 0;
}
