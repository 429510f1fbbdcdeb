/* SPDX-License-Identifier: Apache-2.0 */
/* Who is on the device and who leaves it, on a clock of our own. */
#include "unit.h"

#include "daemon/state/suspend/swapper.h"

#include <stdlib.h>
#include <string.h>

#define SEC NSEC_PER_SEC
#define NOW (10000 * SEC)

enum { MOST = 8 };

static struct swapper_tenant rows[MOST];
static struct swapper_decision decisions[MOST];
static struct swapper_view view;

static int set_up(void **state)
{
        (void)state;
        memset(rows, 0, sizeof(rows));
        view = (struct swapper_view){
                .now = NOW, .part = 100, .host = 100 * GIB, .n_devices = 1, .room = { 4 * GIB }, .tenants = rows
        };
        return 0;
}

/* In for an hour, and off for so many seconds; its move costs a second. */
static struct swapper_tenant *in(bytes gib, nsec off)
{
        struct swapper_tenant *row = &rows[view.n++];

        *row = (struct swapper_tenant){ .place = SWAPPER_IN,
                                        .may_leave = true,
                                        .in_since = NOW - 3600 * SEC,
                                        .worked_at = NOW - off * SEC,
                                        .cost = SEC,
                                        .promised = { gib * GIB },
                                        .held = gib * GIB };
        return row;
}

static struct swapper_tenant *waits(bytes gib, nsec since)
{
        struct swapper_tenant *row = in(gib, 0);

        row->place = SWAPPER_OUT;
        row->waits = true;
        row->waits_since = NOW - since * SEC;
        return row;
}

static void decides(const char *orders) /* a letter each: '.' stays, 'C' comes, 'L' leaves */
{
        static const char letters[] = { '.', 'C', 'L' };
        char said[MOST + 1] = "";

        swapper_decide(&view, decisions);
        for (size_t i = 0; i < view.n; i++)
                said[i] = letters[decisions[i].order];
        assert_string_equal(said, orders);
}

static void where_there_is_room_it_comes_and_nobody_moves(void **state)
{
        (void)state;
        in(2, 1000);
        waits(2, 1);
        decides(".C");
        assert_int_equal(decisions[1].why, SWAPPER_NOT_WAITING);
}

static void what_one_that_is_out_has_left_there_is_promised_to_nobody(void **state)
{
        struct swapper_tenant *leaver = waits(2, 1);

        (void)state;
        leaver->left[0] = 3 * GIB;
        leaver->waits = false;
        waits(2, 1);
        decides("..");
        assert_int_equal(decisions[1].why, SWAPPER_FOR_NOBODY);
        leaver->waits = true; /* it comes in instead of what it has left, and there is room for the other beside it */
        decides("CC");
        leaver->promised[0] = 3 * GIB;
        decides("C.");
}

static void who_came_in_and_did_nothing_has_no_turn_to_finish(void **state)
{
        struct swapper_tenant *idler = in(4, 3600 + 60);

        (void)state;
        idler->cost = 600 * SEC;
        waits(4, 1);
        idler->in_since = NOW - SWAPPER_IDLE + 1;
        decides("..");
        idler->in_since = NOW - SWAPPER_IDLE;
        decides("L.");
        idler->worked_at = idler->in_since;
        decides("..");
}

static void an_exchange_on_one_device_does_not_wait_for_that_on_another(void **state)
{
        struct swapper_tenant *slow = in(4, 0);

        (void)state;
        view.n_devices = 2;
        view.room[1] = 4 * GIB;
        slow->place = SWAPPER_LEAVES;
        for (int i = 0; i < 2; i++) {
                struct swapper_tenant *row = i ? waits(4, 1) : in(4, 0);

                row->promised[0] = 0;
                row->promised[1] = 4 * GIB;
        }
        waits(4, 2);
        decides(".L..");
        assert_int_equal(decisions[3].why, SWAPPER_FOR_MOVES);
}

static void one_that_does_not_wait_stays_out(void **state)
{
        (void)state;
        waits(2, 1)->waits = false;
        decides(".");
}

