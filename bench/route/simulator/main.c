/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator of policies as a program. */
#include "simulator/compare.h"
#include "simulator/report.h"
#include "simulator/run.h"

#include "base/text.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int usage(void)
{
        fputs("usage: simulate [-n RUNS] [-s formulas|knowledge|changes|capacity|sleep] TRACES\n"
              "       simulate -t [-n RUNS] [-f FIRST_SEED] [-l TRIAL] [-p FORMULA] [-r ROUTERS] [-a|-w|-i] [-o] [-k "
              "lru|events]\n"
              "Simulates the router's policies on the traces in the directory TRACES, or (-t) on the trials, and\n"
              "prints a report. -r: requests come to so many routers (at most 4), which tell each other what "
              "they\n"
              "have in flight, learned and sent where; -a: nothing; -w: not what they sent where; -i: that at once.\n"
              "-o: the others see no more than ours: our index, and the engines' figures twice a second.\n"
              "-k: in place of its index, ours has a strict LRU copy of each cache, or sees what the engines have\n"
              "cached and what is on its way there.\n",
              stderr);
        return 2;
}

static bool parse_count(const char *text, unsigned int *ret)
{
        uint64_t n;

        if (number_parse(text, &n) < 0 || n < 1 || n > 1000)
                return false;
        *ret = (unsigned int)n;
        return true;
}

static bool parse_index(const char *text, enum sim_index *ret)
{
        *ret = strcmp(text, "lru") == 0 ? INDEX_COPY : INDEX_BOTH;
        return *ret == INDEX_COPY || strcmp(text, "events") == 0;
}

static int ended(int r, const struct err *err)
{
        if (r < 0)
                fprintf(stderr, "simulate: %s\n", err->text);
        return r < 0 ? 2 : r;
}

int main(int argc, char **argv)
{
        struct report_options options = { .n_seeds = 1 };
        struct compare_options compare = { .first_seed = 1 };
        bool is_trials = false, is_good = true;
        struct err err = { 0 };
        int option;

        while ((option = getopt(argc, argv, "n:s:tf:l:p:r:awiok:")) != -1) {
                if (option == 's')
                        options.only = optarg;
                else if (option == 't')
                        is_trials = true;
                else if (option == 'l')
                        compare.trial = optarg;
                else if (option == 'p')
                        compare.policy = optarg;
                else if (option == 'a')
                        compare.is_apart = true;
                else if (option == 'w')
                        compare.is_without_index = true;
                else if (option == 'i')
                        compare.has_one_index = true;
                else if (option == 'o')
                        compare.is_even = true;
                else if (option == 'k')
                        is_good = parse_index(optarg, &compare.index) && is_good;
                else if (option == 'r')
                        is_good = parse_count(optarg, &compare.n_routers) && compare.n_routers <= SIM_ROUTERS_MAX &&
                                  is_good;
                else
                        is_good = option != '?' && is_good &&
                                  parse_count(optarg, option == 'n' ? &options.n_seeds : &compare.first_seed);
        }
        if (!is_good || optind != argc - !is_trials)
                return usage();
        if (is_trials) {
                compare.n_seeds = options.n_seeds;
                return ended(compare_run(&compare, &err), &err);
        }
        options.traces = argv[optind];
        return ended(report_run(&options, &err), &err);
}
