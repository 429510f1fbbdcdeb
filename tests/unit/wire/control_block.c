/* SPDX-License-Identifier: Apache-2.0 */
/* The page between shim and daemon. Two processes race here as they do in earnest. */
#include "unit.h"

#include "base/cleanup.h"
#include "wire/control_block.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* Every field says the same number, so that a torn row is seen. */
static struct control_channel row_of(uint32_t n)
{
        return (struct control_channel){ n, n, n, n, (uint16_t)n, (uint8_t)n, (uint8_t)n, n };
}

static bool is_whole(const struct control_channel *row)
{
        uint32_t n = row->handle;

        return n && row->client == n && row->group == n && row->cid == n && row->device == (uint16_t)n &&
               row->is_compute == (uint8_t)n && row->engine == (uint8_t)n && row->order == n;
}

static struct control_block *new_control_block(int *ret_fd)
{
        struct control_block *control = NULL;

        assert_int_equal(control_block_new("chat-1", 1000, 2, &control, ret_fd), 0);
        return control;
}

static void what_the_shim_wrote_the_daemon_maps(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct control_block *shim = new_control_block(&fd), *daemon = NULL;

        (void)state;
        assert_int_equal(control_block_map(fd, &daemon), 0);
        assert_ptr_not_equal(shim, daemon);
        assert_string_equal(daemon->tenant, "chat-1");
        assert_int_equal(daemon->owner, 1000);
        assert_int_equal(daemon->shim, getpid());
        assert_int_equal(daemon->n_devices, 2);
        daemon->devices[1].slice = 200;
        assert_int_equal(shim->devices[1].slice, 200);
        control_block_unmap(shim);
        control_block_unmap(daemon);
}

static void a_page_cannot_be_shortened_under_the_daemon(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct control_block *control = new_control_block(&fd);

        (void)state;
        assert_int_equal(ftruncate(fd, 4096), -1);
        assert_int_equal(ftruncate(fd, 1 << 20), -1);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
        control_block_unmap(control);
}

