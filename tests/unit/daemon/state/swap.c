/* SPDX-License-Identifier: Apache-2.0 */
/* Leases with --swap: what is promised beside what, and that who is to come in makes others leave. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "base/err.h"
#include "daemon/state/shims.h"

static int set_up(void **state)
{
        struct daemon *daemon = fake_daemon_new();

        daemon->tenants.swap = daemon->settings.swap = 200 * GIB;
        daemon->settings.swap_cost = 100;
        *state = daemon;
        return 0;
}

static int tear_down(void **state)
{
        fake_daemon_free(*state);
        return 0;
}

/* One that holds nothing, as it begins. */
static struct tenant *swapping(struct daemon *daemon, const char *name, bytes gib)
{
        struct tenant *tenant = fake_tenant_put(daemon, name, 1, gib, 0);

        tenant->lease.swap = true;
        tenant->suspension.state = SUSPENSION_SUSPENDED;
        tenant->control->suspension.state = SUSPENSION_SUSPENDED;
        tenant->control->waiting.is_out = 1;
        return tenant;
}

static struct message_lease lease_of(bytes gib, bool swap)
{
        struct message_lease lease = { .owner = 1, .mode = "time", .swap = swap };

        lease.devices[0].is_granted = true;
        lease.devices[0].quota = gib * GIB;
        return lease;
}

static bool fits(const struct daemon *daemon, bytes gib, bool swap, const struct tenant *but, const char *text)
{
        struct message_lease lease = lease_of(gib, swap);
        struct err err = { 0 };
        int r = tenants_fit(&daemon->tenants, &lease, but, &err);

        if (r && text && !strstr(err.text, text))
                fail_msg("%s", err.text);
        return r == 0;
}

static void each_fits_beside_those_without(void **state)
{
        struct daemon *daemon = *state;

        fake_tenant_put(daemon, "firm", 1, 40, 0);
        swapping(daemon, "a", 60);
        assert_true(fits(daemon, 60, true, NULL, NULL));
        assert_false(fits(daemon, 61, true, NULL, "at most 60 GiB are there beside the leases without --swap"));
        assert_false(fits(daemon, 1, false, NULL, "do not fit")); /* the largest of the others has the rest */
        assert_int_equal(tenants_leased(&daemon->tenants, 0, NULL), 100 * GIB);
}

static void what_a_container_is_to_start_again_with_is_taken_by_none(void **state)
{
        struct daemon *daemon = *state;
        struct allocation rows[] = {
                { .pod = "u1", .container = "main", .memory = { 40 * GIB }, .terms.swap = "false" },
                { .pod = "u2", .container = "main", .memory = { 60 * GIB }, .terms.swap = "true" },
                { .pod = "u3", .container = "main", .memory = { 60 * GIB } }
        };
        const struct allocations table = { .rows = rows, .n = 3 };
        struct tenant *firm;

        allocations_keep(&table, &daemon->tenants, daemon->tenants.kept);
        assert_true(fits(daemon, 60, true, NULL, NULL));
        assert_false(fits(daemon, 61, true, NULL, "at most 60 GiB are there"));
        assert_true(fits(daemon, 40, false, NULL, NULL)); /* itself */
        firm = fake_tenant_put(daemon, "firm", 1, 30, 0); /* it asked for less */
        (void)strcpy(firm->lease.container.pod, "u1");
        (void)strcpy(firm->lease.container.container, "main");
        allocations_keep(&table, &daemon->tenants, daemon->tenants.kept);
        assert_true(fits(daemon, 70, true, NULL, NULL));
        assert_false(fits(daemon, 71, true, NULL, NULL));
}

/* Beside 50 five of 20 need 90: their sum, less 50, and the two largest. */
static void what_is_kept_counts_once_for_whom_it_is_kept(void **state)
{
        struct daemon *daemon = *state;

        daemon->tenants.kept[0] = 50 * GIB;
        daemon->tenants.swap = 90 * GIB;
        for (int i = 0; i < 5; i++)
                swapping(daemon, (const char *[]){ "a", "b", "c", "d", "e" }[i], 20);
        assert_true(fits(daemon, 50, false, NULL, NULL));
        assert_false(fits(daemon, 51, false, NULL, NULL));
}

