/* SPDX-License-Identifier: Apache-2.0 */
/* Open files that are followed without being kept: the kernel says when the last reference is gone, wherever it was. */
#include "unit.h"

#include "base/cleanup.h"
#include "gate/state/open_files.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct open_files files;

static int set_up(void **state)
{
        (void)state;
        return open_files_init(&files);
}

static int tear_down(void **state)
{
        (void)state;
        open_files_done(&files);
        return 0;
}

static int file_new(void)
{
        int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        return fd;
}

static size_t reap(uint64_t *ret, size_t n_room)
{
        bool is_closing;
        size_t n = open_files_reap(&files, 1, 0, ret, n_room, &is_closing);

        assert_false(is_closing);
        return n;
}

static size_t reaped(void)
{
        uint64_t gone[8];

        return reap(gone, ARRAY_SIZE(gone));
}

static void a_file_is_known_through_every_duplicate(void **state)
{
        int fd = file_new(), copy = dup(fd), other = file_new();
        uint64_t number = open_files_keep(&files, fd);

        (void)state;
        assert_int_equal(number, 1);
        assert_int_equal(open_files_find(&files, copy), number);
        assert_int_equal(open_files_keep(&files, copy), number);
        assert_int_equal(open_files_find(&files, other), 0);
        assert_int_equal(open_files_keep(&files, other), 2);
        assert_int_equal(open_files_count(&files), 2);
        close(fd), close(copy), close(other);
}

static void it_is_gone_with_its_last_descriptor_and_its_number_is_not_used_again(void **state)
{
        int fd = file_new(), copy = dup(fd);
        uint64_t number = open_files_keep(&files, fd), gone[2];

        (void)state;
        close(fd);
        assert_int_equal(reaped(), 0);
        close(copy);
        assert_int_equal(reap(gone, 2), 1);
        assert_int_equal(gone[0], number);
        assert_int_equal(open_files_count(&files), 0);
        fd = file_new();
        assert_true(open_files_keep(&files, fd) > number);
        close(fd);
}

static void a_file_in_flight_in_a_socket_is_not_gone(void **state)
{
        int fd = file_new(), pair[2];
        char byte = 0, control[CMSG_SPACE(sizeof(int))] = { 0 };
        struct iovec iov = { &byte, 1 };
        struct msghdr message = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);

        (void)state;
        assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof(int));
        assert_int_equal(open_files_keep(&files, fd), 1);
        assert_int_equal(sendmsg(pair[0], &message, 0), 1);
        close(fd);
        assert_int_equal(reaped(), 0);
        close(pair[0]), close(pair[1]);
        assert_int_equal(reaped(), 1);
}

static void *waiter(void *descriptor)
{
        struct pollfd on = { *(int *)descriptor, 0, 0 };

        (void)poll(&on, 1, 300);
        return NULL;
}

static void a_file_that_a_thread_polls_is_not_gone_although_it_was_closed(void **state)
{
        int fd = file_new();
        pthread_t thread;

        (void)state;
        assert_int_equal(open_files_keep(&files, fd), 1);
        assert_int_equal(pthread_create(&thread, NULL, waiter, &fd), 0);
        usleep(100 * 1000);
        close(fd);
        assert_int_equal(reaped(), 0);
        pthread_join(thread, NULL);
        assert_int_equal(reaped(), 1);
}

static void looking_for_a_file_keeps_nothing(void **state)
{
        int fd = file_new(), other = file_new();

        (void)state;
        assert_int_equal(open_files_keep(&files, fd), 1);
        assert_int_equal(open_files_find(&files, other), 0);
        close(other);
        assert_int_equal(reaped(), 0);
        assert_int_equal(open_files_find(&files, fd), 1);
        close(fd);
        assert_int_equal(reaped(), 1);
}

static void a_file_that_cannot_be_polled_is_refused(void **state)
{
        char path[] = "/tmp/sublet-open-files-XXXXXX";
        int fd = mkstemp(path);

        (void)state;
        unlink(path);
        assert_int_equal(open_files_keep(&files, fd), 0);
        assert_int_equal(open_files_count(&files), 0);
        close(fd);
}

static void more_than_fit_are_reaped_in_turns(void **state)
{
        uint64_t gone[3];

        (void)state;
        for (int i = 0; i < 7; i++) {
                int fd = file_new();

                assert_int_equal(open_files_keep(&files, fd), i + 1);
                close(fd);
        }
        assert_int_equal(reap(gone, 3), 3);
        assert_int_equal(reap(gone, 3), 3);
        assert_int_equal(reap(gone, 3), 1);
        assert_int_equal(open_files_count(&files), 0);
}

static void a_file_is_gone_only_after_its_grace(void **state)
{
        int fd = file_new();
        bool is_closing;
        uint64_t gone;

        (void)state;
        assert_int_equal(open_files_keep(&files, fd), 1);
        close(fd);
        assert_int_equal(open_files_reap(&files, 1000, 10, &gone, 1, &is_closing), 0);
        assert_true(is_closing);
        assert_int_equal(open_files_reap(&files, 1009, 10, &gone, 1, &is_closing), 0);
        assert_true(is_closing);
        assert_int_equal(open_files_reap(&files, 1010, 10, &gone, 1, &is_closing), 1);
        assert_false(is_closing);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_file_is_known_through_every_duplicate, set_up, tear_down),
                cmocka_unit_test_setup_teardown(it_is_gone_with_its_last_descriptor_and_its_number_is_not_used_again,
                                                set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_file_in_flight_in_a_socket_is_not_gone, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_file_that_a_thread_polls_is_not_gone_although_it_was_closed, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(looking_for_a_file_keeps_nothing, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_file_that_cannot_be_polled_is_refused, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_file_is_gone_only_after_its_grace, set_up, tear_down),
                cmocka_unit_test_setup_teardown(more_than_fit_are_reaped_in_turns, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
