/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tenants, and who is let in. */
#include "unit.h"

#include "daemon/fake_daemon.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "daemon/state/goals.h"
#include "daemon/state/mig.h"
#include "daemon/state/admit.h"

#include <stdio.h>
#include <sys/socket.h>

static int set_up(void **state)
{
        *state = fake_daemon_new();
        return 0;
}

static int tear_down(void **state)
{
        fake_daemon_free(*state);
        return 0;
}

static struct message_lease lease_of(bytes gib, permille share)
{
        struct message_lease lease = { .share = share, .cap = TURNS_WHOLE };

        lease.devices[0].is_granted = true;
        lease.devices[0].quota = gib * GIB;
        return lease;
}

static struct message_lease group_of(uid_t owner)
{
        struct message_lease lease = lease_of(1, 0);

        lease.owner = owner;
        (void)snprintf(lease.group, sizeof(lease.group), "chat");
        return lease;
}

static void the_number_of_a_group_is_never_0_nor_anothers_and_refused_ones_spend_none(void **state)
{
        struct tenants *tenants = &((struct daemon *)*state)->tenants;
        struct message_lease one = group_of(1), two = group_of(2), three = group_of(3);
        struct tenant *tenant;

        for (int i = 0; i < 3; i++)
                assert_int_equal(tenants_team(tenants, &one), 1); /* asked for, and refused for something else */
        one.team = tenants_team(tenants, &one);
        assert_int_equal(tenants_put(tenants, &one, &tenant), 0);
        assert_int_equal(tenants_team(tenants, &one), 1); /* its next tenant */
        tenants_spend_team(tenants, UINT32_MAX / 2);
        tenants_spend_team(tenants, UINT32_MAX / 4 * 3);
        tenants_spend_team(tenants, UINT32_MAX);
        two.team = tenants_team(tenants, &two);
        assert_int_equal(two.team, 2);
        assert_int_equal(tenants_put(tenants, &two, &tenant), 0);
        assert_int_equal(tenants_team(tenants, &three), 3);
        tenants_spend_team(tenants, 1); /* an old one: no step back */
        assert_int_equal(tenants_team(tenants, &three), 3);
}

/* Whoever is root of the machine makes containers of all namespaces. */
static void containers_are_in_no_group_of_processes_nor_of_another_namespace(void **state)
{
        struct tenants *tenants = &((struct daemon *)*state)->tenants;
        struct message_lease of[] = { group_of(0), group_of(0), group_of(0), group_of(0), group_of(0) };
        static const uint32_t expected[] = { 1, 2, 3, 2, 3 };
        static const char *const ids[] = { "", "c1", "c2", "c3", "c4" };
        static const char *const namespaces[] = { "", "", "shop", "", "shop" };
        struct tenant *tenant;

        for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
                (void)snprintf(of[i].container.id, sizeof(of[i].container.id), "%s", ids[i]);
                (void)snprintf(of[i].container.namespace, sizeof(of[i].container.namespace), "%s", namespaces[i]);
                (void)snprintf(of[i].tenant, sizeof(of[i].tenant), "t%zu", i);
                of[i].team = tenants_team(tenants, &of[i]);
                assert_int_equal(of[i].team, expected[i]);
                assert_int_equal(tenants_put(tenants, &of[i], &tenant), 0);
        }
}

static void quotas_never_exceed_the_device_unless_overcommitted(void **state)
{
        struct daemon *daemon = *state;
        struct message_lease fits = lease_of(40, 0), not = lease_of(41, 0), never = lease_of(101, 0);
        struct err err = { 0 };

        (void)fake_tenant_put(daemon, "a", 1, 60, 0);
        assert_int_equal(tenants_fit(&daemon->tenants, &fits, NULL, &err), 0);
        assert_int_equal(tenants_fit(&daemon->tenants, &not, NULL, &err), TENANTS_E_NO_ROOM);
        assert_non_null(strstr(err.text, "40 GiB are free"));
        daemon->tenants.overcommits = true;
        assert_int_equal(tenants_fit(&daemon->tenants, &not, NULL, &err), 0);
        assert_int_equal(tenants_fit(&daemon->tenants, &never, NULL, &err), TENANTS_E_NO_ROOM);
}

