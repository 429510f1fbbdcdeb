/* SPDX-License-Identifier: Apache-2.0 */
/* Teams: what others see of the tenants of a trust group, and that they are on or off as one. */
#include "unit.h"

#include "base/cleanup.h"
#include "turns/model.h"

#include <stdlib.h>

static struct model model;

static void begin(uint64_t seed, nsec length)
{
        model_init(&model, &(struct model_options){
                                   .seed = seed, .policy = TURNS_POLICY_TURNS, .length = length, .has_signal = true });
}

static int deep(permille share, int team)
{
        return model_add(&model, (struct model_tenant){ .kind = DEEP, .share = share, .team = team });
}

static int service(nsec step, permille share, int team)
{
        return model_add(&model, (struct model_tenant){
                                         .kind = SYNC, .work = step, .gap = 15 * USEC, .share = share, .team = team });
}

/* ---- the fold -------------------------------------------------------------------------------------------------- */

static struct turns_tenant tenants[4];
static struct turns_view view = { .now = SEC, .metered_until = SEC, .tenants = tenants };
static struct teams teams;

static void fold(size_t n, const struct teams_meter *meters, size_t n_meters)
{
        view.n_tenants = n;
        teams_fold(&view, meters, n_meters, &teams);
}

static void a_view_without_teams_stays_as_it_is(void **state)
{
        (void)state;
        for (size_t i = 0; i < 3; i++)
                tenants[i] = (struct turns_tenant){ .id = i + 1, .share = 100, .cap = 700, .used = (nsec)i };
        fold(3, NULL, 0);
        assert_int_equal(teams.view.n_tenants, 3);
        assert_memory_equal(teams.tenants, tenants, 3 * sizeof(*tenants));
}

static void a_team_has_the_shares_of_all_its_mates_and_its_own_meter(void **state)
{
        static const struct teams_meter meter = { .id = 9, .used = 5 * SEC, .n_starts = 7, .is_resident = true };

        (void)state;
        tenants[0] = (struct turns_tenant){ .id = 1, .team = 9, .share = 200, .cap = 300, .used = SEC };
        tenants[1] = (struct turns_tenant){ .id = 2, .share = 100, .cap = TURNS_WHOLE };
        tenants[2] = (struct turns_tenant){ .id = 3, .team = 9, .share = 0, .cap = TURNS_WHOLE, .used = SEC };
        fold(3, &meter, 1);
        assert_int_equal(teams.view.n_tenants, 2);
        assert_int_equal(teams.tenants[0].id, 9);
        assert_int_equal(teams.tenants[0].share, 200);
        assert_int_equal(teams.tenants[0].n_equal, 1);
        assert_int_equal(teams.tenants[0].cap, TURNS_WHOLE);
        assert_int_equal(teams.tenants[0].used, 5 * SEC);
        assert_int_equal(teams.tenants[0].n_starts, 7);
        assert_true(teams.tenants[0].is_resident);
        assert_int_equal(teams.entity_of[2], 0);
}

static void a_team_is_as_sensitive_as_its_most_sensitive_mate(void **state)
{
        (void)state;
        for (size_t i = 0; i < 3; i++)
                tenants[i] = (struct turns_tenant){ .id = i + 1,
                                                    .team = 9,
                                                    .class = TURNS_BATCH,
                                                    .work = TURNS_WORK_PENDING,
                                                    .launched_at = SEC - MSEC };
        fold(3, NULL, 0);
        assert_int_equal(teams.tenants[0].class, TURNS_BATCH);
        assert_false(teams.tenants[0].has_waiter);
        tenants[1].class = TURNS_NORMAL;
        tenants[1].work = TURNS_WORK_NONE;
        fold(3, NULL, 0);
        assert_int_equal(teams.tenants[0].class, TURNS_NORMAL);
        assert_int_equal(teams.tenants[0].work, TURNS_WORK_PENDING);
        assert_true(teams.tenants[0].has_waiter);
        tenants[1].launched_at = SEC / 2; /* it does not work any more */
        tenants[2].class = TURNS_LATENCY;
        fold(3, NULL, 0);
        assert_int_equal(teams.tenants[0].class, TURNS_LATENCY);
        assert_false(teams.tenants[0].has_waiter);
}

static void all_mates_have_one_order(void **state)
{
        struct turns_order folded[2] = { { .is_disabled = true, .slice = 7 }, { .slice = 9 } }, orders[4];

        (void)state;
        for (size_t i = 0; i < 4; i++)
                tenants[i] = (struct turns_tenant){ .id = i + 1, .team = i == 1 ? 0 : 9 };
        fold(4, NULL, 0);
        teams_unfold(&teams, folded, orders);
        for (size_t i = 0; i < 4; i++) {
                assert_int_equal(orders[i].is_disabled, i != 1);
                assert_int_equal(orders[i].slice, i == 1 ? 9 : 7);
        }
}

/* ---- on the virtual clock -------------------------------------------------------------------------------------- */

/* Of what all had, over each second but the first. */
static void expect_share(int tenant, nsec share, nsec error)
{
        for (int t = 1000; t + 1000 <= (int)(model.options.length / MSEC); t += 10) {
                nsec all = 0, part;

                for (int i = 0; i < model.n_tenants; i++)
                        all += model_had(&model, i, t, 1000);
                part = model_had(&model, tenant, t, 1000) * 1000 / all;
                if (part < share - error || part > share + error)
                        fail_msg("tenant %d has %ld permille of the second from %d ms on, not %ld", tenant, (long)part,
                                 t, (long)share);
        }
}