static void who_is_off_the_longest_leaves(void **state)
{
        (void)state;
        in(2, 5);
        in(2, 50);
        waits(2, 1);
        decides(".L.");
        assert_int_equal(decisions[2].why, SWAPPER_FOR_MOVES);
}

static void of_those_at_work_who_is_in_for_longest_leaves(void **state)
{
        (void)state;
        in(2, 0);
        in(2, 0)->in_since -= SEC;
        waits(1, 1);
        decides(".L.");
}

static void no_more_leave_than_it_needs(void **state)
{
        (void)state;
        in(1, 50); /* alone it would not be enough, and beside the next it is too much */
        in(3, 5);
        waits(3, 1);
        decides(".L.");
}

static void latency_is_pushed_out_only_where_the_others_are_not_enough(void **state)
{
        (void)state;
        in(2, 1000)->is_latency = true;
        in(2, 0);
        waits(2, 1);
        decides(".L.");
        rows[1].in_since = NOW; /* its turn is not over: it is waited for */
        decides("...");
        assert_int_equal(decisions[2].why, SWAPPER_FOR_TURNS);
        rows[2].promised[0] = 4 * GIB;
        rows[1].in_since = NOW - 3600 * SEC;
        decides("LL.");
        rows[2].promised[0] = 2 * GIB;
        rows[1].may_leave = false; /* the other cannot be */
        decides("L..");
}

static void nobody_leaves_before_its_turn_has_paid_for_its_move(void **state)
{
        (void)state;
        in(4, 0)->in_since = NOW - 100 * SEC + 1;
        rows[0].cost = waits(4, 1)->cost = 10 * SEC;
        decides("..");
        assert_int_equal(decisions[1].why, SWAPPER_FOR_TURNS);
        view.now++;
        decides("L.");
        view.part = 50;
        decides("..");
        rows[0].cost = rows[1].cost = 5 * SEC;
        decides("L.");
}

static void nothing_is_moved_that_the_host_would_not_hold(void **state)
{
        (void)state;
        in(4, 100);
        waits(4, 1);
        view.host = 4 * GIB - 1;
        decides("..");
        assert_int_equal(decisions[1].why, SWAPPER_FOR_HOST);
        view.host++;
        decides("L.");
}

static void who_waits_longest_comes_first_and_nobody_passes_it(void **state)
{
        (void)state;
        in(3, 0)->in_since = NOW;
        waits(1, 1);
        waits(4, 2);
        decides("...");
        assert_int_equal(decisions[1].why, SWAPPER_FOR_OTHERS);
        assert_int_equal(decisions[2].why, SWAPPER_FOR_TURNS);
}

static void it_is_passed_by_one_that_has_room_beside_it_too(void **state)
{
        (void)state;
        in(3, 0)->in_since = NOW;
        waits(1, 1);
        waits(2, 2);
        decides(".C.");
        assert_int_equal(decisions[2].why, SWAPPER_FOR_TURNS);
        rows[0].in_since -= 3600 * SEC; /* its turn is over: the exchange comes first */
        decides("L..");
        assert_int_equal(decisions[1].why, SWAPPER_FOR_OTHERS);
}

static void one_that_waits_for_what_has_no_end_is_passed(void **state)
{
        (void)state;
        in(3, 0)->may_leave = false;
        waits(1, 1);
        waits(4, 2);
        decides(".C.");
        assert_int_equal(decisions[2].why, SWAPPER_FOR_NOBODY);
}

static void one_exchange_at_a_time(void **state)
{
        (void)state;
        in(2, 100);
        in(2, 100)->place = SWAPPER_COMES;
        waits(2, 1);
        decides("...");
        assert_int_equal(decisions[2].why, SWAPPER_FOR_MOVES);
        rows[1].place = SWAPPER_LEAVES;
        decides("...");
        rows[1].place = SWAPPER_OUT;
        decides("..C");
}