static void another_file_size_magic_or_version_is_refused(void **state)
{
        _cleanup_(closep) int fd = -1;
        _cleanup_(closep) int bare = memfd_create("bare", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        _cleanup_(closep) int plain = open("/dev/zero", O_RDWR | O_CLOEXEC);
        struct control_block *control = new_control_block(&fd), *mapped = NULL;

        (void)state;
        assert_int_equal(control_block_map(plain, &mapped), -EPROTO);
        assert_int_equal(ftruncate(bare, sizeof(*control)), 0);
        assert_int_equal(control_block_map(bare, &mapped), -EPROTO); /* not sealed */
        assert_int_equal(fcntl(bare, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
        assert_int_equal(control_block_map(bare, &mapped), -EPROTO); /* sealed, and empty */
        control->version++;
        assert_int_equal(control_block_map(fd, &mapped), -EPROTO);
        control->version--;
        memset(control->tenant, 'x', sizeof(control->tenant));
        assert_int_equal(control_block_map(fd, &mapped), -EPROTO);
        control_block_unmap(control);
}

/* Shims of earlier versions outlive an upgrade of the daemon: their control blocks are shorter. */
static void control_blocks_of_earlier_versions_are_mapped(void **state)
{
        static const size_t sizes[] = { offsetof(struct control_block, engines),
                                        offsetof(struct control_block, quiets) };

        (void)state;
        for (uint32_t version = 1; version <= 2; version++) {
                _cleanup_(closep) int now = -1;
                _cleanup_(closep) int fd = memfd_create("old", MFD_CLOEXEC | MFD_ALLOW_SEALING);
                struct control_block *control = new_control_block(&now), *mapped;
                struct control_quiet_seen seen;

                control->version = version;
                control->size = (uint32_t)sizes[version - 1];
                assert_int_equal(write(fd, control, sizes[version - 1]), sizes[version - 1]);
                assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
                assert_int_equal(control_block_map(fd, &mapped), 0);
                assert_true(!control_block_engine(mapped, 0, 1) == (version == 1));
                assert_false(control_block_quiet(mapped, 0, &seen));
                control_block_unmap(mapped);
                control->version = CONTROL_BLOCK_VERSION; /* of what is mapped here */
                control_block_unmap(control);
        }
}

static void rows_come_and_go(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct control_block *control = new_control_block(&fd);
        struct control_channel rows[CONTROL_BLOCK_CHANNELS];
        uint32_t before, after;

        (void)state;
        assert_int_equal(control_block_channels(control, rows, &before), 0);
        for (uint32_t i = 1; i <= 3; i++) {
                struct control_channel row = row_of(i);

                assert_int_equal(control_block_channel_put(control, &row), 0);
        }
        assert_int_equal(control_block_channels(control, rows, &after), 3);
        assert_int_not_equal(before, after);
        control_block_channel_drop(control, 2, 2);
        control_block_channel_drop(control, 7, 7); /* not there */
        assert_int_equal(control_block_channels(control, rows, &before), 2);
        assert_int_equal(rows[0].handle, 1);
        assert_int_equal(rows[1].handle, 3);
        control_block_channel_drop(control, 3, 3);
        assert_int_equal(control->n_channels, 1);
        assert_int_equal(control_block_channels(control, rows, &after), 1);
        assert_int_equal(control_block_channels(control, rows, &before), 1);
        assert_int_equal(before, after); /* nothing happened in between */
        control_block_unmap(control);
}

static void the_latest_stretch_without_a_sign_is_told(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct control_block *control = new_control_block(&fd);
        struct control_quiet_seen seen;

        (void)state;
        control_block_quiet_put(control, 0, false, 0, 10);
        control_block_quiet_put(control, 0, true, 10, 20); /* the first: nothing is known from before */
        assert_true(control_block_quiet(control, 0, &seen));
        assert_true(seen.n == 0 && seen.signed_at == 20);
        control_block_quiet_put(control, 0, true, 20, 30); /* no check between two signs */
        control_block_quiet_put(control, 0, false, 30, 40);
        control_block_quiet_put(control, 0, false, 40, 50);
        control_block_quiet_put(control, 0, true, 50, 60);
        assert_true(control_block_quiet(control, 0, &seen));
        assert_true(seen.n == 1 && seen.signed_at == 60 && seen.began_at == 30 && seen.until == 50);
        control->quiets[0].sequence++; /* its shim is in the middle of a change */
        assert_false(control_block_quiet(control, 0, &seen));
        control->quiets[0].sequence++;
        control->version = 2;
        assert_false(control_block_quiet(control, 0, &seen));
        control->version = CONTROL_BLOCK_VERSION;
        control_block_unmap(control);
}

static void who_must_wait_while_a_tenant_is_suspended(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct control_block *control = new_control_block(&fd);
        struct control_suspension *suspension = control_block_suspension(control);

        (void)state;
        suspension->n = 1;
        suspension->processes[0] = 7;
        assert_false(control_block_is_away(control, 7) || control_block_is_away(control, 8));
        suspension->state = 1; /* on the way out: what was not suspended stays where it is */
        assert_false(control_block_is_away(control, 7) || control_block_is_away(control, 8));
        suspension->state = CONTROL_SUSPENDED;
        assert_true(control_block_is_away(control, 7) && control_block_is_away(control, 8));
        suspension->state = CONTROL_RESUMING;
        assert_true(!control_block_is_away(control, 7) && control_block_is_away(control, 8));
        suspension->state = CONTROL_REVERTING;
        assert_true(!control_block_is_away(control, 7) && control_block_is_away(control, 8));
        assert_non_null(control_block_waiting(control));
        control->version = 4;
        assert_null(control_block_waiting(control));
        control->version = CONTROL_BLOCK_VERSION;
        control_block_unmap(control);
}

static void the_same_channel_has_one_row(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct control_block *control = new_control_block(&fd);
        struct control_channel rows[CONTROL_BLOCK_CHANNELS], row = row_of(5);
        uint32_t sequence;

        (void)state;
        assert_int_equal(control_block_channel_put(control, &row), 0);
        row.cid = 77;
        assert_int_equal(control_block_channel_put(control, &row), 0);
        assert_int_equal(control_block_channels(control, rows, &sequence), 1);
        assert_int_equal(rows[0].cid, 77);
        control_block_unmap(control);
}

static void a_full_control_block_says_so(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct control_block *control = new_control_block(&fd);
        static struct control_channel rows[CONTROL_BLOCK_CHANNELS];
        struct control_channel row;
        uint32_t sequence;

        (void)state;
        for (uint32_t i = 1; i <= CONTROL_BLOCK_CHANNELS; i++) {
                row = row_of(i);
                assert_int_equal(control_block_channel_put(control, &row), 0);
        }
        row = row_of(CONTROL_BLOCK_CHANNELS + 1);
        assert_int_equal(control_block_channel_put(control, &row), -ENOSPC);
        control_block_channel_drop(control, 9, 9);
        assert_int_equal(control_block_channel_put(control, &row), 0);
        assert_int_equal(control_block_channels(control, rows, &sequence), CONTROL_BLOCK_CHANNELS);
        control_block_unmap(control);
}

/* In the child: rows come, change and go until it is killed, or the test ends early. */
static void churn(struct control_block *control)
{
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (uint32_t n = 1;; n++) {
                struct control_channel row = row_of(1 + n % 40);

                if (n % 3)
                        (void)control_block_channel_put(control, &row);
                else
                        control_block_channel_drop(control, row.client, row.handle);
        }
}

static void a_reader_in_another_process_never_sees_a_torn_row(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct control_block *control = new_control_block(&fd);
        static struct control_channel rows[CONTROL_BLOCK_CHANNELS];
        nsec deadline = clock_now() + NSEC_PER_SEC / 2;
        unsigned int n_reads = 0, n_rows = 0;
        uint32_t sequence;
        pid_t writer = fork();

        (void)state;
        if (writer == 0)
                churn(control);
        while (clock_now() < deadline) {
                size_t n = control_block_channels(control, rows, &sequence);

                for (size_t i = 0; i < n; i++)
                        assert_true(is_whole(&rows[i]));
                n_rows += (unsigned int)n;
                n_reads++;
        }
        (void)kill(writer, SIGKILL);
        (void)waitpid(writer, NULL, 0);
        assert_true(n_reads > 100);
        assert_true(n_rows > n_reads);
        control_block_unmap(control);
}

static void a_shim_that_died_in_the_middle_does_not_hold_the_daemon(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct control_block *control = new_control_block(&fd);
        struct control_channel rows[CONTROL_BLOCK_CHANNELS], row = row_of(1);
        uint32_t sequence;
        nsec start;

        (void)state;
        assert_int_equal(control_block_channel_put(control, &row), 0);
        control->sequence++;
        start = clock_now();
        assert_int_equal(control_block_channels(control, rows, &sequence), 0);
        assert_true(sequence & 1);
        assert_true(clock_now() - start < NSEC_PER_SEC);
        control_block_unmap(control);
}

static void a_changed_desired_state_wakes_the_reconciler_in_another_process(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct control_block *control = new_control_block(&fd);
        uint32_t seen = control->desired;
        nsec start = clock_now();
        pid_t writer = fork();
        bool has_changed;

        (void)state;
        if (writer == 0) {
                (void)usleep(20 * 1000);
                control_block_notify(control);
                _exit(0);
        }
        has_changed = control_block_wait(control, seen, 20 * NSEC_PER_SEC);
        (void)waitpid(writer, NULL, 0);
        assert_true(has_changed);
        assert_true(clock_now() - start < 15 * NSEC_PER_SEC);
        assert_true(control_block_wait(control, seen, 20 * NSEC_PER_SEC)); /* told before: no waiting */
        assert_false(control_block_wait(control, control->desired, NSEC_PER_MSEC));
        control_block_unmap(control);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_the_shim_wrote_the_daemon_maps),
                cmocka_unit_test(a_page_cannot_be_shortened_under_the_daemon),
                cmocka_unit_test(another_file_size_magic_or_version_is_refused),
                cmocka_unit_test(control_blocks_of_earlier_versions_are_mapped),
                cmocka_unit_test(rows_come_and_go),
                cmocka_unit_test(the_latest_stretch_without_a_sign_is_told),
                cmocka_unit_test(who_must_wait_while_a_tenant_is_suspended),
                cmocka_unit_test(the_same_channel_has_one_row),
                cmocka_unit_test(a_full_control_block_says_so),
                cmocka_unit_test(a_reader_in_another_process_never_sees_a_torn_row),
                cmocka_unit_test(a_shim_that_died_in_the_middle_does_not_hold_the_daemon),
                cmocka_unit_test(a_changed_desired_state_wakes_the_reconciler_in_another_process),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
