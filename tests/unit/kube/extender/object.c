/* SPDX-License-Identifier: Apache-2.0 */
/* Containers on several devices, as pods and nodes say them. */
#include "unit.h"

#include "kube/extender/object.h"

#include <stdio.h>
#include <string.h>

#define LIMITS(memory, share)                                                                                          \
        "{\"limits\":{\"sublet.dev/gpu-mem\":\"" memory "\",\"sublet.dev/gpu-share\":\"" share "\"}}"

static struct object_pod read_pod(const char *resources, const char *counts, const char *allocation)
{
        json_t *json =
                json_pack("{s:{s:s,s:s,s:{s:s*,s:s*}},s:{s:s,s:[{s:s,s:o}]}}", "metadata", "name", "p", "uid", "u",
                          "annotations", "sublet.dev/gpu-counts", counts, "sublet.dev/allocation", allocation, "spec",
                          "nodeName", "n1", "containers", "name", "main", "resources", json_loads(resources, 0, NULL));
        struct object_pod pod;

        assert_int_equal(object_pod_read(json, GIB, &pod), 0);
        json_decref(json);
        return pod;
}

static void a_container_on_two_devices_is_two_wants_with_half_of_it_each(void **state)
{
        const struct object_pod pod = read_pod(LIMITS("16", "60"), "{\"main\":2}", NULL);

        (void)state;
        assert_null(pod.problem);
        assert_int_equal(pod.n_wants, 2);
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(pod.wants[i].memory, 8 * GIB);
                assert_int_equal(pod.wants[i].share, 300);
                assert_int_equal(pod.wants[i].set, 1);
                assert_string_equal(pod.containers[i], "main");
        }
        assert_int_equal(read_pod(LIMITS("16", "60"), "{\"main\":1}", NULL).n_wants, 1);
        assert_int_equal(read_pod(LIMITS("16", "60"), "{\"other\":2}", NULL).n_wants, 1);
}

static void a_pod_that_has_succeeded_is_told_from_one_that_has_failed(void **state)
{
        static const char *const phases[] = { "Running", "Failed", "Succeeded" };

        (void)state;
        for (int i = 0; i < 3; i++) {
                json_t *json = json_pack("{s:{s:s,s:s},s:{s:s}}", "metadata", "name", "p", "uid", "u", "status",
                                         "phase", phases[i]);
                struct object_pod pod;

                assert_int_equal(object_pod_read(json, GIB, &pod), 0);
                assert_int_equal(pod.is_over, i > 0);
                assert_int_equal(pod.has_succeeded, i == 2);
                json_decref(json);
        }
}

/* Fails closed: the pod is refused, and if it is on a node nevertheless, all of it counts there. */
static void what_cannot_be_divided_is_refused_and_counts_as_one(void **state)
{
        static const char *const wrong[] = { "{\"main\":0}", "{\"main\":17}", "{\"main\":-1}", "{\"main\":\"2\"}",
                                             "{\"main\":3}" };
        struct object_pod pod;

        (void)state;
        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
                pod = read_pod(LIMITS("16", "60"), wrong[i], NULL);
                assert_non_null(pod.problem);
                assert_int_equal(pod.n_wants, 1);
                assert_int_equal(pod.wants[0].memory, 16 * GIB);
                assert_false(pod.is_placed);
        }
        assert_non_null(read_pod(LIMITS("16", "60"), "[2]", NULL).problem);
        assert_non_null(read_pod(LIMITS("16", "300"), "{\"main\":2}", NULL).problem); /* 150 % of each */
        assert_null(read_pod(LIMITS("16", "200"), "{\"main\":2}", NULL).problem);
}

static void what_is_written_on_the_pod_is_read_back(void **state)
{
        const struct placement placement = { { 3, 1 } };
        const char uuids[4][OBJECT_UUID] = { "", "GPU-1", "", "GPU-3" };
        struct object_pod pod = read_pod(LIMITS("16", "60"), "{\"main\":2}", NULL);
        json_t *annotations = object_annotations(&pod, "n1", &placement, uuids, GIB, 80 * GIB, 0);
        const char *text = json_string_value(json_object_get(annotations, "sublet.dev/allocation"));

        (void)state;
        assert_string_equal(text,
                            "{\"node\":\"n1\",\"containers\":{\"main\":{\"device\":3,\"uuid\":\"GPU-3\",\"mem_bytes\":"
                            "8589934592,\"share_permille\":300,\"devices\":[{\"device\":3,\"uuid\":\"GPU-3\"},"
                            "{\"device\":1,\"uuid\":\"GPU-1\"}]}}}");
        pod = read_pod(LIMITS("16", "60"), "{\"main\":2}", text);
        assert_true(pod.is_placed);
        assert_int_equal(pod.devices[0], 3);
        assert_int_equal(pod.devices[1], 1);
        /* Of another number of devices than it was written for, nothing is known (cluster.h C3). */
        assert_false(read_pod(LIMITS("16", "60"), NULL, text).is_placed);
        assert_false(read_pod(LIMITS("16", "60"), "{\"main\":4}", text).is_placed);
        json_decref(annotations);
}

static void a_node_says_what_nvlink_joins(void **state)
{
        json_t *json = json_pack("{s:{s:s,s:{s:s}}}", "metadata", "name", "n1", "annotations", "sublet.dev/devices",
                                 "[{\"index\":0,\"mem_bytes\":17179869184,\"nvlink\":[1,2,99,-1,\"3\"]},"
                                 "{\"index\":1,\"mem_bytes\":17179869184,\"numa\":1}]");
        struct object_node node;

        (void)state;
        assert_int_equal(object_node_read(json, GIB, &node), 0);
        assert_int_equal(node.devices[0].nvlink, 6);
        assert_int_equal(node.devices[1].nvlink, 0);
        assert_int_equal(node.devices[1].numa, 1);
        json_decref(json);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_container_on_two_devices_is_two_wants_with_half_of_it_each),
                cmocka_unit_test(a_pod_that_has_succeeded_is_told_from_one_that_has_failed),
                cmocka_unit_test(what_cannot_be_divided_is_refused_and_counts_as_one),
                cmocka_unit_test(what_is_written_on_the_pod_is_read_back),
                cmocka_unit_test(a_node_says_what_nvlink_joins),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