static void each_device_has_its_own_room(void **state)
{
        (void)state;
        view.n_devices = 2;
        view.room[1] = 4 * GIB;
        in(4, 100);
        in(0, 10)->promised[1] = 4 * GIB;
        waits(0, 1)->promised[1] = 4 * GIB;
        decides(".L.");
        rows[2].promised[0] = GIB;
        decides("LL.");
}

static void who_was_idle_is_believed_for_as_long_again(void **state)
{
        (void)state;
        assert_int_equal(swapper_rest(0), 0);
        assert_int_equal(swapper_rest(7 * SEC), 7 * SEC);
        assert_int_equal(swapper_rest(3600 * SEC), SWAPPER_REST_MOST);
}

static bytes needs(bytes a, bytes b, bytes c, bytes room)
{
        const bytes sizes[] = { a, b, c }, rooms[LEASE_DEVICES_MAX] = { room * GIB };
        struct swapper_host host = { 0 };

        for (size_t i = 0; i < 3; i++) {
                bytes promised[LEASE_DEVICES_MAX] = { sizes[i] * GIB };

                swapper_host_add(&host, promised);
        }
        return swapper_host_needed(&host, rooms, 1) / GIB;
}

static void an_exchange_needs_room_for_both(void **state)
{
        (void)state;
        assert_int_equal(needs(2, 2, 0, 4), 0); /* they fit together */
        assert_int_equal(needs(3, 3, 0, 4), 6); /* one is out when the other leaves */
        assert_int_equal(needs(2, 2, 2, 4), 6);
        assert_int_equal(needs(1, 1, 3, 4), 5);
        assert_int_equal(needs(2, 3, 4, 8), 8); /* 9, less 1 that is in meanwhile */
}

static void what_one_has_on_other_devices_moves_with_it(void **state)
{
        const bytes rooms[LEASE_DEVICES_MAX] = { 4 * GIB, 4 * GIB }, both[LEASE_DEVICES_MAX] = { 3 * GIB, GIB },
                    one[LEASE_DEVICES_MAX] = { GIB }, large[LEASE_DEVICES_MAX] = { 2 * GIB };
        struct swapper_host host = { 0 };

        (void)state;
        swapper_host_add(&host, both);
        swapper_host_add(&host, one);
        assert_int_equal(swapper_host_needed(&host, rooms, 2), 0);
        swapper_host_add(&host, large);
        assert_int_equal(swapper_host_needed(&host, rooms, 2), 7 * GIB);
}

/* ---- random runs */

enum { TICK = NSEC_PER_SEC / 10, TICKS = 20000 };

/* What time does: each way of a move takes half of its cost. */
static struct {
        nsec until, out_at; /* of a move; when it left */
        bool is_at_work;
} life[MOST];

static nsec random_nsec(nsec most)
{
        return (nsec)((uint64_t)rand() % (uint64_t)most);
}

static void draw(void)
{
        bytes part = 1 + (bytes)rand() % 4; /* of a device, at most */

        view.part = 50 + (permille)rand() % 500;
        view.n_devices = 1 + (unsigned int)rand() % 2;
        view.n = 2 + (size_t)rand() % (MOST - 1);
        view.room[0] = view.room[1] = 16 * GIB;
        for (size_t i = 0; i < view.n; i++) {
                rows[i] = (struct swapper_tenant){ .place = SWAPPER_OUT,
                                                   .is_latency = rand() % 4 == 0,
                                                   .may_leave = true,
                                                   .waits = true,
                                                   .waits_since = NOW,
                                                   .cost = TICK + random_nsec(SEC) };
                for (unsigned int d = 0; d < view.n_devices; d++)
                        rows[i].promised[d] = 1 + (bytes)rand() * MIB % (16 * GIB / part);
                life[i].is_at_work = rand() % 2;
        }
}

static nsec turn_of(const struct swapper_tenant *row)
{
        return row->cost / view.part * TURNS_WHOLE;
}

