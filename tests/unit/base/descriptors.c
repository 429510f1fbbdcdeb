/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/descriptors.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
        LIMIT = 100,
        LINGER_SEC = 120,
        PATIENCE_SEC = 30, /* for what threads do meanwhile, on a busy machine */
        SENDER = 7,
        OTHER = 8,
};

static struct rlimit limit_set(rlim_t soft)
{
        struct rlimit limit;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur = soft;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        return limit;
}

static void a_quarter_is_kept_back(void **state)
{
        int fd = -1, last;

        (void)state;
        (void)limit_set(LIMIT);
        do {
                last = fd;
                fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
                assert_true(fd >= 0);
        } while (!descriptors_are_few(fd));
        assert_int_equal(fd, LIMIT * 3 / 4);
        assert_false(descriptors_are_few(last));
        while (fd > 2 + 1)
                (void)close(fd--);
}

static void of_many_only_some_hundreds_are_kept_back(void **state)
{
        rlim_t hard = limit_set(LIMIT).rlim_max;

        (void)state;
        if (hard < 4096)
                skip();
        (void)limit_set(4096);
        assert_false(descriptors_are_few(4096 - 513));
        assert_true(descriptors_are_few(4096 - 512));
}

static void the_limit_is_raised_to_what_the_user_may_have(void **state)
{
        struct rlimit limit, is;

        (void)state;
        limit = limit_set(LIMIT);
        descriptors_raise();
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &is), 0);
        assert_int_equal(is.rlim_cur, limit.rlim_max);
        assert_int_equal(is.rlim_max, limit.rlim_max);
}

/* ---- closing ---------------------------------------------------------------------------------------------------- */

