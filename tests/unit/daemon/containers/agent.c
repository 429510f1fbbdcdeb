/* SPDX-License-Identifier: Apache-2.0 */
/* How long a runtime may take at seccomp.sock; what it sends is tests/integration/containers/agent.bats. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "base/cleanup.h"
#include "daemon/containers/agent.h"

#include <poll.h>
#include <sys/socket.h>

enum {
        CALLERS_MAX = 256,
};

static struct daemon *daemon_;

static int set_up(void **state)
{
        (void)state;
        daemon_ = fake_daemon_new();
        fake_daemon_turn(daemon_);
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        agent_close(daemon_);
        (void)loop_free(daemon_->loop);
        fake_daemon_free(daemon_);
        return 0;
}

/* The runtime's end of a new connection. */
static int connects(void)
{
        const struct ucred peer = { .pid = getpid() };
        int ends[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
        agent_accept(daemon_, ends[0], &peer);
        return ends[1];
}

/* A thread closes it (base/descriptors.h): it has ten seconds. */
static bool is_gone(int socket)
{
        struct pollfd hung_up = { .fd = socket };

        return poll(&hung_up, 1, 10000) == 1 && hung_up.revents & POLLHUP;
}

static void whoever_has_begun_has_five_seconds_and_who_says_nothing_as_long_as_it_likes(void **state)
{
        _cleanup_(closep) int silent = connects();
        _cleanup_(closep) int slow = connects();

        (void)state;
        assert_int_equal(send(slow, "{", 1, 0), 1);
        fake_daemon_turn(daemon_);
        agent_tick(daemon_, clock_now() + 4 * NSEC_PER_SEC);
        assert_int_equal(daemon_->n_callers, 2);
        agent_tick(daemon_, clock_now() + 3600 * NSEC_PER_SEC);
        assert_true(is_gone(slow));
        assert_int_equal(daemon_->n_callers, 1);
        assert_int_equal(fake_events(daemon_, "LEASE_REFUSED"), 1);
        closep(&silent); /* its container was deleted */
        fake_daemon_turn(daemon_);
        assert_int_equal(daemon_->n_callers, 0);
}

static void where_too_many_say_nothing_the_oldest_of_them_gives_way(void **state)
{
        int sockets[CALLERS_MAX + 1];

        (void)state;
        sockets[0] = connects();
        assert_int_equal(send(sockets[0], "{", 1, 0), 1);
        fake_daemon_turn(daemon_);
        for (int i = 1; i <= CALLERS_MAX; i++)
                sockets[i] = connects();
        assert_true(is_gone(sockets[1]));
        assert_int_equal(daemon_->n_callers, CALLERS_MAX);
        for (int i = 0; i <= CALLERS_MAX; i++) {
                struct pollfd hung_up = { .fd = sockets[i] };

                assert_int_equal(poll(&hung_up, 1, 0), i == 1);
                (void)close(sockets[i]);
        }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(whoever_has_begun_has_five_seconds_and_who_says_nothing_as_long_as_it_likes),
                TEST(where_too_many_say_nothing_the_oldest_of_them_gives_way),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
