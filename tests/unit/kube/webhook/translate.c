/* SPDX-License-Identifier: Apache-2.0 */
/* Pods written for gpushare and for HAMi, in our words; what cannot be said in them is refused whole. */
#include "unit.h"

#include "kube/webhook/translate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAIN(limits) "{\"name\":\"main\",\"resources\":{\"limits\":{" limits "},\"requests\":{" limits "}}}"

static const struct translate_settings both = { TRANSLATE_ALIYUN | TRANSLATE_HAMI, GIB, 0, "sublet-scheduler" };

static json_t *pod(const char *containers, const char *spec)
{
        json_t *pod = json_pack("{s:{},s:o}", "metadata", "spec", json_loads(spec, 0, NULL));
        char text[2048];

        (void)snprintf(text, sizeof(text), "[%s]", containers);
        (void)json_object_set_new(json_object_get(pod, "spec"), "containers", json_loads(text, 0, NULL));
        assert_non_null(json_object_get(json_object_get(pod, "spec"), "containers"));
        return pod;
}

/* The limits of its first container afterwards; NULL: nothing is translated, and `problem` says why not. */
static void assert_limits(const struct translate_settings *settings, const char *containers, const char *spec,
                          const char *limits, const char *problem)
{
        json_t *from = pod(containers, spec), *patches = json_array(), *to = translate_pod(settings, from, patches),
               *first = json_array_get(json_object_get(json_object_get(to, "spec"), "containers"), 0),
               *resources = json_object_get(first, "resources");
        char why[TRANSLATE_WHY] = "", *text = json_dumps(json_object_get(resources, "limits"), JSON_COMPACT);
        bool is_wrong = translate_problem(settings, from, why);

        if (limits) {
                assert_non_null(to);
                assert_string_equal(text, limits);
                assert_true(json_equal(json_object_get(resources, "limits"), json_object_get(resources, "requests")));
        } else {
                assert_null(to);
                assert_int_equal(json_array_size(patches), 0);
        }
        assert_int_equal(is_wrong, problem != NULL);
        if (problem && !strstr(why, problem))
                fail_msg("'%s' is not in '%s'", problem, why);
        free(text);
        json_decref(to);
        json_decref(from);
        json_decref(patches);
}

static void gpushare_s_demo_is_a_pod_of_ours_on_one_device(void **state)
{
        json_t *from = pod(MAIN("\"cpu\":\"1\",\"aliyun.com/gpu-mem\":3"), "{}"), *patches = json_array(), *to, *value;
        const char *path;

        (void)state;
        assert_limits(&both, MAIN("\"cpu\":\"1\",\"aliyun.com/gpu-mem\":3"), "{}",
                      "{\"cpu\":\"1\",\"sublet.dev/gpu-mem\":\"3\"}", NULL);
        to = translate_pod(&both, from, patches);
        value = json_object_get(json_object_get(json_object_get(to, "metadata"), "annotations"),
                                "sublet.dev/vocabulary");
        assert_string_equal(json_string_value(value), "aliyun");
        path = json_string_value(json_object_get(json_array_get(patches, 0), "path"));
        assert_string_equal(path, "/spec/containers/0/resources");
        path = json_string_value(json_object_get(json_array_get(patches, 2), "path"));
        assert_string_equal(path, "/metadata/annotations/sublet.dev~1vocabulary");
        json_decref(to);
        json_decref(from);
        json_decref(patches);
        assert_limits(&both, MAIN("\"aliyun.com/gpu-mem\":\"3\",\"aliyun.com/gpu-count\":\"1\""), "{}",
                      "{\"sublet.dev/gpu-mem\":\"3\"}", NULL);
        assert_limits(&both, MAIN("\"aliyun.com/gpu-mem\":\"3\",\"aliyun.com/gpu-count\":\"2\""), "{}", NULL,
                      "aliyun.com/gpu-count is 1");
}

