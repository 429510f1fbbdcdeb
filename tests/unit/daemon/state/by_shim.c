/* SPDX-License-Identifier: Apache-2.0 */
/* What a daemon asks the shim of a tenant that moves its memory by itself. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "daemon/state/suspend/by_shim.h"

#include <sys/socket.h>

/* A daemon that finds the tenant, and asks. The serial. */
static int64_t asked_by_a_new_daemon(void)
{
        struct daemon *daemon = fake_daemon_new();
        struct tenant *tenant = fake_tenant_put(daemon, "one", 1, 8, 0);
        struct message message = { 0 };
        int ends[2];
        int64_t serial;

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        tenant->source.fd = ends[0];
        assert_int_equal(by_shim_start(daemon, tenant, false), 0);
        assert_int_equal(message_receive(ends[1], &message), MESSAGE_OK);
        assert_string_equal(message_type(&message), "move");
        serial = message_number(message.body, "serial", 0);
        assert_int_equal(serial, (int64_t)tenant->suspension.serial);
        message_done(&message);
        tenant->source.fd = -1;
        (void)close(ends[0]);
        (void)close(ends[1]);
        fake_daemon_free(daemon);
        return serial;
}

static void two_daemons_never_ask_by_one_serial(void **state)
{
        int64_t first = asked_by_a_new_daemon();

        (void)state;
        assert_true(first > 0);
        assert_int_not_equal(asked_by_a_new_daemon(), first);
}

static void what_ran_on_when_its_programs_ended_has_no_time(void **state)
{
        struct daemon *daemon = fake_daemon_new();
        struct tenant *tenant = fake_tenant_put(daemon, "one", 1, 8, 0);

        (void)state;
        tenant->control->move.kept_by = 1;
        daemon_look_kept(daemon);
        assert_true(tenant->is_kept && control_block_is_held(tenant->control));
        tenant->control->move.by_shim = 1;
        by_shim_end(daemon, tenant);
        assert_true(control_block_is_held(tenant->control));
        tenant->control->move.kept_by = 0;
        daemon_look_kept(daemon);
        assert_false(control_block_is_held(tenant->control));
        fake_daemon_free(daemon);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(two_daemons_never_ask_by_one_serial),
                cmocka_unit_test(what_ran_on_when_its_programs_ended_has_no_time),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
