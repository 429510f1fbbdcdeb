/* SPDX-License-Identifier: Apache-2.0 */
#include "route/rate.h"

#include "unit.h"

#define MS NSEC_PER_MSEC

static void near(double value, double expected, double part)
{
        if (value < expected * (1 - part) || value > expected * (1 + part))
                fail_msg("%g is not near %g", value, expected);
}

static void a_new_replica_is_believed_to_be_what_it_is_configured_as(void **state)
{
        struct rate rate = { 0 };

        (void)state;
        rate_seed(&rate, 20000);
        near(rate_now(&rate), 20000, 0.001);
        near(rate_backlog(&rate, 0) + 1, 1, 0.001);
}

static void a_share_that_changes_changes_the_rate_at_once(void **state)
{
        struct rate rate = { 0 };

        (void)state;
        rate_seed(&rate, 20000);
        rate_seed(&rate, 5000);
        near(rate_now(&rate), 5000, 0.001);
}

/* Requests one after the other on a replica of this true speed. */
static nsec run_serially(struct rate *rate, double speed, int n, nsec now)
{
        for (int i = 0; i < n; i++) {
                struct rate_ticket ticket;

                rate_send(rate, 1000, now, &ticket);
                now += (nsec)(1000 / speed * NSEC_PER_SEC);
                rate_first(rate, &ticket, true, now);
                now += 100 * MS; /* idle: not counted as slowness */
        }
        return now;
}

static void a_wrong_seed_is_corrected(void **state)
{
        struct rate rate = { 0 };

        (void)state;
        rate_seed(&rate, 20000);
        (void)run_serially(&rate, 5000, 400, 1);
        near(rate_now(&rate), 5000, 0.1);
}

static void without_a_seed_all_is_learned(void **state)
{
        struct rate rate = { 0 };

        (void)state;
        (void)run_serially(&rate, 44000, 100, 1);
        near(rate_now(&rate), 44000, 0.1);
}

static void what_was_learned_survives_a_change_of_the_share(void **state)
{
        struct rate rate = { 0 };

        (void)state;
        rate_seed(&rate, 20000);
        (void)run_serially(&rate, 10000, 400, 1);
        rate_seed(&rate, 4000);
        near(rate_now(&rate), 2000, 0.1);
}

static void work_sent_is_backlog_until_the_first_byte(void **state)
{
        struct rate rate = { 0 };
        struct rate_ticket a, b;

        (void)state;
        rate_seed(&rate, 10000);
        rate_send(&rate, 5000, 1, &a);
        rate_send(&rate, 3000, 1, &b);
        near(rate_backlog(&rate, 1), 8000, 0.001);
        near(rate_backlog(&rate, 1 + 100 * MS), 7000, 0.01);
        rate_first(&rate, &a, true, 1 + 500 * MS);
        near(rate_backlog(&rate, 1 + 500 * MS), 3000, 0.01);
        rate_first(&rate, &b, true, 1 + 800 * MS);
        assert_true(rate_backlog(&rate, 1 + 800 * MS) <= 0);
}

static void a_first_byte_proves_what_was_sent_before_it(void **state)
{
        struct rate rate = { 0 };
        struct rate_ticket lost, next, last;

        (void)state;
        rate_seed(&rate, 10000);
        rate_send(&rate, 50000, 1, &lost); /* its worker was killed: nobody will ever report */
        rate_send(&rate, 1000, 2, &next);
        rate_send(&rate, 1000, 3, &last);
        rate_first(&rate, &next, true, 10 * MS);
        near(rate_backlog(&rate, 10 * MS), 1000, 0.05);
}

static void a_late_or_second_first_byte_changes_nothing(void **state)
{
        struct rate rate = { 0 };
        struct rate_ticket a, b;
        double backlog, now_rate;

        (void)state;
        rate_seed(&rate, 10000);
        rate_send(&rate, 1000, 1, &a);
        rate_send(&rate, 1000, 1, &b);
        rate_first(&rate, &b, true, 200 * MS);
        backlog = rate_backlog(&rate, 300 * MS);
        now_rate = rate_now(&rate);
        rate_first(&rate, &a, true, 250 * MS);
        rate_first(&rate, &b, true, 260 * MS);
        assert_true(rate_backlog(&rate, 300 * MS) == backlog);
        assert_true(rate_now(&rate) == now_rate);
}

