/* The page between keeper and daemon. Two processes race here as they do in earnest. */
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
static struct board_channel row_of(uint32_t n)
{
        return (struct board_channel){ n, n, n, n, (uint16_t)n, (uint16_t)n, n };
}

static bool is_whole(const struct board_channel *row)
{
        uint32_t n = row->handle;

        return n && row->client == n && row->group == n && row->cid == n && row->device == (uint16_t)n &&
               row->is_compute == (uint16_t)n && row->order == n;
}

static struct board *new_board(int *ret_fd)
{
        struct board *board = NULL;

        assert_int_equal(board_new("chat-1", 1000, 2, &board, ret_fd), 0);
        return board;
}

static void what_the_keeper_wrote_the_daemon_maps(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct board *keeper = new_board(&fd), *daemon = NULL;

        (void)state;
        assert_int_equal(board_map(fd, &daemon), 0);
        assert_ptr_not_equal(keeper, daemon);
        assert_string_equal(daemon->tenant, "chat-1");
        assert_int_equal(daemon->owner, 1000);
        assert_int_equal(daemon->keeper, getpid());
        assert_int_equal(daemon->n_devices, 2);
        daemon->devices[1].slice = 200;
        assert_int_equal(keeper->devices[1].slice, 200);
        board_unmap(keeper);
        board_unmap(daemon);
}

static void a_page_cannot_be_shortened_under_the_daemon(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct board *board = new_board(&fd);

        (void)state;
        assert_int_equal(ftruncate(fd, 4096), -1);
        assert_int_equal(ftruncate(fd, 1 << 20), -1);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
        board_unmap(board);
}