/* A tick of a tenant's life: moves end, it works or not, and one that is out waits once its rest is over. */
static void live(size_t i)
{
        struct swapper_tenant *row = &rows[i];

        if (rand() % 300 == 0)
                life[i].is_at_work = !life[i].is_at_work;
        if (row->place == SWAPPER_IN && life[i].is_at_work)
                row->worked_at = view.now;
        if (row->place == SWAPPER_COMES && view.now >= life[i].until) {
                row->place = SWAPPER_IN;
                row->in_since = view.now;
                row->held = row->promised[0] + row->promised[1]; /* nothing before it was in */
        } else if (row->place == SWAPPER_LEAVES && view.now >= life[i].until) {
                row->place = SWAPPER_OUT;
                life[i].out_at = view.now;
        } else if (row->place == SWAPPER_OUT && !row->waits &&
                   view.now - life[i].out_at >= swapper_rest(life[i].out_at - row->worked_at)) {
                row->waits = true;
                row->waits_since = view.now;
        }
}

static bool all_fit(void)
{
        for (unsigned int d = 0; d < view.n_devices; d++) {
                bytes sum = 0;

                for (size_t i = 0; i < view.n; i++)
                        sum += rows[i].promised[d];
                if (sum > view.room[d])
                        return false;
        }
        return true;
}

static void follow(size_t i)
{
        struct swapper_tenant *row = &rows[i];

        switch (decisions[i].order) {
        case SWAPPER_COME:
                assert_int_equal(row->place, SWAPPER_OUT);
                row->place = SWAPPER_COMES;
                row->waits = false;
                life[i].until = view.now + row->cost / 2;
                return;
        case SWAPPER_LEAVE:
                assert_int_equal(row->place, SWAPPER_IN);
                if (row->worked_at >= row->in_since || view.now - row->in_since < SWAPPER_IDLE)
                        assert_true(view.now - row->in_since >= turn_of(row)); /* X5 */
                row->place = SWAPPER_LEAVES;
                life[i].until = view.now + row->cost / 2;
                return;
        case SWAPPER_STAY:
                return;
        }
}

static bytes host_needed(void)
{
        struct swapper_host host = { 0 };

        for (size_t i = 0; i < view.n; i++)
                swapper_host_add(&host, rows[i].promised);
        return swapper_host_needed(&host, view.room, view.n_devices);
}

/* What is free of it: who is not in has its contents there, also while it moves. */
static bytes host_left(bytes all)
{
        for (size_t i = 0; i < view.n; i++)
                if (rows[i].place != SWAPPER_IN) {
                        assert_true(all >= rows[i].held);
                        all -= rows[i].held;
                }
        return all;
}

static void check_room(void)
{
        for (unsigned int d = 0; d < view.n_devices; d++) {
                bytes sum = 0;

                for (size_t i = 0; i < view.n; i++)
                        sum += rows[i].place == SWAPPER_OUT ? 0 : rows[i].promised[d];
                assert_true(sum <= view.room[d]); /* X1 */
        }
}

/* Of a way out for which one of class latency leaves: all others that are in leave, too, or they would not do. */
static void check_latency(void)
{
        bytes needed[2] = { 0 }, others[2] = { 0 };
        bool leaves = false, are_enough = true;

        for (size_t i = 0; i < view.n; i++) {
                leaves |= decisions[i].order == SWAPPER_LEAVE && rows[i].is_latency;
                for (unsigned int d = 0; d < view.n_devices; d++) {
                        if (decisions[i].why == SWAPPER_FOR_MOVES && !needed[d])
                                needed[d] = rows[i].promised[d];
                        if (rows[i].place == SWAPPER_IN && rows[i].is_latency)
                                others[d] += rows[i].promised[d];
                }
        }
        for (unsigned int d = 0; d < view.n_devices; d++)
                are_enough &= !needed[d] || others[d] + needed[d] <= view.room[d];
        if (leaves)
                assert_false(are_enough);
}