static void those_without_fit_beside_what_is_on_the_device(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *a = swapping(daemon, "a", 30), *b = swapping(daemon, "b", 30);

        assert_true(fits(daemon, 70, false, NULL, NULL));
        a->suspension.state = b->suspension.state = SUSPENSION_RUNNING;
        assert_true(fits(daemon, 40, false, NULL, NULL));
        assert_false(fits(daemon, 41, false, NULL, "at most 40 GiB are free"));
        a->suspension.state = SUSPENSION_SUSPENDING; /* not yet */
        assert_false(fits(daemon, 41, false, NULL, NULL));
}

static void what_is_on_the_device_counts_whatever_was_promised(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *a = swapping(daemon, "a", 30), *b = swapping(daemon, "b", 30);

        a->control->devices[0].held = b->control->devices[0].held = 20 * GIB; /* out, and its memory is not */
        assert_true(fits(daemon, 60, false, NULL, NULL));
        assert_false(fits(daemon, 61, false, NULL, NULL));
        a->control->devices[0].held = b->control->devices[0].held = 8 * MIB; /* the driver's, of a process */
        assert_true(fits(daemon, 70, false, NULL, NULL));
        a->suspension.state = SUSPENSION_RUNNING;
        a->control->devices[0].held = 55 * GIB; /* its quota was set lower than that */
        assert_false(fits(daemon, 46, false, NULL, NULL));
        assert_true(fits(daemon, 45, false, NULL, NULL));
}

static void together_what_device_and_host_hold_while_they_change_places(void **state)
{
        struct daemon *daemon = *state;

        swapping(daemon, "a", 60);
        swapping(daemon, "b", 60);
        assert_true(fits(daemon, 80, true, NULL, NULL));
        assert_false(fits(daemon, 81, true, NULL, "could then need 201 GiB of host memory, and there are 200 GiB"));
        daemon->tenants.swap = 120 * GIB;
        assert_false(fits(daemon, 1, true, NULL, NULL));
        daemon->tenants.swap = 0; /* a lease of the daemon before: nothing new is promised, nothing refused */
        assert_true(fits(daemon, 1, false, NULL, NULL));
}

static void one_on_the_device_grows_as_far_as_there_is_room(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *a = swapping(daemon, "a", 40), *b = swapping(daemon, "b", 40);

        a->suspension.state = b->suspension.state = SUSPENSION_RUNNING;
        assert_true(fits(daemon, 60, true, a, NULL));
        assert_false(fits(daemon, 61, true, a, "suspend it first"));
        a->suspension.state = SUSPENSION_SUSPENDED;
        assert_true(fits(daemon, 61, true, a, NULL));
}

static void host_memory_that_an_exchange_may_need_is_kept_for_it(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *other = fake_tenant_put(daemon, "other", 1, 30, 0), *a = swapping(daemon, "a", 50);
        struct err err = { 0 };

        daemon->tenants.swap = 120 * GIB;
        other->control->devices[0].held = 21 * GIB;
        a->control->devices[0].held = 50 * GIB;
        assert_int_equal(swap_fit_suspended(&daemon->tenants, other, &err), 0); /* one alone moves for nobody */
        swapping(daemon, "b", 50);
        assert_int_equal(swap_fit_suspended(&daemon->tenants, other, &err), -ENOSPC);
        assert_non_null(strstr(err.text, "'other' holds 21 GiB"));
        assert_non_null(strstr(err.text, "has room for 20 GiB"));
        assert_int_equal(swap_fit_suspended(&daemon->tenants, a, &err), 0);
        daemon->tenants.swap = 0;
        assert_int_equal(swap_fit_suspended(&daemon->tenants, other, &err), 0); /* no limit */
}

static void what_cannot_be_suspended_has_no_swap(void **state)
{
        struct daemon *daemon = *state;
        struct message_lease lease = lease_of(1, true);
        struct err err = { 0 };

        assert_int_equal(swap_check(daemon, &lease, &err), 0);
        (void)strcpy(lease.mode, "spatial");
        assert_int_equal(swap_check(daemon, &lease, &err), -EINVAL);
        lease = lease_of(1, true);
        lease.enforcement = ENFORCEMENT_PRELOAD;
        assert_int_equal(swap_check(daemon, &lease, &err), -EINVAL);
        lease = lease_of(1, true);
        (void)strcpy(lease.job, "j");
        assert_int_equal(swap_check(daemon, &lease, &err), -EINVAL);
        daemon->tenants.swap = 0;
        lease = lease_of(1, true);
        assert_int_equal(swap_check(daemon, &lease, &err), -EINVAL);
        assert_non_null(strstr(err.text, "sublet daemon --swap SIZE"));
}

