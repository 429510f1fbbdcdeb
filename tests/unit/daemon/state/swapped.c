/* SPDX-License-Identifier: Apache-2.0 */
/* What a suspended tenant has in host memory: by its ledger, and by who of it is still there. And who is ended when its
 * shim has died. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "base/process.h"
#include "daemon/state/shims.h"

#include <signal.h>
#include <sys/wait.h>

static int set_up(void **state)
{
        struct daemon *daemon = fake_daemon_new();
        struct tenant *tenant = fake_tenant_put(daemon, "a", 1, 10, 0);

        tenant->lease.devices[1].is_granted = true;
        *state = daemon;
        return 0;
}

static int tear_down(void **state)
{
        fake_daemon_free(*state);
        return 0;
}

/* A row of what its shim publishes, of a process that is to be suspended. */
static void holds(struct tenant *tenant, pid_t id, unsigned int device, bytes size)
{
        struct control_block *control = tenant->control;
        size_t i = 0, k = 0;

        while (control->processes[i].id)
                i++;
        control->processes[i].device = device;
        control->processes[i].held = size;
        control->processes[i].id = id;
        control->devices[device].held += size;
        while (k < control->suspension.n && control->suspension.processes[k] != id)
                k++;
        if (k < control->suspension.n)
                return;
        control->suspension.processes[k] = id;
        control->began.suspended[k] = process_began(id);
        control->suspension.n = (uint32_t)k + 1;
}

/* Its shim lists them again: each has only this left on its device. */
static void is_listed(struct tenant *tenant, bytes left, nsec at)
{
        for (size_t i = 0; tenant->control->processes[i].id; i++)
                tenant->control->processes[i].held = left;
        tenant->control->listed_at = at;
}

static pid_t child_new(void)
{
        pid_t child = fork();

        if (child == 0) {
                (void)pause();
                _exit(0);
        }
        return child;
}

static void child_end(pid_t child)
{
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
}

static void it_is_what_left_the_device_and_only_of_one_that_is_suspended(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = daemon->tenants.first;

        holds(tenant, getpid(), 0, 3 * GIB);
        holds(tenant, getpid(), 1, GIB);
        swapped_note(tenant);
        tenant->control->devices[0].held = 100 * MIB;
        tenant->control->devices[1].held = 0;
        assert_int_equal(tenant_swapped_all(tenant), 0); /* it runs */
        tenant->suspension.state = SUSPENSION_SUSPENDING;
        assert_int_equal(tenant_swapped_all(tenant), 0);
        tenant->suspension.state = SUSPENSION_SUSPENDED;
        assert_int_equal(tenant_swapped(tenant, 0), 3 * GIB - 100 * MIB);
        assert_int_equal(tenant_swapped(tenant, 1), GIB);
        assert_int_equal(tenant_swapped(tenant, 2), 0);
        assert_int_equal(tenant_swapped(tenant, LEASE_DEVICES_MAX), 0);
        assert_int_equal(tenant_swapped_all(tenant), 4 * GIB - 100 * MIB);
        tenant->suspension.state = SUSPENSION_RESUMING;
        tenant->control->devices[0].held = 4 * GIB; /* it comes back, and more with it */
        assert_int_equal(tenant_swapped_all(tenant), GIB);
        tenant->suspension.state = SUSPENSION_RUNNING;
        assert_int_equal(tenant_swapped_all(tenant), 0);
}

static void what_was_of_a_process_that_has_ended_is_nowhere(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = daemon->tenants.first;
        pid_t child = child_new();

        holds(tenant, getpid(), 0, GIB);
        holds(tenant, child, 0, 2 * GIB);
        holds(tenant, child, 1, 4 * GIB);
        swapped_note(tenant);
        tenant->control->devices[0].held = tenant->control->devices[1].held = 0;
        tenant->suspension.state = SUSPENSION_SUSPENDED;
        swapped_tick(tenant, 10 * NSEC_PER_SEC);
        assert_int_equal(tenant_swapped_all(tenant), 7 * GIB);
        child_end(child);
        swapped_tick(tenant, 10 * NSEC_PER_SEC + NSEC_PER_MSEC); /* too soon to look */
        assert_int_equal(tenant_swapped_all(tenant), 7 * GIB);
        swapped_tick(tenant, 12 * NSEC_PER_SEC); /* with a list from before it was suspended */
        assert_int_equal(tenant_swapped_all(tenant), 7 * GIB);
        is_listed(tenant, 0, 12 * NSEC_PER_SEC);
        swapped_tick(tenant, 13 * NSEC_PER_SEC);
        assert_int_equal(tenant_swapped(tenant, 0), GIB);
        assert_int_equal(tenant_swapped(tenant, 1), 0);
        swapped_tick(tenant, 14 * NSEC_PER_SEC); /* once */
        assert_int_equal(tenant_swapped_all(tenant), GIB);
}

