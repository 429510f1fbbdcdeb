/* SPDX-License-Identifier: Apache-2.0 */
/* Kubelet's checkpoint and the pods' annotations, and the table that is made of them, on literals. */
#include "unit.h"

#include "base/cleanup.h"
#include "kube/plugin/allocations.h"

#include <errno.h>
#include <string.h>

static const struct plugin_node node = {
        .devices = { { .uuid = "GPU-a", .index = 0, .memory = 16 * GIB, .is_healthy = true },
                     { .uuid = "GPU-b", .index = 1, .memory = 16 * GIB } },
        .n_devices = 2,
        .is_daemon_up = true,
};
static const struct plugin_resource resources[] = {
        { .name = "sublet.dev/gpu-mem", .kind = PLUGIN_MEMORY, .unit = 2 * GIB },
        { .name = "sublet.dev/gpu-share", .kind = PLUGIN_SHARE },
};

#define ROW(pod, container, resource, ids)                                                                             \
        "{\"PodUID\":\"" pod "\",\"ContainerName\":\"" container "\",\"ResourceName\":\"" resource                     \
        "\",\"DeviceIDs\":" ids ",\"AllocResp\":\"\"}"
#define CHECKPOINT(rows) "{\"Data\":{\"PodDeviceEntries\":[" rows "],\"RegisteredDevices\":{}},\"Checksum\":1}"
#define MEMORY "sublet.dev/gpu-mem"
#define SHARE "sublet.dev/gpu-share"

/* pods: NULL where the ids say the device. */
static struct allocations make(const char *text, const struct pods *pods)
{
        _cleanup_(checkpoint_done) struct checkpoint checkpoint = { 0 };
        struct allocations made;

        assert_int_equal(checkpoint_read(text, strlen(text), &checkpoint), 0);
        assert_int_equal(
                allocations_make(&(struct allocations_view){ &checkpoint, resources, 2, &node, pods, pods != NULL },
                                 &made),
                0);
        return made;
}

/* The table's n-th row as text, in a buffer that the next call reuses; and the table is gone. */
static const char *row(struct allocations made, size_t n)
{
        const json_t *it = json_array_get(json_object_get(made.table, "allocations"), n);
        static char text[512];
        size_t size = it ? json_dumpb(it, text, sizeof(text) - 1, JSON_COMPACT) : 0;

        text[size] = '\0';
        json_decref(made.table);
        return text;
}

static void pod_put_with(struct pods *pods, const char *uid, json_t *annotations)
{
        json_t *pod = json_pack("{s:{s:s, s:s, s:s, s:o}, s:{s:s}, s:{s:s}}", "metadata", "uid", uid, "name", "web",
                                "namespace", "shop", "annotations", annotations, "spec", "nodeName", "n1", "status",
                                "phase", "Pending");

        assert_int_equal(pods_put(pods, "n1", pod), 0);
        json_decref(pod);
}

static void pod_put(struct pods *pods, const char *uid, const char *annotation, const char *value, const char *on,
                    const char *phase)
{
        json_t *pod = json_pack("{s:{s:s, s:s, s:s, s:{s:s}}, s:{s:s}, s:{s:s}}", "metadata", "uid", uid, "name", "web",
                                "namespace", "shop", "annotations", annotation, value, "spec", "nodeName", on, "status",
                                "phase", phase);

        assert_int_equal(pods_put(pods, "n1", pod), 0);
        json_decref(pod);
}

#define ALLOCATION "sublet.dev/allocation"
#define GIVEN(node, given) "{\"node\":\"" node "\",\"containers\":{\"main\":" given "}}"