static void shares_between_teams_and_others_hold(void **state)
{
        int a, b, c;

        (void)state;
        for (int kind = 0; kind < 3; kind++) {
                begin(1, 4 * SEC);
                a = kind ? service(770 * USEC, 200, 1) : deep(200, 1);
                (void)(kind == 2 ? deep(300, 1) : service(1370 * USEC, 300, 1));
                b = kind ? service(770 * USEC, 150, 2) : deep(150, 2);
                (void)service(770 * USEC, 150, 2);
                c = deep(200, 0);
                model_run(&model);
                expect_share(a, 500, 10);
                expect_share(b, 300, 10);
                expect_share(c, 200, 10);
                model_done(&model);
        }
}

static void mates_without_a_promise_have_an_equal_part_each(void **state)
{
        int a, b;

        (void)state;
        begin(2, 4 * SEC);
        a = deep(0, 1);
        (void)deep(0, 1), (void)deep(0, 1);
        b = deep(0, 0);
        model_run(&model);
        expect_share(a, 750, 10);
        expect_share(b, 250, 10);
        model_done(&model);
}

/* Never for longer than a call takes: they are switched by one. */
static void a_team_is_on_or_off_as_one(void **state)
{
        (void)state;
        for (uint64_t seed = 1; seed <= 20; seed++) {
                begin(seed, 2 * SEC);
                for (int i = 0; i < 6; i++)
                        (void)(i % 2 ? service(500 * USEC * (i + 1), 100, 1 + i % 3) : deep(100, 1 + i % 3));
                while (model.now < model.options.length) {
                        nsec until = model.options.length;

                        model.options.length = model.now + 5 * MSEC;
                        model_run(&model);
                        model.options.length = until;
                        for (int i = 0; i < 6; i++)
                                for (int k = 0; k < i; k++)
                                        if (model.tenants[i].team == model.tenants[k].team)
                                                assert_int_equal(model.tenants[i].is_disabled,
                                                                 model.tenants[k].is_disabled);
                }
                model_done(&model);
        }
}

static void services_of_a_team_wait_for_others_for_some_milliseconds(void **state)
{
        int a, b, c;

        (void)state;
        begin(3, 4 * SEC);
        a = service(770 * USEC, 250, 1), b = service(1370 * USEC, 250, 1);
        c = service(770 * USEC, 500, 0);
        model_run(&model);
        assert_in_range(model_latency(&model, a, 99), 0, 12 * MSEC);
        assert_in_range(model_latency(&model, b, 99), 0, 12 * MSEC);
        assert_in_range(model_latency(&model, c, 99), 0, 12 * MSEC);
        model_done(&model);
}

static void what_a_team_does_not_want_is_lent(void **state)
{
        int a, b;

        (void)state;
        begin(4, 4 * SEC);
        a = model_add(&model, (struct model_tenant){
                                      .kind = PERIODIC, .work = MSEC, .gap = 20 * MSEC, .share = 400, .team = 1 });
        (void)model_add(&model, (struct model_tenant){ .kind = IDLE, .share = 400, .team = 1 });
        b = deep(200, 0);
        model_run(&model);
        assert_in_range(model_had(&model, b, 1000, 3000), 3000 * 850, 3000 * 1000);
        assert_in_range(model_latency(&model, a, 99), 0, 4 * MSEC);
        model_done(&model);
}

static void tenants_at_random(int n)
{
        for (int i = 0; i < n; i++) {
                struct model_tenant tenant = { .team = (int)model_below(&model, 4),
                                               .share = model_below(&model, 3) ? 20 + model_below(&model, 80) : 0,
                                               .class = (enum turns_class)model_below(&model, 3) };

                tenant.kind = (enum model_kind[]){ DEEP, SYNC, SYNC, PERIODIC, ON_OFF }[model_below(&model, 5)];
                tenant.work = tenant.kind == ON_OFF ? 200 * MSEC : (300 + model_below(&model, 3000)) * USEC;
                tenant.gap = tenant.kind == SYNC ? 15 * USEC : 30 * MSEC + 6 * tenant.work;
                (void)model_add(&model, tenant);
        }
}

/* Whoever comes with whom: nobody starves, and who always wants has its share of what all have. */
static void nobody_starves_whatever_teams_there_are(void **state)
{
        (void)state;
        for (uint64_t seed = 1; seed <= 60; seed++) {
                begin(seed, 3 * SEC);
                model.options.is_rough = seed % 3 == 0;
                tenants_at_random(3 + (int)model_below(&model, 7));
                model_run(&model);
                for (int i = 0; i < model.n_tenants; i++)
                        if (!model.tenants[i].team && model_longest_wait(&model, i, 500) > 300)
                                fail_msg("seed %ld: tenant %d waited for %ld ms", (long)seed, i,
                                         (long)model_longest_wait(&model, i, 500));
                        else if (model.tenants[i].team && model.tenants[i].kind != ON_OFF && !model.tenants[i].done)
                                fail_msg("seed %ld: tenant %d of team %d did nothing", (long)seed, i,
                                         model.tenants[i].team);
                model_done(&model);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_view_without_teams_stays_as_it_is),
                cmocka_unit_test(a_team_has_the_shares_of_all_its_mates_and_its_own_meter),
                cmocka_unit_test(a_team_is_as_sensitive_as_its_most_sensitive_mate),
                cmocka_unit_test(all_mates_have_one_order),
                cmocka_unit_test(shares_between_teams_and_others_hold),
                cmocka_unit_test(mates_without_a_promise_have_an_equal_part_each),
                cmocka_unit_test(a_team_is_on_or_off_as_one),
                cmocka_unit_test(services_of_a_team_wait_for_others_for_some_milliseconds),
                cmocka_unit_test(what_a_team_does_not_want_is_lent),
                cmocka_unit_test(nobody_starves_whatever_teams_there_are),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
