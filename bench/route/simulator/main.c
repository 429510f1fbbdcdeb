/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator of policies as a program. */
#include "simulator/report.h"

#include "base/text.h"

#include <getopt.h>
#include <stdio.h>

static int usage(void)
{
        fputs("usage: simulate [-n RUNS] [-s formulas|knowledge|changes|capacity|sleep] TRACES\n"
              "Simulates the router's policies on the traces in the directory TRACES and prints a report.\n",
              stderr);
        return 2;
}

int main(int argc, char **argv)
{
        struct report_options options = { .n_seeds = 1 };
        struct err err = { 0 };
        uint64_t n = 0;
        int option, r;

        while ((option = getopt(argc, argv, "n:s:")) != -1) {
                if (option == 's')
                        options.only = optarg;
                else if (option != 'n' || number_parse(optarg, &n) < 0 || n < 1 || n > 100)
                        return usage();
                if (option == 'n')
                        options.n_seeds = (unsigned int)n;
        }
        if (optind != argc - 1)
                return usage();
        options.traces = argv[optind];
        r = report_run(&options, &err);
        if (r < 0)
                fprintf(stderr, "simulate: %s\n", err.text);
        return r < 0 ? 2 : r;
}
