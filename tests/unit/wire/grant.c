/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "lease/capabilities.h"
#include "wire/grant.h"

#include <errno.h>
#include <string.h>

/* Two devices, of 80 and 24 GiB. */
static struct lease machine(void)
{
        struct lease lease = { .n_devices = 2 };

        lease.devices[0].total = 80 * GIB;
        lease.devices[1].total = 24 * GIB;
        (void)strcpy(lease.devices[0].uuid, "GPU-7375626c-6574-4073-806d-000000000000");
        (void)strcpy(lease.devices[1].uuid, "GPU-7375626d-6574-4073-806d-000000000000");
        (void)strcpy(lease.devices[0].bus_id, "00000000:18:00.0");
        (void)strcpy(lease.devices[1].bus_id, "00000001:AF:00.0");
        return lease;
}

static int apply(struct grant grant, struct lease *lease, struct err *err)
{
        *lease = machine();
        *err = (struct err){ 0 };
        return grant_apply(&grant, lease, err);
}

static void a_device_whose_memory_is_a_node_of_the_host_is_not_granted(void **state)
{
        struct grant all = { 0 }, other = { .gpus = "1" }, it = { .gpus = "0" };
        struct lease lease = machine();
        struct err err = { 0 };

        (void)state;
        lease.devices[0].is_node = true;
        assert_int_equal(grant_apply(&all, &lease, &err), -EINVAL);
        assert_non_null(strstr(err.text, "device 0"));
        lease = machine();
        lease.devices[0].is_node = true;
        assert_int_equal(grant_apply(&it, &lease, &err), -EINVAL);
        lease = machine();
        lease.devices[0].is_node = true;
        assert_int_equal(grant_apply(&other, &lease, &err), 0);
}

static void without_options_the_whole_machine_is_granted(void **state)
{
        struct lease lease;
        struct err err;

        (void)state;
        assert_int_equal(apply((struct grant){ 0 }, &lease, &err), 0);
        assert_true(lease.devices[0].is_granted && lease.devices[1].is_granted);
        assert_int_equal(lease.devices[0].quota.size, 80 * GIB);
        assert_int_equal(lease.devices[1].quota.size, 24 * GIB);
        assert_int_equal(lease.managed, LEASE_MANAGED_CHARGE);
        assert_true(lease.host.size > 0);
        assert_true(lease.groups_max > 0 && lease.channels_max > 0);
}

static void a_size_holds_for_every_device(void **state)
{
        struct lease lease;
        struct err err;

        (void)state;
        assert_int_equal(apply((struct grant){ .memory = "8G" }, &lease, &err), 0);
        assert_int_equal(lease.devices[0].quota.size, 8 * GIB);
        assert_int_equal(lease.devices[1].quota.size, 8 * GIB);
}

static void a_bad_word_is_known_without_a_machine(void **state)
{
        static const struct {
                struct grant grant;
                const char *said; /* NULL: that it is bad only a machine can say */
        } cases[] = {
                { { .memory = "8" }, "did you mean 8G?" },
                { { .memory = "8X" }, "--mem 8X: '8X'" },
                { { .memory = "8G,1=4" }, "did you mean 4G?" },
                { { .memory = "0" }, "'0'" },
                { { .memory = "" }, "--mem" },
                { { .memory = "200%" }, "'200%': at most 100%" },
                { { .host = "8" }, "--host-mem 8" },
                { { .managed = "maybe" }, "--managed=maybe" },
                { { .capabilities = "compute,nvenc" }, "nvenc" },
                { { 0 }, NULL },
                { { .memory = "8G,7=900G,25%", .gpus = "9", .host = "999999999G" }, NULL },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct err err = { 0 };

                assert_int_equal(grant_check(&cases[i].grant, &err), cases[i].said ? -EINVAL : 0);
                if (cases[i].said)
                        assert_non_null(strstr(err.text, cases[i].said));
        }
}