static void another_file_size_magic_or_version_is_refused(void **state)
{
        _cleanup_(closep) int fd = -1;
        _cleanup_(closep) int bare = memfd_create("bare", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        _cleanup_(closep) int plain = open("/dev/zero", O_RDWR | O_CLOEXEC);
        struct board *board = new_board(&fd), *mapped = NULL;

        (void)state;
        assert_int_equal(board_map(plain, &mapped), -EPROTO);
        assert_int_equal(ftruncate(bare, sizeof(*board)), 0);
        assert_int_equal(board_map(bare, &mapped), -EPROTO); /* not sealed */
        assert_int_equal(fcntl(bare, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
        assert_int_equal(board_map(bare, &mapped), -EPROTO); /* sealed, and empty */
        board->version++;
        assert_int_equal(board_map(fd, &mapped), -EPROTO);
        board->version--;
        memset(board->tenant, 'x', sizeof(board->tenant));
        assert_int_equal(board_map(fd, &mapped), -EPROTO);
        board_unmap(board);
}

static void rows_come_and_go(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct board *board = new_board(&fd);
        struct board_channel rows[BOARD_CHANNELS];
        uint32_t before, after;

        (void)state;
        assert_int_equal(board_channels(board, rows, &before), 0);
        for (uint32_t i = 1; i <= 3; i++) {
                struct board_channel row = row_of(i);

                assert_int_equal(board_channel_put(board, &row), 0);
        }
        assert_int_equal(board_channels(board, rows, &after), 3);
        assert_int_not_equal(before, after);
        board_channel_drop(board, 2, 2);
        board_channel_drop(board, 7, 7); /* not there */
        assert_int_equal(board_channels(board, rows, &before), 2);
        assert_int_equal(rows[0].handle, 1);
        assert_int_equal(rows[1].handle, 3);
        board_channel_drop(board, 3, 3);
        assert_int_equal(board->n_channels, 1);
        assert_int_equal(board_channels(board, rows, &after), 1);
        assert_int_equal(board_channels(board, rows, &before), 1);
        assert_int_equal(before, after); /* nothing happened in between */
        board_unmap(board);
}

static void the_same_channel_has_one_row(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct board *board = new_board(&fd);
        struct board_channel rows[BOARD_CHANNELS], row = row_of(5);
        uint32_t sequence;

        (void)state;
        assert_int_equal(board_channel_put(board, &row), 0);
        row.cid = 77;
        assert_int_equal(board_channel_put(board, &row), 0);
        assert_int_equal(board_channels(board, rows, &sequence), 1);
        assert_int_equal(rows[0].cid, 77);
        board_unmap(board);
}

static void a_full_board_says_so(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct board *board = new_board(&fd);
        static struct board_channel rows[BOARD_CHANNELS];
        struct board_channel row;
        uint32_t sequence;

        (void)state;
        for (uint32_t i = 1; i <= BOARD_CHANNELS; i++) {
                row = row_of(i);
                assert_int_equal(board_channel_put(board, &row), 0);
        }
        row = row_of(BOARD_CHANNELS + 1);
        assert_int_equal(board_channel_put(board, &row), -ENOSPC);
        board_channel_drop(board, 9, 9);
        assert_int_equal(board_channel_put(board, &row), 0);
        assert_int_equal(board_channels(board, rows, &sequence), BOARD_CHANNELS);
        board_unmap(board);
}

/* In the child: rows come, change and go until it is killed, or the test ends early. */
static void churn(struct board *board)
{
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (uint32_t n = 1;; n++) {
                struct board_channel row = row_of(1 + n % 40);

                if (n % 3)
                        (void)board_channel_put(board, &row);
                else
                        board_channel_drop(board, row.client, row.handle);
        }
}

static void a_reader_in_another_process_never_sees_a_torn_row(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct board *board = new_board(&fd);
        static struct board_channel rows[BOARD_CHANNELS];
        nsec deadline = clock_now() + NSEC_PER_SEC / 2;
        unsigned int n_reads = 0, n_rows = 0;
        uint32_t sequence;
        pid_t writer = fork();

        (void)state;
        if (writer == 0)
                churn(board);
        while (clock_now() < deadline) {
                size_t n = board_channels(board, rows, &sequence);

                for (size_t i = 0; i < n; i++)
                        assert_true(is_whole(&rows[i]));
                n_rows += (unsigned int)n;
                n_reads++;
        }
        (void)kill(writer, SIGKILL);
        (void)waitpid(writer, NULL, 0);
        assert_true(n_reads > 100);
        assert_true(n_rows > n_reads);
        board_unmap(board);
}

static void a_keeper_that_died_in_the_middle_does_not_hold_the_daemon(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct board *board = new_board(&fd);
        struct board_channel rows[BOARD_CHANNELS], row = row_of(1);
        uint32_t sequence;
        nsec start;

        (void)state;
        assert_int_equal(board_channel_put(board, &row), 0);
        board->sequence++;
        start = clock_now();
        assert_int_equal(board_channels(board, rows, &sequence), 0);
        assert_true(sequence & 1);
        assert_true(clock_now() - start < NSEC_PER_SEC);
        board_unmap(board);
}

static void a_wish_wakes_the_steward_in_another_process(void **state)
{
        _cleanup_(closep) int fd = -1;
        struct board *board = new_board(&fd);
        uint32_t seen = board->wish;
        nsec start = clock_now();
        pid_t teller = fork();
        bool has_changed;

        (void)state;
        if (teller == 0) {
                (void)usleep(20 * 1000);
                board_wish_tell(board);
                _exit(0);
        }
        has_changed = board_wish_wait(board, seen, 20 * NSEC_PER_SEC);
        (void)waitpid(teller, NULL, 0);
        assert_true(has_changed);
        assert_true(clock_now() - start < 15 * NSEC_PER_SEC);
        assert_true(board_wish_wait(board, seen, 20 * NSEC_PER_SEC)); /* told before: no waiting */
        assert_false(board_wish_wait(board, board->wish, NSEC_PER_MSEC));
        board_unmap(board);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_the_keeper_wrote_the_daemon_maps),
                cmocka_unit_test(a_page_cannot_be_shortened_under_the_daemon),
                cmocka_unit_test(another_file_size_magic_or_version_is_refused),
                cmocka_unit_test(rows_come_and_go),
                cmocka_unit_test(the_same_channel_has_one_row),
                cmocka_unit_test(a_full_board_says_so),
                cmocka_unit_test(a_reader_in_another_process_never_sees_a_torn_row),
                cmocka_unit_test(a_keeper_that_died_in_the_middle_does_not_hold_the_daemon),
                cmocka_unit_test(a_wish_wakes_the_steward_in_another_process),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
