/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A section is a list of variants (rows) on a list of cases (tables). Each figure is the mean over
 * seeds of the router's random numbers, and of the load where it is generated.
 */
#include "simulator/report.h"

#include "base/cleanup.h"
#include "simulator/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum shares {
        EQUAL,
        UNEQUAL,
};

struct test_case {
        const char *name, *source;
        double rate;
        size_t n_replicas;
        enum shares shares;
        uint32_t blocks;
};

static const struct test_case CASES[] = {
#define CASE(name, source, rate, n, shares, blocks) { name, source, rate, n, shares, blocks },
#include "simulator/cases.def"
#undef CASE
};

static const double SPEEDS[8] = { 1, 1, .5, .5, .5, .5, .25, .25 };

/* One row. What is zero is the default: what a real router sees, shares known, all answers streamed. */
struct variant {
        const char *name, *policy;
        enum sim_index index;
        enum sim_sees sees;
        bool is_peer; /* one of the formulas to compare with */
        bool no_share;
        double seed_error, one_piece, attention; /* attention < 0: none */
        uint32_t capacity;
        bool changes;
        size_t n_asleep; /* at first */
        double wake;
};

struct report {
        const struct report_options *options;
        bool failed;
};

/* The others get a strict LRU copy of each cache, better than any of them keeps; ours gets its own index. */
static const struct variant FORMULAS[] = {
        { .name = "cost", .policy = "cost" },
        { .name = "round-robin", .policy = "round-robin", .index = INDEX_LRU, .is_peer = true },
        { .name = "least-load", .policy = "least-load", .index = INDEX_LRU, .is_peer = true },
        { .name = "power-of-two", .policy = "power-of-two", .index = INDEX_LRU, .is_peer = true },
        { .name = "prefix-hash", .policy = "prefix-hash", .index = INDEX_LRU, .is_peer = true },
        { .name = "llm-d (default view)", .policy = "llm-d", .index = INDEX_4096, .is_peer = true },
        { .name = "llm-d (whole prompt)", .policy = "llm-d", .index = INDEX_LRU, .is_peer = true },
        { .name = "dynamo", .policy = "dynamo", .index = INDEX_LRU, .is_peer = true },
        { .name = "lmetric", .policy = "lmetric", .index = INDEX_LRU, .is_peer = true },
        { .name = "cache-aware", .policy = "cache-aware", .index = INDEX_LRU, .is_peer = true },
};

static const struct variant KNOWLEDGE[] = {
        { .name = "cost: as a router sees it", .policy = "cost" },
        { .name = "a strict LRU copy", .policy = "cost", .index = INDEX_LRU },
        { .name = "exact cache (KV events)", .policy = "cost", .index = INDEX_EXACT },
        { .name = "exact, and what is in flight", .policy = "cost", .index = INDEX_BOTH },
        { .name = "exact cache, backlog, rate", .policy = "cost", .index = INDEX_EXACT, .sees = SEES_ENGINE },
        { .name = "share not known, learned", .policy = "cost", .no_share = true },
        { .name = "model rate set twice too high", .policy = "cost", .seed_error = 2 },
        { .name = "model rate set half too low", .policy = "cost", .seed_error = 0.5 },
        { .name = "attention not known", .policy = "cost", .attention = -1 },
        { .name = "attention 4 x too strong", .policy = "cost", .attention = 8192 },
        { .name = "attention 4 x too weak", .policy = "cost", .attention = 131072 },
        { .name = "30 % do not stream", .policy = "cost", .one_piece = 0.3 },
        { .name = "nobody streams", .policy = "cost", .one_piece = 1 },
};

static const struct variant CHANGES[] = {
        { .name = "cost, told by the daemon", .policy = "cost", .changes = true },
        { .name = "cost, must learn it", .policy = "cost", .no_share = true, .changes = true },
        { .name = "least-load", .policy = "least-load", .index = INDEX_LRU, .changes = true, .is_peer = true },
        { .name = "llm-d (whole prompt)", .policy = "llm-d", .index = INDEX_LRU, .changes = true, .is_peer = true },
        { .name = "dynamo", .policy = "dynamo", .index = INDEX_LRU, .changes = true, .is_peer = true },
        { .name = "lmetric", .policy = "lmetric", .index = INDEX_LRU, .changes = true, .is_peer = true },
};

static const struct variant CAPACITY[] = {
        { .name = "cost, capacity 24", .policy = "cost", .capacity = 24 },
        { .name = "cost, capacity 16", .policy = "cost", .capacity = 16 },
        { .name = "llm-d, capacity 24", .policy = "llm-d", .index = INDEX_LRU, .capacity = 24, .is_peer = true },
        { .name = "cache-aware, capacity 24",
          .policy = "cache-aware",
          .index = INDEX_LRU,
          .capacity = 24,
          .is_peer = true },
        { .name = "least-load, capacity 24",
          .policy = "least-load",
          .index = INDEX_LRU,
          .capacity = 24,
          .is_peer = true },
};