static void nobody_starves_and_nothing_is_exceeded_in_random_runs(void **state)
{
        unsigned int seed = getenv("SUBLET_SEED") ? (unsigned int)atoi(getenv("SUBLET_SEED")) : 1;

        (void)state;
        for (unsigned int run = 0; run < 60; run++, seed++) {
                nsec longest = 0;
                bytes host;

                srand(seed);
                view.now = NOW;
                draw();
                if (all_fit())
                        continue;
                host = host_needed();
                for (size_t i = 0; i < view.n; i++)
                        longest = turn_of(&rows[i]) > longest ? turn_of(&rows[i]) : longest;
                for (unsigned int tick = 0; tick < TICKS; tick++, view.now += TICK) {
                        for (size_t i = 0; i < view.n; i++)
                                live(i);
                        view.host = run % 2 ? 1000 * GIB : host_left(host);
                        swapper_decide(&view, decisions);
                        check_latency();
                        for (size_t i = 0; i < view.n; i++) {
                                follow(i);
                                /* those before it have a turn each, and each a move */
                                if (rows[i].waits &&
                                    view.now - rows[i].waits_since > (nsec)view.n * (longest + 2 * SEC + 4 * TICK))
                                        fail_msg("seed %u: tenant %zu waits since %lld s", seed, i,
                                                 (long long)((view.now - rows[i].waits_since) / SEC));
                        }
                        check_room();
                }
        }
}

/* ---- shares of a minute */

enum { MINUTE_TICKS = 600, ROUNDS_TICKS = 6000, WARM = 1200 };

static double done[MOST][ROUNDS_TICKS]; /* what each has got of the device's time, by each tick */

/* Tenants of two of three parts, or one, of a device, at work all the time; their moves cost `cost`. */
static void live_with_shares(const permille *shares, size_t n, bytes each, nsec cost)
{
        view.now = NOW;
        view.n = 0;
        for (size_t i = 0; i < n; i++) {
                struct swapper_tenant *row = waits(each, (nsec)(n - i));

                row->share = shares[i];
                row->cost = cost;
                life[i].is_at_work = true;
        }
        for (size_t tick = 0; tick < ROUNDS_TICKS; tick++, view.now += TICK) {
                double in = 0;

                for (size_t i = 0; i < n; i++) {
                        live(i);
                        if (rows[i].place == SWAPPER_IN) {
                                rows[i].worked_at = view.now;
                                in += rows[i].share;
                        }
                }
                swapper_decide(&view, decisions);
                for (size_t i = 0; i < n; i++) {
                        double got = rows[i].place == SWAPPER_IN ? rows[i].share / in : 0;

                        done[i][tick] = (tick ? done[i][tick - 1] : 0) + got;
                        follow(i);
                }
        }
}

/* In hundredths, the most that one is off its share of what all get, over any minute. */
static double worst_minute(const permille *shares, size_t n)
{
        double worst = 0, all = 0;

        for (size_t i = 0; i < n; i++)
                all += shares[i];
        for (size_t from = WARM; from + MINUTE_TICKS < ROUNDS_TICKS; from += 7) {
                double sum = 0;

                for (size_t i = 0; i < n; i++)
                        sum += done[i][from + MINUTE_TICKS] - done[i][from];
                for (size_t i = 0; i < n; i++) {
                        double off = (done[i][from + MINUTE_TICKS] - done[i][from]) / sum - shares[i] / all;

                        worst = off > worst ? off : -off > worst ? -off : worst;
                }
        }
        return 100 * worst;
}

static void over_any_minute_each_has_its_share(void **state)
{
        static const struct {
                permille shares[4];
                size_t n;
                bytes each;
                nsec cost;
        } cases[] = {
                { { 333, 333, 333 }, 3, 3, 1200 * NSEC_PER_MSEC }, /* one at a time */
                { { 700, 300 }, 2, 3, 1500 * NSEC_PER_MSEC },          { { 500, 300, 200 }, 3, 3, 900 * NSEC_PER_MSEC },
                { { 333, 333, 333 }, 3, 2, 1200 * NSEC_PER_MSEC }, /* two at a time */
                { { 250, 250, 250, 250 }, 4, 2, 800 * NSEC_PER_MSEC },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                double worst;

                live_with_shares(cases[i].shares, cases[i].n, cases[i].each, cases[i].cost);
                worst = worst_minute(cases[i].shares, cases[i].n);
                if (worst > 2)
                        fail_msg("case %zu: %.1f points off", i, worst);
        }
}