static void both_forms_of_the_checkpoint_say_the_same(void **state)
{
        static const char *const forms[] = {
                CHECKPOINT(ROW("u1", "main", MEMORY, "[\"GPU-b-_-0\",\"GPU-b-_-7\"]") "," ROW(
                        "u1", "main", SHARE, "[\"GPU-a-_-1\",\"GPU-a-_-2\",\"GPU-b-_-3\"]")),
                CHECKPOINT(ROW("u1", "main", MEMORY, "{\"0\":[\"GPU-b-_-0\"],\"1\":[\"GPU-b-_-7\"]}") "," ROW(
                        "u1", "main", SHARE, "{\"-1\":[\"GPU-a-_-1\",\"GPU-a-_-2\",\"GPU-b-_-3\"]}")),
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
                assert_string_equal(row(make(forms[i], NULL), 0),
                                    "{\"pod\":\"u1\",\"namespace\":\"\",\"name\":\"\",\"container\":\"main\","
                                    "\"uuid\":\"GPU-b\",\"mem_bytes\":4294967296,\"share_permille\":30}");
}

static void two_containers_of_a_pod_are_two(void **state)
{
        struct allocations made = make(CHECKPOINT(ROW("u1", "a", MEMORY, "[\"GPU-a-_-0\"]") "," ROW(
                                               "u1", "b", MEMORY, "[\"GPU-b-_-0\",\"GPU-b-_-1\"]")),
                                       NULL);

        (void)state;
        assert_int_equal(made.n, 2);
        assert_non_null(strstr(row(made, 1), "\"container\":\"b\",\"uuid\":\"GPU-b\",\"mem_bytes\":4294967296"));
}

static void what_is_of_another_plugin_is_skipped(void **state)
{
        struct allocations made = make(CHECKPOINT(ROW("u1", "main", "nvidia.com/gpu", "[\"GPU-a\"]") "," ROW(
                                               "u2", "main", SHARE, "[\"GPU-a-_-1\"]") ",7,{}"),
                                       NULL);

        (void)state;
        assert_int_equal(made.n, 0);
        assert_int_equal(made.n_left_out, 0); /* time without memory is nothing that could be told */
        json_decref(made.table);
}

/* Plugins of things that cost nothing (/dev/fuse) have a row for each container that names them, and a pod has any
 * number. */
static void thousands_of_rows_of_another_plugin_hide_none_of_ours(void **state)
{
        enum { OTHERS = 30000 };
        static const char other[] = ROW("p", "c", "other.dev/fuse", "[\"f\"]") ",";
        size_t n = sizeof(other) - 1;
        char *text = malloc(OTHERS * n + 512), *at;
        struct allocations said;

        (void)state;
        assert_non_null(text);
        at = stpcpy(text, "{\"Data\":{\"PodDeviceEntries\":[");
        for (size_t i = 0; i < OTHERS; i++)
                at = mempcpy(at, other, n);
        (void)strcpy(at, ROW("u1", "main", MEMORY, "[\"GPU-a-_-0\"]") "]},\"Checksum\":1}");
        said = make(text, NULL);
        assert_int_equal(said.n, 1);
        json_decref(said.table);
        free(text);
}

static void ids_that_this_node_has_not_are_left_out_with_the_reason(void **state)
{
        struct allocations made = make(CHECKPOINT(ROW("u1", "main", MEMORY, "[\"GPU-a-_-0\",\"GPU-c-_-0\"]")), NULL);

        (void)state;
        assert_int_equal(made.n, 0);
        assert_int_equal(made.n_left_out, 1);
        assert_non_null(strstr(made.why, "GPU-c-_-0"));
        json_decref(made.table);
        made = make(CHECKPOINT(ROW("u1", "main", MEMORY, "[\"GPU-a-_-0\",\"GPU-b-_-0\"]")), NULL);
        assert_int_equal(made.n, 0);
        assert_non_null(strstr(made.why, "several"));
        json_decref(made.table);
}

static void where_the_extender_places_the_pod_says_the_device_and_kubelet_the_amount(void **state)
{
        static const char text[] = CHECKPOINT(ROW("u1", "main", MEMORY, "[\"GPU-a-_-0\",\"GPU-b-_-1\"]"));
        struct pods pods = { 0 };

        (void)state;
        pods_begin(&pods);
        pod_put(&pods, "u1", ALLOCATION, GIVEN("n1", "{\"device\":0,\"uuid\":\"GPU-b\",\"mem_bytes\":4294967296}"),
                "n1", "Pending");
        assert_string_equal(row(make(text, &pods), 0),
                            "{\"pod\":\"u1\",\"namespace\":\"shop\",\"name\":\"web\",\"container\":\"main\","
                            "\"uuid\":\"GPU-b\",\"mem_bytes\":4294967296,\"share_permille\":0,"
                            "\"swap\":\"false\"}");
        /* It was counted so, whatever the container asks for. */
        pod_put(&pods, "u1", ALLOCATION,
                GIVEN("n1", "{\"device\":0,\"uuid\":\"GPU-b\",\"mem_bytes\":4294967296,\"swap\":true}"), "n1",
                "Pending");
        assert_non_null(strstr(row(make(text, &pods), 0), "\"swap\":\"true\""));
        /* Numbers where it says no UUID; and the smaller amount, whichever it is. */
        pod_put(&pods, "u1", ALLOCATION, GIVEN("n1", "{\"device\":1,\"uuid\":\"\",\"mem_bytes\":1073741824}"), "n1",
                "Pending");
        assert_non_null(strstr(row(make(text, &pods), 0), "\"uuid\":\"GPU-b\",\"mem_bytes\":1073741824"));
        pod_put(&pods, "u1", ALLOCATION, GIVEN("n1", "{\"device\":1,\"mem_bytes\":85899345920}"), "n1", "Pending");
        assert_non_null(strstr(row(make(text, &pods), 0), "\"mem_bytes\":4294967296"));
        pod_put(&pods, "u1", "ALIYUN_COM_GPU_MEM_IDX", "1", "n1", "Pending");
        assert_non_null(strstr(row(make(text, &pods), 0), "\"uuid\":\"GPU-b\",\"mem_bytes\":4294967296"));
        pods_done(&pods);
}

/* A name that the daemon would not take must not cost the other pods their rows. */
static void a_pods_group_is_its_containers_if_it_is_a_name(void **state)
{
        static const char text[] = CHECKPOINT(
                ROW("u1", "main", MEMORY, "[\"GPU-a-_-0\"]") "," ROW("u2", "main", MEMORY, "[\"GPU-a-_-1\"]"));
        static const char *const wrong[] = { "", "a b", ".a", "a\"b",
                                             "0123456789012345678901234567890123456789012345678901234567890123" };
        static const char given[] = GIVEN("n1", "{\"device\":0}");
        struct pods pods = { 0 };

        (void)state;
        pods_begin(&pods);
        pod_put(&pods, "u2", ALLOCATION, given, "n1", "Pending");
        pod_put_with(&pods, "u1", json_pack("{s:s, s:s}", ALLOCATION, given, "sublet.dev/group", "Chat_1"));
        assert_non_null(strstr(row(make(text, &pods), 0), "\"group\":\"Chat_1\""));
        assert_null(strstr(row(make(text, &pods), 1), "group"));
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                struct allocations made;

                pod_put_with(&pods, "u1", json_pack("{s:s, s:s}", ALLOCATION, given, "sublet.dev/group", wrong[i]));
                made = make(text, &pods);
                assert_int_equal(made.n, 1);
                assert_non_null(strstr(made.why, "sublet.dev/group is no name"));
                assert_non_null(strstr(row(made, 0), "\"pod\":\"u2\""));
        }
        pods_done(&pods);
}