static void who_is_asked_for_comes_in_and_makes_another_leave(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *a = swapping(daemon, "a", 60), *b = swapping(daemon, "b", 60);

        swap_look(daemon);
        assert_int_equal(a->suspension.state, SUSPENSION_SUSPENDED); /* nobody has asked */
        a->control->waiting.n = 1;
        sleep_look(daemon);
        swap_look(daemon);
        assert_int_equal(a->suspension.state, SUSPENSION_RUNNING);
        assert_int_equal(a->control->waiting.is_out, 0);
        assert_null(swap_waits_for(a));
        a->control->waiting.n = 0;
        swap_ask(b);
        swap_look(daemon); /* nothing of it has to be moved */
        assert_int_equal(a->suspension.state, SUSPENSION_SUSPENDED);
        assert_int_equal(b->suspension.state, SUSPENSION_SUSPENDED);
        assert_non_null(swap_waits_for(b));
        swap_look(daemon);
        assert_int_equal(b->suspension.state, SUSPENSION_RUNNING);
        assert_int_equal(a->control->waiting.is_out, 1);
        assert_int_equal(fake_events(daemon, "RESUMED"), 2);
        for (int i = 0; i < 3; i++)
                swap_look(daemon);
        assert_int_equal(a->suspension.state, SUSPENSION_SUSPENDED); /* it has nothing, and no call waits */
}

static void who_holds_something_waits_again_and_not_before_its_turn_is_paid(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *a = swapping(daemon, "a", 60), *b = swapping(daemon, "b", 60);

        a->suspension.state = SUSPENSION_RUNNING;
        a->control->suspension.state = SUSPENSION_RUNNING;
        a->control->devices[0].held = GIB;
        b->control->suspension.n = 1; /* it was at work when it was suspended, by the daemon before */
        swap_look(daemon);
        swap_look(daemon);
        assert_int_equal(a->suspension.state, SUSPENSION_RUNNING);
        assert_string_equal(swap_waits_for(b), "others, until their turns are over");
        sleep_keep(b); /* its user wants it to stay out */
        swap_look(daemon);
        assert_null(swap_waits_for(b));
}

static void a_turn_is_as_long_as_the_way_by_which_it_moves_demands(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *a = swapping(daemon, "a", 60);

        daemon->settings.suspend_by = SUSPEND_BY_CHECKPOINT;
        assert_int_equal(swap_move_cost(daemon, a, 10 * GIB), 15 * NSEC_PER_SEC);
        daemon->settings.suspend_by = SUSPEND_BY_COPIES;
        assert_int_equal(swap_move_cost(daemon, a, 10 * GIB), 1500 * NSEC_PER_MSEC);
        swap_moved(a, true, true, 200 * NSEC_PER_MSEC, 10 * GIB); /* what is measured counts */
        swap_moved(a, false, true, 100 * NSEC_PER_MSEC, 10 * GIB);
        assert_int_equal(swap_move_cost(daemon, a, 10 * GIB), 300 * NSEC_PER_MSEC);
        swap_moved(a, true, true, 600 * NSEC_PER_SEC, 10 * GIB); /* not more than thrice the guess */
        assert_int_equal(swap_move_cost(daemon, a, 10 * GIB), 3 * 1100 * NSEC_PER_MSEC + 100 * NSEC_PER_MSEC);
        swap_moved(a, true, false, 20 * NSEC_PER_SEC, 10 * GIB); /* it went by checkpoint after all */
        assert_int_equal(swap_move_cost(daemon, a, 10 * GIB), 20100 * NSEC_PER_MSEC);
}