/* A socket whose close waits for LINGER_SEC, or until *ret_peer is closed, which takes no more of what it is sent. */
static int lingering(int *ret_peer)
{
        const struct linger linger = { .l_onoff = 1, .l_linger = LINGER_SEC };
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        static const char bytes[65536];
        socklen_t size = sizeof(at);
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
            fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int small = 4096;

        (void)setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
        assert_int_equal(bind(listener, (const struct sockaddr *)&at, sizeof(at)), 0);
        assert_int_equal(listen(listener, 1), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
        *ret_peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        assert_true(*ret_peer >= 0);
        (void)close(listener);
        while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                ;
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
        return fd;
}

static bool is_stuck_soon(uint64_t sender, unsigned int n)
{
        nsec until = clock_now() + PATIENCE_SEC * NSEC_PER_SEC;
        uint64_t whose = 0;

        while (descriptors_stuck(sender, &whose) != n)
                if (clock_now() > until)
                        return false;
                else
                        (void)poll(NULL, 0, 5);
        return true;
}

static bool is_closed_soon(int reading_end)
{
        struct pollfd of = { .fd = reading_end, .events = POLLIN };

        return poll(&of, 1, PATIENCE_SEC * 1000) == 1 && (of.revents & POLLHUP);
}

static void the_limit_is_large(void)
{
        struct rlimit limit;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        (void)limit_set(limit.rlim_max < 2048 ? limit.rlim_max : 2048);
}

static void what_is_dropped_is_closed(void **state)
{
        int ends[2];

        (void)state;
        the_limit_is_large();
        descriptors_drop(-1, SENDER);
        for (int i = 0; i < 100; i++) {
                assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
                errno = ENOTTY;
                descriptors_drop(ends[1], SENDER);
                assert_int_equal(errno, ENOTTY);
                assert_true(is_closed_soon(ends[0]));
                (void)close(ends[0]);
        }
        assert_true(is_stuck_soon(DESCRIPTORS_ALL, 0));
}

static void whoever_drops_does_not_wait_and_is_told_what_is_stuck(void **state)
{
        uint64_t whose = 0;
        int peer, ends[2];
        nsec since;

        (void)state;
        the_limit_is_large();
        since = clock_now();
        descriptors_drop(lingering(&peer), SENDER);
        assert_true(clock_now() - since < PATIENCE_SEC * NSEC_PER_SEC);
        assert_true(is_stuck_soon(SENDER, 1));
        assert_int_equal(descriptors_stuck(DESCRIPTORS_ALL, &whose), 1);
        assert_int_equal(whose, SENDER);
        assert_int_equal(descriptors_stuck(OTHER, NULL), 0);
        assert_false(descriptors_are_late(SENDER));
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        descriptors_drop(ends[1], SENDER); /* the same sender's others do not wait for it */
        assert_true(is_closed_soon(ends[0]));
        (void)close(ends[0]);
        (void)close(peer);
        assert_true(is_stuck_soon(DESCRIPTORS_ALL, 0));
}

/* A stuck one is in no table any more, and so in no child's. */
static void a_child_has_nothing_of_what_was_dropped(void **state)
{
        int fds[50], peers[50];

        (void)state;
        the_limit_is_large();
        for (int i = 0; i < 50; i++)
                fds[i] = lingering(&peers[i]);
        for (int i = 0; i < 50; i++)
                descriptors_drop(fds[i], SENDER);
        for (nsec until = clock_now() + PATIENCE_SEC * NSEC_PER_SEC;;) {
                int n = 0;

                descriptors_settle();
                for (int i = 0; i < 50; i++)
                        n += fcntl(fds[i], F_GETFD) >= 0;
                if (!n)
                        break;
                assert_true(clock_now() < until); /* 20 ms may be little on a busy machine */
        }
        for (int i = 0; i < 50; i++)
                (void)close(peers[i]);
        assert_true(is_stuck_soon(DESCRIPTORS_ALL, 0));
}

/* D2, D3: what one message may bring has a thread each; what is more stays open, and costs others nothing. */
static void of_one_sender_only_so_many_are_closed_at_once(void **state)
{
        enum { MANY = 420, THREADS = 384, LATE = 64 };
        static int peers[MANY];
        int ends[2], n = 0, fds[MANY];

        (void)state;
        the_limit_is_large();
        for (n = 0; n < MANY; n++)
                fds[n] = lingering(&peers[n]);
        for (int i = 0; i < MANY; i++) {
                assert_int_equal(descriptors_are_late(SENDER), i >= LATE);
                descriptors_drop(fds[i], SENDER);
        }
        assert_true(is_stuck_soon(SENDER, MANY));
        n = 0;
        for (nsec until = clock_now() + PATIENCE_SEC * NSEC_PER_SEC; n != MANY - THREADS && clock_now() < until;) {
                (void)poll(NULL, 0, 5);
                n = 0;
                for (int i = 0; i < MANY; i++)
                        n += fcntl(fds[i], F_GETFD) >= 0;
        }
        assert_int_equal(n, MANY - THREADS);
        assert_false(descriptors_are_late(OTHER));
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        descriptors_drop(ends[1], OTHER);
        assert_true(is_closed_soon(ends[0]));
        (void)close(ends[0]);
        for (int i = 0; i < MANY; i++)
                (void)close(peers[i]);
        assert_true(is_stuck_soon(DESCRIPTORS_ALL, 0));
        for (int i = 0; i < MANY; i++)
                assert_int_equal(fcntl(fds[i], F_GETFD), -1);
}

/* ---- plain files ------------------------------------------------------------------------------------------------ */

static void a_file_is_plain_and_nothing_else_is(void **state)
{
        char path[] = "/tmp/sublet-plain-XXXXXX";
        int file = mkstemp(path), pair[2], ends[2];
        const int others[] = { epoll_create1(0), memfd_create("x", 0), open("/tmp", O_RDONLY | O_CLOEXEC),
                               open("/dev/null", O_RDWR | O_CLOEXEC) };

        (void)state;
        assert_true(file >= 0);
        assert_true(descriptors_is_plain(file));
        (void)unlink(path);
        assert_true(descriptors_is_plain(file));
        (void)close(file);
        assert_false(descriptors_is_plain(file));
        assert_false(descriptors_is_plain(-1));
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        assert_int_equal(pipe(ends), 0);
        assert_false(descriptors_is_plain(pair[0]));
        assert_false(descriptors_is_plain(ends[1]));
        for (size_t i = 0; i < 4; i++) {
                assert_true(others[i] >= 0);
                assert_false(descriptors_is_plain(others[i]));
                (void)close(others[i]);
        }
        (void)(close(pair[0]) + close(pair[1]) + close(ends[0]) + close(ends[1]));
}

/* Nobody answers: asking the file would wait for ever. Last, since it is in a mount namespace of its own afterwards. */
static void a_file_that_a_program_serves_is_not_plain_and_is_not_asked(void **state)
{
        char path[] = "/tmp/sublet-plain-XXXXXX", options[64];
        int file = mkstemp(path), fuse = -1, served = -1;

        (void)state;
        if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
                fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        (void)snprintf(options, sizeof(options), "fd=%d,rootmode=100000,user_id=0,group_id=0", fuse);
        if (fuse >= 0 && mount("none", path, "fuse", MS_NOSUID | MS_NODEV, options) == 0)
                served = open(path, O_PATH | O_CLOEXEC);
        if (served >= 0)
                assert_false(descriptors_is_plain(served));
        (void)(close(fuse) + close(served) + close(file));
        (void)umount2(path, MNT_DETACH);
        (void)unlink(path);
        if (served < 0)
                skip();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_quarter_is_kept_back),
                cmocka_unit_test(of_many_only_some_hundreds_are_kept_back),
                cmocka_unit_test(the_limit_is_raised_to_what_the_user_may_have),
                cmocka_unit_test(what_is_dropped_is_closed),
                cmocka_unit_test(whoever_drops_does_not_wait_and_is_told_what_is_stuck),
                cmocka_unit_test(a_child_has_nothing_of_what_was_dropped),
                cmocka_unit_test(of_one_sender_only_so_many_are_closed_at_once),
                cmocka_unit_test(a_file_is_plain_and_nothing_else_is),
                cmocka_unit_test(a_file_that_a_program_serves_is_not_plain_and_is_not_asked),
        };

        return cmocka_run_group_tests_name("base/descriptors", tests, NULL, NULL);
}
