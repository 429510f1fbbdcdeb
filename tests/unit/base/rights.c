/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/rights.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static int pair[2];

static int pair_make(void **state)
{
        int on = 1;

        (void)state;
        return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ||
               setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0;
}

static int pair_close(void **state)
{
        (void)state;
        return close(pair[0]) + close(pair[1]);
}

static ssize_t send_text(const char *text, const int *fds, size_t n_fds)
{
        return rights_send(pair[0], &(struct iovec){ (void *)(uintptr_t)text, strlen(text) }, 1, fds, n_fds,
                           MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t receive(char *text, size_t size, size_t most, struct rights *ret)
{
        return rights_receive(pair[1], &(struct iovec){ text, size }, 1, most, MSG_DONTWAIT, ret);
}

static void descriptors_come_with_the_message_and_its_sender(void **state)
{
        int ends[2];
        char text[8], byte = 0;
        struct rights rights;

        (void)state;
        assert_int_equal(pipe(ends), 0);
        assert_int_equal(send_text("two", ends, 2), 3);
        assert_int_equal(receive(text, sizeof(text), 2, &rights), 3);
        assert_memory_equal(text, "two", 3);
        assert_int_equal(rights.n, 2);
        assert_int_equal(rights.flags & (MSG_TRUNC | MSG_CTRUNC), 0);
        assert_int_equal(rights.sender.pid, getpid());
        assert_int_equal(rights.fds[2], -1);
        assert_int_equal(fcntl(rights.fds[0], F_GETFD), FD_CLOEXEC);
        assert_int_equal(write(rights.fds[1], "x", 1), 1);
        assert_int_equal(read(ends[0], &byte, 1), 1);
        assert_int_equal(byte, 'x');
        for (size_t i = 0; i < 2; i++)
                (void)(close(rights.fds[i]) + close(ends[i]));
}

static void descriptors_beyond_what_is_wanted_are_closed(void **state)
{
        const int fds[] = { 0, 1, 2, 0, 1 };
        int next = dup(0);
        struct rights rights;
        char text[2];

        (void)state;
        (void)close(next);
        assert_int_equal(send_text("x", fds, 5), -EMSGSIZE);
        assert_int_equal(send_text("long", fds, 4), 4);
        assert_int_equal(receive(text, sizeof(text), 1, &rights), 2);
        assert_int_equal(rights.n, 1);
        assert_int_equal(rights.flags & (MSG_TRUNC | MSG_CTRUNC), MSG_TRUNC | MSG_CTRUNC);
        assert_int_equal(rights.fds[0], next);
        (void)close(rights.fds[0]);
        next = dup(0);
        assert_int_equal(next, rights.fds[0]); /* none is open above it */
        (void)close(next);
        assert_int_equal(fcntl(next + 1, F_GETFD), -1);
}

static void a_message_without_descriptors_has_none(void **state)
{
        struct rights rights;
        char text[8];

        (void)state;
        assert_int_equal(receive(text, sizeof(text), 1, &rights), -EAGAIN);
        assert_int_equal(send_text("none", NULL, 0), 4);
        assert_int_equal(receive(text, sizeof(text), 1, &rights), 4);
        assert_int_equal(rights.n, 0);
        assert_int_equal(rights.fds[0], -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(descriptors_come_with_the_message_and_its_sender),
                cmocka_unit_test(descriptors_beyond_what_is_wanted_are_closed),
                cmocka_unit_test(a_message_without_descriptors_has_none),
        };

        return cmocka_run_group_tests(tests, pair_make, pair_close);
}