static void requests_of_one_iteration_do_not_look_slow(void **state)
{
        struct rate rate = { 0 };
        nsec now = 1;

        (void)state;
        rate_seed(&rate, 10000);
        for (int i = 0; i < 200; i++) { /* four at once, all answered after 400 ms, in odd order */
                struct rate_ticket t[4];

                for (int k = 0; k < 4; k++)
                        rate_send(&rate, 1000, now, &t[k]);
                now += 400 * MS;
                rate_first(&rate, &t[2], true, now);
                rate_first(&rate, &t[0], true, now);
                rate_first(&rate, &t[3], true, now);
                rate_first(&rate, &t[1], true, now);
                now += 50 * MS;
        }
        near(rate_now(&rate), 10000, 0.05);
}

static void answers_in_one_piece_teach_nothing(void **state)
{
        struct rate rate = { 0 };
        nsec now = 1;

        (void)state;
        rate_seed(&rate, 10000);
        for (int i = 0; i < 100; i++) {
                struct rate_ticket ticket;

                rate_send(&rate, 1000, now, &ticket);
                now += 5 * NSEC_PER_SEC; /* mostly decoding */
                rate_first(&rate, &ticket, false, now);
        }
        near(rate_now(&rate), 10000, 0.001);
        assert_true(rate_backlog(&rate, now) <= 0);
}

static void the_last_request_dropped_leaves_no_backlog(void **state)
{
        struct rate rate = { 0 };
        struct rate_ticket a, b;

        (void)state;
        rate_seed(&rate, 10000);
        rate_send(&rate, 2000, 1, &a);
        rate_send(&rate, 9000, 1, &b);
        rate_drop(&rate, &b);
        near(rate_backlog(&rate, 1), 2000, 0.001);
        rate_drop(&rate, &b); /* a second time: nothing */
        near(rate_backlog(&rate, 1), 2000, 0.001);
}

static void a_restart_empties_the_backlog(void **state)
{
        struct rate rate = { 0 };
        struct rate_ticket a;

        (void)state;
        rate_seed(&rate, 10000);
        rate_send(&rate, 90000, 1, &a);
        rate_reset(&rate, 2);
        assert_true(rate_backlog(&rate, 2) <= 0);
}

static void a_place_is_expected_after_those_who_wait_for_it(void **state)
{
        struct rate rate = { 0 };

        (void)state;
        for (int i = 1; i < 200; i++)
                rate_end(&rate, i * 100 * MS);
        near(rate_slot(&rate, 0), 0.1, 0.01);
        near(rate_slot(&rate, 9), 1.0, 0.01);
}

static void a_sample_out_of_all_bounds_does_not_break_the_rate(void **state)
{
        struct rate rate = { 0 };
        struct rate_ticket ticket;

        (void)state;
        rate_seed(&rate, 10000);
        rate_send(&rate, 1e12, 1, &ticket);
        rate_first(&rate, &ticket, true, 2);
        assert_true(rate_now(&rate) <= 640000);
        rate_send(&rate, 1, 3, &ticket);
        rate_first(&rate, &ticket, true, 100000 * NSEC_PER_SEC);
        assert_true(rate_now(&rate) >= 10000.0 / 64);
}

/* What is believed of `rate` beside this peer. */
static double beside(const struct rate *rate, const struct rate *peer, nsec now)
{
        struct rate_peers peers = { 0 };
        struct rate_view view;

        rate_add(&peers, rate, now);
        rate_add(&peers, peer, now);
        rate_added(&peers);
        rate_look(rate, &peers, now, &view);
        return view.per_second;
}

static void a_newcomer_is_believed_to_be_a_little_better_than_its_peers_by_share(void **state)
{
        struct rate peer = { 0 }, newcomer = { 0 };
        nsec now;

        (void)state;
        now = run_serially(&peer, 40000, 100, 1);
        near(beside(&newcomer, &peer, now), 50000, 0.1);
        rate_share(&newcomer, 250);
        near(beside(&newcomer, &peer, now), 12500, 0.1);
        rate_seed(&newcomer, 7000); /* its own figure has precedence */
        near(beside(&newcomer, &peer, now), 7000, 0.1);
}

static void an_error_that_all_seeds_have_is_expected_of_a_new_one(void **state)
{
        struct rate peer = { 0 }, newcomer = { 0 };

        (void)state;
        rate_seed(&peer, 20000);
        rate_seed(&newcomer, 20000);
        near(beside(&newcomer, &peer, run_serially(&peer, 10000, 400, 1)), 10000, 0.15);
}

static void a_newcomer_is_soon_known_for_what_it_is(void **state)
{
        struct rate peer = { 0 }, newcomer = { 0 };

        (void)state;
        (void)run_serially(&peer, 40000, 100, 1);
        near(beside(&newcomer, &peer, run_serially(&newcomer, 10000, 40, 1)), 10000, 0.3);
}

