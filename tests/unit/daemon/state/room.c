/* SPDX-License-Identifier: Apache-2.0 */
/* Which tenants' shims keep how much host memory ready. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "daemon/state/shims.h"

#include <sys/socket.h>

struct state {
        struct daemon *daemon;
        int others[8]; /* the shims' ends */
        size_t n;
};

static int set_up(void **state)
{
        static struct state all;

        all = (struct state){ .daemon = fake_daemon_new() };
        all.daemon->tenants.swap = all.daemon->settings.swap = 100 * GIB;
        all.daemon->settings.suspend_by = SUSPEND_BY_COPIES;
        *state = &all;
        return 0;
}

static int tear_down(void **state)
{
        struct state *all = *state;

        for (struct tenant *t = all->daemon->tenants.first; t; t = t->next) {
                (void)close(t->source.fd);
                t->source.fd = -1;
        }
        while (all->n)
                (void)close(all->others[--all->n]);
        fake_daemon_free(all->daemon);
        return 0;
}

static struct tenant *running(struct state *state, const char *name, bytes gib)
{
        struct tenant *tenant = fake_tenant_put(state->daemon, name, 1, gib, 0);
        int ends[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        tenant->source.fd = ends[0];
        state->others[state->n++] = ends[1];
        tenant->control->devices[0].held = gib * GIB;
        return tenant;
}

/* What it was told, in GiB; -1: nothing new. */
static int told(const struct state *state, size_t i)
{
        struct message message = { 0 };
        int64_t size;

        if (message_receive(state->others[i], &message) != MESSAGE_OK)
                return -1;
        assert_string_equal(message_type(&message), "room");
        size = message_number(message.body, "bytes", -1);
        message_done(&message);
        return (int)(size >> 30);
}

static void look_again(struct state *state)
{
        state->daemon->tenants.room_at = 0;
        room_look(state->daemon);
}

static void who_is_likely_to_leave_has_room_ready_and_nobody_else(void **state)
{
        struct state *all = *state;
        struct tenant *past;

        running(all, "plain", 10);
        running(all, "swap", 20)->lease.swap = true;
        running(all, "sleep", 30)->lease.sleep_after = 30 * NSEC_PER_SEC;
        past = running(all, "past", 10);
        swap_moved(past, true, true, NSEC_PER_SEC, 10 * GIB);
        look_again(all);
        assert_int_equal(told(all, 0), 0);
        assert_int_equal(told(all, 1), 20);
        assert_int_equal(told(all, 2), 30);
        assert_int_equal(told(all, 3), 10);
        assert_int_equal(room_ready(past), 10 * GIB);
        look_again(all);
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(told(all, i), -1); /* once */
}

static void what_is_in_use_and_what_is_ready_are_together_within_the_bound(void **state)
{
        struct state *all = *state;
        struct tenant *sleeper, *away;

        sleeper = running(all, "sleep", 60);
        sleeper->lease.sleep_after = 30 * NSEC_PER_SEC;
        running(all, "swap", 60)->lease.swap = true;
        look_again(all);
        assert_int_equal(told(all, 1), 60); /* first, although it came later */
        assert_int_equal(told(all, 0), 40);
        away = running(all, "away", 70); /* is about to be in host memory */
        away->suspension.state = SUSPENSION_SUSPENDING;
        away->suspension.held = 70 * GIB;
        look_again(all);
        assert_int_equal(told(all, 1), 30);
        assert_int_equal(told(all, 0), 0);
        assert_int_equal(told(all, 2), -1); /* it is away */
}

static void what_a_tenant_may_have_in_host_memory_bounds_what_is_ready_for_it(void **state)
{
        struct state *all = *state;
        struct tenant *fits = running(all, "fits", 20), *holds_more = running(all, "more", 30);

        fits->lease.sleep_after = holds_more->lease.sleep_after = 30 * NSEC_PER_SEC;
        fits->lease.host_swap = 20 * GIB;
        holds_more->lease.host_swap = 29 * GIB; /* it would not be suspended */
        look_again(all);
        assert_int_equal(told(all, 0), 20);
        assert_int_equal(told(all, 1), 0);
}

static void one_that_copies_could_not_move_has_none(void **state)
{
        struct state *all = *state;
        struct tenant *tenant = running(all, "one", 10);

        tenant->lease.swap = true;
        look_again(all);
        assert_int_equal(told(all, 0), 10);
        tenant->suspension.no_copies_until = INT64_MAX;
        look_again(all);
        assert_int_equal(told(all, 0), 0);
}

static void nothing_is_kept_without_a_bound_and_by_checkpoint(void **state)
{
        struct state *all = *state;
        struct tenant *tenant = running(all, "one", 10);

        tenant->lease.swap = true;
        all->daemon->tenants.swap = 0;
        look_again(all);
        assert_int_equal(told(all, 0), 0);
        all->daemon->tenants.swap = 100 * GIB;
        look_again(all);
        assert_int_equal(told(all, 0), 10);
        all->daemon->settings.suspend_by = SUSPEND_BY_CHECKPOINT;
        look_again(all);
        assert_int_equal(told(all, 0), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(who_is_likely_to_leave_has_room_ready_and_nobody_else, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(what_is_in_use_and_what_is_ready_are_together_within_the_bound, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(what_a_tenant_may_have_in_host_memory_bounds_what_is_ready_for_it,
                                                set_up, tear_down),
                cmocka_unit_test_setup_teardown(one_that_copies_could_not_move_has_none, set_up, tear_down),
                cmocka_unit_test_setup_teardown(nothing_is_kept_without_a_bound_and_by_checkpoint, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
