/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/rights.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
        return rights_receive(pair[1], &(struct iovec){ text, size }, 1, most, MSG_DONTWAIT, DESCRIPTORS_OURS, ret);
}

static int n_open(void)
{
        int n = 0;

        for (int fd = 0; fd < 1024; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

/* Threads close what is dropped. */
static bool are_open_soon(int n)
{
        for (nsec until = clock_now() + 30 * NSEC_PER_SEC; n_open() != n; (void)poll(NULL, 0, 2))
                if (clock_now() > until)
                        return false;
        return true;
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
        int next = dup(0), n;
        struct rights rights;
        char text[2];

        (void)state;
        n = n_open();
        (void)close(next);
        assert_int_equal(send_text("x", fds, 5), -EMSGSIZE);
        assert_int_equal(send_text("long", fds, 4), 4);
        assert_int_equal(receive(text, sizeof(text), 1, &rights), 2);
        assert_int_equal(rights.n, 1);
        assert_int_equal(rights.flags & (MSG_TRUNC | MSG_CTRUNC), MSG_TRUNC | MSG_CTRUNC);
        assert_int_equal(rights.fds[0], next);
        assert_true(are_open_soon(n)); /* next, and none above it */
        (void)close(rights.fds[0]);
}

/* More than any caller wants, and than the kernel would install into a smaller buffer: the rest it would close in the
 * thread that receives. */
static void a_message_is_taken_with_all_that_it_brings(void **state)
{
        int all[RIGHTS_ALL], ends[2], n = n_open();
        union {
                struct cmsghdr header;
                char bytes[CMSG_SPACE(sizeof(all))];
        } control = { .header = {
                              .cmsg_len = CMSG_LEN(sizeof(all)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
        struct msghdr message = { .msg_iov = &(struct iovec){ (char[]){ 'x' }, 1 },
                                  .msg_iovlen = 1,
                                  .msg_control = &control,
                                  .msg_controllen = sizeof(control) };
        struct rights rights;
        char text[2];

        (void)state;
        assert_int_equal(pipe(ends), 0);
        for (size_t i = 0; i < RIGHTS_ALL; i++)
                all[i] = ends[1];
        memcpy(CMSG_DATA(&control.header), all, sizeof(all));
        assert_int_equal(sendmsg(pair[0], &message, MSG_NOSIGNAL), 1);
        (void)close(ends[1]);
        assert_int_equal(receive(text, sizeof(text), 0, &rights), 1);
        assert_int_equal(rights.n, 0);
        assert_int_equal(rights.flags & MSG_CTRUNC, MSG_CTRUNC);
        assert_int_equal(poll(&(struct pollfd){ .fd = ends[0] }, 1, 30000), 1); /* every copy is closed */
        (void)close(ends[0]);
        assert_true(are_open_soon(n));
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

enum left {
        NOTHING,
        NOTHING_BUT_THE_END,
        EMPTY_WITH_A_DESCRIPTOR,
        BYTES,
};

static bool are_left(enum left what)
{
        int ends[2], fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        bool are;

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        if (what == EMPTY_WITH_A_DESCRIPTOR)
                assert_int_equal(rights_send(ends[0], NULL, 0, &fd, 1, 0), 0);
        if (what == BYTES)
                assert_int_equal(send(ends[0], "x", 1, 0), 1);
        if (what == NOTHING_BUT_THE_END)
                closep(&ends[0]);
        are = rights_are_left(ends[1]);
        if (what != NOTHING_BUT_THE_END)
                assert_int_equal(send(ends[0], "x", 1, MSG_NOSIGNAL), -1); /* nor can more come */
        closep(&ends[0]);
        closep(&ends[1]);
        closep(&fd);
        return are;
}

static void what_is_left_in_a_socket_is_seen_and_no_more_comes(void **state)
{
        (void)state;
        assert_false(are_left(NOTHING));
        assert_false(are_left(NOTHING_BUT_THE_END));
        assert_true(are_left(EMPTY_WITH_A_DESCRIPTOR));
        assert_true(are_left(BYTES));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_left_in_a_socket_is_seen_and_no_more_comes),
                cmocka_unit_test(descriptors_come_with_the_message_and_its_sender),
                cmocka_unit_test(descriptors_beyond_what_is_wanted_are_closed),
                cmocka_unit_test(a_message_is_taken_with_all_that_it_brings),
                cmocka_unit_test(a_message_without_descriptors_has_none),
        };

        return cmocka_run_group_tests(tests, pair_make, pair_close);
}
