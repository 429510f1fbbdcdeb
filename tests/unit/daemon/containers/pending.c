/* SPDX-License-Identifier: Apache-2.0 */
/* Containers on their way to a lease: asked for by a hook, by their listener, by both; a shim is never started here. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "daemon/containers/pending.h"
#include "oci/profile.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

static struct daemon *daemon_;
static struct oci_container container;
static struct err err;

static struct {
        struct pending_asker asker;
        unsigned int n;
        int r;
        const struct tenant *tenant;
} hook;

static void on_answer(struct pending_asker *asker, int r, const struct tenant *tenant, const char *why)
{
        assert_ptr_equal(asker, &hook.asker);
        assert_true(r == 0 || (why && *why));
        hook.n++;
        hook.r = r;
        hook.tenant = tenant;
}

static int set_up(void **state)
{
        (void)state;
        daemon_ = fake_daemon_new();
        daemon_->settings.patience = 3600 * NSEC_PER_SEC;
        fake_daemon_turn(daemon_);
        memset(&hook, 0, sizeof(hook));
        hook.asker.answer = on_answer;
        memset(&err, 0, sizeof(err));
        container = (struct oci_container){
                .id = "c1", .status = "creating", .pod = "u1", .namespace = "shop", .name = "web-0", .container = "main"
        };
        profile_sign(daemon_->backend.release, container.metadata);
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        pending_close(daemon_);
        (void)loop_free(daemon_->loop);
        fake_daemon_free(daemon_);
        return 0;
}

static void allocate(void)
{
        struct allocation *row = daemon_->allocations.rows = calloc(1, sizeof(*row));

        *row = (struct allocation){ .pod = "u1", .container = "main", .memory = { 8 * GIB } };
        daemon_->allocations.n = 1;
}

static int ask(const struct tenant **ret)
{
        return pending_ask(daemon_, &container, 0, &hook.asker, ret, &err);
}

/* A descriptor in the place of a listener; the daemon's from here on. */
static int comes(void)
{
        int listener = eventfd(0, EFD_CLOEXEC);

        pending_listener(daemon_, &container, 0, listener);
        return listener;
}

static bool is_open(int fd)
{
        return fcntl(fd, F_GETFD) >= 0;
}

static void an_allocated_container_is_granted_its_lease_which_returns_when_it_stops(void **state)
{
        const struct tenant *tenant = NULL;

        (void)state;
        allocate();
        assert_int_equal(ask(&tenant), 0);
        assert_string_equal(tenant->lease.container.id, "c1");
        assert_int_equal(tenant->lease.devices[0].quota, 8 * GIB);
        pending_drop(daemon_, "another");
        assert_int_equal(daemon_->tenants.n, 1);
        pending_drop(daemon_, "c1");
        assert_int_equal(daemon_->tenants.n, 0);
        assert_int_equal(daemon_->n_pending, 0);
}

static void a_hook_waits_for_an_allocation_that_comes_later(void **state)
{
        const struct tenant *tenant = NULL;

        (void)state;
        assert_int_equal(ask(&tenant), PENDING_E_LATER);
        pending_tick(daemon_, clock_now());
        assert_int_equal(hook.n, 0);
        allocate();
        pending_tick(daemon_, clock_now());
        pending_tick(daemon_, clock_now());
        assert_int_equal(hook.n, 1);
        assert_int_equal(hook.r, 0);
        assert_string_equal(hook.tenant->lease.tenant, "shop.web-0.main");
}

static void without_an_allocation_a_hook_is_refused_when_patience_is_over(void **state)
{
        const struct tenant *tenant = NULL;

        (void)state;
        assert_int_equal(ask(&tenant), PENDING_E_LATER);
        daemon_->settings.patience = 0;
        pending_tick(daemon_, clock_now());
        assert_int_equal(hook.n, 1);
        assert_int_equal(hook.r, -EPERM);
        assert_int_equal(daemon_->n_pending, 0);
        assert_int_equal(fake_events(daemon_, "LEASE_REFUSED"), 1);
}

static void a_hook_that_left_gets_no_answer_and_the_lease_is_kept(void **state)
{
        const struct tenant *tenant = NULL;

        (void)state;
        assert_int_equal(ask(&tenant), PENDING_E_LATER);
        pending_forget(daemon_, &hook.asker);
        allocate();
        pending_tick(daemon_, clock_now());
        assert_int_equal(hook.n, 0);
        assert_int_equal(daemon_->tenants.n, 1);
}

static void a_container_that_ends_while_it_waits_is_forgotten(void **state)
{
        const struct tenant *tenant = NULL;

        (void)state;
        container.pid = fork();
        if (!container.pid)
                _exit(0);
        assert_int_equal(ask(&tenant), PENDING_E_LATER);
        for (int i = 0; i < 1000 && daemon_->n_pending; i++)
                fake_daemon_turn(daemon_);
        (void)waitpid(container.pid, NULL, 0);
        assert_int_equal(daemon_->n_pending, 0);
        assert_int_equal(hook.r, -ESRCH);
}