static void one_that_has_stopped_working_has_no_slot_to_finish(void **state)
{
        struct swapper_tenant *stopped = in(4, 0);

        (void)state;
        stopped->share = 900;
        stopped->in_since = NOW - 20 * SEC;
        waits(4, 1)->share = 100;
        decides("..");
        stopped->worked_at = NOW - SWAPPER_IDLE;
        decides("L.");
        stopped->in_since = NOW - 10 * SEC + 1; /* its move is to be paid for all the same */
        decides("..");
}

static void those_that_come_in_beside_it_do_not_make_one_wait_for_longer(void **state)
{
        (void)state;
        view.room[0] = 5 * GIB;
        in(2, 0)->in_since = NOW - 59 * SEC;
        in(2, 0)->in_since = NOW - 59 * SEC;
        in(1, 0)->in_since = NOW - SEC;
        waits(2, 1);
        decides("L...");
        rows[0].in_since = rows[1].in_since = NOW - 12 * SEC;
        decides("....");
}

static void a_small_share_does_not_make_others_wait_for_ever(void **state)
{
        const permille shares[] = { 990, 10 };

        (void)state;
        live_with_shares(shares, 2, 3, 3 * SEC);
        assert_true(done[1][ROUNDS_TICKS - 1] - done[1][WARM] > 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(over_any_minute_each_has_its_share, set_up),
                cmocka_unit_test_setup(one_that_has_stopped_working_has_no_slot_to_finish, set_up),
                cmocka_unit_test_setup(those_that_come_in_beside_it_do_not_make_one_wait_for_longer, set_up),
                cmocka_unit_test_setup(a_small_share_does_not_make_others_wait_for_ever, set_up),
                cmocka_unit_test_setup(where_there_is_room_it_comes_and_nobody_moves, set_up),
                cmocka_unit_test_setup(what_one_that_is_out_has_left_there_is_promised_to_nobody, set_up),
                cmocka_unit_test_setup(who_came_in_and_did_nothing_has_no_turn_to_finish, set_up),
                cmocka_unit_test_setup(an_exchange_on_one_device_does_not_wait_for_that_on_another, set_up),
                cmocka_unit_test_setup(one_that_does_not_wait_stays_out, set_up),
                cmocka_unit_test_setup(who_is_off_the_longest_leaves, set_up),
                cmocka_unit_test_setup(of_those_at_work_who_is_in_for_longest_leaves, set_up),
                cmocka_unit_test_setup(no_more_leave_than_it_needs, set_up),
                cmocka_unit_test_setup(latency_is_pushed_out_only_where_the_others_are_not_enough, set_up),
                cmocka_unit_test_setup(nobody_leaves_before_its_turn_has_paid_for_its_move, set_up),
                cmocka_unit_test_setup(nothing_is_moved_that_the_host_would_not_hold, set_up),
                cmocka_unit_test_setup(who_waits_longest_comes_first_and_nobody_passes_it, set_up),
                cmocka_unit_test_setup(it_is_passed_by_one_that_has_room_beside_it_too, set_up),
                cmocka_unit_test_setup(one_that_waits_for_what_has_no_end_is_passed, set_up),
                cmocka_unit_test_setup(one_exchange_at_a_time, set_up),
                cmocka_unit_test_setup(each_device_has_its_own_room, set_up),
                cmocka_unit_test_setup(who_was_idle_is_believed_for_as_long_again, set_up),
                cmocka_unit_test_setup(an_exchange_needs_room_for_both, set_up),
                cmocka_unit_test_setup(what_one_has_on_other_devices_moves_with_it, set_up),
                cmocka_unit_test_setup(nobody_starves_and_nothing_is_exceeded_in_random_runs, set_up),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
