/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that belong to no tenant yet, from honest peers and others. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "base/cleanup.h"
#include "daemon/accept.h"
#include "daemon/connection.h"
#include "preload/usage_segment.h"
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
        int r = MESSAGE_E_NONE;

        if (body)
                assert_int_equal(message_send(socket, body, &fd, fd >= 0), MESSAGE_OK);
        for (int i = 0; i < 20 && r == MESSAGE_E_NONE; i++) { /* hundreds may be before it */
                fake_daemon_turn(daemon_);
                r = message_receive(socket, &message);
        }
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
        struct mps mps = { .daemon = daemon_, .control = getpid(), .begun = mps_begun(getpid()) }; /* not ready */

        (void)state;
        (void)strcpy(daemon_->settings.dir, "/nonexistent");
        daemon_->devices[0].mps = &mps;
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
        daemon_->devices[0].mps = NULL;
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

/* Comes n times and says nothing. The far ends are closed at once; nobody turns the loop. How many got in. */
static unsigned int come(enum connection_kind kind, uid_t uid, unsigned int n)
{
        unsigned int n_in = 0;

        for (unsigned int i = 0; i < n && connections_accept(daemon_, kind, uid); i++, n_in++)
                (void)close(connects(kind, uid));
        return n_in;
}

static void no_user_keeps_others_out(void **state)
{
        unsigned int n = 0;

        (void)state;
        assert_int_equal(come(CONNECTION_TENANT, 1, 200), 200);
        assert_int_equal(daemon_->n_connections, 64);
        for (uid_t uid = 2; uid < 10; uid++)
                n += come(CONNECTION_TENANT, uid, 70);
        assert_int_equal(n, 8 * 70);
        assert_int_equal(daemon_->n_connections, 512 - 128);
        assert_int_equal(come(CONNECTION_TENANT, 0, 200), 128); /* these are kept for root */
        assert_int_equal(daemon_->n_connections, 512);
}

static void root_of_a_container_is_nobody_special_at_attach_sock(void **state)
{
        (void)state;
        for (uid_t uid = 0; uid < 10; uid++)
                assert_int_equal(come(CONNECTION_ATTACH, uid, 70), 70);
        assert_int_equal(daemon_->n_connections, 256);
        assert_true(connections_accept(daemon_, CONNECTION_TENANT, 1));
        assert_int_equal(daemon_->n_connections, 256);
}

/* A tenant without a shim, whose token is zeros. */
static json_t *token_of_a_tenant(const char *name)
{
        struct tenant *tenant = fake_tenant_put(daemon_, name, 100, 10, 0);
        json_t *body = message_new("attach");

        tenant->lease.enforcement = ENFORCEMENT_PRELOAD;
        assert_int_equal(usage_segment_new(tenant->lease.id, &tenant->segment), 0);
        (void)json_object_set_new(body, "tenancy", json_integer((json_int_t)tenant->lease.id));
        (void)json_object_set_new(body, "token", json_string("00000000000000000000000000000000"));
        return body;
}

/* Of one container its root, and every user that it likes to be, has all the connections that there are. */
static void whoever_shows_its_token_gets_in_and_stays_whatever_comes(void **state)
{
        _cleanup_(closep) int root = -1, user = -1;

        (void)state;
        for (uid_t uid = 0; uid < 300; uid++)
                (void)come(CONNECTION_ATTACH, uid, 2);
        assert_true(connections_accept(daemon_, CONNECTION_ATTACH, 0)); /* another container's */
        root = connects(CONNECTION_ATTACH, 0);
        assert_int_equal(come(CONNECTION_ATTACH, 0, 63), 63);
        assert_string_equal(answers(root, token_of_a_tenant("one"), -1), "go");
        assert_true(connections_accept(daemon_, CONNECTION_ATTACH, 99));
        user = connects(CONNECTION_ATTACH, 99);
        for (uid_t uid = 0; uid < 4; uid++)
                assert_int_equal(come(CONNECTION_ATTACH, uid, 60), 60);
        assert_string_equal(answers(user, token_of_a_tenant("two"), -1), "go");
        (void)come(CONNECTION_ATTACH, 0, 200);
        (void)come(CONNECTION_ATTACH, 99, 200);
        assert_string_equal(answers(root, message_new("failed"), -1), "refused");
        assert_string_equal(answers(user, message_new("failed"), -1), "refused");
}

static void a_lease_is_not_lost_to_newcomers_and_a_user_with_nothing_but_leases_has_no_more(void **state)
{
        int sockets[64];
        char name[8];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
                assert_true(connections_accept(daemon_, CONNECTION_TENANT, 7));
                sockets[i] = connects(CONNECTION_TENANT, 7);
                (void)snprintf(name, sizeof(name), "t%zu", i);
                assert_string_equal(answers(sockets[i], lease(name, "1G"), -1), "granted");
        }
        assert_false(connections_accept(daemon_, CONNECTION_TENANT, 7));
        for (uid_t uid = 8; uid < 20; uid++)
                assert_int_equal(come(CONNECTION_TENANT, uid, 70), 70);
        assert_int_equal(daemon_->tenants.n, 64);
        for (size_t i = 0; i < ARRAY_SIZE(sockets); i++)
                (void)close(sockets[i]);
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
                TEST(whoever_shows_its_token_gets_in_and_stays_whatever_comes),
                TEST(a_lease_is_not_lost_to_newcomers_and_a_user_with_nothing_but_leases_has_no_more),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