static void a_percentage_is_of_the_device(void **state)
{
        struct lease lease;
        struct err err;

        (void)state;
        assert_int_equal(apply((struct grant){ .memory = "25%" }, &lease, &err), 0);
        assert_int_equal(lease.devices[0].quota.size, 20 * GIB);
        assert_int_equal(lease.devices[1].quota.size, 6 * GIB);
        assert_int_equal(apply((struct grant){ .memory = "101%" }, &lease, &err), -ERANGE);
}

static void a_device_is_named_by_its_uuid_or_its_pci_address(void **state)
{
        static const struct {
                const char *gpus;
                int device; /* -1: refused */
        } names[] = {
                { "GPU-7375626d-6574-4073-806d-000000000000", 1 },
                { "gpu-7375626c", 0 },
                { "00000000:18:00.0", 0 },
                { "0000:18:00.0", 0 },
                { "18:00.0", 0 },
                { "00000001:af:00.0", 1 },
                { "af:00.0", -1 }, /* of domain 0 */
                { "0000:af:00.0", -1 },
                { "0001:af:00.0", 1 },
                { "GPU-737562", -1 }, /* of both */
                { "GPU-", -1 },
                { "GPU-x", -1 },
                { "8:00.0", -1 },
                { "", -1 },
                { "000000000:18:00.0", -1 },
        };
        struct lease lease;
        struct err err;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                int r = apply((struct grant){ .gpus = names[i].gpus }, &lease, &err);

                assert_int_equal(r, names[i].device < 0 ? -EINVAL : 0);
                if (r == 0)
                        assert_true(lease.devices[names[i].device].is_granted &&
                                    !lease.devices[1 - names[i].device].is_granted);
        }
        assert_int_equal(apply((struct grant){ .memory = "8G,1:AF:00.0=1G" }, &lease, &err), -EINVAL);
        assert_int_equal(apply((struct grant){ .memory = "8G,GPU-7375626d=1G" }, &lease, &err), 0);
        assert_int_equal(lease.devices[1].quota.size, GIB);
}

static void a_device_may_have_a_size_of_its_own(void **state)
{
        struct lease lease;
        struct err err;

        (void)state;
        assert_int_equal(apply((struct grant){ .memory = "8G,1=512M" }, &lease, &err), 0);
        assert_int_equal(lease.devices[0].quota.size, 8 * GIB);
        assert_int_equal(lease.devices[1].quota.size, 512 * MIB);
        assert_int_equal(apply((struct grant){ .memory = "0=1G" }, &lease, &err), 0);
        assert_int_equal(lease.devices[0].quota.size, 1 * GIB);
        assert_int_equal(lease.devices[1].quota.size, 24 * GIB);
}

static void only_named_devices_are_granted(void **state)
{
        struct lease lease;
        struct err err;

        (void)state;
        assert_int_equal(apply((struct grant){ .gpus = "1", .memory = "24G" }, &lease, &err), 0);
        assert_false(lease.devices[0].is_granted);
        assert_true(lease.devices[1].is_granted);
        assert_int_equal(apply((struct grant){ .gpus = "0,1" }, &lease, &err), 0);
        assert_true(lease.devices[0].is_granted && lease.devices[1].is_granted);
        assert_int_equal(apply((struct grant){ .gpus = "all" }, &lease, &err), 0);
        assert_true(lease.devices[0].is_granted && lease.devices[1].is_granted);
}

static void more_than_a_device_has_is_refused_and_the_device_named(void **state)
{
        struct lease lease;
        struct err err;

        (void)state;
        assert_int_equal(apply((struct grant){ .memory = "25G" }, &lease, &err), -ERANGE);
        assert_non_null(strstr(err.text, "device 1 has (24 GiB)"));
        assert_int_equal(apply((struct grant){ .memory = "24G" }, &lease, &err), 0);
}

