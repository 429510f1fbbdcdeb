/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "preload/usage_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
        QUOTA = 1000,
        TENANCY = 4711,
};

static int fd = -1;

static int begin(void **state)
{
        (void)state;
        return usage_segment_new(TENANCY, &fd);
}

static int end(void **state)
{
        (void)state;
        return close(fd);
}

static struct usage_segment_handle join(void)
{
        struct usage_segment_handle handle;

        assert_int_equal(usage_segment_join(fd, LEASE_DESCRIPTOR_INHERITED, TENANCY, &handle), USAGE_SEGMENT_OK);
        return handle;
}

static void the_quota_holds_for_all_processes_together(void **state)
{
        struct usage_segment_handle one = join(), two = join();

        (void)state;
        assert_int_equal(usage_segment_take(&one, 0, 600, QUOTA), USAGE_SEGMENT_OK);
        assert_int_equal(usage_segment_take(&two, 0, 401, QUOTA), USAGE_SEGMENT_E_FULL);
        assert_int_equal(usage_segment_take(&two, 0, 400, QUOTA), USAGE_SEGMENT_OK);
        assert_int_equal(usage_segment_take(&two, 1, 1000, QUOTA), USAGE_SEGMENT_OK);
        assert_int_equal(usage_segment_held(one.segment, 0), 1000);
        assert_int_equal(one.segment->n_refused[0], 1);
        usage_segment_drop(&one, 0, 600);
        assert_int_equal(usage_segment_take(&two, 0, 600, QUOTA), USAGE_SEGMENT_OK);
        usage_segment_leave(&one);
        usage_segment_leave(&two);
}

static void a_dead_processs_memory_is_returned(void **state)
{
        struct usage_segment_handle handle = join();
        pid_t child = fork();

        (void)state;
        if (child == 0) {
                if (usage_segment_join(fd, LEASE_DESCRIPTOR_INHERITED, TENANCY, &handle) == USAGE_SEGMENT_OK &&
                    usage_segment_take(&handle, 0, 900, QUOTA) == USAGE_SEGMENT_OK)
                        (void)raise(SIGKILL);
                _exit(1);
        }
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_int_equal(usage_segment_held(handle.segment, 0), 900);
        assert_int_equal(usage_segment_take(&handle, 0, 1000, QUOTA), USAGE_SEGMENT_OK);
        assert_int_equal(usage_segment_held(handle.segment, 0), 1000);
        usage_segment_leave(&handle);
}