static void each_of_several_devices_has_an_equal_part_of_what_kubelet_allocated(void **state)
{
        static const char text[] = CHECKPOINT(ROW("u1", "main", MEMORY, "[\"GPU-a-_-0\",\"GPU-a-_-1\"]"));
        static const char both[] = "\"mem_bytes\":1099511627776,\"devices\":[{\"device\":1,\"uuid\":\"GPU-b\"},"
                                   "{\"device\":0,\"uuid\":\"GPU-a\"}]}";
        struct pods pods = { 0 };
        char given[256];

        (void)state;
        pods_begin(&pods);
        (void)snprintf(given, sizeof(given), GIVEN("n1", "{\"device\":1,%s"), both);
        pod_put(&pods, "u1", ALLOCATION, given, "n1", "Pending");
        assert_non_null(strstr(row(make(text, &pods), 0), "\"uuid\":\"GPU-b\",\"mem_bytes\":2147483648"));
        assert_non_null(strstr(row(make(text, &pods), 1), "\"uuid\":\"GPU-a\",\"mem_bytes\":2147483648"));
        assert_string_equal(row(make(text, &pods), 2), "");
        /* All of them, or no row: one is unknown, one is there twice. */
        pod_put(&pods, "u1", ALLOCATION, GIVEN("n1", "{\"devices\":[{\"device\":0},{\"device\":7}]}"), "n1", "Pending");
        assert_string_equal(row(make(text, &pods), 0), "");
        pod_put(&pods, "u1", ALLOCATION, GIVEN("n1", "{\"devices\":[{\"device\":0},{\"device\":0}]}"), "n1", "Pending");
        assert_string_equal(row(make(text, &pods), 0), "");
        pods_done(&pods);
}

