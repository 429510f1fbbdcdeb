/* SPDX-License-Identifier: Apache-2.0 */
/* The conversation with a tenant's shim, honest or not, over a socket pair; no shim is started. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "gate/gate.h"
#include "daemon/state/shims.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

static struct daemon *daemon_;
static struct tenant *tenant;
static int theirs; /* the shim's end; the daemon owns the other */
static int ours;
static pid_t living; /* a process that looks like a shim's */

static int set_up(void **state)
{
        int ends[2];

        (void)state;
        daemon_ = fake_daemon_new();
        fake_daemon_turn(daemon_);
        tenant = fake_tenant_put(daemon_, "chat", 7, 10, 300);
        control_block_unmap(tenant->control);
        tenant->control = NULL;
        tenant->state = TENANT_AWAITED;
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
        ours = ends[0];
        theirs = ends[1];
        living = 0;
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        if (living) {
                (void)kill(living, SIGKILL);
                (void)waitpid(living, NULL, 0);
        }
        shims_leave(daemon_);
        closep(&theirs);
        (void)loop_free(daemon_->loop);
        fake_daemon_free(daemon_);
        return 0;
}

/* This program, started again as a shim: it waits to be killed. */
static pid_t start_living(void)
{
        char program[] = "/proc/self/exe", verb[] = "keeper";
        char *argv[] = { program, verb, NULL }, path[64];
        ssize_t n = 0;

        assert_int_equal(posix_spawn(&living, program, NULL, NULL, argv, environ), 0);
        (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", living);
        for (int i = 0; i < 1000 && n <= 0; i++) { /* empty at first: the kernel sets it after the spawn has returned */
                int fd = open(path, O_RDONLY | O_CLOEXEC);

                n = read(fd, path + 32, 8);
                (void)close(fd);
                (void)usleep(1000);
        }
        return living;
}

static json_t *hello_body(const struct message_lease *lease)
{
        json_t *body = message_new("hello");

        (void)json_object_set_new(body, "lease", message_lease_new(lease));
        return body;
}

/* Delivers a hello with that descriptor, as an accepted connection would. */
static int returns(json_t *body, int fd, pid_t process)
{
        struct message message;
        int ends[2], r;

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        assert_int_equal(message_send(ends[0], body, &fd, fd >= 0), MESSAGE_OK);
        assert_int_equal(message_receive(ends[1], &message), MESSAGE_OK);
        r = shims_return(daemon_, &message, ours, process);
        message_done(&message);
        (void)close(ends[0]);
        (void)close(ends[1]);
        return r;
}

/* A control block that says whose it is. */
static int block(const char *name, pid_t shim)
{
        struct control_block *control = NULL;
        int fd = -1;

        assert_int_equal(control_block_new(name, 7, FAKE_DEVICES, &control, &fd), 0);
        control->shim = shim;
        control_block_unmap(control);
        return fd;
}

static void come_back(pid_t shim)
{
        int fd = block("chat", shim);

        assert_int_equal(returns(hello_body(&tenant->lease), fd, shim), 0);
        (void)close(fd);
        assert_int_equal(tenant->state, TENANT_RUNNING);
}

static void sends(json_t *body)
{
        assert_int_equal(message_send(theirs, body, NULL, 0), MESSAGE_OK);
        fake_daemon_turn(daemon_);
}

static json_t *event(const char *name)
{
        json_t *body = message_new("event");

        (void)json_object_set_new(body, "name", json_string(name));
        (void)json_object_set_new(body, "process", json_integer(99));
        (void)json_object_set_new(body, "text", json_string("it\nasked"));
        return body;
}

static void a_shim_that_comes_back_makes_its_tenant_run(void **state)
{
        struct message message;

        (void)state;
        come_back(getpid());
        assert_int_equal(tenant->shim, getpid());
        assert_int_equal(tenant->control->devices[0].share, 300);
        assert_true(tenant->control->heartbeat);
        assert_int_equal(message_receive(theirs, &message), MESSAGE_E_NONE);
        assert_int_equal(fake_events(daemon_, "TENANT_STARTED"), 0); /* it had started under another daemon */
}

static void a_change_that_was_not_delivered_is_sent_when_the_shim_is_back(void **state)
{
        struct message_lease older = tenant->lease;
        int fd = block("chat", getpid());
        struct message message;

        (void)state;
        older.share = 100;
        assert_int_equal(returns(hello_body(&older), fd, getpid()), 0);
        (void)close(fd);
        assert_int_equal(message_receive(theirs, &message), MESSAGE_OK);
        assert_string_equal(message_type(&message), "set");
        assert_int_equal(message_number(message.body, "share", 0), 300);
        message_done(&message);
}

static void a_shim_of_another_daemon_is_taken_in(void **state)
{
        struct message_lease lease = tenant->lease;
        int fd = block("other", getpid());
        struct tenant *other;

        (void)state;
        lease.id = 0;
        (void)strcpy(lease.tenant, "other");
        assert_int_equal(returns(hello_body(&lease), fd, getpid()), 0);
        (void)close(fd);
        other = tenants_find(&daemon_->tenants, "other");
        assert_non_null(other);
        assert_int_equal(other->state, TENANT_RUNNING);
        assert_true(other->lease.id);
}

static void a_hello_that_does_not_fit_its_tenant_is_refused(void **state)
{
        struct message_lease lease = tenant->lease;
        int right = block("chat", getpid()), wrong = block("chat", getpid() + 1), named = block("other", getpid());
        int unsealed = memfd_create("t", MFD_CLOEXEC);

        (void)state;
        assert_int_equal(ftruncate(unsealed, sizeof(struct control_block)), 0);
        assert_true(returns(message_new("hello"), right, getpid()) < 0); /* no lease */
        assert_true(returns(message_new("ended"), right, getpid()) < 0);
        assert_true(returns(hello_body(&lease), -1, getpid()) < 0);
        assert_true(returns(hello_body(&lease), wrong, getpid()) < 0);
        assert_true(returns(hello_body(&lease), named, getpid()) < 0);
        assert_true(returns(hello_body(&lease), unsealed, getpid()) < 0);
        assert_true(returns(hello_body(&lease), theirs, getpid()) < 0); /* not even a file */
        (void)strcpy(lease.tenant, "other");                            /* under chat's number */
        assert_true(returns(hello_body(&lease), named, getpid()) < 0);
        lease.id = 77; /* or under none of ours, but with a name that is taken */
        (void)strcpy(lease.tenant, "chat");
        assert_true(returns(hello_body(&lease), right, getpid()) < 0);
        tenant->shim = getpid() + 1; /* another process than the one that served it */
        assert_true(returns(hello_body(&tenant->lease), right, getpid()) < 0);
        assert_int_equal(tenant->state, TENANT_AWAITED);
        assert_int_equal(daemon_->tenants.n, 1);
        (void)close(right), (void)close(wrong), (void)close(named), (void)close(unsealed), (void)close(ours);
}

static void a_shim_that_hangs_up_and_is_gone_ends_its_tenant(void **state)
{
        (void)state;
        come_back(getpid()); /* our own command line is no shim's */
        closep(&theirs);
        fake_daemon_turn(daemon_);
        assert_int_equal(daemon_->tenants.n, 0);
        assert_int_equal(fake_events(daemon_, "KEEPER_DIED"), 1);
        assert_int_equal(fake_events(daemon_, "TENANT_ENDED"), 1);
}

static void a_shim_that_hangs_up_and_lives_is_awaited_until_it_is_gone(void **state)
{
        (void)state;
        come_back(start_living());
        closep(&theirs);
        fake_daemon_turn(daemon_);
        assert_int_equal(tenant->state, TENANT_AWAITED);
        tenant->state_since -= 3600 * NSEC_PER_SEC;
        shims_tick(daemon_);
        assert_int_equal(daemon_->tenants.n, 1); /* as long as it lives */
        (void)kill(living, SIGKILL);
        (void)waitpid(TAKE(living), NULL, 0);
        shims_tick(daemon_);
        assert_int_equal(daemon_->tenants.n, 0);
        assert_int_equal(fake_events(daemon_, "KEEPER_DIED"), 1);
}

static void a_shim_whose_last_message_is_ended_has_not_died(void **state)
{
        json_t *body = message_new("ended");

        (void)state;
        come_back(getpid());
        (void)json_object_set_new(body, "report", json_pack("{s:i}", "x", 1));
        assert_int_equal(message_send(theirs, body, NULL, 0), MESSAGE_OK);
        closep(&theirs);
        fake_daemon_turn(daemon_);
        assert_int_equal(daemon_->tenants.n, 0);
        assert_int_equal(fake_events(daemon_, "KEEPER_DIED"), 0);
        assert_int_equal(fake_events(daemon_, "TENANT_ENDED"), 1);
}

static void a_started_shim_that_says_nothing_is_killed_after_half_a_minute(void **state)
{
        int status = 0;

        (void)state;
        (void)close(ours);
        tenant->shim = start_living();
        tenant->state = TENANT_STARTED;
        tenant->state_since = clock_now() - 29 * NSEC_PER_SEC;
        shims_tick(daemon_);
        assert_int_equal(daemon_->tenants.n, 1);
        tenant->state_since -= 2 * NSEC_PER_SEC;
        shims_tick(daemon_);
        assert_int_equal(daemon_->tenants.n, 0);
        assert_int_equal(waitpid(TAKE(living), &status, 0) > 0 && WIFSIGNALED(status), 1);
}

static void a_flood_of_events_becomes_one_a_second_that_counts_the_others(void **state)
{
        (void)state;
        come_back(getpid());
        for (int i = 0; i < 5; i++)
                sends(event("QUOTA_REFUSED"));
        assert_int_equal(fake_events(daemon_, "QUOTA_REFUSED"), 1);
        assert_string_equal(fake_latest_detail(daemon_), "process 99: it?asked"); /* no line of its own in the log */
        sends(event("DENIED"));
        assert_int_equal(fake_events(daemon_, "DENIED"), 1); /* each kind by itself */
        tenant->events[EVENT_QUOTA_REFUSED].at -= 2 * NSEC_PER_SEC;
        sends(event("QUOTA_REFUSED"));
        assert_int_equal(fake_events(daemon_, "QUOTA_REFUSED"), 2);
        assert_non_null(strstr(fake_latest_detail(daemon_), "(and 4 more before)"));
}

static void what_is_no_message_or_an_unknown_one_is_ignored(void **state)
{
        (void)state;
        come_back(getpid());
        assert_int_equal(send(theirs, "\"not an object\"", 15, 0), 15);
        assert_int_equal(send(theirs, "{\"v\":0}", 7, 0), 7);
        fake_daemon_turn(daemon_);
        sends(message_new("nonsense"));
        sends(event("NO_SUCH_EVENT"));
        sends(message_new("event"));
        assert_int_equal(tenant->state, TENANT_RUNNING);
        assert_int_equal(daemon_->event_id, 0);
}

static void a_second_hello_that_does_not_fit_ends_the_connection(void **state)
{
        (void)state;
        come_back(start_living());
        sends(hello_body(&tenant->lease)); /* without a control block */
        assert_int_equal(tenant->source.fd, -1);
        assert_int_equal(tenant->state, TENANT_AWAITED);
}

static void a_change_is_done_when_the_shim_says_so(void **state)
{
        json_t *refused = message_new("changed"), *done = message_new("changed");

        (void)state;
        come_back(getpid());
        assert_int_equal(shims_set(tenant), 0);
        assert_int_equal(tenant->set_asked, 1);
        (void)json_object_set_new(refused, "serial", json_integer(1));
        (void)json_object_set_new(refused, "ok", json_false());
        (void)json_object_set_new(refused, "text", json_string("no"));
        sends(refused);
        assert_int_equal(tenant->set_done, 1);
        assert_string_equal(tenant->set_text, "no");
        (void)json_object_set_new(done, "serial", json_integer(1));
        sends(done);
        assert_string_equal(tenant->set_text, "");
}

static void a_shim_that_does_not_read_keeps_nobody_waiting(void **state)
{
        _cleanup_(closep) int listener = eventfd(0, EFD_CLOEXEC);
        uint64_t n = 0;
        int r;

        (void)state;
        assert_int_equal(shims_end(tenant), -ENOTCONN);
        assert_int_equal(shims_join(tenant, listener), SHIMS_E_LATER);
        come_back(getpid());
        while ((r = shims_set(tenant)) == 0)
                n++;
        assert_int_equal(r, -EAGAIN);
        assert_int_equal(tenant->set_asked, n); /* the one that was not sent has no serial */
        assert_int_equal(shims_join(tenant, listener), SHIMS_E_LATER);
        assert_true(shims_end(tenant) < 0);
        closep(&theirs);
        assert_int_equal(shims_join(tenant, listener), SHIMS_E_LATER);
}

static void recovery_ends_when_nobody_is_awaited_or_after_ten_seconds(void **state)
{
        (void)state;
        (void)close(ours);
        tenant->shim = 0;
        daemon_->is_recovering = true;
        daemon_->since = clock_realtime();
        shims_tick(daemon_);
        assert_true(daemon_->is_recovering);
        daemon_->since -= 11 * NSEC_PER_SEC;
        shims_tick(daemon_);
        assert_false(daemon_->is_recovering);
        assert_string_equal(fake_latest_detail(daemon_), "1 tenants, 1 still awaited");
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(a_shim_that_comes_back_makes_its_tenant_run),
                TEST(a_change_that_was_not_delivered_is_sent_when_the_shim_is_back),
                TEST(a_shim_of_another_daemon_is_taken_in),
                TEST(a_hello_that_does_not_fit_its_tenant_is_refused),
                TEST(a_shim_that_hangs_up_and_is_gone_ends_its_tenant),
                TEST(a_shim_that_hangs_up_and_lives_is_awaited_until_it_is_gone),
                TEST(a_shim_whose_last_message_is_ended_has_not_died),
                TEST(a_started_shim_that_says_nothing_is_killed_after_half_a_minute),
                TEST(a_flood_of_events_becomes_one_a_second_that_counts_the_others),
                TEST(what_is_no_message_or_an_unknown_one_is_ignored),
                TEST(a_second_hello_that_does_not_fit_ends_the_connection),
                TEST(a_change_is_done_when_the_shim_says_so),
                TEST(a_shim_that_does_not_read_keeps_nobody_waiting),
                TEST(recovery_ends_when_nobody_is_awaited_or_after_ten_seconds),
        };

        if (argc > 1 && !strcmp(argv[1], "keeper"))
                return pause();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