static void while_the_books_have_what_an_ended_process_left_there_the_others_count_as_before(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = daemon->tenants.first;
        pid_t child = child_new();

        holds(tenant, getpid(), 0, 564 * MIB);
        holds(tenant, child, 0, 2 * GIB);
        swapped_note(tenant);
        tenant->control->devices[0].held = 1000 * MIB;
        tenant->suspension.state = SUSPENSION_SUSPENDED;
        swapped_tick(tenant, 10 * NSEC_PER_SEC);
        child_end(child);
        is_listed(tenant, 500 * MIB, 11 * NSEC_PER_SEC);
        swapped_tick(tenant, 12 * NSEC_PER_SEC);
        assert_int_equal(tenant_swapped_all(tenant), 64 * MIB);
        tenant->control->devices[0].held = 500 * MIB;
        swapped_tick(tenant, 13 * NSEC_PER_SEC);
        assert_int_equal(tenant_swapped_all(tenant), 64 * MIB);
}

static void a_number_that_is_another_process_now_counts_as_ended(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = daemon->tenants.first;

        holds(tenant, getpid(), 0, GIB);
        tenant->control->began.suspended[0]--;
        swapped_note(tenant);
        tenant->control->devices[0].held = 0;
        tenant->suspension.state = SUSPENSION_SUSPENDED;
        assert_int_equal(tenant_swapped_all(tenant), GIB);
        swapped_tick(tenant, 10 * NSEC_PER_SEC);
        is_listed(tenant, 0, 11 * NSEC_PER_SEC);
        swapped_tick(tenant, 12 * NSEC_PER_SEC);
        assert_int_equal(tenant_swapped_all(tenant), 0);
}

static void the_next_suspension_begins_anew(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = daemon->tenants.first;
        pid_t child = child_new();

        holds(tenant, child, 0, 2 * GIB);
        swapped_note(tenant);
        child_end(child);
        memset(tenant->control->processes, 0, sizeof(tenant->control->processes));
        tenant->control->suspension.n = 0;
        tenant->control->devices[0].held = 0;
        holds(tenant, getpid(), 0, GIB);
        swapped_note(tenant);
        tenant->control->devices[0].held = 0;
        tenant->suspension.state = SUSPENSION_SUSPENDED;
        swapped_tick(tenant, 10 * NSEC_PER_SEC);
        assert_int_equal(tenant_swapped_all(tenant), GIB);
}

static void a_shim_that_has_no_room_for_it_has_none(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = daemon->tenants.first;

        holds(tenant, getpid(), 0, GIB);
        tenant->control->version = 6;
        swapped_note(tenant);
        tenant->suspension.state = SUSPENSION_SUSPENDED;
        swapped_tick(tenant, 10 * NSEC_PER_SEC);
        assert_int_equal(tenant_swapped_all(tenant), 0);
        assert_int_equal(tenant->control->before.held[0], 0);
        tenant->control->version = CONTROL_BLOCK_VERSION; /* of what is mapped */
}

static void who_was_suspended_under_a_shim_that_died_is_ended_and_nobody_else(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *tenant = daemon->tenants.first;
        pid_t child = child_new(), other = child_new();
        int status = 0;

        holds(tenant, child, 0, GIB);
        holds(tenant, other, 0, GIB);
        tenant->control->began.suspended[1]--;       /* its number is another's */
        assert_int_equal(suspend_strand(tenant), 0); /* it runs: its calls fail, and do not wait */
        assert_int_equal(waitpid(child, &status, WNOHANG), 0);
        tenant->suspension.state = SUSPENSION_SUSPENDED;
        assert_int_equal(suspend_strand(tenant), 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        assert_int_equal(waitpid(other, &status, WNOHANG), 0);
        child_end(other);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(it_is_what_left_the_device_and_only_of_one_that_is_suspended),
                TEST(what_was_of_a_process_that_has_ended_is_nowhere),
                TEST(while_the_books_have_what_an_ended_process_left_there_the_others_count_as_before),
                TEST(a_number_that_is_another_process_now_counts_as_ended),
                TEST(the_next_suspension_begins_anew),
                TEST(a_shim_that_has_no_room_for_it_has_none),
                TEST(who_was_suspended_under_a_shim_that_died_is_ended_and_nobody_else),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
