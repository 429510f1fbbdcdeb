/* SPDX-License-Identifier: Apache-2.0 */
/* Packets between run, shim and daemon, over real sockets. */
#include "unit.h"

#include "base/cleanup.h"
#include "wire/messages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

struct pair {
        int a, b;
};

static struct pair pair_new(void)
{
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
        return (struct pair){ fds[0], fds[1] };
}

static void pair_done(struct pair *pair)
{
        closep(&pair->a);
        closep(&pair->b);
}

static void a_message_arrives_with_its_descriptors(void **state)
{
        _cleanup_(pair_done) struct pair pair = pair_new();
        _cleanup_(message_done) struct message message = { 0 };
        _cleanup_(closep) int taken = -1;

        (void)state;
        assert_int_equal(message_send(pair.a, message_new("hello"), (int[]){ pair.a, pair.b }, 2), MESSAGE_OK);
        assert_int_equal(message_receive(pair.b, &message), MESSAGE_OK);
        assert_string_equal(message_type(&message), "hello");
        assert_int_equal(message_number(message.body, "v", 0), 1);
        assert_int_equal(message.n_fds, 2);
        taken = message_take_fd(&message, 0);
        assert_true(fcntl(taken, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(message_take_fd(&message, 0), -1);
        assert_int_equal(message_take_fd(&message, 7), -1);
}

static void none_and_closed_are_told_apart(void **state)
{
        _cleanup_(pair_done) struct pair pair = pair_new();
        struct message message;

        (void)state;
        assert_int_equal(message_receive(pair.a, &message), MESSAGE_E_NONE);
        closep(&pair.b);
        assert_int_equal(message_receive(pair.a, &message), MESSAGE_E_CLOSED);
        assert_int_equal(message_send(pair.a, message_new("end"), NULL, 0), MESSAGE_E_CLOSED);
}

static void what_is_no_message_is_skipped_and_the_next_is_read(void **state)
{
        static const char *const wrong[] = { "x",
                                             "[]",
                                             "{}",
                                             "{\"v\":1}",
                                             "{\"type\":\"end\"}",
                                             "{\"v\":0,\"type\":\"end\"}",
                                             "{\"v\":1,\"type\":7}",
                                             "{\"v\":1,\"type\":\"end\",\"type\":\"set\"}" };
        _cleanup_(pair_done) struct pair pair = pair_new();
        struct message message;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                assert_int_equal(send(pair.a, wrong[i], strlen(wrong[i]), 0), (int)strlen(wrong[i]));
                assert_int_equal(message_send(pair.a, message_new("end"), NULL, 0), MESSAGE_OK);
                assert_int_equal(message_receive(pair.b, &message), -EPROTO);
                assert_int_equal(message_receive(pair.b, &message), MESSAGE_OK);
                message_done(&message);
        }
}

static void more_than_a_packet_is_refused_on_both_sides(void **state)
{
        _cleanup_(pair_done) struct pair pair = pair_new();
        _cleanup_(freep) char *text = malloc(MESSAGE_MAX + 100);
        json_t *body = message_new("event");
        struct message message;

        (void)state;
        memset(text, 'x', MESSAGE_MAX + 99);
        text[MESSAGE_MAX + 99] = '\0';
        (void)json_object_set_new(body, "text", json_string(text));
        assert_int_equal(message_send(pair.a, body, NULL, 0), -EMSGSIZE);
        assert_int_equal(send(pair.a, text, MESSAGE_MAX + 99, 0), MESSAGE_MAX + 99);
        assert_int_equal(message_receive(pair.b, &message), -EPROTO);
}

static void descriptors_of_what_is_no_message_are_closed(void **state)
{
        _cleanup_(pair_done) struct pair pair = pair_new();
        int pipes[2];
        struct message message;
        char byte;

        (void)state;
        assert_int_equal(pipe(pipes), 0);
        {
                json_t *body = json_pack("{s:i}", "v", 1);

                assert_int_equal(message_send(pair.a, body, &pipes[1], 1), MESSAGE_OK);
        }
        (void)close(pipes[1]);
        assert_int_equal(message_receive(pair.b, &message), -EPROTO);
        assert_int_equal(read(pipes[0], &byte, 1), 0); /* nobody has the other end */
        (void)close(pipes[0]);
}

static struct message_request some_request(void)
{
        return (struct message_request){ .tenant = "chat-1",
                                         .is_named = true,
                                         .gpus = "0,1",
                                         .mem = "8G,1=16G",
                                         .host = "4G",
                                         .managed = "deny",
                                         .mode = "spatial",
                                         .command = "python3",
                                         .share = 300,
                                         .cap = 500,
                                         .class = TURNS_LATENCY,
                                         .goal = 10 * NSEC_PER_MSEC,
                                         .sleep_after = 30 * NSEC_PER_SEC,
                                         .host_swap = 5 * GIB,
                                         .ipc_host = true,
                                         .audit_ms = 250 };
}

/* The number that the next descriptor will have: larger if one was left open. */
static int next_fd(void)
{
        _cleanup_(closep) int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        return fd;
}

static void descriptors_of_an_empty_packet_are_closed(void **state)
{
        _cleanup_(pair_done) struct pair pair = pair_new();
        char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = { 0 };
        struct cmsghdr *header = (struct cmsghdr *)control;
        struct iovec nothing = { NULL, 0 };
        struct msghdr packet = {
                .msg_iov = &nothing, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        int before = next_fd();
        struct message message;

        (void)state;
        *header = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
        memcpy(CMSG_DATA(header), &pair.a, sizeof(int));
        assert_int_equal(sendmsg(pair.a, &packet, 0), 0);
        assert_int_equal(message_receive(pair.b, &message), MESSAGE_E_CLOSED);
        for (nsec until = clock_now() + 10 * NSEC_PER_SEC; next_fd() != before && clock_now() < until; usleep(100))
                ; /* a thread closes it */
        assert_int_equal(next_fd(), before);
}

static void a_peer_that_does_not_read_is_not_waited_for(void **state)
{
        int fds[2], r = MESSAGE_OK;

        (void)state;
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0); /* a socket that waits */
        for (int i = 0; i < 100000 && r == MESSAGE_OK; i++)
                r = message_send(fds[0], message_new("event"), NULL, 0);
        assert_int_equal(r, MESSAGE_E_NONE);
        closep(&fds[0]);
        closep(&fds[1]);
}

static void a_request_comes_back_as_it_was_sent(void **state)
{
        struct message_request was = some_request(), is = { 0 };
        const char *field = NULL;
        json_t *body;

        (void)state;
        was.enforcement = ENFORCEMENT_PRELOAD;
        (void)strcpy(was.attach, "required");
        (void)strcpy(was.directory, "/run/sublet-leases/a");
        body = message_request_new(&was);
        assert_string_equal(json_string_value(json_object_get(body, "type")), "lease");
        assert_int_equal(message_request_parse(body, &is, &field), 0);
        assert_string_equal(is.tenant, was.tenant);
        assert_string_equal(is.gpus, was.gpus);
        assert_string_equal(is.mem, was.mem);
        assert_string_equal(is.host, was.host);
        assert_string_equal(is.managed, was.managed);
        assert_string_equal(is.mode, was.mode);
        assert_string_equal(is.command, was.command);
        assert_true(is.is_named && is.ipc_host);
        assert_int_equal(is.share, 300);
        assert_int_equal(is.cap, 500);
        assert_int_equal(is.class, TURNS_LATENCY);
        assert_int_equal(is.goal, 10 * NSEC_PER_MSEC);
        assert_int_equal(is.sleep_after, 30 * NSEC_PER_SEC);
        assert_int_equal(is.host_swap, 5 * GIB);
        assert_int_equal(is.audit_ms, 250);
        assert_int_equal(is.enforcement, ENFORCEMENT_PRELOAD);
        assert_string_equal(is.attach, "required");
        assert_string_equal(is.directory, was.directory);
        json_decref(body);
}

static void what_an_older_peer_does_not_send_keeps_its_default(void **state)
{
        json_t *body = json_pack("{s:i, s:s, s:s, s:n, s:s}", "v", 9, "type", "lease", "tenant", "a", "mem", "news",
                                 "from the future");
        struct message_request is = { 0 };
        const char *field = NULL;

        (void)state;
        assert_int_equal(message_request_parse(body, &is, &field), 0);
        assert_string_equal(is.mem, "");
        assert_int_equal(is.share, 0);
        assert_int_equal(is.cap, TURNS_WHOLE);
        assert_int_equal(is.class, TURNS_NORMAL);
        assert_int_equal(is.goal, 0);
        assert_int_equal(is.enforcement, ENFORCEMENT_GATE);
        json_decref(body);
}

static void a_field_out_of_range_is_named(void **state)
{
        char longer[80];
        const struct {
                const char *field;
                json_t *value;
        } wrong[] = {
                { "tenant", (memset(longer, 'a', 79), longer[79] = '\0', json_string(longer)) },
                { "share", json_integer(1001) },
                { "share", json_integer(-1) },
                { "cap", json_integer(0) },
                { "cap", json_integer(1001) },
                { "class", json_string("royal") },
                { "latency_us", json_integer(-1) },
                { "latency_us", json_integer(10000001) },
                { "sleep_after_us", json_integer(999999) },
                { "sleep_after_us", json_integer(-1) },
                { "host_swap_bytes", json_integer(-1) },
                { "plane", json_string("astral") },
                { "labels", json_string("team") },
                { "labels", json_string("team=a,team=b") },
                { "labels", json_string("team=a,") },
                { "labels", json_string("te\"am=a") },
                { "audit_ms", json_integer(-5) },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                struct message_request was = some_request(), is = { 0 };
                json_t *body = message_request_new(&was);
                const char *field = NULL;

                (void)json_object_set_new(body, wrong[i].field, wrong[i].value);
                assert_int_equal(message_request_parse(body, &is, &field), -EINVAL);
                assert_string_equal(field, wrong[i].field);
                json_decref(body);
        }
}

static void a_lease_comes_back_as_it_was_granted(void **state)
{
        struct lease lease = { .n_devices = 3,
                               .managed = LEASE_MANAGED_ALLOW,
                               .groups_max = 512,
                               .channels_max = 1536 },
                     other = { .n_devices = 3 };
        struct message_lease was = { .tenant = "a",
                                     .command = "b",
                                     .owner = 4000000000u,
                                     .since = 1790000000,
                                     .share = 1,
                                     .cap = 2,
                                     .class = TURNS_BATCH,
                                     .goal = 1500 * NSEC_PER_USEC,
                                     .labels = "team=video,cost/centre=12",
                                     .enforcement = ENFORCEMENT_ATTACHED,
                                     .directory = "/run/sublet-leases/a" },
                             is;
        json_t *body, *again;

        (void)state;
        lease.devices[1].is_granted = true;
        lease.devices[1].quota.size = 8 * GIB;
        lease.devices[1].own.of[1].is_known = true;
        lease.devices[1].own.of[1].size = 192 * KIB;
        lease.host.size = 3 * GIB;
        message_lease_fill(&lease, &was);
        body = message_lease_new(&was);
        assert_non_null(body);
        assert_int_equal(message_lease_parse(body, &is), 0);
        again = message_lease_new(&is);
        assert_true(json_equal(body, again));
        json_decref(again);
        assert_int_equal(message_lease_apply(&is, &other), 0);
        assert_string_equal(is.labels, was.labels);
        assert_string_equal(other.tenant, "a");
        assert_false(other.devices[0].is_granted);
        assert_true(other.devices[1].is_granted);
        assert_int_equal(other.devices[1].quota.size, 8 * GIB);
        assert_true(other.devices[1].own.of[1].is_known && other.devices[1].own.of[1].size == 192 * KIB);
        assert_false(other.devices[1].own.of[0].is_known);
        assert_int_equal(other.host.size, 3 * GIB);
        assert_int_equal(other.managed, LEASE_MANAGED_ALLOW);
        other.n_devices = 1;
        assert_int_equal(message_lease_apply(&is, &other), -ENODEV);
        json_decref(body);
}

static void a_lease_that_lacks_something_is_refused(void **state)
{
        static const char *const needed[] = {
                "tenant", "devices", "host_bytes", "groups_max", "channels_max", "owner"
        };
        struct message_lease was = { .tenant = "a", .cap = 1000, .host = 1, .groups_max = 1, .channels_max = 1 }, is;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
                json_t *body = message_lease_new(&was);

                assert_int_equal(message_lease_parse(body, &is), 0);
                (void)json_object_del(body, needed[i]);
                assert_int_equal(message_lease_parse(body, &is), -EINVAL);
                json_decref(body);
        }
        assert_int_equal(message_lease_parse(NULL, &is), -EINVAL);
}