static void gpushare_s_four_variables_are_the_containers_own_and_the_extenders(void **state)
{
        static const char *const names[] = { "ALIYUN_COM_GPU_MEM_CONTAINER", "ALIYUN_COM_GPU_MEM_IDX",
                                             "ALIYUN_COM_GPU_MEM_POD", "ALIYUN_COM_GPU_MEM_DEV" };
        json_t *to = pod(MAIN("\"sublet.dev/gpu-mem\":\"3\""), "{}"), *patches = json_array(),
               *container = json_array_get(json_object_get(json_object_get(to, "spec"), "containers"), 0), *variable;

        (void)state;
        translate_variables(to, container, "/spec/containers/0", patches);
        assert_int_equal(json_array_size(patches), 0); /* written in our words */
        (void)json_object_set_new(json_object_get(to, "metadata"), "annotations",
                                  json_pack("{s:s}", "sublet.dev/vocabulary", "aliyun"));
        translate_variables(to, container, "/spec/containers/0", patches);
        assert_int_equal(json_array_size(patches), 4);
        for (size_t i = 0; i < 4; i++) {
                variable = json_object_get(json_array_get(patches, i), "value");
                variable = i ? variable : json_array_get(variable, 0);
                assert_string_equal(json_string_value(json_object_get(variable, "name")), names[i]);
                assert_true(translate_may_set(container, variable));
        }
        /* Another value is the pod's word, and no one may set it. */
        variable = json_pack("{s:s,s:s}", "name", "ALIYUN_COM_GPU_MEM_IDX", "value", "1");
        assert_false(translate_may_set(container, variable));
        json_decref(variable);
        variable = json_pack("{s:s,s:s}", "name", "ALIYUN_COM_GPU_MEM_CONTAINER", "value", "4");
        assert_false(translate_may_set(container, variable));
        json_decref(variable);
        json_decref(patches);
        json_decref(to);
}

static void hami_s_words_become_whole_units_and_not_less(void **state)
{
        const struct translate_settings known = { TRANSLATE_HAMI, GIB, 80 * GIB - MIB, NULL };
        static const struct {
                const char *from, *to, *problem;
        } rows[] = {
                { "\"nvidia.com/gpu\":1,\"nvidia.com/gpumem\":3000", "{\"sublet.dev/gpu-mem\":\"3\"}", NULL },
                { "\"nvidia.com/gpumem\":\"1025\"", "{\"sublet.dev/gpu-mem\":\"2\"}", NULL },
                { "\"nvidia.com/gpu\":\"2\",\"nvidia.com/gpumem\":\"8192\",\"nvidia.com/gpucores\":\"30\"",
                  "{\"sublet.dev/gpu-mem\":\"8\",\"sublet.dev/gpu-share\":\"30\",\"sublet.dev/gpu-count\":\"2\"}",
                  NULL },
                { "\"nvidia.com/gpu\":1,\"nvidia.com/gpumem-percentage\":50", "{\"sublet.dev/gpu-mem\":\"40\"}", NULL },
                { "\"nvidia.com/gpu\":1,\"nvidia.com/gpucores\":100",
                  "{\"sublet.dev/gpu-mem\":\"79\",\"sublet.dev/gpu-share\":\"100\"}", NULL },
                { "\"nvidia.com/gpumem-percentage\":101", NULL, "gpumem-percentage is 1 to 100" },
                { "\"nvidia.com/gpumem\":1024,\"nvidia.com/gpucores\":101", NULL, "gpucores is 0 to 100" },
                { "\"nvidia.com/gpumem\":1024,\"nvidia.com/priority\":2", NULL, "priority is 0 (high) or 1 (low)" },
                { "\"nvidia.com/gpumem\":\"1.5\"", NULL, "not a whole number" },
                { "\"nvidia.com/gpu\":0,\"nvidia.com/gpumem\":1024", NULL, "is 1 to 16" },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                char text[1024];

                (void)snprintf(text, sizeof(text),
                               "{\"name\":\"main\",\"resources\":{\"limits\":{%s},\"requests\":{%s}}}", rows[i].from,
                               rows[i].from);
                assert_limits(&known, text, "{}", rows[i].to, rows[i].problem);
        }
        assert_limits(&both, MAIN("\"nvidia.com/gpumem-percentage\":50"), "{}", NULL, "--device-memory");
}