static void shares_never_exceed_the_whole(void **state)
{
        struct daemon *daemon = *state;
        struct message_lease fits = lease_of(1, 300), not = lease_of(1, 301);
        struct err err = { 0 };

        (void)fake_tenant_put(daemon, "a", 1, 1, 700);
        assert_int_equal(tenants_fit(&daemon->tenants, &fits, NULL, &err), 0);
        assert_int_equal(tenants_fit(&daemon->tenants, &not, NULL, &err), TENANTS_E_NO_ROOM);
        assert_non_null(strstr(err.text, "30%"));
}

/* 6 ms is the least for 50 % beside one other, 14 ms for 25 % of four. */
static void goals_are_promised_that_can_be_kept_beside_each_other(void **state)
{
        struct daemon *daemon = *state;
        struct message_lease kept = lease_of(1, 500), not = lease_of(1, 500), third = lease_of(1, 0);
        struct tenant *a = fake_tenant_put(daemon, "a", 1, 1, 500);
        struct err err = { 0 };

        kept.goal = 6 * NSEC_PER_MSEC;
        not .goal = 6 * NSEC_PER_MSEC - 1;
        assert_int_equal(goals_fit(&daemon->tenants, &kept, NULL, &err), 0);
        assert_int_equal(goals_fit(&daemon->tenants, &not, NULL, &err), TENANTS_E_NO_ROOM);
        assert_non_null(strstr(err.text, "6 ms at least"));

        a->lease.goal = 7 * NSEC_PER_MSEC; /* with a third it is 8 ms at least */
        assert_int_equal(goals_fit(&daemon->tenants, &kept, NULL, &err), 0);
        (void)fake_tenant_put(daemon, "b", 1, 1, 0);
        assert_int_equal(goals_fit(&daemon->tenants, &third, NULL, &err), TENANTS_E_NO_ROOM);
        assert_non_null(strstr(err.text, "tenant a"));
        third.owner = a->lease.owner + 1;
        assert_int_equal(goals_fit(&daemon->tenants, &third, NULL, &err), TENANTS_E_NO_ROOM);
        assert_null(strstr(err.text, "tenant a "));
}

static void no_goal_beside_who_is_not_taken_off_for_it(void **state)
{
        struct daemon *daemon = *state;
        struct message_lease goal = lease_of(1, 500), job = lease_of(1, 0), inside = lease_of(1, 0);
        struct tenant *a = fake_tenant_put(daemon, "a", 1, 1, 500);
        struct err err = { 0 };

        goal.goal = NSEC_PER_SEC;
        (void)strcpy(job.job, "train");
        inside.enforcement = ENFORCEMENT_PRELOAD;
        assert_int_equal(goals_fit(&daemon->tenants, &job, NULL, &err), 0);
        assert_int_equal(goals_fit(&daemon->tenants, &inside, NULL, &err), 0);
        a->lease.goal = NSEC_PER_SEC;
        assert_int_equal(goals_fit(&daemon->tenants, &job, NULL, &err), TENANTS_E_NO_ROOM);
        assert_int_equal(goals_fit(&daemon->tenants, &inside, NULL, &err), TENANTS_E_NO_ROOM);
        assert_int_equal(goals_fit(&daemon->tenants, &goal, NULL, &err), 0);
        (void)strcpy(a->lease.job, "train");
        assert_int_equal(goals_fit(&daemon->tenants, &goal, NULL, &err), TENANTS_E_NO_ROOM);
}

static void a_goal_needs_a_share_and_turns(void **state)
{
        struct daemon *daemon = *state;
        struct message_lease lease = lease_of(1, 0);
        struct err err = { 0 };

        assert_int_equal(goals_check(daemon, &lease, &err), 0);
        lease.goal = NSEC_PER_SEC;
        assert_int_equal(goals_check(daemon, &lease, &err), -EINVAL);
        assert_non_null(strstr(err.text, "--share"));
        lease.share = 500;
        lease.cap = 600;
        assert_int_equal(goals_check(daemon, &lease, &err), -EINVAL);
        assert_non_null(strstr(err.text, "leave --cap out"));
        lease.cap = TURNS_WHOLE;
        lease.class = TURNS_BATCH;
        assert_int_equal(goals_check(daemon, &lease, &err), -EINVAL);
        assert_non_null(strstr(err.text, "leave --class out"));
}