static void one_that_was_not_moved_yet_is_taken_to_move_as_the_latest_that_was(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *a = swapping(daemon, "a", 20), *b = swapping(daemon, "b", 20);

        daemon->settings.suspend_by = SUSPEND_BY_COPIES;
        swap_moved(a, true, true, 1 * NSEC_PER_MSEC, GIB / 2); /* too little to tell */
        assert_int_equal(swap_move_cost(daemon, b, 40 * GIB), (3500 + 1300) * NSEC_PER_MSEC);
        swap_moved(a, true, true, 500 * NSEC_PER_MSEC, 20 * GIB);
        swap_moved(a, false, true, 400 * NSEC_PER_MSEC, 20 * GIB);
        assert_int_equal(swap_move_cost(daemon, b, 40 * GIB), (300 + 2 * 200 + 100 + 2 * 300) * NSEC_PER_MSEC);
        assert_int_equal(swap_move_cost(daemon, b, 1 * GIB), (300 + 10 + 100 + 15) * NSEC_PER_MSEC);
        swap_moved(a, true, true, 400 * NSEC_PER_MSEC, GIB); /* what a small one takes in any case does not grow */
        assert_int_equal(swap_move_cost(daemon, b, 40 * GIB), (3500 + 100 + 2 * 300) * NSEC_PER_MSEC);
        swap_moved(a, true, true, 60 * NSEC_PER_SEC, 20 * GIB); /* and nobody makes another's turns longer */
        assert_int_equal(swap_move_cost(daemon, b, 40 * GIB), (3500 + 100 + 2 * 300) * NSEC_PER_MSEC);
        daemon->settings.suspend_by = SUSPEND_BY_CHECKPOINT; /* the other means is not known by this one */
        assert_int_equal(swap_move_cost(daemon, b, 10 * GIB), 15 * NSEC_PER_SEC);
}

static void one_that_its_user_suspended_by_copies_is_not_brought_in_by_its_work(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *a = swapping(daemon, "a", 60);

        a->control->move.by_shim = 1;
        a->control->waiting.is_out = 0;
        a->control->waiting.n = 1;
        sleep_look(daemon);
        swap_look(daemon);
        assert_false(swap_is_asked(a));
        a->control->waiting.is_idle = 1; /* it was put to sleep, which its user did not ask for */
        sleep_look(daemon);
        assert_true(swap_is_asked(a));
}

static void one_that_is_idle_and_for_which_the_host_has_no_room_stays_and_is_told_once(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *a = fake_tenant_put(daemon, "a", 1, 20, 0);

        a->lease.sleep_after = 1;
        a->control->devices[0].held = 10 * GIB;
        a->control->devices[0].can_watch = true;
        a->waker_until = clock_now() + 100 * NSEC_PER_SEC;
        daemon->tenants.swap = 9 * GIB;
        for (int i = 0; i < 3; i++) {
                a->control->devices[0].checked_at = clock_now();
                sleep_look(daemon);
        }
        assert_int_equal(a->suspension.state, SUSPENSION_RUNNING);
        assert_int_equal(fake_events(daemon, "NOT_PUT_TO_SLEEP"), 1);
        assert_non_null(strstr(fake_latest_detail(daemon), "'a' holds 10 GiB"));
        daemon->tenants.swap = 10 * GIB;
        sleep_look(daemon);
        assert_int_equal(a->suspension.state, SUSPENSION_SUSPENDING);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(each_fits_beside_those_without, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_a_container_is_to_start_again_with_is_taken_by_none, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(what_is_kept_counts_once_for_whom_it_is_kept, set_up, tear_down),
                cmocka_unit_test_setup_teardown(those_without_fit_beside_what_is_on_the_device, set_up, tear_down),
                cmocka_unit_test_setup_teardown(what_is_on_the_device_counts_whatever_was_promised, set_up, tear_down),
                cmocka_unit_test_setup_teardown(together_what_device_and_host_hold_while_they_change_places, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(one_on_the_device_grows_as_far_as_there_is_room, set_up, tear_down),
                cmocka_unit_test_setup_teardown(host_memory_that_an_exchange_may_need_is_kept_for_it, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(what_cannot_be_suspended_has_no_swap, set_up, tear_down),
                cmocka_unit_test_setup_teardown(who_is_asked_for_comes_in_and_makes_another_leave, set_up, tear_down),
                cmocka_unit_test_setup_teardown(who_holds_something_waits_again_and_not_before_its_turn_is_paid, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(one_that_was_not_moved_yet_is_taken_to_move_as_the_latest_that_was,
                                                set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_turn_is_as_long_as_the_way_by_which_it_moves_demands, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(one_that_its_user_suspended_by_copies_is_not_brought_in_by_its_work,
                                                set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        one_that_is_idle_and_for_which_the_host_has_no_room_stays_and_is_told_once, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