static void a_lease_on_mig_names_its_instance(void **state)
{
        struct message_lease was = { .tenant = "a",
                                     .mode = "mig",
                                     .cap = 1000,
                                     .host = 1,
                                     .groups_max = 1,
                                     .channels_max = 1,
                                     .mig = { .uuid = "MIG-a", .gpu = 5, .compute = 1, .memory = 10 * GIB } },
                             is;
        struct lease lease = { .n_devices = 2 };
        json_t *body;

        (void)state;
        was.devices[1].is_granted = true;
        body = message_lease_new(&was);
        assert_int_equal(message_lease_parse(body, &is), 0);
        assert_string_equal(is.mig.uuid, "MIG-a");
        assert_int_equal(is.mig.memory, 10 * GIB);
        assert_int_equal(message_lease_apply(&is, &lease), 0);
        assert_false(lease.devices[0].mig.is_one);
        assert_true(lease.devices[1].mig.is_one);
        assert_int_equal(lease.devices[1].mig.gpu, 5);
        assert_int_equal(lease.devices[1].mig.compute, 1);
        (void)json_object_del(body, "mig"); /* would be one of the whole device */
        assert_int_equal(message_lease_parse(body, &is), -EINVAL);
        json_decref(body);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_message_arrives_with_its_descriptors),
                cmocka_unit_test(none_and_closed_are_told_apart),
                cmocka_unit_test(what_is_no_message_is_skipped_and_the_next_is_read),
                cmocka_unit_test(more_than_a_packet_is_refused_on_both_sides),
                cmocka_unit_test(descriptors_of_what_is_no_message_are_closed),
                cmocka_unit_test(descriptors_of_an_empty_packet_are_closed),
                cmocka_unit_test(a_peer_that_does_not_read_is_not_waited_for),
                cmocka_unit_test(a_request_comes_back_as_it_was_sent),
                cmocka_unit_test(what_an_older_peer_does_not_send_keeps_its_default),
                cmocka_unit_test(a_field_out_of_range_is_named),
                cmocka_unit_test(a_lease_comes_back_as_it_was_granted),
                cmocka_unit_test(a_lease_that_lacks_something_is_refused),
                cmocka_unit_test(a_lease_on_mig_names_its_instance),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