static void a_lease_is_kept_for_as_long_as_the_containers_first_process_is_there(void **state)
{
        const struct tenant *tenant = NULL;

        (void)state;
        allocate();
        container.pid = fork();
        while (!container.pid)
                pause();
        assert_int_equal(ask(&tenant), 0);
        pending_tick(daemon_, clock_now() + 3600 * NSEC_PER_SEC);
        assert_int_equal(daemon_->tenants.n, 1);
        (void)kill(container.pid, SIGKILL);
        for (int i = 0; i < 1000 && daemon_->n_pending; i++)
                fake_daemon_turn(daemon_);
        (void)waitpid(container.pid, NULL, 0);
        assert_int_equal(daemon_->tenants.n, 0);
}

static void a_lease_of_a_container_whose_first_process_is_not_known_is_kept_for_a_minute(void **state)
{
        const struct tenant *tenant = NULL;

        (void)state;
        allocate();
        assert_int_equal(ask(&tenant), 0);
        pending_tick(daemon_, clock_now() + 59 * NSEC_PER_SEC);
        assert_int_equal(daemon_->tenants.n, 1);
        pending_tick(daemon_, clock_now() + 61 * NSEC_PER_SEC);
        assert_int_equal(daemon_->tenants.n, 0);
}

static void a_gpu_without_a_lease_is_refused_and_a_container_that_wants_none_may_start(void **state)
{
        const struct tenant *tenant = NULL;

        (void)state;
        container.pod[0] = '\0'; /* nobody's but the runtime's; its config cannot be read */
        assert_true(ask(&tenant) < 0);
        assert_int_equal(fake_events(daemon_, "LEASE_REFUSED"), 1);
        container.is_sandbox = true; /* a pause container, whatever it was given */
        (void)strcpy(container.pod, "u1");
        assert_int_equal(ask(&tenant), -EPERM);
        assert_int_equal(daemon_->n_pending, 0);
}

static void a_listener_for_another_driver_is_closed(void **state)
{
        int listener;

        (void)state;
        allocate();
        profile_sign("1.2.3", container.metadata);
        listener = comes();
        assert_false(is_open(listener));
        container.metadata[0] = '\0';
        listener = comes();
        assert_false(is_open(listener));
        assert_int_equal(fake_events(daemon_, "LEASE_REFUSED"), 2);
        assert_int_equal(daemon_->tenants.n, 0);
}

static void a_second_listener_of_a_container_is_closed_and_the_first_one_waits_on(void **state)
{
        int first, second;

        (void)state;
        first = comes();
        assert_true(is_open(first));
        second = comes();
        assert_false(is_open(second));
        assert_true(is_open(first));
        assert_int_equal(daemon_->n_pending, 1);
        daemon_->settings.patience = 0;
        pending_tick(daemon_, clock_now());
        assert_false(is_open(first));
        assert_int_equal(daemon_->n_pending, 0);
}

static void a_process_put_into_a_container_joins_its_tenant(void **state)
{
        struct tenant *tenant = fake_tenant_put(daemon_, "web", 0, 8, 0);
        struct message message;
        int ends[2], listener;

        (void)state;
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
        tenant->source.fd = ends[0];
        (void)strcpy(tenant->lease.container.id, "c1");
        container.pid = 10, container.process = 11;
        listener = comes();
        assert_false(is_open(listener)); /* the shim has a copy */
        assert_int_equal(message_receive(ends[1], &message), MESSAGE_OK);
        assert_string_equal(message_type(&message), "join");
        assert_int_equal(message.n_fds, 1);
        message_done(&message);
        assert_int_equal(daemon_->n_pending, 0);
        (void)close(ends[0]), (void)close(ends[1]);
}

static void a_process_put_into_a_container_without_a_tenant_has_no_gpu(void **state)
{
        int listener;

        (void)state;
        allocate(); /* the container's, not this process's */
        container.pid = 10, container.process = 11;
        listener = comes();
        assert_false(is_open(listener));
        assert_int_equal(daemon_->tenants.n, 0);
        assert_int_equal(daemon_->n_pending, 0);
}

static void more_containers_than_a_node_starts_are_refused(void **state)
{
        const struct tenant *tenant = NULL;
        int i = 0, r;

        (void)state;
        do
                (void)snprintf(container.id, sizeof(container.id), "c%d", i);
        while ((r = ask(&tenant)) == PENDING_E_LATER && ++i < 1000);
        assert_int_equal(i, 512);
        assert_int_equal(r, -EBUSY);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(an_allocated_container_is_granted_its_lease_which_returns_when_it_stops),
                TEST(a_hook_waits_for_an_allocation_that_comes_later),
                TEST(without_an_allocation_a_hook_is_refused_when_patience_is_over),
                TEST(a_hook_that_left_gets_no_answer_and_the_lease_is_kept),
                TEST(a_container_that_ends_while_it_waits_is_forgotten),
                TEST(a_lease_is_kept_for_as_long_as_the_containers_first_process_is_there),
                TEST(a_lease_of_a_container_whose_first_process_is_not_known_is_kept_for_a_minute),
                TEST(a_gpu_without_a_lease_is_refused_and_a_container_that_wants_none_may_start),
                TEST(a_listener_for_another_driver_is_closed),
                TEST(a_second_listener_of_a_container_is_closed_and_the_first_one_waits_on),
                TEST(a_process_put_into_a_container_joins_its_tenant),
                TEST(a_process_put_into_a_container_without_a_tenant_has_no_gpu),
                TEST(more_containers_than_a_node_starts_are_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