static void hami_s_priority_is_a_class(void **state)
{
        static const char *const classes[] = { "latency", "batch" };

        (void)state;
        for (int i = 0; i < 2; i++) {
                json_t *from = i ? pod(MAIN("\"nvidia.com/gpumem\":1024,\"nvidia.com/priority\":1"), "{}") :
                                   pod(MAIN("\"nvidia.com/gpumem\":1024,\"nvidia.com/priority\":0"), "{}"),
                       *patches = json_array(), *to = translate_pod(&both, from, patches),
                       *container = json_array_get(json_object_get(json_object_get(to, "spec"), "containers"), 0),
                       *variable = json_array_get(json_object_get(container, "env"), 0);

                assert_string_equal(json_string_value(json_object_get(variable, "value")), classes[i]);
                assert_true(translate_may_set(container, variable));
                json_decref(to);
                json_decref(from);
                json_decref(patches);
        }
}

static void a_container_asks_in_one_vocabulary(void **state)
{
        (void)state;
        assert_limits(&both, MAIN("\"sublet.dev/gpu-mem\":1,\"aliyun.com/gpu-mem\":1"), "{}", NULL,
                      "container main asks in aliyun.com/gpu-mem and in sublet.dev/gpu-mem: a device would be booked");
        assert_limits(&both, MAIN("\"sublet.dev/gpu-mem\":1,\"nvidia.com/gpu\":1"), "{}", NULL, "booked twice");
        assert_limits(&both, MAIN("\"sublet.dev/gpu-mem\":1,\"nvidia.com/gpu.shared\":1"), "{}", NULL, "booked twice");
        assert_limits(&both, MAIN("\"sublet.dev/gpu-mem\":1,\"nvidia.com/gpucores\":1"), "{}", NULL, "booked twice");
        assert_limits(&both, MAIN("\"aliyun.com/gpu-mem\":1,\"nvidia.com/gpumem\":1"), "{}", NULL, "booked twice");
        assert_limits(
                &both,
                MAIN("\"aliyun.com/gpu-mem\":1") ",{\"name\":\"b\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":1}}}",
                "{}", NULL, "container b asks for nvidia.com/gpu in a pod that rents");
        assert_limits(&both, MAIN("\"nvidia.com/gpu\":1"), "{}", NULL, NULL); /* NVIDIA's, as it was */
        assert_limits(&both, MAIN("\"sublet.dev/gpu-mem\":1"), "{}", NULL, NULL);
}

static void what_belongs_to_somebody_else_is_left_alone(void **state)
{
        const struct translate_settings none = { 0, GIB, 0, NULL };
        static const char hami[] = MAIN("\"nvidia.com/gpu\":1,\"nvidia.com/gpumem\":1024");

        (void)state;
        assert_limits(&both, hami, "{\"schedulerName\":\"hami-scheduler\"}", NULL, NULL);
        assert_limits(&both, hami, "{\"schedulerName\":\"sublet-scheduler\"}", "{\"sublet.dev/gpu-mem\":\"1\"}", NULL);
        assert_limits(&both, hami, "{\"schedulerName\":\"default-scheduler\"}", "{\"sublet.dev/gpu-mem\":\"1\"}", NULL);
        assert_limits(&none, hami, "{}", NULL, NULL);
        assert_limits(&none, MAIN("\"aliyun.com/gpu-mem\":1"), "{}", NULL, NULL);
        assert_limits(&both, MAIN("\"cpu\":1"), "{\"initContainers\":[" MAIN("\"nvidia.com/gpumem\":1") "]}", NULL,
                      "an init container asks for a GPU");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(gpushare_s_demo_is_a_pod_of_ours_on_one_device),
                cmocka_unit_test(gpushare_s_four_variables_are_the_containers_own_and_the_extenders),
                cmocka_unit_test(hami_s_words_become_whole_units_and_not_less),
                cmocka_unit_test(hami_s_priority_is_a_class),
                cmocka_unit_test(a_container_asks_in_one_vocabulary),
                cmocka_unit_test(what_belongs_to_somebody_else_is_left_alone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
