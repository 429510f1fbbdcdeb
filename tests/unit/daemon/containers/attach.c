/* SPDX-License-Identifier: Apache-2.0 */
/* What is said at attach.sock, by friends and others; a shim is never started here. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "base/cleanup.h"
#include "preload/usage_segment.h"
#include "daemon/containers/attach.h"

#include <sys/socket.h>

static const char token[] = "000102030405060708090a0b0c0d0e0f";

struct stage {
        struct daemon *daemon;
        struct tenant *tenant;
        int ours, theirs;
        uint64_t tenancy; /* of the connection */
};

static struct stage *stage;

static int begin(void **state)
{
        int fds[2];

        stage = calloc(1, sizeof(*stage));
        stage->daemon = fake_daemon_new();
        stage->tenant = fake_tenant_put(stage->daemon, "chat", 1000, 10, 0);
        stage->tenant->lease.enforcement = ENFORCEMENT_PRELOAD;
        for (uint8_t i = 0; i < LEASE_DESCRIPTOR_TOKEN; i++)
                stage->tenant->token[i] = i;
        assert_int_equal(usage_segment_new(stage->tenant->lease.id, &stage->tenant->segment), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
        stage->ours = fds[0];
        stage->theirs = fds[1];
        *state = stage;
        return 0;
}

static int end(void **state)
{
        (void)state;
        fake_daemon_free(stage->daemon);
        (void)close(stage->ours);
        (void)close(stage->theirs);
        free(stage);
        return 0;
}

/* Says it with a descriptor or -1; the answer's type is in *ret. True: the connection is done with. */
static bool says(json_t *body, int fd, char ret[static 32])
{
        struct message message;
        bool is_done;

        assert_int_equal(message_send(stage->theirs, body, &fd, fd >= 0), MESSAGE_OK);
        assert_int_equal(message_receive(stage->ours, &message), MESSAGE_OK);
        is_done = attach_handle(stage->daemon, stage->ours, &stage->tenancy, &message);
        message_done(&message);
        assert_int_equal(message_receive(stage->theirs, &message), MESSAGE_OK);
        (void)snprintf(ret, 32, "%s", message_type(&message));
        message_done(&message);
        return is_done;
}

static json_t *attach(uint64_t tenancy, const char *with)
{
        json_t *body = message_new("attach");

        (void)json_object_set_new(body, "tenancy", json_integer((json_int_t)tenancy));
        (void)json_object_set_new(body, "token", json_string(with));
        return body;
}

static bool is_marked(void)
{
        struct usage_segment_totals books;

        assert_int_equal(
                usage_segment_scan(stage->tenant->segment, LEASE_DESCRIPTOR_INHERITED, stage->tenant->lease.id, &books),
                0);
        return books.is_attached;
}

static void who_knows_the_token_may_and_the_region_is_closed(void **state)
{
        char answer[32];

        (void)state;
        assert_false(says(attach(stage->tenant->lease.id, token), -1, answer));
        assert_string_equal(answer, "go");
        assert_true(is_marked());
        attach_undo(stage->daemon, stage->tenancy); /* it left without having done it */
        assert_false(is_marked());
        assert_false(stage->tenant->is_attaching);
}

static void who_does_not_know_it_may_not(void **state)
{
        static const char *const wrong[] = { "", "000102030405060708090a0b0c0d0e0e", "000102030405060708090a0b0c0d0e",
                                             "000102030405060708090a0b0c0d0e0f00", "000102030405060708090A0B0C0D0E0F" };
        char answer[32];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                assert_true(says(attach(stage->tenant->lease.id, wrong[i]), -1, answer));
                assert_string_equal(answer, "refused");
        }
        assert_true(says(attach(stage->tenant->lease.id + 1, token), -1, answer));
        assert_string_equal(answer, "refused");
        assert_true(says(message_new("attach"), -1, answer));
        assert_false(is_marked());
}

static void a_tenant_of_a_gate_has_no_such_listener(void **state)
{
        char answer[32];

        (void)state;
        stage->tenant->lease.enforcement = ENFORCEMENT_ATTACHED;
        assert_true(says(attach(stage->tenant->lease.id, token), -1, answer));
        stage->tenant->lease.enforcement = ENFORCEMENT_GATE;
        closep(&stage->tenant->segment);
        assert_true(says(attach(stage->tenant->lease.id, token), -1, answer));
        assert_string_equal(answer, "refused");
}

static void one_at_a_time_and_nobody_beside_books_that_are_kept_inside(void **state)
{
        struct usage_segment_handle seat;
        uint64_t first;
        char answer[32];

        (void)state;
        assert_int_equal(
                usage_segment_join(stage->tenant->segment, LEASE_DESCRIPTOR_INHERITED, stage->tenant->lease.id, &seat),
                0);
        assert_true(says(attach(stage->tenant->lease.id, token), -1, answer));
        assert_string_equal(answer, "refused");
        assert_false(is_marked());
        usage_segment_leave(&seat);
        assert_false(says(attach(stage->tenant->lease.id, token), -1, answer));
        first = TAKE(stage->tenancy);
        assert_true(says(attach(stage->tenant->lease.id, token), -1, answer)); /* another connection */
        assert_string_equal(answer, "refused");
        assert_true(is_marked());
        attach_undo(stage->daemon, first);
}

static void words_out_of_order_and_what_is_no_listener_are_refused(void **state)
{
        char answer[32];

        (void)state;
        assert_true(says(message_new("listener"), stage->theirs, answer));
        assert_string_equal(answer, "refused");
        assert_true(says(message_new("lease"), -1, answer));
        assert_string_equal(answer, "refused");
        assert_false(says(attach(stage->tenant->lease.id, token), -1, answer));
        assert_true(says(message_new("listener"), -1, answer));
        assert_string_equal(answer, "refused");
        assert_true(says(message_new("listener"), stage->theirs, answer));
        assert_string_equal(answer, "refused");
        assert_int_equal(stage->tenant->lease.enforcement, ENFORCEMENT_PRELOAD);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(who_knows_the_token_may_and_the_region_is_closed, begin, end),
                cmocka_unit_test_setup_teardown(who_does_not_know_it_may_not, begin, end),
                cmocka_unit_test_setup_teardown(a_tenant_of_a_gate_has_no_such_listener, begin, end),
                cmocka_unit_test_setup_teardown(one_at_a_time_and_nobody_beside_books_that_are_kept_inside, begin, end),
                cmocka_unit_test_setup_teardown(words_out_of_order_and_what_is_no_listener_are_refused, begin, end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
