/* SPDX-License-Identifier: Apache-2.0 */
/* What is forgiven of quiet time, on a virtual clock, for tenants that work in ways of their own. */
#include "unit.h"

#include "sched/idle.h"

#define MS NSEC_PER_MSEC
#define PASS (5 * MS)
#define SHORT (2 * MS) /* after a sign: always billed */

static uint32_t dice(uint64_t *state)
{
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)(*state >> 32);
}

/* A tenant alone on the device. At each launch it works for a time, and then rests. */
struct load {
        nsec works[4], rests[4]; /* in turn */
        unsigned int n;
        bool launches_at_kicks; /* whoever works notices a kick and launches something */
};

struct outcome {
        double billed, worked; /* parts of the time */
        unsigned int n_kicks, n_hits;
};

/* One launch: quiet time until the next one, or until a kick finds nobody, after which the device is without it. Passes
 * come at random. */
static nsec launch_run(struct idle *idle, const struct load *load, unsigned int i, uint64_t *state, struct outcome *ret)
{
        nsec work = load->works[i], end = work + load->rests[i], at = SHORT, next = dice(state) % PASS, span;

        while (at < end) {
                nsec until = next < end ? next : end;

                span = PASS / 2 + dice(state) % PASS;
                next += span;
                if (until <= at)
                        continue;
                idle_quiet(idle, at, until);
                at = until;
                if (until == end || !idle_draw(idle, span, dice(state)))
                        continue;
                idle_ask(idle, until);
                ret->n_kicks++;
                ret->n_hits += until < work;
                if (until >= work) {
                        idle_answer(idle, IDLE_NOBODY);
                        return until; /* it is off the device, and not billed, until it launches */
                }
                idle_answer(idle, load->launches_at_kicks ? IDLE_UNSURE : IDLE_WORK);
        }
        return end;
}

static struct outcome load_run(struct idle *idle, const struct load *load, nsec span)
{
        struct outcome ret = { 0 };
        nsec on = 0, now = 0, worked = 0, before = idle->forgiven;
        uint64_t state = 1;

        for (unsigned int i = 0; now < span; i = (i + 1) % load->n) {
                on += launch_run(idle, load, i, &state, &ret);
                now += load->works[i] + load->rests[i];
                worked += load->works[i];
        }
        ret.billed = (double)(on - (idle->forgiven - before)) / (double)now;
        ret.worked = (double)worked / (double)now;
        print_message("works %.1f %%, billed %.1f %%, %u kicks, %u at work\n", 100 * ret.worked, 100 * ret.billed,
                      ret.n_kicks, ret.n_hits);
        return ret;
}

static void a_load_is_billed_for_its_kernels(void **context)
{
        static const struct load loads[] = {
                { { 5 * MS }, { 45 * MS }, 1, false },
                { { 3 * MS }, { 9 * MS }, 1, false },
                { { 20 * MS }, { 30 * MS }, 1, false },
                { { 5 * MS }, { 495 * MS }, 1, false },
                { { 300 * MS }, { 100 * MS }, 1, false },
                { { 3 * MS, 90 * MS, 7 * MS }, { 20 * MS, 10 * MS, 70 * MS }, 3, false },
        };

        (void)context;
        for (size_t i = 0; i < sizeof(loads) / sizeof(*loads); i++) {
                struct idle idle;
                struct outcome was;

                idle_init(&idle);
                was = load_run(&idle, &loads[i], 1200 * NSEC_PER_SEC);
                assert_true(was.billed > was.worked - 0.03);
                assert_true(was.billed < was.worked + 0.03);
        }
}

static void who_always_works_is_billed_all_and_hardly_kicked(void **context)
{
        static const struct load load = { { 2000 * MS }, { 0 }, 1, false };
        struct idle idle;
        struct outcome was;

        (void)context;
        idle_init(&idle);
        was = load_run(&idle, &load, 600 * NSEC_PER_SEC);
        assert_true(was.billed > 0.999);
        assert_true(was.n_kicks < 600 / 2);
}

/* It rested until nothing of its time was billed any more, and then works all the time. */
static void who_rested_long_is_billed_for_its_work_afterwards(void **context)
{
        static const struct load rests = { { 0 }, { 500 * MS }, 1, false }, works = { { 1000 * MS }, { 0 }, 1, false },
                                 lies = { { 1000 * MS }, { 0 }, 1, true };
        struct idle idle, other;

        (void)context;
        idle_init(&idle);
        assert_true(load_run(&idle, &rests, 60 * NSEC_PER_SEC).billed < 0.02);
        other = idle;
        assert_true(load_run(&idle, &works, 60 * NSEC_PER_SEC).billed > 0.95);
        /* One that launches at each kick is known after some of them. */
        assert_true(load_run(&other, &lies, 60 * NSEC_PER_SEC).billed > 0.5);
        assert_true(load_run(&other, &lies, 60 * NSEC_PER_SEC).billed > 0.95);
}

static void without_an_answer_nothing_is_forgiven(void **context)
{
        struct idle idle;

        (void)context;
        idle_init(&idle);
        for (int i = 0; i < 1000; i++) {
                idle_quiet(&idle, SHORT, 500 * MS);
                idle_ask(&idle, 100 * MS);
                assert_false(idle_draw(&idle, PASS, 0)); /* one at a time */
                idle_answer(&idle, i & 1 ? IDLE_VOID : IDLE_UNSURE);
        }
        assert_int_equal(idle.forgiven, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_load_is_billed_for_its_kernels),
                cmocka_unit_test(who_always_works_is_billed_all_and_hardly_kicked),
                cmocka_unit_test(who_rested_long_is_billed_for_its_work_afterwards),
                cmocka_unit_test(without_an_answer_nothing_is_forgiven),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