static void a_child_has_a_slot_of_its_own(void **state)
{
        struct usage_segment_handle handle = join();
        int status;
        pid_t child;

        (void)state;
        assert_int_equal(usage_segment_take(&handle, 0, 500, QUOTA), USAGE_SEGMENT_OK);
        child = fork();
        if (child == 0) {
                struct usage_segment_slot *parents = handle.slot;

                if (usage_segment_join(fd, LEASE_DESCRIPTOR_INHERITED, TENANCY, &handle) != USAGE_SEGMENT_OK ||
                    handle.slot == parents || parents->held[0] != 500)
                        _exit(1);
                _exit(usage_segment_take(&handle, 0, 501, QUOTA) == USAGE_SEGMENT_E_FULL ? 0 : 2);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_int_equal(handle.slot->held[0], 500);
        usage_segment_leave(&handle);
}

/* Takes and returns without end; its own slot never exceeds the quota. */
static void churn(unsigned int seed)
{
        struct usage_segment_handle handle;

        if (usage_segment_join(fd, LEASE_DESCRIPTOR_INHERITED, TENANCY, &handle) != USAGE_SEGMENT_OK)
                _exit(2);
        for (;;) {
                bytes size = (bytes)(rand_r(&seed) % 300);

                if (usage_segment_take(&handle, 0, size, QUOTA) != USAGE_SEGMENT_OK)
                        continue;
                if (handle.slot->held[0] > QUOTA)
                        _exit(3);
                if (rand_r(&seed) % 8)
                        usage_segment_drop(&handle, 0, size);
                if (handle.slot->held[0] > 500)
                        usage_segment_drop(&handle, 0, handle.slot->held[0]);
        }
}

static void the_sum_is_right_after_any_number_of_kills(void **state)
{
        enum { CHILDREN = 6, KILLS = 500 };
        struct usage_segment_handle handle = join();
        pid_t children[CHILDREN];
        unsigned int seed = 7;
        int status;

        (void)state;
        for (unsigned int i = 0; i < CHILDREN; i++)
                if ((children[i] = fork()) == 0)
                        churn(i);
        for (unsigned int i = 0; i < KILLS; i++) {
                unsigned int victim = (unsigned int)rand_r(&seed) % CHILDREN;

                (void)usleep((useconds_t)(rand_r(&seed) % 500));
                (void)kill(children[victim], SIGKILL);
                assert_int_equal(waitpid(children[victim], &status, 0), children[victim]);
                assert_true(WIFSIGNALED(status));
                if ((children[victim] = fork()) == 0)
                        churn(i);
        }
        for (unsigned int i = 0; i < CHILDREN; i++) {
                (void)kill(children[i], SIGKILL);
                (void)waitpid(children[i], NULL, 0);
        }
        assert_int_equal(usage_segment_take(&handle, 0, QUOTA, QUOTA), USAGE_SEGMENT_OK);
        assert_int_equal(usage_segment_held(handle.segment, 0), QUOTA);
        usage_segment_leave(&handle);
}

static void a_file_that_is_no_segment_is_refused(void **state)
{
        struct usage_segment_handle handle;
        int other = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING), scribbled;

        (void)state;
        assert_int_equal(usage_segment_join(other, LEASE_DESCRIPTOR_INHERITED, TENANCY, &handle),
                         -EPROTO); /* empty, not sealed */
        assert_int_equal(ftruncate(other, sizeof(struct usage_segment)), 0);
        assert_int_equal(usage_segment_join(other, LEASE_DESCRIPTOR_INHERITED, TENANCY, &handle),
                         -EPROTO); /* not sealed */
        assert_int_equal(fcntl(other, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
        assert_int_equal(usage_segment_join(other, LEASE_DESCRIPTOR_INHERITED, TENANCY, &handle),
                         -EPROTO); /* no magic */
        (void)close(other);
        assert_int_equal(usage_segment_join(-1, LEASE_DESCRIPTOR_INHERITED, TENANCY, &handle), -EPROTO);
        assert_int_equal(usage_segment_new(TENANCY, &scribbled), 0);
        assert_int_equal(pwrite(scribbled, "\xff", 1, 8), 1);
        assert_int_equal(usage_segment_join(scribbled, LEASE_DESCRIPTOR_INHERITED, TENANCY, &handle),
                         -EPROTO); /* another version */
        (void)close(scribbled);
}

static struct usage_segment_totals scan(void)
{
        struct usage_segment_totals totals = { .n_processes = 99 };

        assert_int_equal(usage_segment_scan(fd, LEASE_DESCRIPTOR_INHERITED, TENANCY, &totals), 0);
        return totals;
}

static void another_tenancys_segment_is_refused(void **state)
{
        struct usage_segment_totals totals;
        struct usage_segment_handle handle;

        (void)state;
        assert_int_equal(usage_segment_join(fd, LEASE_DESCRIPTOR_INHERITED, TENANCY + 1, &handle), -EPROTO);
        assert_int_equal(usage_segment_scan(fd, LEASE_DESCRIPTOR_INHERITED, TENANCY + 1, &totals), -EPROTO);
}

static void no_process_counts_beside_a_gate(void **state)
{
        struct usage_segment_handle handle;

        (void)state;
        assert_int_equal(usage_segment_set_attached(fd, true), 0);
        assert_true(scan().is_attached);
        assert_int_equal(usage_segment_join(fd, LEASE_DESCRIPTOR_INHERITED, TENANCY, &handle),
                         USAGE_SEGMENT_E_ATTACHED);
        assert_int_equal(scan().n_processes, 0); /* the slot was returned */
        assert_int_equal(usage_segment_set_attached(fd, false), 0);
        handle = join();
        usage_segment_leave(&handle);
}

static void a_scan_from_outside_counts_living_processes_only(void **state)
{
        struct usage_segment_handle handle;

        (void)state;
        assert_int_equal(scan().n_processes, 0);
        handle = join();
        assert_int_equal(usage_segment_take(&handle, 0, 700, QUOTA), USAGE_SEGMENT_OK);
        assert_int_equal(usage_segment_take(&handle, 0, 301, QUOTA), USAGE_SEGMENT_E_FULL);
        assert_int_equal(scan().n_processes, 1);
        assert_int_equal(scan().held[0], 700);
        assert_int_equal(scan().n_refused[0], 1);
        assert_int_equal(scan().largest_refused[0], 301);
        assert_int_equal(handle.slot->process, getpid());
        (void)close(handle.fd); /* as if the process were killed */
        assert_int_equal(scan().n_processes, 0);
        assert_int_equal(scan().held[0], 0);
        assert_int_equal(scan().peak[0], 700);
        handle.fd = -1;
        usage_segment_leave(&handle);
}

static double own_time(void)
{
        struct timespec now;

        assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
        return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The kernel walks all of them for each slot that is tested. */
static void many_locks_of_a_tenant_cost_a_scan_little(void **state)
{
        enum { LOCKS = 20000 };
        struct usage_segment_handle handle = join();
        struct usage_segment_totals totals;
        char path[64];
        double start;
        int again, r;

        (void)state;
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        again = open(path, O_RDWR | O_CLOEXEC);
        assert_true(again >= 0);
        for (int i = LOCKS; i > 0; i--) { /* with gaps, so that the kernel merges none */
                struct flock lock = { .l_type = F_WRLCK, .l_start = (1 << 20) + 2 * i, .l_len = 1 };

                assert_int_equal(fcntl(again, F_OFD_SETLK, &lock), 0);
        }
        for (size_t i = 0; i < USAGE_SEGMENT_SLOTS; i++)
                handle.segment->slots[i].process = 1;
        start = own_time();
        r = usage_segment_scan(fd, LEASE_DESCRIPTOR_INHERITED, TENANCY, &totals);
        assert_true(r == 0 || r == -ETIME);
        assert_true(own_time() - start < 0.15);
        (void)close(again);
        assert_int_equal(usage_segment_scan(fd, LEASE_DESCRIPTOR_INHERITED, TENANCY, &totals), 0);
        usage_segment_leave(&handle);
}

static void a_damaged_slot_means_full(void **state)
{
        struct usage_segment_handle handle = join();
        struct usage_segment_handle other = join();

        (void)state;
        other.slot->held[0] = UINT64_MAX - 5;
        assert_int_equal(usage_segment_take(&handle, 0, 10, QUOTA), USAGE_SEGMENT_E_FULL);
        assert_int_equal(handle.slot->held[0], 0);
        usage_segment_leave(&other);
        usage_segment_leave(&handle);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(another_tenancys_segment_is_refused, begin, end),
                cmocka_unit_test_setup_teardown(no_process_counts_beside_a_gate, begin, end),
                cmocka_unit_test_setup_teardown(a_scan_from_outside_counts_living_processes_only, begin, end),
                cmocka_unit_test_setup_teardown(the_quota_holds_for_all_processes_together, begin, end),
                cmocka_unit_test_setup_teardown(a_dead_processs_memory_is_returned, begin, end),
                cmocka_unit_test_setup_teardown(a_child_has_a_slot_of_its_own, begin, end),
                cmocka_unit_test_setup_teardown(the_sum_is_right_after_any_number_of_kills, begin, end),
                cmocka_unit_test_setup_teardown(many_locks_of_a_tenant_cost_a_scan_little, begin, end),
                cmocka_unit_test_setup_teardown(a_file_that_is_no_segment_is_refused, begin, end),
                cmocka_unit_test_setup_teardown(a_damaged_slot_means_full, begin, end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
