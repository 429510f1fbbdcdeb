/* SPDX-License-Identifier: Apache-2.0 */
/* The ResourceSlice that is made of the daemon's devices. */
#include "unit.h"

#include "kube/dra/slice.h"

#include <string.h>

static const char *attribute(const json_t *device, const char *name)
{
        return json_string_value(
                json_object_get(json_object_get(json_object_get(device, "attributes"), name), "string"));
}

static void test_devices(void **state)
{
        json_t *devices =
                json_loads("[{\"uuid\":\"GPU-A\",\"index\":0,\"name\":\"H200\",\"bus_id\":\"00000000:01:00.0\","
                           "\"memory_bytes\":17179869184,\"mode\":\"time\",\"numa\":1,\"state\":\"ok\"},"
                           "{\"uuid\":\"GPU-B\",\"index\":1,\"memory_bytes\":1,\"state\":\"lost\"}]",
                           0, NULL);
        const struct slice_view view = { .node = "n1", .node_uid = "u-n1", .devices = devices, .driver = "580.1" };
        json_t *slice = slice_make(&view, 0, 2, 7), *spec, *list, *one, *capacity;

        (void)state;
        spec = json_object_get(slice, "spec");
        list = json_object_get(spec, "devices");
        assert_int_equal(json_integer_value(json_object_get(json_object_get(spec, "pool"), "generation")), 7);
        assert_int_equal(json_array_size(list), 1);
        one = json_array_get(list, 0);
        assert_string_equal(json_string_value(json_object_get(one, "name")), "gpu-a");
        assert_true(json_is_true(json_object_get(one, "allowMultipleAllocations")));
        assert_string_equal(attribute(one, "uuid"), "GPU-A");
        assert_string_equal(attribute(one, "model"), "H200");
        assert_string_equal(attribute(one, "driverRelease"), "580.1");
        assert_int_equal(
                json_integer_value(json_object_get(json_object_get(json_object_get(one, "attributes"), "numa"), "int")),
                1);
        capacity = json_object_get(one, "capacity");
        assert_string_equal(json_string_value(json_object_get(json_object_get(capacity, "memory"), "value")),
                            "17179869184");
        assert_string_equal(json_string_value(json_object_get(json_object_get(capacity, "share"), "value")), "100");
        assert_string_equal(json_string_value(json_object_get(json_object_get(slice, "metadata"), "name")),
                            "n1-gpu.sublet.dev-0");
        json_decref(slice);
        slice = slice_make(&view, 1, 2, 7); /* the lost one is not offered */
        assert_int_equal(json_array_size(json_object_get(json_object_get(slice, "spec"), "devices")), 0);
        json_decref(slice);
        json_decref(devices);
}

static void test_silent(void **state)
{
        const struct slice_view view = { .node = "n1", .node_uid = "", .driver = "" };
        json_t *slice = slice_make(&view, 0, 1, 1);

        (void)state;
        assert_int_equal(json_array_size(json_object_get(json_object_get(slice, "spec"), "devices")), 0);
        assert_null(json_object_get(json_object_get(slice, "metadata"), "ownerReferences"));
        json_decref(slice);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_devices), cmocka_unit_test(test_silent) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
