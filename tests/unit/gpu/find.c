/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/bench.h"

#include "gpu/find.h"

static void devices_are_named_without_nvml(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend = bench_backend(rig);
        struct gpu_device devices[GPU_DEVICES_MAX];
        struct err err = { 0 };
        unsigned int n = 0;

        assert_int_equal(gpu_find(&backend, devices, &n, &err), 0);
        assert_int_equal(n, 2);
        assert_string_equal(devices[0].name, "NVIDIA H200");
        assert_string_equal(devices[0].bus_id, "00000000:01:00.0");
        assert_int_equal(strncmp(devices[0].uuid, "GPU-7375626c-", 13), 0);
        assert_int_equal(devices[0].total, GIB);
        assert_int_equal(devices[0].index, 0);
        assert_int_equal(devices[0].minor, 0);
        assert_false(devices[0].is_lost);
}

static void a_lost_device_is_still_listed(void **state)
{
        struct rig *rig = *state;
        struct gpu_backend backend = bench_backend(rig);
        struct gpu_device devices[GPU_DEVICES_MAX];
        unsigned int n = 0;

        rig_order(rig, "lost-gpu=0");
        assert_int_equal(gpu_find(&backend, devices, &n, NULL), 0);
        assert_int_equal(n, 2);
        assert_true(devices[0].is_lost);
        assert_false(devices[1].is_lost);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(devices_are_named_without_nvml),
                RIG_TEST(a_lost_device_is_still_listed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
