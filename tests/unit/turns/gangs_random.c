/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns taken together on random servers of 16 devices, and with random signs. gangs.c has mixes that people have.
 *
 *      SUBLET_SEEDS=500 unit-turns-gangs_random           so many servers
 *      SUBLET_SHOW=1 unit-turns-gangs_random              says what a decision costs
 */
#include "unit.h"

#include "turns/server.h"

#include <stdlib.h>

static struct server server;

#define ADD(...) server_add(&server, (struct server_tenant){ __VA_ARGS__ })

#define SWITCH (1500 * USEC)  /* a handover: both calls, and a thread that is woken */
#define LATE_CALLS (8 * MSEC) /* both of them, where calls are late */

static void begin(uint64_t seed)
{
        server_init(&server, 16, &(struct turns_settings){ 0 });
        server.random = seed * 2654435761u;
        server.is_rough = seed % 3 == 0;
}

static void expect_whole(uint64_t seed)
{
        for (int i = 0; i < server.n_tenants; i++)
                if (server_half(&server, i) > SWITCH + (server.is_rough ? LATE_CALLS : 0))
                        fail_msg("seed %lu: tenant %d was half on for %ld us", (unsigned long)seed, i,
                                 (long)(server_half(&server, i) / USEC));
}

/* ---- a whole server -------------------------------------------------------------------------- */

/* Up to `most` tenants of all of these devices, which have `left` together. Returns what they leave. */
static permille add_some(unsigned int first, unsigned int n, permille left, uint32_t most)
{
        for (uint32_t i = server_below(&server, most + 1); i && left > 200; i--) {
                permille share = 60 + server_below(&server, left / 4);

                ADD(.devices = ((1u << n) - 1) << first, .share = share, .work = (1 + server_below(&server, 8)) * MSEC,
                    .meet = n > 1 ? MSEC : TICK);
                left -= share;
        }
        return left;
}

/* Jobs of 8, 4 and 2 devices, and on each device some tenants that have the rest. */
static void add_block(unsigned int first, unsigned int n, permille left)
{
        if (n == 1) {
                left = add_some(first, n, left, 3);
                ADD(.devices = 1u << first, .share = left, .work = 50 * MSEC, .meet = TICK);
                return;
        }
        if (n <= 8)
                left = add_some(first, n, left, n > 2 ? 2 : 3);
        add_block(first, n / 2, left);
        add_block(first + n / 2, n / 2, left);
}

static int beyond(int tenant)
{
        const struct server_tenant *t = &server.tenants[tenant];
        int worst = 0;

        for (unsigned int d = 0; d < server.n_devices; d++)
                for (int from = 1000; from + 1000 <= 3000 && t->devices & 1u << d; from += 50) {
                        int lack = (int)t->share - (int)(server_had(&server, tenant, d, from, 1000) / 1000);

                        worst = lack > worst ? lack : worst;
                }
        return worst;
}

/* 16 devices, some 64 tenants, jobs of 1, 2, 4 and 8 devices. */
static void on_sixteen_devices_shares_are_held_and_no_job_is_half_on(void **state)
{
        const char *many = getenv("SUBLET_SEEDS");
        uint64_t n = many ? strtoull(many, NULL, 10) : 24;

        (void)state;
        for (uint64_t seed = 1; seed <= n; seed++) {
                begin(seed);
                add_block(0, 16, TURNS_WHOLE);
                server_run(&server, 3 * SEC);
                for (int i = 0; i < server.n_tenants; i++)
                        if (beyond(i) > (server.is_rough ? 50 : 30))
                                fail_msg("seed %lu: tenant %d (%#x, %u) was %d permille short of its share in a second",
                                         (unsigned long)seed, i, server.tenants[i].devices, server.tenants[i].share,
                                         beyond(i));
                for (unsigned int d = 0; d < 16; d++)
                        if (server.devices[d].wasted > 3 * SEC / 25)
                                fail_msg("seed %lu: device %u was idle for %ld ms while a tenant wanted it",
                                         (unsigned long)seed, d, (long)(server.devices[d].wasted / MSEC));
                expect_whole(seed);
                server_done(&server);
        }
}