static void a_pod_that_is_over_or_elsewhere_or_not_placed_gets_no_row(void **state)
{
        static const char text[] = CHECKPOINT(ROW("u1", "main", MEMORY, "[\"GPU-a-_-0\"]"));
        static const struct {
                const char *annotation, *value, *on, *phase;
        } cases[] = {
                { ALLOCATION, GIVEN("n1", "{\"device\":0}"), "n1", "Succeeded" },
                { ALLOCATION, GIVEN("n1", "{\"device\":0}"), "n2", "Running" },
                { ALLOCATION, GIVEN("n2", "{\"device\":0}"), "n1", "Running" },
                { ALLOCATION, GIVEN("n1", "{\"device\":2}"), "n1", "Running" },
                { ALLOCATION, GIVEN("n1", "{\"device\":0,\"uuid\":\"GPU-c\"}"), "n1", "Running" },
                { ALLOCATION, GIVEN("n1", "{\"device\":\"0\"}"), "n1", "Running" },
                { ALLOCATION, "{", "n1", "Running" },
                { "ALIYUN_COM_GPU_MEM_IDX", "-1", "n1", "Running" },
                { "other", "0", "n1", "Running" },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct pods pods = { 0 };
                struct allocations made;

                pods_begin(&pods);
                pod_put(&pods, "u1", cases[i].annotation, cases[i].value, cases[i].on, cases[i].phase);
                made = make(text, &pods);
                assert_int_equal(made.n, 0);
                json_decref(made.table);
                pods_done(&pods);
        }
}

static void a_list_without_a_pod_ends_it(void **state)
{
        struct pods pods = { 0 };

        (void)state;
        pods_begin(&pods);
        pod_put(&pods, "u1", "a", "b", "n1", "Running");
        pod_put(&pods, "u2", "a", "b", "n1", "Running");
        pods_end(&pods);
        assert_non_null(pods_find(&pods, "u1"));
        pods_begin(&pods);
        pod_put(&pods, "u2", "a", "b", "n1", "Running");
        pods_end(&pods);
        assert_null(pods_find(&pods, "u1"));
        assert_non_null(pods_find(&pods, "u2"));
        pods_done(&pods);
}

static void what_is_no_checkpoint_is_refused(void **state)
{
        static const char *const texts[] = { "", "[]", "{", "{\"Data\":[]}", "{\"Data\":{\"PodDeviceEntries\":{}}}" };
        struct checkpoint checkpoint;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                assert_int_equal(checkpoint_read(texts[i], strlen(texts[i]), &checkpoint), -EPROTO);
        assert_int_equal(checkpoint_read(NULL, (size_t)CHECKPOINT_MAX + 1, &checkpoint), -EFBIG);
        assert_int_equal(row(make("{\"Data\":{\"PodDeviceEntries\":null}}", NULL), 0)[0], '\0');
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(both_forms_of_the_checkpoint_say_the_same),
                cmocka_unit_test(two_containers_of_a_pod_are_two),
                cmocka_unit_test(what_is_of_another_plugin_is_skipped),
                cmocka_unit_test(thousands_of_rows_of_another_plugin_hide_none_of_ours),
                cmocka_unit_test(ids_that_this_node_has_not_are_left_out_with_the_reason),
                cmocka_unit_test(where_the_extender_places_the_pod_says_the_device_and_kubelet_the_amount),
                cmocka_unit_test(a_pods_group_is_its_containers_if_it_is_a_name),
                cmocka_unit_test(each_of_several_devices_has_an_equal_part_of_what_kubelet_allocated),
                cmocka_unit_test(a_pod_that_is_over_or_elsewhere_or_not_placed_gets_no_row),
                cmocka_unit_test(a_list_without_a_pod_ends_it),
                cmocka_unit_test(what_is_no_checkpoint_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