static void a_change_is_measured_without_what_it_replaces(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *a = fake_tenant_put(daemon, "a", 1, 60, 700);
        struct message_lease larger = lease_of(70, 1000), not = lease_of(71, 0);
        struct err err;

        (void)fake_tenant_put(daemon, "b", 1, 30, 0);
        assert_int_equal(tenants_fit(&daemon->tenants, &larger, a, &err), 0);
        assert_int_equal(tenants_fit(&daemon->tenants, &not, a, &err), TENANTS_E_NO_ROOM);
}

static void who_asked_for_no_share_gets_an_equal_part_of_the_rest(void **state)
{
        struct daemon *daemon = *state;
        struct tenant *a = fake_tenant_put(daemon, "a", 1, 1, 400), *b = fake_tenant_put(daemon, "b", 1, 1, 0), *c;

        assert_int_equal(a->share, 400);
        assert_int_equal(b->share, 600);
        c = fake_tenant_put(daemon, "c", 1, 1, 0);
        assert_int_equal(b->share, 300);
        assert_int_equal(c->share, 300);
        assert_int_equal(b->control->devices[0].share, 300);
        a->lease.share = 1000;
        assert_true(tenants_divide(&daemon->tenants));
        assert_int_equal(b->share, 1); /* never nothing */
        assert_false(tenants_divide(&daemon->tenants));
}

static void nothing_is_leased_on_a_lost_device(void **state)
{
        struct daemon *daemon = *state;
        struct message_lease lease = lease_of(1, 0);
        struct err err;

        device_lose(&daemon->devices[0]);
        assert_int_equal(tenants_fit(&daemon->tenants, &lease, NULL, &err), TENANTS_E_DEVICE_LOST);
        lease.devices[0].is_granted = false;
        lease.devices[1].is_granted = true;
        assert_int_equal(tenants_fit(&daemon->tenants, &lease, NULL, &err), 0);
}

static void a_name_that_was_chosen_is_taken_or_refused(void **state)
{
        struct message_request request = { .is_named = true, .tenant = "chat", .command = "python3" };
        struct daemon *daemon = *state;
        char name[64];
        struct err err;

        assert_int_equal(tenants_name(&daemon->tenants, &request, name, &err), 0);
        assert_string_equal(name, "chat");
        (void)fake_tenant_put(daemon, "chat", 1, 1, 0);
        assert_int_equal(tenants_name(&daemon->tenants, &request, name, &err), TENANTS_E_NAME_TAKEN);
        (void)strcpy(request.tenant, "a/b");
        assert_int_equal(tenants_name(&daemon->tenants, &request, name, &err), TENANTS_E_BAD_NAME);
        assert_false(tenants_name_is_good(""));
        assert_false(tenants_name_is_good("-a"));
        assert_false(tenants_name_is_good("a b"));
        assert_true(tenants_name_is_good("0.a_b-C"));
}

static void a_name_from_the_command_gets_a_number_until_it_is_free(void **state)
{
        struct message_request request = { .tenant = "python3", .command = "python3" };
        struct daemon *daemon = *state;
        char name[64];
        struct err err;

        (void)fake_tenant_put(daemon, "python3", 1, 1, 0);
        assert_int_equal(tenants_name(&daemon->tenants, &request, name, &err), 0);
        assert_string_equal(name, "python3-2");
        (void)fake_tenant_put(daemon, "python3-2", 1, 1, 0);
        assert_int_equal(tenants_name(&daemon->tenants, &request, name, &err), 0);
        assert_string_equal(name, "python3-3");
        (void)strcpy(request.tenant, "[a b]");
        assert_int_equal(tenants_name(&daemon->tenants, &request, name, &err), 0);
        assert_string_equal(name, "ta_b_");
}