/* Tenants of every kind that come, go quiet and return; a third of them has a cap, some a class. */
static void add_any(void)
{
        uint32_t size = 1u << server_below(&server, 4), first = server_below(&server, 16 / size) * size;
        struct server_tenant tenant = { .devices = ((1u << size) - 1) << first,
                                        .share = 20 + server_below(&server, 150),
                                        .work = (1 + server_below(&server, 12)) * MSEC,
                                        .meet = server_below(&server, 3) * MSEC + TICK,
                                        .gap = server_below(&server, 4) ? 0 : server_below(&server, 30) * MSEC,
                                        .skew = server_below(&server, 5) ? 0 : server_below(&server, 10) * MSEC,
                                        .begins_at = server_below(&server, 3) ? 0 : server_below(&server, 1000) * MSEC,
                                        .is_idle = !server_below(&server, 6) };

        if (!server_below(&server, 3))
                tenant.cap = 50 + server_below(&server, 700);
        if (!server_below(&server, 5))
                tenant.class = server_below(&server, 2) ? TURNS_LATENCY : TURNS_BATCH;
        if (!server_below(&server, 4)) {
                tenant.quiet_from = server_below(&server, 2000) * MSEC;
                tenant.quiet_until = tenant.quiet_from + server_below(&server, 900) * MSEC;
        }
        ADD(.devices = tenant.devices, .share = tenant.share, .cap = tenant.cap, .class = tenant.class,
            .work = tenant.work, .meet = tenant.meet, .gap = tenant.gap, .skew = tenant.skew,
            .begins_at = tenant.begins_at, .quiet_from = tenant.quiet_from, .quiet_until = tenant.quiet_until,
            .is_idle = tenant.is_idle);
}

/* The longest time, in ms, in which a tenant had work on a device and was not on it. */
static int longest_wait(const struct server_rank *rank)
{
        int wait = 0, longest = 0;

        for (int at = 100; at < 3000; at++) {
                wait = rank->wanted[at] >= 900 && !rank->had[at] ? wait + 1 : 0;
                longest = wait > longest ? wait : longest;
        }
        return longest;
}

static void expect_no_cap_exceeded(uint64_t seed)
{
        for (int i = 0; i < server.n_ranks; i++) {
                const struct server_rank *rank = &server.ranks[i];
                const struct server_tenant *t = &server.tenants[rank->tenant];

                for (int from = 0; from + 1000 <= 3000 && t->cap; from += 20)
                        if (server_had(&server, rank->tenant, rank->device, from, 1000) > (nsec)t->cap * 1000)
                                fail_msg("seed %lu: tenant %d is over its cap", (unsigned long)seed, rank->tenant);
        }
}

static void expect_no_wait(uint64_t seed)
{
        for (int i = 0; i < server.n_ranks; i++)
                if (!server.tenants[server.ranks[i].tenant].cap && longest_wait(&server.ranks[i]) > 1000)
                        fail_msg("seed %lu: tenant %d waited for device %u for %d ms", (unsigned long)seed,
                                 server.ranks[i].tenant, server.ranks[i].device, longest_wait(&server.ranks[i]));
}

static void whatever_tenants_do_nobody_starves_and_no_cap_is_exceeded(void **state)
{
        const char *many = getenv("SUBLET_SEEDS");
        uint64_t n = many ? strtoull(many, NULL, 10) : 24;

        (void)state;
        for (uint64_t seed = 1; seed <= n; seed++) {
                begin(seed);
                for (int i = 0; i < 64; i++)
                        add_any();
                server_run(&server, 3 * SEC);
                expect_whole(seed);
                expect_no_cap_exceeded(seed);
                expect_no_wait(seed);
                server_done(&server);
        }
}

/* Of some of them, one rank works. */
static void beside_gangs_that_only_pretend_to_work_nobody_starves(void **state)
{
        const char *many = getenv("SUBLET_SEEDS");
        uint64_t n = many ? strtoull(many, NULL, 10) : 12;

        (void)state;
        for (uint64_t seed = 1; seed <= n; seed++) {
                begin(seed);
                for (int i = 0; i < 64; i++)
                        add_any();
                for (uint32_t i = 0; i < 8; i++)
                        ADD(.devices = 3u << 2 * i, .share = 100, .work = 2 * MSEC, .meet = TICK, .lies = 3u << 2 * i,
                            .uses = 1u << 2 * i, .is_idle = i % 2);
                server_run(&server, 3 * SEC);
                expect_whole(seed);
                expect_no_wait(seed);
                server_done(&server);
        }
}

/* ---- any view -------------------------------------------------------------------------------- */

static uint64_t random_state = 1;

static uint64_t any(uint64_t bound)
{
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        return (random_state >> 20) % bound;
}

static struct turns_sign any_sign(nsec now)
{
        return (struct turns_sign){ .is_rank = any(4),
                                    .wants_more = any(2),
                                    .is_satisfied = !any(5),
                                    .is_blocked = !any(5),
                                    .is_capped = any(2),
                                    .is_at_work = any(2),
                                    .debt = (nsec)any(1000000000u),
                                    .used = (nsec)any((uint64_t)now * 2),
                                    .started_at = (nsec)any((uint64_t)now * 2),
                                    .beside = (nsec)any(100000000u),
                                    .share = (uint32_t)any(1000001),
                                    .fair = (uint32_t)any(1000001) };
}

