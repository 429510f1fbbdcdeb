/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet burn`: one load for a limited time; `sublet bench` starts it as a tenant or natively. It creates
 * DIR/NAME.ready when it is ready, begins at the moment named in DIR/go, and prints its result as one line of JSON.
 */
#include "bench/verbs.h"

#include "base/flags.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "bench/load.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char usage[] = "usage: sublet sim load [OPTION...] [deep|sync|periodic|alloc|grab|calibrate]\n"
                            "       sublet burn [OPTION...] [deep|sync|periodic|alloc|grab|calibrate]\n"
                            "The load of 'sublet bench', and a load for simulated machines: uses the first device for "
                            "a while, and prints its result as JSON.\n"
                            "\n"
                            "\f";

#define SETTLE (300 * NSEC_PER_MSEC) /* from the start to the first measured kernel: queues are full by then */
#define WAIT_MOST (60 * NSEC_PER_SEC)

struct burn {
        unsigned int kernel_us, period_us, rounds, part, size;
        nsec span, from, until;
        const char *barrier, *name;
        struct load load;
};

/* The moment that DIR/go names; 0: not yet. */
static nsec read_go(const struct burn *burn)
{
        char path[512], text[32] = "";
        FILE *file;

        (void)snprintf(path, sizeof(path), "%s/go", burn->barrier);
        file = fopen(path, "re");
        if (!file)
                return 0;
        (void)fgets(text, sizeof(text), file);
        (void)fclose(file);
        return strtoll(text, NULL, 10);
}

static int wait_for_others(struct burn *burn, struct err *err)
{
        nsec begin = burn->barrier ? 0 : clock_now(), limit = clock_now() + WAIT_MOST;
        char path[512];
        FILE *file;

        if (burn->barrier) {
                (void)snprintf(path, sizeof(path), "%s/%s.ready", burn->barrier, burn->name);
                file = fopen(path, "we");
                if (!file)
                        return err_set(err, -errno, "%s", path);
                (void)fclose(file);
        }
        while (!begin && clock_now() < limit) {
                (void)usleep(1000);
                begin = read_go(burn);
        }
        if (!begin)
                return err_say(err, -ETIMEDOUT, "nobody said go in %s", burn->barrier);
        burn->from = begin + SETTLE;
        burn->until = burn->from + burn->span;
        return 0;
}

static int run_load(struct burn *burn, const char *kind, struct load_result *ret, struct err *err)
{
        struct load *load = &burn->load;

        if (!strcmp(kind, "deep"))
                return load_deep(load, burn->kernel_us, burn->from, burn->until, ret, err);
        if (!strcmp(kind, "sync"))
                return load_sync(load, burn->kernel_us, burn->from, burn->until, ret, err);
        if (!strcmp(kind, "periodic"))
                return load_periodic(load, burn->kernel_us, burn->period_us * NSEC_PER_USEC, burn->from, burn->until,
                                     ret, err);
        if (!strcmp(kind, "alloc"))
                return load_alloc(load, burn->size * MIB, burn->from, burn->until, ret, err);
        return err_say(err, -EINVAL, "'%s' is no load", kind);
}

static bool is_kind(const char *text)
{
        static const char *const kinds[] = { "deep", "sync", "periodic", "alloc", "grab", "calibrate" };

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                if (!strcmp(text, kinds[i]))
                        return true;
        return false;
}

static json_t *calibrate(struct burn *burn, struct err *err)
{
        if (load_calibrate(&burn->load, err) < 0)
                return NULL;
        return json_pack("{s:f, s:i}", "rounds", burn->load.rounds_per_us * 1000, "sms", burn->load.sms);
}

/* Takes the memory, signals that it is ready, and holds it until the barrier opens. */
static json_t *grab(struct burn *burn, struct err *err)
{
        bytes taken = 0, most = burn->size > 4 ? burn->size * MIB : (bytes)INT64_MAX;

        if (load_grab(&burn->load, most, &taken, err) < 0 || wait_for_others(burn, err) < 0)
                return NULL;
        return json_pack("{s:I}", "bytes", (json_int_t)taken);
}

static json_t *work(struct burn *burn, const char *kind, struct err *err)
{
        struct load_result result = { 0 };

        if (wait_for_others(burn, err) < 0 || run_load(burn, kind, &result, err) < 0)
                return NULL;
        return json_pack("{s:I, s:f, s:f, s:f, s:i}", "n", (json_int_t)result.n, "per_second",
                         (double)result.n * NSEC_PER_SEC / (double)burn->span, "p50_us", result.p50, "p99_us",
                         result.p99, "sms", burn->load.sms);
}

static json_t *burn_it(struct burn *burn, const char *kind, struct err *err)
{
        if (load_open(&burn->load, err) < 0)
                return NULL;
        burn->load.rounds_per_us = (double)burn->rounds / 1000;
        burn->load.blocks = burn->load.blocks * burn->part / 100;
        if (!burn->load.blocks)
                burn->load.blocks = 1;
        if (!strcmp(kind, "calibrate"))
                return calibrate(burn, err);
        if (!strcmp(kind, "grab"))
                return grab(burn, err);
        return work(burn, kind, err);
}

int burn_main(int argc, char **argv)
{
        struct burn burn = { .kernel_us = 770,
                             .period_us = 5000,
                             .rounds = 52000,
                             .part = 100,
                             .size = 4,
                             .span = 2 * NSEC_PER_SEC,
                             .name = "burn" };
        const struct flag flags[] = {
                { "kernel", 0, flag_count, &burn.kernel_us, "US", "length of a kernel that is alone (770)", NULL },
                { "period", 0, flag_count, &burn.period_us, "US", "periodic: from launch to launch (5000)", NULL },
                { "rounds", 0, flag_count, &burn.rounds, "N",
                  "of arithmetic in a millisecond, as calibrate prints them (52000)", NULL },
                { "part", 0, flag_count, &burn.part, "PERCENT", "how much of the multiprocessors a kernel fills (100)",
                  NULL },
                { "size", 0, flag_count, &burn.size, "MIB", "alloc: of a piece (4); grab: at most so much", NULL },
                { "for", 0, flag_span, &burn.span, "TIME", "how long (2s)", NULL },
                { "barrier", 0, flag_text, &burn.barrier, "DIR", "signal when ready, and wait for the others", NULL },
                { "name", 0, flag_text, &burn.name, "NAME", "in DIR (burn)", NULL },
        };
        struct err err = { 0 };
        int code, operand = flags_parse(argc, argv, flags, ARRAY_SIZE(flags), usage, &code);
        json_t *said;

        if (operand < 0)
                return code;
        if (operand + 1 < argc)
                return flags_surplus("burn", argv[operand + 1]);
        if (operand < argc && !is_kind(argv[operand])) {
                (void)fprintf(stderr, "sublet: '%s' is no load: deep, sync, periodic, alloc, grab or calibrate\n",
                              argv[operand]);
                return VERB_USAGE;
        }
        said = burn_it(&burn, operand < argc ? argv[operand] : "deep", &err);
        if (!said)
                return flags_failed(&err);
        (void)json_dumpf(said, stdout, JSON_COMPACT);
        (void)putchar('\n');
        json_decref(said);
        return VERB_DONE;
}