static void one_late_answer_does_not_condemn(void **state)
{
        struct rate rate = { 0 };
        struct rate_ticket ticket;
        nsec now = run_serially(&rate, 20000, 200, 1);

        (void)state;
        rate_send(&rate, 500, now, &ticket);
        now += 20 * NSEC_PER_SEC;
        rate_first(&rate, &ticket, true, now);
        assert_true(rate_now(&rate) > 10000);
}

/* Its first answer takes 4 s in place of 20 ms. Compared with what nobody knows, that would be a bad replica. */
static void a_newcomer_that_was_cold_is_compared_with_what_was_expected_of_it(void **state)
{
        struct rate peer = { 0 }, newcomer = { 0 };
        nsec now = run_serially(&peer, 200000, 400, 1);
        struct rate_ticket ticket;
        double expected = beside(&newcomer, &peer, now);

        (void)state;
        rate_send(&newcomer, 4000, now, &ticket);
        ticket.per_second = expected;
        now += 4 * NSEC_PER_SEC;
        rate_first(&newcomer, &ticket, true, now);
        assert_true(beside(&newcomer, &peer, now) > expected / 10);
}

static void who_was_slow_for_a_while_is_believed_to_recover_while_it_gets_nothing(void **state)
{
        struct rate rate = { 0 };
        nsec now = run_serially(&rate, 20000, 1000, 1);
        double slow;

        (void)state;
        now = run_serially(&rate, 2000, 30, now);
        slow = beside(&rate, &rate, now);
        assert_true(slow < 7000);
        assert_true(beside(&rate, &rate, now + 60 * NSEC_PER_SEC) > 1.5 * slow);
}

static void in_the_end_a_newcomer_is_all_that_is_left_of_who_gets_nothing(void **state)
{
        struct rate peer = { 0 }, slow = { 0 };
        nsec now = run_serially(&slow, 2000, 400, 1);

        (void)state;
        (void)run_serially(&peer, 40000, 100, now + 3600 * NSEC_PER_SEC);
        near(beside(&slow, &peer, now), 2000, 0.2);
        assert_true(beside(&slow, &peer, now + 3600 * NSEC_PER_SEC) > 30000);
}

static void an_answer_that_is_late_is_overdue(void **state)
{
        struct rate_peers nobody = { .seed_factor = 1 };
        struct rate rate = { 0 };
        struct rate_ticket ticket;
        struct rate_view view;

        (void)state;
        rate_seed(&rate, 10000);
        rate_send(&rate, 5000, 1, &ticket);
        rate_look(&rate, &nobody, 1 + 400 * MS, &view);
        assert_true(view.overdue <= 0 && view.backlog > 0);
        rate_look(&rate, &nobody, 1 + 2500 * MS, &view);
        near(view.overdue, 2, 0.01);
        assert_true(view.backlog <= 0);
        rate_first(&rate, &ticket, true, 1 + 2500 * MS);
        rate_look(&rate, &nobody, 1 + 9000 * MS, &view);
        assert_true(view.overdue <= 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_new_replica_is_believed_to_be_what_it_is_configured_as),
                cmocka_unit_test(a_share_that_changes_changes_the_rate_at_once),
                cmocka_unit_test(a_wrong_seed_is_corrected),
                cmocka_unit_test(without_a_seed_all_is_learned),
                cmocka_unit_test(what_was_learned_survives_a_change_of_the_share),
                cmocka_unit_test(work_sent_is_backlog_until_the_first_byte),
                cmocka_unit_test(a_first_byte_proves_what_was_sent_before_it),
                cmocka_unit_test(a_late_or_second_first_byte_changes_nothing),
                cmocka_unit_test(requests_of_one_iteration_do_not_look_slow),
                cmocka_unit_test(answers_in_one_piece_teach_nothing),
                cmocka_unit_test(the_last_request_dropped_leaves_no_backlog),
                cmocka_unit_test(a_restart_empties_the_backlog),
                cmocka_unit_test(a_place_is_expected_after_those_who_wait_for_it),
                cmocka_unit_test(a_newcomer_is_believed_to_be_a_little_better_than_its_peers_by_share),
                cmocka_unit_test(an_error_that_all_seeds_have_is_expected_of_a_new_one),
                cmocka_unit_test(a_newcomer_is_soon_known_for_what_it_is),
                cmocka_unit_test(one_late_answer_does_not_condemn),
                cmocka_unit_test(a_newcomer_that_was_cold_is_compared_with_what_was_expected_of_it),
                cmocka_unit_test(who_was_slow_for_a_while_is_believed_to_recover_while_it_gets_nothing),
                cmocka_unit_test(in_the_end_a_newcomer_is_all_that_is_left_of_who_gets_nothing),
                cmocka_unit_test(an_answer_that_is_late_is_overdue),
                cmocka_unit_test(a_sample_out_of_all_bounds_does_not_break_the_rate),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
