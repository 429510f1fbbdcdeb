/* SPDX-License-Identifier: Apache-2.0 */
/* What a runtime says of a container: as runc and crun say it, and nothing that could be something else. */
#include "unit.h"

#include "oci/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* As containerd 1.6.20 with runc 1.1.5 sends it with a listener. */
static const char with_listener[] =
        "{\"ociVersion\":\"1.0.2-dev\",\"fds\":[\"seccompFd\"],\"pid\":4242,\"metadata\":\"sublet\","
        "\"state\":{\"ociVersion\":\"1.0.2-dev\",\"id\":"
        "\"3f0c2a9d61e7b85f4c1d0a7e96b3582f3f0c2a9d61e7b85f4c1d0a7e96b3582f\","
        "\"status\":\"creating\",\"pid\":4240,\"bundle\":\"/run/containerd/io.containerd.runtime.v2.task/k8s.io/3f0c\","
        "\"annotations\":{\"io.kubernetes.cri.container-name\":\"main\",\"io.kubernetes.cri.container-type\":"
        "\"container\","
        "\"io.kubernetes.cri.sandbox-uid\":\"9f1d7d54-0a55-4f2e-8a55-6e2f6f6a2c11\","
        "\"io.kubernetes.cri.sandbox-name\":\"web-0\",\"io.kubernetes.cri.sandbox-namespace\":\"shop\"}}}";

/* As crun 1.8.1 gives it to a hook. */
static const char of_a_hook[] =
        "{\n  \"ociVersion\": \"1.0\",\n  \"id\": \"c1\",\n  \"pid\": 77,\n  \"root\": \"/b/rootfs\",\n"
        "  \"bundle\": \"/b\",\n  \"status\": \"created\"\n}\n";

static struct oci_container container;
static struct oci_request request;
static const char *wrong;

static int parse(const char *text)
{
        return oci_state_parse(text, strlen(text), &container, &wrong);
}

static int parse_config(const char *text)
{
        return oci_config_parse(text, strlen(text), &request, &wrong);
}

static void a_state_with_a_listener_names_pod_and_processes(void **state)
{
        char line[512];

        (void)state;
        assert_int_equal(parse(with_listener), 0);
        assert_int_equal(container.pid, 4240);
        assert_int_equal(container.process, 4242);
        assert_string_equal(container.pod, "9f1d7d54-0a55-4f2e-8a55-6e2f6f6a2c11");
        assert_string_equal(container.namespace, "shop");
        assert_string_equal(container.name, "web-0");
        assert_string_equal(container.container, "main");
        assert_false(container.is_sandbox);
        assert_string_equal(oci_container_format(&container, line), "shop/web-0/main");
}

/* What it asks for itself would be granted if it were nobody's pod. */
static void a_pods_container_under_cri_o_is_a_pods(void **state)
{
        (void)state;
        assert_int_equal(parse("{\"id\":\"a\",\"annotations\":{\"io.kubernetes.cri-o.ContainerType\":\"container\","
                               "\"io.kubernetes.pod.uid\":\"9f1d\",\"io.kubernetes.container.name\":\"main\"}}"),
                         0);
        assert_string_equal(container.pod, "9f1d");
        assert_string_equal(container.container, "main");
        assert_true(parse("{\"id\":\"a\",\"annotations\":{\"io.kubernetes.cri-o.ContainerType\":\"container\"}}") < 0);
        assert_string_equal(wrong, "io.kubernetes.pod.uid");
}

static void a_state_of_a_hook_has_no_listeners_process(void **state)
{
        char line[512];

        (void)state;
        assert_int_equal(parse(of_a_hook), 0);
        assert_int_equal(container.pid, 77);
        assert_int_equal(container.process, 0);
        assert_string_equal(container.bundle, "/b");
        assert_string_equal(container.pod, "");
        assert_string_equal(oci_container_format(&container, line), "c1");
}

static void a_state_that_is_cut_off_waits_for_its_rest(void **state)
{
        (void)state;
        for (size_t n = 0; n < strlen(with_listener); n++)
                assert_int_equal(oci_state_parse(with_listener, n, &container, &wrong), OCI_E_NOT_WHOLE);
        assert_int_equal(oci_state_parse(with_listener, strlen(with_listener), &container, &wrong), 0);
}

