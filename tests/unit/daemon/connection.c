/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that belong to no tenant yet, from honest peers and others. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "base/cleanup.h"
#include "daemon/connection.h"
#include "shim/mps_server.h"

#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

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
        connections_drop(daemon_);
        (void)loop_free(daemon_->loop);
        fake_daemon_free(daemon_);
        return 0;
}

/* The peer's end of a new connection. */
static int connects(enum connection_kind kind, uid_t uid)
{
        const struct ucred peer = { .pid = 99, .uid = uid };
        int ends[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
        connection_new(daemon_, kind, ends[0], &peer);
        return ends[1];
}

/* Sends, with a descriptor or -1, and returns the type of the answer: "" is none. */
static const char *answers(int socket, json_t *body, int fd)
{
        static char type[32];
        struct message message;
        int r;

        if (body)
                assert_int_equal(message_send(socket, body, &fd, fd >= 0), MESSAGE_OK);
        fake_daemon_turn(daemon_);
        r = message_receive(socket, &message);
        if (r != MESSAGE_OK)
                return r == MESSAGE_E_NONE ? "" : "gone"; /* or it is soon: is_gone */
        (void)snprintf(type, sizeof(type), "%s", message_type(&message));
        message_done(&message);
        return type;
}

/* Whether the connection has ended without an answer. A thread closes it (base/descriptors.h): it has ten seconds. */
static bool is_gone(int socket)
{
        struct pollfd hung_up = { .fd = socket };
        struct message message;

        fake_daemon_turn(daemon_);
        return poll(&hung_up, 1, 10000) == 1 && message_receive(socket, &message) == MESSAGE_E_CLOSED;
}

static json_t *lease(const char *name, const char *mem)
{
        const struct message_request request = { .is_named = true, .cap = TURNS_WHOLE };
        json_t *body = message_request_new(&request);

        (void)json_object_set_new(body, "tenant", json_string(name));
        (void)json_object_set_new(body, "mem", json_string(mem));
        return body;
}

static void a_lease_is_withdrawn_when_the_connection_hangs_up(void **state)
{
        int socket = connects(CONNECTION_TENANT, 7);

        (void)state;
        assert_string_equal(answers(socket, lease("chat", "10G"), -1), "granted");
        assert_int_equal(daemon_->tenants.n, 1);
        assert_int_equal(daemon_->tenants.first->lease.owner, 7);
        (void)close(socket);
        fake_daemon_turn(daemon_);
        assert_int_equal(daemon_->tenants.n, 0);
        assert_int_equal(daemon_->n_connections, 0);
}

static void a_refused_request_may_be_followed_by_a_better_one(void **state)
{
        _cleanup_(closep) int socket = connects(CONNECTION_TENANT, 7);

        (void)state;
        assert_string_equal(answers(socket, lease("chat", "1000G"), -1), "refused");
        assert_int_equal(fake_events(daemon_, "LEASE_REFUSED"), 1);
        assert_string_equal(answers(socket, lease("chat", "10G"), -1), "granted");
}

static void a_second_request_replaces_the_first(void **state)
{
        _cleanup_(closep) int socket = connects(CONNECTION_TENANT, 7);

        (void)state;
        assert_string_equal(answers(socket, lease("first", "90G"), -1), "granted");
        assert_string_equal(answers(socket, lease("second", "90G"), -1), "granted");
        assert_int_equal(daemon_->tenants.n, 1);
        assert_string_equal(daemon_->tenants.first->lease.tenant, "second");
}

static void a_refused_second_request_while_the_first_waits_leaves_nothing_behind(void **state)
{
        _cleanup_(closep) int socket = connects(CONNECTION_TENANT, 7);
        json_t *body = lease("space", "10G");

        (void)state;
        (void)strcpy(daemon_->settings.dir, "/nonexistent");
        daemon_->devices[0].mps.control = getpid(); /* an MPS control daemon that is not ready */
        daemon_->devices[0].mps.begun = mps_begun(getpid());
        (void)json_object_set_new(body, "mode", json_string("spatial"));
        (void)json_object_set_new(body, "gpus", json_string("0"));
        assert_string_equal(answers(socket, body, -1), "");
        assert_int_equal(daemon_->tenants.n, 1);
        body = lease("space", "10G");
        (void)json_object_set_new(body, "share", json_integer(2000));
        assert_string_equal(answers(socket, body, -1), "refused");
        assert_int_equal(daemon_->tenants.n, 0);
        connections_tick(daemon_, clock_now());
        assert_int_equal(daemon_->n_connections, 1);
}

static void whoever_says_nothing_has_ten_seconds_and_whoever_speaks_a_minute_in_all(void **state)
{
        _cleanup_(closep) int silent = connects(CONNECTION_TENANT, 7);
        _cleanup_(closep) int busy = connects(CONNECTION_TENANT, 7);
        nsec now = clock_now();

        (void)state;
        assert_string_equal(answers(busy, lease("first", "10G"), -1), "granted");
        connections_tick(daemon_, now + 9 * NSEC_PER_SEC);
        assert_int_equal(daemon_->n_connections, 2);
        connections_tick(daemon_, now + 11 * NSEC_PER_SEC);
        assert_true(is_gone(silent));
        assert_string_equal(answers(busy, lease("second", "10G"), -1), "granted");
        connections_tick(daemon_, now + 59 * NSEC_PER_SEC);
        assert_string_equal(answers(busy, NULL, -1), "");
        connections_tick(daemon_, now + 61 * NSEC_PER_SEC);
        assert_true(is_gone(busy));
        assert_int_equal(daemon_->tenants.n, 0);
}

static void a_listener_needs_a_lease_and_must_be_one(void **state)
{
        _cleanup_(closep) int other = eventfd(0, EFD_CLOEXEC);
        _cleanup_(closep) int early = connects(CONNECTION_TENANT, 7);
        _cleanup_(closep) int wrong = connects(CONNECTION_TENANT, 7);

        (void)state;
        assert_string_equal(answers(early, message_new("listener"), other), "refused");
        assert_true(is_gone(early));
        assert_string_equal(answers(wrong, lease("chat", "10G"), -1), "granted");
        assert_string_equal(answers(wrong, message_new("listener"), other), "refused");
        assert_true(is_gone(wrong));
        assert_int_equal(daemon_->tenants.n, 0);
}

static void only_root_and_the_daemons_user_announce_containers(void **state)
{
        _cleanup_(closep) int user = connects(CONNECTION_TENANT, 7);
        _cleanup_(closep) int root = connects(CONNECTION_TENANT, 0);
        json_t *stopped = message_new("container");

        (void)state;
        assert_string_equal(answers(user, message_new("container"), -1), "refused");
        assert_string_equal(answers(root, message_new("container"), -1), "refused"); /* without a state */
        (void)json_object_set_new(stopped, "state",
                                  json_pack("{s:s, s:s, s:s, s:s}", "ociVersion", "1.0.2", "id", "c1", "status",
                                            "stopped", "bundle", "/b"));
        assert_string_equal(answers(root, stopped, -1), "granted");
}

static void what_is_no_message_ends_the_connection_and_an_unknown_one_does_not(void **state)
{
        _cleanup_(closep) int unknown = connects(CONNECTION_TENANT, 7);
        _cleanup_(closep) int garbage = connects(CONNECTION_TENANT, 7);
        _cleanup_(closep) int huge = connects(CONNECTION_TENANT, 7);
        static char packet[MESSAGE_MAX + 1];

        (void)state;
        assert_string_equal(answers(unknown, message_new("rumour"), -1), "");
        assert_int_equal(send(garbage, "lease!", 6, 0), 6);
        assert_true(is_gone(garbage));
        memset(packet, ' ', sizeof(packet));
        assert_int_equal(send(huge, packet, sizeof(packet), 0), (ssize_t)sizeof(packet));
        assert_true(is_gone(huge));
        assert_int_equal(daemon_->n_connections, 1);
}

static void attach_sock_takes_nothing_but_attaching(void **state)
{
        _cleanup_(closep) int socket = connects(CONNECTION_ATTACH, 0);

        (void)state;
        assert_string_equal(answers(socket, lease("chat", "10G"), -1), "refused");
        assert_true(is_gone(socket));
        assert_int_equal(daemon_->tenants.n, 0);
}

static void keeper_sock_takes_nothing_but_a_hello(void **state)
{
        _cleanup_(closep) int socket = connects(CONNECTION_SHIM, 4242);

        (void)state;
        assert_int_equal(message_send(socket, lease("chat", "10G"), NULL, 0), MESSAGE_OK);
        assert_true(is_gone(socket));
        assert_true(connections_accept(daemon_, CONNECTION_SHIM, 4242));
        assert_false(connections_accept(daemon_, CONNECTION_SHIM, 0));
        assert_int_equal(daemon_->tenants.n, 0);
}

/* Their far ends are closed at once; nobody turns the loop. */
static unsigned int fill(enum connection_kind kind, uid_t uid)
{
        unsigned int n = 0;

        for (; connections_accept(daemon_, kind, uid); n++)
                (void)close(connects(kind, uid));
        return n;
}

static void no_user_keeps_others_out(void **state)
{
        unsigned int n = 0;

        (void)state;
        assert_int_equal(fill(CONNECTION_TENANT, 1), 64);
        assert_true(connections_accept(daemon_, CONNECTION_TENANT, 2));
        for (uid_t uid = 2; uid < 10; uid++)
                n += fill(CONNECTION_TENANT, uid);
        assert_int_equal(n, 512 - 128 - 64);
        assert_true(connections_accept(daemon_, CONNECTION_TENANT, 0)); /* these are kept for root */
}

static void root_of_a_container_is_nobody_special_at_attach_sock(void **state)
{
        unsigned int n = 0;

        (void)state;
        assert_int_equal(fill(CONNECTION_ATTACH, 0), 64);
        for (uid_t uid = 1; uid < 10; uid++)
                n += fill(CONNECTION_ATTACH, uid);
        assert_int_equal(n, 256 - 64);
        assert_true(connections_accept(daemon_, CONNECTION_TENANT, 1));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(a_lease_is_withdrawn_when_the_connection_hangs_up),
                TEST(a_refused_request_may_be_followed_by_a_better_one),
                TEST(a_second_request_replaces_the_first),
                TEST(a_refused_second_request_while_the_first_waits_leaves_nothing_behind),
                TEST(whoever_says_nothing_has_ten_seconds_and_whoever_speaks_a_minute_in_all),
                TEST(a_listener_needs_a_lease_and_must_be_one),
                TEST(only_root_and_the_daemons_user_announce_containers),
                TEST(what_is_no_message_ends_the_connection_and_an_unknown_one_does_not),
                TEST(attach_sock_takes_nothing_but_attaching),
                TEST(keeper_sock_takes_nothing_but_a_hello),
                TEST(no_user_keeps_others_out),
                TEST(root_of_a_container_is_nobody_special_at_attach_sock),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