static const struct variant SLEEP[] = {
        { .name = "all awake", .policy = "cost" },
        { .name = "4 asleep, 1 s to wake", .policy = "cost", .n_asleep = 4, .wake = 1 },
        { .name = "4 asleep, 7.5 s to wake", .policy = "cost", .n_asleep = 4, .wake = 7.5 },
        { .name = "7 asleep, 7.5 s to wake", .policy = "cost", .n_asleep = 7, .wake = 7.5 },
};

/* Every 300 s the neighbours of replicas 0 and 4 come and go: a quarter of the device, all of it, ... */
enum {
        N_CHANGES = 32,
};

static void fill_changes(const struct test_case *test, struct sim_change ret[N_CHANGES])
{
        for (size_t i = 0; i < N_CHANGES; i++) {
                bool is_first = i % 2 == 0, is_slow = i / 2 % 2 == 0;

                ret[i] = (struct sim_change){ .at = 300 * (double)(i / 2 + 1) / test->rate * 0.4,
                                              .replica = is_first ? 0 : 4,
                                              .speed = is_first == is_slow ? 0.25 : 1 };
        }
}

static int load_case(const struct report *report, const struct test_case *test, unsigned int seed, struct load *ret,
                     struct err *err)
{
        struct load_shared kind = {
                .n = 10000, .qps = test->rate, .prefixes = 150, .prefix = 6144, .own = 1200, .output = 150, .seed = seed
        };
        char path[4096];

        if (strcmp(test->source, "shared") == 0)
                return load_shared(&kind, ret) < 0 ? err_set(err, -ENOMEM, "making a load") : 0;
        (void)snprintf(path, sizeof(path), "%s/mooncake-%s.jsonl", report->options->traces, test->source);
        return load_read(path, test->rate, ret, err);
}

static struct sim_setup setup_of(const struct test_case *test, const struct variant *variant, const struct load *load)
{
        struct sim_setup setup = {
                .load = load,
                .policy = pick_policy_find(variant->policy),
                .tuning = PICK_TUNING_DEFAULT,
                .n_replicas = test->n_replicas,
                .blocks = test->blocks,
                .capacity = variant->capacity,
                .index = variant->index,
                .sees = variant->sees,
                .knows_share = !variant->no_share,
                .seed_error = variant->seed_error,
                .one_piece = variant->one_piece,
                .n_asleep = variant->n_asleep,
                .wake = variant->wake,
        };

        for (size_t i = 0; i < test->n_replicas; i++)
                setup.speed[i] = test->shares == UNEQUAL ? SPEEDS[i % ARRAY_SIZE(SPEEDS)] : 1;
        if (variant->attention != 0)
                setup.tuning.attention = variant->attention > 0 ? variant->attention : 0;
        return setup;
}

static void add_result(struct sim_result *sum, const struct sim_result *one, double weight)
{
        sum->ttft_mean += one->ttft_mean * weight;
        sum->ttft_p50 += one->ttft_p50 * weight;
        sum->ttft_p99 += one->ttft_p99 * weight;
        sum->tpot_mean += one->tpot_mean * weight;
        sum->tpot_p99 += one->tpot_p99 * weight;
        sum->goodput += one->goodput * weight;
        sum->hit += one->hit * weight;
        sum->n_refused += one->n_refused;
}

static int run_variant(const struct report *report, const struct test_case *test, const struct variant *variant,
                       struct sim_result *ret, struct err *err)
{
        struct sim_change changes[N_CHANGES];
        struct sim_result sum = { 0 };

        fill_changes(test, changes);
        for (unsigned int seed = 1; seed <= report->options->n_seeds; seed++) {
                _cleanup_(load_done) struct load load = { 0 };
                struct sim_result one;
                struct sim_setup setup;

                if (load_case(report, test, seed, &load, err) < 0)
                        return err->code;
                setup = setup_of(test, variant, &load);
                setup.seed = seed;
                setup.changes = changes;
                setup.n_changes = variant->changes ? N_CHANGES : 0;
                if (sim_run(&setup, &one) < 0)
                        return err_set(err, -ENOMEM, "simulating %s", test->name);
                add_result(&sum, &one, 1.0 / report->options->n_seeds);
        }
        *ret = sum;
        return 0;
}

static void print_row(const char *name, const struct sim_result *r)
{
        printf("  %-32s %9.3f %8.3f %8.2f %8.3f %9.1f %9.0f %6.3f\n", name, r->ttft_mean, r->ttft_p50, r->ttft_p99,
               r->goodput, r->tpot_mean * 1e3, r->tpot_p99 * 1e3, r->hit);
        (void)fflush(stdout);
}