static void nonsense_is_refused_and_quoted(void **state)
{
        static const struct {
                struct grant grant;
                int error;
                const char *quotes;
        } cases[] = {
                { { .memory = "" }, -EINVAL, "--mem" },
                { { .memory = "8X" }, -EINVAL, "'8X'" },
                { { .memory = "8G," }, -EINVAL, "--mem 8G," },
                { { .memory = "-1" }, -EINVAL, "'-1'" },
                { { .memory = "0" }, -EINVAL, "'0'" },
                { { .memory = "2=8G" }, -EINVAL, "no device 2" },
                { { .memory = "x=8G" }, -EINVAL, "'x'" },
                { { .memory = "1=" }, -EINVAL, "--mem 1=" },
                { { .gpus = "" }, -EINVAL, "--gpu" },
                { { .gpus = "2" }, -EINVAL, "0 to 1" },
                { { .gpus = "0,,1" }, -EINVAL, "--gpu 0,,1" },
                { { .gpus = "99999999999999999999" }, -EINVAL, "--gpu" },
                { { .gpus = "0", .memory = "1=8G" }, -EINVAL, "not among --gpu" },
                { { .host = "much" }, -EINVAL, "--host-mem much" },
                { { .managed = "maybe" }, -EINVAL, "--managed=maybe" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct lease lease;
                struct err err;

                assert_int_equal(apply(cases[i].grant, &lease, &err), cases[i].error);
                assert_non_null(strstr(err.text, cases[i].quotes));
        }
}

static void host_memory_is_bounded_by_its_own_size(void **state)
{
        struct lease lease;
        struct err err;

        (void)state;
        assert_int_equal(apply((struct grant){ .host = "2G" }, &lease, &err), 0);
        assert_int_equal(lease.host.size, 2 * GIB);
        assert_int_equal(lease.devices[0].quota.size, 80 * GIB);
}

static void managed_memory_has_three_ways(void **state)
{
        struct lease lease;
        struct err err;

        (void)state;
        assert_int_equal(apply((struct grant){ .managed = "charge" }, &lease, &err), 0);
        assert_int_equal(lease.managed, LEASE_MANAGED_CHARGE);
        assert_int_equal(apply((struct grant){ .managed = "deny" }, &lease, &err), 0);
        assert_int_equal(lease.managed, LEASE_MANAGED_DENY);
        assert_int_equal(apply((struct grant){ .managed = "allow" }, &lease, &err), 0);
        assert_int_equal(lease.managed, LEASE_MANAGED_ALLOW);
}

static void capabilities_are_the_defaults_or_those_named(void **state)
{
        struct lease lease;
        struct err err;

        (void)state;
        assert_int_equal(apply((struct grant){ 0 }, &lease, &err), 0);
        assert_int_equal(lease.capabilities, CAPABILITIES_DEFAULT);
        assert_int_equal(apply((struct grant){ .capabilities = "compute,video" }, &lease, &err), 0);
        assert_int_equal(lease.capabilities, CAPABILITY_COMPUTE | CAPABILITY_VIDEO);
        assert_int_equal(apply((struct grant){ .capabilities = "compute,nvenc" }, &lease, &err), -EINVAL);
        assert_non_null(strstr(err.text, "'nvenc' is none of compute"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_device_whose_memory_is_a_node_of_the_host_is_not_granted),
                cmocka_unit_test(without_options_the_whole_machine_is_granted),
                cmocka_unit_test(a_size_holds_for_every_device),
                cmocka_unit_test(a_bad_word_is_known_without_a_machine),
                cmocka_unit_test(a_percentage_is_of_the_device),
                cmocka_unit_test(a_device_is_named_by_its_uuid_or_its_pci_address),
                cmocka_unit_test(a_device_may_have_a_size_of_its_own),
                cmocka_unit_test(only_named_devices_are_granted),
                cmocka_unit_test(more_than_a_device_has_is_refused_and_the_device_named),
                cmocka_unit_test(nonsense_is_refused_and_quoted),
                cmocka_unit_test(host_memory_is_bounded_by_its_own_size),
                cmocka_unit_test(managed_memory_has_three_ways),
                cmocka_unit_test(capabilities_are_the_defaults_or_those_named),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