static void who_names_no_size_gets_what_nobody_has(void **state)
{
        struct message_request request = { .command = "x", .gpus = "0", .cap = TURNS_WHOLE };
        struct daemon *daemon = *state;
        struct tenant *tenant;
        struct err err = { 0 };

        (void)fake_tenant_put(daemon, "a", 1, 60, 0);
        assert_int_equal(admit(daemon, &request, 7, NULL, &tenant, &err), 0);
        assert_true(tenant->lease.devices[0].quota == 40 * GIB);
        assert_int_equal(tenant->lease.owner, 7);
        assert_false(tenant_has(tenant, 1));
        assert_int_equal(admit(daemon, &request, 7, NULL, &tenant, &err), -ENOSPC);
        assert_non_null(strstr(err.text, "sublet ps"));
}

static void a_name_is_free_when_its_shim_has_said_the_end(void **state)
{
        struct message_request request = { .tenant = "a", .is_named = true, .mem = "60G", .cap = TURNS_WHOLE };
        struct daemon *daemon = *state;
        struct tenant *a = fake_tenant_put(daemon, "a", 7, 60, 0), *tenant;
        struct err err = { 0 };
        int ends[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
        a->source.fd = ends[0];
        assert_int_equal(admit(daemon, &request, 7, NULL, &tenant, &err), -EEXIST);
        a->control->has_ended = 1;
        assert_int_equal(admit(daemon, &request, 7, NULL, &tenant, &err), -EEXIST);
        assert_int_equal(message_send(ends[1], message_new("ended"), NULL, 0), MESSAGE_OK);
        assert_int_equal(admit(daemon, &request, 7, NULL, &tenant, &err), 0);
        assert_int_equal(daemon->tenants.n, 1);
        (void)close(ends[1]);
}

static void only_root_gives_more_than_a_lease(void **state)
{
        struct message_request uncounted = { .command = "x", .mem = "1G", .managed = "allow", .cap = TURNS_WHOLE };
        struct message_request unseen = { .command = "x", .mem = "1G", .audit_ms = 3600000, .cap = TURNS_WHOLE };
        struct daemon *daemon = *state;
        struct tenant *tenant;
        struct err err = { 0 };

        assert_int_equal(admit(daemon, &uncounted, 7, NULL, &tenant, &err), -EPERM);
        assert_int_equal(admit(daemon, &unseen, 7, NULL, &tenant, &err), -EPERM);
        assert_int_equal(admit(daemon, &uncounted, 0, NULL, &tenant, &err), 0);
        assert_int_equal(admit(daemon, &unseen, daemon->uid, NULL, &tenant, &err), 0);
}

static void only_root_opens_a_tenant_to_others(void **state)
{
        struct message_request request = { .command = "x", .mem = "1G", .ipc_host = true, .cap = TURNS_WHOLE };
        struct daemon *daemon = *state;
        struct tenant *tenant;
        struct err err = { 0 };

        assert_int_equal(admit(daemon, &request, 7, NULL, &tenant, &err), -EPERM);
        assert_int_equal(admit(daemon, &request, 0, NULL, &tenant, &err), 0);
}

static void a_mode_that_is_not_offered_is_refused(void **state)
{
        struct message_request request = { .command = "x", .mem = "1G", .mode = "magic", .cap = TURNS_WHOLE };
        struct daemon *daemon = *state;
        struct tenant *tenant;
        struct err err = { 0 };

        assert_int_equal(admit(daemon, &request, 0, NULL, &tenant, &err), -EINVAL);
        assert_int_equal(daemon->tenants.n, 0);
}

static void a_device_is_shared_in_time_or_in_space_and_never_both(void **state)
{
        struct daemon *daemon = *state;
        struct message_lease lease = lease_of(1, 0);
        struct tenant *a = fake_tenant_put(daemon, "a", 1, 10, 0);
        struct err err = { 0 };

        (void)snprintf(lease.mode, sizeof(lease.mode), "spatial");
        assert_int_equal(tenants_fit(&daemon->tenants, &lease, NULL, &err), TENANTS_E_NO_ROOM);
        assert_non_null(strstr(err.text, "--mode spatial does not go beside"));
        assert_int_equal(tenants_fit(&daemon->tenants, &lease, a, &err), 0);
        (void)snprintf(a->lease.mode, sizeof(a->lease.mode), "spatial");
        assert_int_equal(tenants_fit(&daemon->tenants, &lease, NULL, &err), 0);
        lease.mode[0] = '\0';
        assert_int_equal(tenants_fit(&daemon->tenants, &lease, NULL, &err), TENANTS_E_NO_ROOM);
}

static void the_server_of_tenants_in_space_has_memory_too(void **state)
{
        struct message_request request = { .command = "x", .mode = "spatial", .gpus = "0", .cap = TURNS_WHOLE };
        struct daemon *daemon = *state;
        struct tenant *tenant;
        struct err err = { 0 };

        assert_int_equal(admit(daemon, &request, 0, NULL, &tenant, &err), 0);
        assert_int_equal(tenant->lease.devices[0].quota, 100 * GIB - MPS_RESERVE);
        assert_int_equal(tenants_leased(&daemon->tenants, 0, NULL), 100 * GIB);
}

static void tenants_in_space_lease_one_device_and_have_no_class(void **state)
{
        struct message_request request = { .command = "x", .mem = "1G", .mode = "spatial", .cap = TURNS_WHOLE };
        struct daemon *daemon = *state;
        struct tenant *tenant;
        struct err err = { 0 };

        if (daemon->n_devices > 1)
                assert_int_equal(admit(daemon, &request, 0, NULL, &tenant, &err), -EINVAL);
        (void)snprintf(request.gpus, sizeof(request.gpus), "0");
        request.class = TURNS_LATENCY;
        assert_int_equal(admit(daemon, &request, 0, NULL, &tenant, &err), -EINVAL);
        request.class = TURNS_NORMAL;
        assert_int_equal(admit(daemon, &request, 0, NULL, &tenant, &err), 0);
}

static void put_instances(struct daemon *daemon)
{
        static const struct gpu_instance first[] = { { "MIG-a", 1, 0, 20 * GIB }, { "MIG-b", 5, 0, 10 * GIB } },
                                         second[] = { { "MIG-c", 1, 0, 5 * GIB }, { "MIG-d", 1, 1, 5 * GIB } };

        memcpy(daemon->devices[0].instances, first, sizeof(first));
        memcpy(daemon->devices[1].instances, second, sizeof(second));
        daemon->devices[0].n_instances = daemon->devices[1].n_instances = 2;
}

static struct message_lease mig_lease(bytes gib, bool on_second)
{
        struct message_lease lease = lease_of(gib, 0);

        (void)snprintf(lease.mode, sizeof(lease.mode), "mig");
        lease.devices[1] = lease.devices[0];
        lease.devices[1].is_granted = on_second;
        return lease;
}

static void the_smallest_free_instance_that_holds_it_is_leased(void **state)
{
        struct message_lease any = mig_lease(100, true), first = mig_lease(100, false), large = mig_lease(8, true);
        struct daemon *daemon = *state;
        struct err err = { 0 };

        put_instances(daemon);
        assert_int_equal(mig_choose(daemon, &any, false, &err), 0);
        assert_string_equal(any.mig.uuid, "MIG-c");
        assert_false(any.devices[0].is_granted);
        assert_int_equal(any.devices[1].quota, 5 * GIB);
        assert_int_equal(mig_choose(daemon, &first, false, &err), 0);
        assert_string_equal(first.mig.uuid, "MIG-b");
        assert_int_equal(first.mig.gpu, 5);
        assert_int_equal(mig_choose(daemon, &large, true, &err), 0);
        assert_string_equal(large.mig.uuid, "MIG-b");
        assert_int_equal(large.devices[0].quota, 8 * GIB);
        assert_false(large.devices[1].is_granted);
        large.devices[0].quota = 11 * GIB;
        assert_int_equal(tenants_fit(&daemon->tenants, &large, NULL, &err), TENANTS_E_NO_ROOM);
}

static void a_gpu_instance_has_one_tenant(void **state)
{
        struct message_lease one = mig_lease(1, true), two = one, three = one, four = one;
        struct daemon *daemon = *state;
        struct tenant *tenant;
        struct err err = { 0 };

        put_instances(daemon);
        assert_int_equal(mig_choose(daemon, &one, true, &err), 0);
        assert_int_equal(tenants_put(&daemon->tenants, &one, &tenant), 0);
        assert_int_equal(mig_choose(daemon, &two, true, &err), 0);
        assert_string_equal(two.mig.uuid, "MIG-b"); /* not d: it shares memory with c; not c's number on device 0 */
        assert_int_equal(tenants_put(&daemon->tenants, &two, &tenant), 0);
        assert_int_equal(mig_choose(daemon, &three, true, &err), 0);
        assert_string_equal(three.mig.uuid, "MIG-a");
        assert_int_equal(tenants_put(&daemon->tenants, &three, &tenant), 0);
        assert_int_equal(mig_choose(daemon, &four, true, &err), -ENOSPC);
        assert_non_null(strstr(err.text, "all MIG instances are taken"));
}

static void what_no_free_instance_holds_is_refused_with_what_is_free(void **state)
{
        struct message_lease lease = mig_lease(21, false);
        struct daemon *daemon = *state;
        struct err err = { 0 };

        assert_int_equal(mig_choose(daemon, &lease, true, &err), -ENOSPC);
        assert_non_null(strstr(err.text, "no MIG instance is there"));
        put_instances(daemon);
        assert_int_equal(mig_choose(daemon, &lease, true, &err), -ENOSPC);
        assert_non_null(strstr(err.text, "free are: 20 GiB on device 0, 10 GiB on device 0;"));
}

static void an_instance_has_no_share_cap_or_class(void **state)
{
        struct message_lease share = mig_lease(1, true), cap = share, class = share;
        struct daemon *daemon = *state;
        struct err err = { 0 };

        put_instances(daemon);
        share.share = 300;
        cap.cap = 500;
        class.class = TURNS_LATENCY;
        assert_int_equal(mig_choose(daemon, &share, true, &err), -EINVAL);
        assert_int_equal(mig_choose(daemon, &cap, true, &err), -EINVAL);
        assert_int_equal(mig_choose(daemon, &class, true, &err), -EINVAL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(the_number_of_a_group_is_never_0_nor_anothers_and_refused_ones_spend_none),
                TEST(containers_are_in_no_group_of_processes_nor_of_another_namespace),
                TEST(quotas_never_exceed_the_device_unless_overcommitted),
                TEST(shares_never_exceed_the_whole),
                TEST(goals_are_promised_that_can_be_kept_beside_each_other),
                TEST(no_goal_beside_who_is_not_taken_off_for_it),
                TEST(a_goal_needs_a_share_and_turns),
                TEST(a_change_is_measured_without_what_it_replaces),
                TEST(who_asked_for_no_share_gets_an_equal_part_of_the_rest),
                TEST(nothing_is_leased_on_a_lost_device),
                TEST(a_name_that_was_chosen_is_taken_or_refused),
                TEST(a_name_from_the_command_gets_a_number_until_it_is_free),
                TEST(who_names_no_size_gets_what_nobody_has),
                TEST(a_name_is_free_when_its_shim_has_said_the_end),
                TEST(only_root_gives_more_than_a_lease),
                TEST(only_root_opens_a_tenant_to_others),
                TEST(a_mode_that_is_not_offered_is_refused),
                TEST(a_device_is_shared_in_time_or_in_space_and_never_both),
                TEST(the_server_of_tenants_in_space_has_memory_too),
                TEST(tenants_in_space_lease_one_device_and_have_no_class),
                TEST(the_smallest_free_instance_that_holds_it_is_leased),
                TEST(a_gpu_instance_has_one_tenant),
                TEST(what_no_free_instance_holds_is_refused_with_what_is_free),
                TEST(an_instance_has_no_share_cap_or_class),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