static size_t tell_any(struct gangs *gangs, unsigned int device, nsec now, struct turns_tenant *tenants)
{
        struct turns_sign signs[20];
        struct turns_view view = { .now = now, .metered_until = (nsec)any((uint64_t)now * 2), .tenants = tenants };

        view.n_tenants = any(21);
        for (size_t i = 0; i < view.n_tenants; i++) {
                tenants[i] = (struct turns_tenant){ .id = i + 1, .gang = 1 + any(30) };
                signs[i] = any_sign(now);
        }
        gangs_tell(gangs, device, &view, signs, &(struct gangs_rest){ any(2), (nsec)any((uint64_t)now) });
        (void)gangs_next(gangs, now);
        return view.n_tenants;
}

/* J1, whatever devices say: no two gangs have one device, and a gang is on for all its ranks or for none. */
static void whatever_devices_say_a_gang_is_on_as_a_whole_and_no_two_have_one_device(void **state)
{
        static struct turns_tenant tenants[4][20];
        struct turns_gang_order orders[20];
        struct gangs *gangs;
        size_t n[4] = { 0 };

        (void)state;
        assert_int_equal(gangs_new(&(struct turns_settings){ 0 }, &gangs), 0);
        for (nsec now = SEC, i = 0; i < 30000; i++, now += (nsec)any(20000000)) {
                unsigned int device = (unsigned int)any(4);
                enum turns_gang_state states[31] = { 0 };

                n[device] = tell_any(gangs, device, now, tenants[device]);
                for (unsigned int d = 0; d < 4; d++) {
                        uint64_t holder = 0;

                        gangs_orders(gangs, d, &(struct turns_view){ .tenants = tenants[d], .n_tenants = n[d] },
                                     orders);
                        (void)gangs_wake(gangs, d);
                        for (size_t k = 0; k < n[d]; k++) {
                                uint64_t gang = tenants[d][k].gang;

                                if (orders[k].state == TURNS_GANG_NONE)
                                        continue;
                                assert_true(!states[gang] || states[gang] == orders[k].state);
                                states[gang] = orders[k].state;
                                if (orders[k].state != TURNS_GANG_ON || !orders[k].has_device)
                                        continue;
                                assert_true(!holder || holder == gang);
                                holder = gang;
                        }
                }
        }
        gangs_free(gangs);
}

/* The fastest of some decisions, in ns. */
static nsec cost_of(unsigned int n_devices, unsigned int n_gangs)
{
        static struct turns_tenant tenants[200];
        static struct turns_sign signs[200];
        struct gangs *gangs;
        nsec best = SEC;

        assert_int_equal(gangs_new(&(struct turns_settings){ 0 }, &gangs), 0);
        for (unsigned int d = 0; d < n_devices; d++) {
                for (unsigned int i = 0; i < n_gangs; i++) {
                        tenants[i] = (struct turns_tenant){ .id = i + 1, .gang = i + 1 };
                        signs[i] = (struct turns_sign){
                                .is_rank = true, .wants_more = true, .is_at_work = true, .fair = 1000000 / n_gangs
                        };
                }
                gangs_tell(gangs, d,
                           &(struct turns_view){
                                   .now = SEC, .metered_until = SEC, .tenants = tenants, .n_tenants = n_gangs },
                           signs, &(struct gangs_rest){ 0 });
        }
        for (int i = 0; i < 400; i++) {
                nsec from = clock_cpu();

                (void)gangs_next(gangs, SEC + i * 5 * MSEC);
                from = clock_cpu() - from;
                best = from < best ? from : best;
        }
        gangs_free(gangs);
        return best;
}

/* Eight times the ranks; twice that is what a busy machine may add. */
static void the_cost_of_a_decision_grows_no_worse_than_linearly(void **state)
{
        nsec few = cost_of(4, 32), many = cost_of(16, 64);

        (void)state;
        if (getenv("SUBLET_SHOW"))
                print_message("# 4 devices, 32 gangs: %ld ns; 16 devices, 64 gangs: %ld ns\n", (long)few, (long)many);
        assert_true(many < 16 * few);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(on_sixteen_devices_shares_are_held_and_no_job_is_half_on),
                cmocka_unit_test(whatever_tenants_do_nobody_starves_and_no_cap_is_exceeded),
                cmocka_unit_test(beside_gangs_that_only_pretend_to_work_nobody_starves),
                cmocka_unit_test(whatever_devices_say_a_gang_is_on_as_a_whole_and_no_two_have_one_device),
                cmocka_unit_test(the_cost_of_a_decision_grows_no_worse_than_linearly),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
