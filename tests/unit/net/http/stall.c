/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "net/http/stall.h"

#include "base/clock.h"
#include "base/rights.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
        LINGER_SEC = 120,
        SOON_SEC = 60,
};

/* Its close waits until *ret_peer is closed. */
static int lingering(int *ret_peer)
{
        const struct linger linger = { .l_onoff = 1, .l_linger = LINGER_SEC };
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
            fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        static const char bytes[65536];
        socklen_t size = sizeof(at);

        assert_int_equal(bind(listener, (const struct sockaddr *)&at, sizeof(at)), 0);
        assert_int_equal(listen(listener, 1), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
        *ret_peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        (void)close(listener);
        while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                ;
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
        return fd;
}

static void a_receiver_does_not_wait_for_what_came_beside_the_bytes(void **state)
{
        struct stall stall = { 0 };
        int pair[2], peer, fd = lingering(&peer);
        nsec since;
        char byte;

        (void)state;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(rights_send(pair[0], &(struct iovec){ (char[]){ 'x' }, 1 }, 1, &fd, 1, 0), 1);
        (void)close(fd); /* the last one is in the message */
        assert_int_equal(stall_open(&stall), 0);
        since = clock_now();
        stall_begin(&stall);
        assert_int_equal(recv(pair[1], &byte, 1, 0), 1);
        stall_end(&stall);
        assert_true(clock_now() - since < SOON_SEC * NSEC_PER_SEC);
        stall_close(&stall);
        (void)(close(pair[0]) + close(pair[1]) + close(peer));
}

static void beside_it_nothing_is_interrupted(void **state)
{
        struct stall stall = { 0 }, none = { 0 };

        (void)state;
        stall_begin(&none);
        stall_end(&none);
        stall_close(&none);
        assert_int_equal(stall_open(&stall), 0);
        stall_begin(&stall);
        stall_end(&stall);
        assert_int_equal(clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = 300000000 }, NULL), 0);
        stall_begin(&stall);
        assert_int_equal(clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_sec = LINGER_SEC }, NULL), EINTR);
        stall_close(&stall);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_receiver_does_not_wait_for_what_came_beside_the_bytes),
                cmocka_unit_test(beside_it_nothing_is_interrupted),
        };

        return cmocka_run_group_tests_name("net/http/stall", tests, NULL, NULL);
}