/* The best of the formulas, each figure for itself. */
static void best_of(struct sim_result *best, const struct sim_result *r, bool is_first)
{
        if (is_first || r->ttft_mean < best->ttft_mean)
                best->ttft_mean = r->ttft_mean;
        if (is_first || r->ttft_p99 < best->ttft_p99)
                best->ttft_p99 = r->ttft_p99;
        if (is_first || r->goodput > best->goodput)
                best->goodput = r->goodput;
}

static void claim(struct report *report, bool holds, const char *text, double value, double bound)
{
        printf("  %s %s: %+.1f %% (aim %+.1f %%)\n", holds ? "holds" : "FAILS", text, value * 100, bound * 100);
        report->failed = report->failed || !holds;
}

/* cost: the first row's. */
static void check(struct report *report, const struct test_case *test, const struct sim_result *cost,
                  const struct sim_result *best)
{
        double goodput = cost->goodput / best->goodput - 1, mean = cost->ttft_mean / best->ttft_mean - 1,
               p99 = cost->ttft_p99 / best->ttft_p99 - 1;

        claim(report, goodput >= -0.02, "goodput against the best formula", goodput, -0.02);
        if (test->shares == UNEQUAL && strcmp(test->source, "shared") != 0) {
                claim(report, mean <= -0.30, "mean TTFT against the best formula", mean, -0.30);
                claim(report, p99 <= -0.25, "p99 TTFT against the best formula", p99, -0.25);
        }
        if (strcmp(test->source, "shared") == 0 && test->shares == EQUAL)
                claim(report, cost->ttft_mean <= 0.25, "no collapse: mean TTFT against 0.25 s",
                      cost->ttft_mean / 0.25 - 1, 0);
}

static int run_table(struct report *report, const struct test_case *test, const struct variant *variants, size_t n,
                     bool checks, struct err *err)
{
        struct sim_result first = { 0 }, best = { 0 };
        bool is_first_peer = true;

        printf("\n%s\n  %-32s %9s %8s %8s %8s %9s %9s %6s\n", test->name, "", "TTFT s", "p50", "p99", "goodput",
               "TPOT ms", "p99", "hits");
        for (size_t i = 0; i < n; i++) {
                struct sim_result result;

                if (run_variant(report, test, &variants[i], &result, err) < 0)
                        return err->code;
                print_row(variants[i].name, &result);
                if (i == 0)
                        first = result;
                if (!variants[i].is_peer)
                        continue;
                best_of(&best, &result, is_first_peer);
                is_first_peer = false;
        }
        if (checks)
                check(report, test, &first, &best);
        return 0;
}

static int run_section(struct report *report, const char *name, const char *title, const struct variant *variants,
                       size_t n, const char *const *cases, struct err *err)
{
        if (report->options->only && strcmp(report->options->only, name) != 0)
                return 0;
        printf("\n== %s\n", title);
        for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
                bool is_wanted = !cases;

                for (size_t k = 0; cases && cases[k]; k++)
                        is_wanted = is_wanted || strcmp(cases[k], CASES[i].name) == 0;
                if (is_wanted && run_table(report, &CASES[i], variants, n, variants == FORMULAS, err) < 0)
                        return err->code;
        }
        return 0;
}

int report_run(const struct report_options *options, struct err *err)
{
        static const char *const KNOWN[] = { "conversation", "shared prefix, 40/s", "conversation, unequal shares",
                                             "synthetic, unequal shares", NULL };
        static const char *const CHANGED[] = { "conversation, unequal shares", "synthetic, unequal shares", NULL };
        static const char *const BOUND[] = { "shared prefix, 40/s", NULL };
        static const char *const WOKEN[] = { "conversation", "synthetic", "shared prefix, 40/s", NULL };
        struct report report = { .options = options };

        printf("Policies on virtual time; goodput: TTFT < 2 s and TPOT < 50 ms; %u run(s) per row\n", options->n_seeds);
        if (run_section(&report, "formulas", "Formulas", FORMULAS, ARRAY_SIZE(FORMULAS), NULL, err) < 0 ||
            run_section(&report, "knowledge", "What knowledge is worth to `cost`", KNOWLEDGE, ARRAY_SIZE(KNOWLEDGE),
                        KNOWN, err) < 0 ||
            run_section(&report, "changes", "Shares that change every five minutes", CHANGES, ARRAY_SIZE(CHANGES),
                        CHANGED, err) < 0 ||
            run_section(&report, "capacity", "Capacity that binds: requests are held in the router", CAPACITY,
                        ARRAY_SIZE(CAPACITY), BOUND, err) < 0 ||
            run_section(&report, "sleep", "Replicas that sleep at first, and are woken", SLEEP, ARRAY_SIZE(SLEEP),
                        WOKEN, err) < 0)
                return err->code;
        return report.failed ? 1 : 0;
}