static void what_is_no_state_is_refused_at_once(void **state)
{
        static const struct {
                const char *text, *wrong;
        } rows[] = {
                { "[]", "JSON" },
                { "7", "JSON" },
                { "x", "JSON" },
                { "{} {}", "JSON" },
                { "{\"id\":\"a\",\"id\":\"b\"}", "JSON" },
                { "{}", "id" },
                { "{\"id\":7}", "id" },
                { "{\"id\":\"\"}", "id" },
                { "{\"id\":\"a/../b\"}", "id" },
                { "{\"id\":\"a b\"}", "id" },
                { "{\"id\":\"a\",\"pid\":\"7\"}", "pid" },
                { "{\"id\":\"a\",\"pid\":-7}", "pid" },
                { "{\"id\":\"a\",\"pid\":4294967297}", "pid" },
                { "{\"id\":\"a\",\"bundle\":\"/b\\n\"}", "bundle" },
                { "{\"pid\":-1,\"state\":{\"id\":\"a\"}}", "pid" },
                { "{\"state\":7}", "id" },
                { "{\"id\":\"a\",\"annotations\":{\"io.kubernetes.cri.sandbox-uid\":\"u/v\"}}",
                  "io.kubernetes.cri.sandbox-uid" },
                { "{\"id\":\"a\",\"annotations\":{\"io.kubernetes.cri.container-name\":\"a\\nb\"}}",
                  "io.kubernetes.cri.container-name" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                if (parse(rows[i].text) != -EINVAL)
                        fail_msg("%s is taken", rows[i].text);
                assert_string_equal(wrong, rows[i].wrong);
        }
}

static void names_that_are_too_long_are_not_cut(void **state)
{
        char text[4096], name[300];

        (void)state;
        (void)memset(name, 'a', sizeof(name));
        name[127] = '\0';
        (void)snprintf(text, sizeof(text), "{\"id\":\"%s\"}", name);
        assert_int_equal(parse(text), 0);
        (void)snprintf(text, sizeof(text), "{\"id\":\"%sa\"}", name);
        assert_int_equal(parse(text), -EINVAL);
        (void)snprintf(text, sizeof(text), "{\"id\":\"a\",\"annotations\":{\"io.kubernetes.cri.sandbox-uid\":\"%s\"}}",
                       name);
        assert_int_equal(parse(text), -EINVAL);
}

static void a_megabyte_of_state_is_refused(void **state)
{
        static char text[1 << 20];

        (void)state;
        (void)memset(text, ' ', sizeof(text));
        text[0] = '{';
        assert_int_equal(oci_state_parse(text, sizeof(text), &container, &wrong), -EINVAL);
        assert_string_equal(wrong, "size");
}

static void the_pause_container_is_known(void **state)
{
        (void)state;
        assert_int_equal(parse("{\"id\":\"p\",\"annotations\":{\"io.kubernetes.cri.container-type\":\"sandbox\"}}"), 0);
        assert_true(container.is_sandbox);
}

/* As containerd 1.6.10 and older say it: without, it would be leased what it asks for itself. */
static void a_pods_container_that_does_not_say_whose_it_is_is_refused(void **state)
{
        (void)state;
        assert_int_equal(parse("{\"id\":\"a\",\"annotations\":{\"io.kubernetes.cri.container-name\":\"main\","
                               "\"io.kubernetes.cri.container-type\":\"container\",\"io.kubernetes.cri.sandbox-id\":"
                               "\"0888\",\"io.kubernetes.cri.sandbox-name\":\"web-0\","
                               "\"io.kubernetes.cri.sandbox-namespace\":\"shop\"}}"),
                         -EINVAL);
        assert_string_equal(wrong, "io.kubernetes.cri.sandbox-uid");
}

static void annotations_ask_before_the_environment(void **state)
{
        (void)state;
        assert_int_equal(parse_config("{\"annotations\":{\"sublet.dev/mem\":\"8G\",\"sublet.dev/share\":\"30\"},"
                                      "\"process\":{\"env\":[\"SUBLET_MEM=90G\",\"SUBLET_CLASS=latency\"]}}"),
                         0);
        assert_string_equal(request.mem, "8G");
        assert_string_equal(request.share, "30");
        assert_string_equal(request.class, "");
        assert_int_equal(parse_config("{\"annotations\":{\"sublet.dev/swap\":\"true\"}}"), 0);
        assert_string_equal(request.swap, "true");
        assert_int_equal(parse_config("{\"annotations\":{\"sublet.dev/host-swap\":\"8G\"}}"), 0);
        assert_string_equal(request.host_swap, "8G");
        assert_string_equal(request.unknown, "");
        assert_int_equal(parse_config("{\"annotations\":{\"sublet.dev/sleep-after\":\"30s\"}}"), 0);
        assert_string_equal(request.sleep_after, "30s");
        assert_string_equal(request.unknown, "");
        assert_int_equal(parse_config("{\"process\":{\"env\":[\"SUBLET_SLEEP_AFTER=1m\"]}}"), 0);
        assert_string_equal(request.sleep_after, "1m");
        assert_int_equal(parse_config("{\"annotations\":{\"sublet.dev/mem\":\"8G\",\"sublet.dev/share\":\"30\"}}"), 0);
        assert_true(request.has_annotations && request.wants_gpu);
}

/* So that a group can be the pod's or the runtime's, and the rest the environment's. */
static void a_groups_annotation_leaves_the_environment_its_word_in_all_else(void **state)
{
        static const char text[] = "{\"annotations\":{\"sublet.dev/group\":\"chat\"},\"root\":{\"path\":\"rootfs\"},"
                                   "\"process\":{\"env\":[\"SUBLET_MEM=4G\",\"SUBLET_GROUP=images\","
                                   "\"CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps\"]}}";
        char root[OCI_ROOT];

        (void)state;
        assert_int_equal(parse_config(text), 0);
        assert_true(request.has_group_annotation && !request.has_annotations && !request.names_pipe);
        assert_string_equal(request.group, "chat");
        assert_string_equal(request.mem, "4G");
        assert_int_equal(oci_config_root(text, strlen(text), root), 0);
        assert_string_equal(root, "rootfs");
        assert_int_equal(parse_config("{\"process\":{\"env\":[\"SUBLET_GROUP=images\","
                                      "\"CUDA_MPS_PIPE_DIRECTORY=/mps\"]}}"),
                         0);
        assert_true(!request.has_group_annotation && request.names_pipe);
        assert_string_equal(request.group, "images");
        assert_int_equal(oci_config_root("{\"root\":{}}", 11, root), -EINVAL);
}

static void an_annotation_of_ours_that_is_not_known_is_kept(void **state)
{
        (void)state;
        assert_int_equal(parse_config("{\"annotations\":{\"sublet.dev/mem\":\"8G\",\"mem\":\"8G\"}}"), 0);
        assert_string_equal(request.unknown, "");
        assert_int_equal(parse_config("{\"annotations\":{\"sublet.dev/mem\":\"8G\",\"sublet.dev/caps\":\"30\"}}"), 0);
        assert_string_equal(request.unknown, "sublet.dev/caps");
        assert_int_equal(parse_config("{\"annotations\":{\"sublet.dev/allocation\":\"{}\"}}"), 0);
        assert_false(request.wants_gpu); /* a pod's, beside which a sidecar asks for nothing */
}

static void the_environment_asks_where_no_annotation_does(void **state)
{
        (void)state;
        assert_int_equal(
                parse_config("{\"annotations\":{\"a\":\"b\"},\"process\":{\"env\":[\"PATH=/bin\",\"SUBLET_MEM=1G\","
                             "\"SUBLET_MEM=2G\",\"SUBLET_GPUS=0\",\"SUBLET_MEMORY=5G\"]}}"),
                0);
        assert_string_equal(request.mem, "2G");
        assert_string_equal(request.gpus, "0");
        assert_false(request.has_annotations);
        assert_true(request.wants_gpu);
}

static void a_container_that_asks_for_nothing_is_told_from_one_that_does(void **state)
{
        (void)state;
        assert_int_equal(parse_config("{\"process\":{\"env\":[\"PATH=/bin\",\"NVIDIA_VISIBLE_DEVICES=void\"]}}"), 0);
        assert_false(request.wants_gpu);
        assert_int_equal(parse_config("{\"process\":{\"env\":[\"NVIDIA_VISIBLE_DEVICES=all\"]}}"), 0);
        assert_true(request.wants_gpu);
        assert_int_equal(
                parse_config("{\"linux\":{\"devices\":[{\"path\":\"/dev/fuse\"},{\"path\":\"/dev/nvidia0\"}]}}"), 0);
        assert_true(request.wants_gpu);
        assert_int_equal(parse_config("{}"), 0);
        assert_false(request.wants_gpu);
}

static void a_node_is_known_by_its_number_and_when_it_is_mounted(void **state)
{
        (void)state;
        assert_int_equal(parse_config("{\"linux\":{\"devices\":[{\"path\":\"/dev/x\",\"major\":195}]}}"), 0);
        assert_true(request.wants_gpu);
        assert_int_equal(parse_config("{\"mounts\":[{\"source\":\"/dev/nvidia0\",\"destination\":\"/dev/x\"}]}"), 0);
        assert_true(request.wants_gpu);
        assert_int_equal(
                parse_config("{\"mounts\":[{\"source\":\"/dev/shm\"}],\"linux\":{\"devices\":[{\"major\":1}]}}"), 0);
        assert_false(request.wants_gpu);
}

/* What NVIDIA's hook gives devices for, without NVIDIA_VISIBLE_DEVICES. */
static void who_is_given_devices_by_other_ways_wants_one(void **state)
{
        static const struct {
                const char *config;
                bool wants;
        } rows[] = {
                { "{\"mounts\":[{\"source\":\"/dev/null\",\"destination\":\"/var/run/nvidia-container-devices/0\"}]}",
                  true },
                { "{\"process\":{\"env\":[\"CUDA_VERSION=8.0\"]}}", true },
                { "{\"process\":{\"env\":[\"CUDA_VERSION=8.0\",\"NVIDIA_REQUIRE_CUDA=cuda>=8.0\",\"NVIDIA_REQUIRE_CUDA="
                  "\"]}}",
                  true },
                { "{\"process\":{\"env\":[\"CUDA_VERSION=12.2\",\"NVIDIA_REQUIRE_CUDA=cuda>=12.2\"]}}", false },
                { "{\"process\":{\"env\":[\"NVIDIA_VISIBLE_DEVICES=void\",\"CUDA_VERSION=8.0\"]}}", false },
                { "{\"process\":{\"env\":[\"CUDA_VERSION=\"]}}", false },
                /* an image's, then its pod's */
                { "{\"process\":{\"env\":[\"NVIDIA_VISIBLE_DEVICES=all\",\"NVIDIA_VISIBLE_DEVICES=void\"]}}", false },
                { "{\"process\":{\"env\":[\"NVIDIA_VISIBLE_DEVICES=void\",\"NVIDIA_VISIBLE_DEVICES=all\"]}}", true },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                assert_int_equal(parse_config(rows[i].config), 0);
                if (request.wants_gpu != rows[i].wants)
                        fail_msg("%s", rows[i].config);
        }
}

static void where_its_driver_calls_go_is_read(void **state)
{
        (void)state;
        assert_int_equal(parse_config("{\"linux\":{\"seccomp\":{\"listenerPath\":\"/run/sublet/seccomp.sock\"}}}"), 0);
        assert_string_equal(request.listener, "/run/sublet/seccomp.sock");
        assert_int_equal(parse_config("{\"linux\":{\"seccomp\":{}}}"), 0);
        assert_string_equal(request.listener, "");
        assert_int_equal(parse("{\"pid\":7,\"metadata\":\"sublet/4 580.1\",\"state\":{\"id\":\"a\"}}"), 0);
        assert_string_equal(container.metadata, "sublet/4 580.1");
}

static void a_config_that_asks_badly_is_refused(void **state)
{
        (void)state;
        assert_int_equal(parse_config("7"), -EINVAL);
        assert_int_equal(parse_config("{\"process\":{\"env\":[\"SUBLET_CLASS=a long class indeed\"]}}"), -EINVAL);
        assert_string_equal(wrong, "sublet.dev/class");
        assert_int_equal(parse_config("{\"annotations\":{\"sublet.dev/mem\":\"8G\\n9G\"}}"), -EINVAL);
        assert_int_equal(parse_config("{\"annotations\":[],\"process\":7,\"linux\":{\"devices\":{}}}"), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_state_with_a_listener_names_pod_and_processes),
                cmocka_unit_test(a_pods_container_under_cri_o_is_a_pods),
                cmocka_unit_test(a_state_of_a_hook_has_no_listeners_process),
                cmocka_unit_test(a_state_that_is_cut_off_waits_for_its_rest),
                cmocka_unit_test(what_is_no_state_is_refused_at_once),
                cmocka_unit_test(names_that_are_too_long_are_not_cut),
                cmocka_unit_test(a_megabyte_of_state_is_refused),
                cmocka_unit_test(the_pause_container_is_known),
                cmocka_unit_test(a_pods_container_that_does_not_say_whose_it_is_is_refused),
                cmocka_unit_test(annotations_ask_before_the_environment),
                cmocka_unit_test(a_groups_annotation_leaves_the_environment_its_word_in_all_else),
                cmocka_unit_test(an_annotation_of_ours_that_is_not_known_is_kept),
                cmocka_unit_test(the_environment_asks_where_no_annotation_does),
                cmocka_unit_test(a_container_that_asks_for_nothing_is_told_from_one_that_does),
                cmocka_unit_test(a_node_is_known_by_its_number_and_when_it_is_mounted),
                cmocka_unit_test(who_is_given_devices_by_other_ways_wants_one),
                cmocka_unit_test(where_its_driver_calls_go_is_read),
                cmocka_unit_test(a_config_that_asks_badly_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
