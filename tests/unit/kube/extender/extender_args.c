/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduler's requests, with names or with whole nodes; and the JSON that answers them. */
#include "unit.h"

#include "kube/extender/extender_args.h"
#include "kube/extender/writer.h"

#include <string.h>

#define POD                                                                                                            \
        "{\"metadata\":{\"name\":\"p}{\",\"uid\":\"u\\\"\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":{" \
        "\"limits\":{\"sublet.dev/gpu-mem\":\"8\"}}}]}}"

static void names_come_alone_or_with_whole_nodes(void **state)
{
        static const struct {
                const char *body;
                size_t n_names;
                bool has_whole_nodes;
        } rows[] = {
                { "{\"Pod\":" POD ",\"Nodes\":null,\"NodeNames\":[\"n1\",\"n-2.example\"]}", 2, false },
                { " { \"NodeNames\" : [ \"n1\" ] , \"Pod\" : " POD ", \"More\":1 } ", 1, false },
                { "{\"Pod\":" POD ",\"NodeNames\":[\"n\\u0031\"]}", 1, false },
                { "{\"Pod\":" POD ",\"NodeNames\":[\"a\"],\"NodeNames\":[\"n1\",\"c\"]}", 2, false },
                { "{\"Pod\":" POD ",\"Nodes\":{\"items\":[{\"metadata\":{\"name\":\"n1\"}}]},\"NodeNames\":null}", 1,
                  true },
                { "{\"Pod\":" POD ",\"Nodes\":null,\"NodeNames\":[]}\n", 0, false },
                { "{\"Pod\":" POD "}", 0, false },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                struct extender_args args = { 0 };

                assert_int_equal(extender_args_read(rows[i].body, strlen(rows[i].body), GIB, &args), 0);
                assert_true(args.has_pod);
                assert_string_equal(args.pod.name, "p}{");
                assert_int_equal(args.pod.wants[0].memory, 8 * GIB);
                assert_int_equal(json_array_size(args.nodes), rows[i].n_names);
                assert_int_equal(args.has_whole_nodes, rows[i].has_whole_nodes);
                if (rows[i].n_names)
                        assert_string_equal(extender_args_name(&args, 0), "n1");
                assert_null(extender_args_name(&args, rows[i].n_names));
                extender_args_done(&args);
        }
}

static void an_entry_that_is_no_name_and_no_node_has_no_name(void **state)
{
        static const char body[] = "{\"NodeNames\":[1,null,{},\"a\"]}",
                          whole[] = "{\"Nodes\":{\"items\":[1,{\"metadata\":{}}]}}";
        struct extender_args args = { 0 };

        (void)state;
        assert_int_equal(extender_args_read(body, strlen(body), GIB, &args), 0);
        assert_false(args.has_pod);
        for (size_t i = 0; i < 3; i++)
                assert_null(extender_args_name(&args, i));
        assert_string_equal(extender_args_name(&args, 3), "a");
        extender_args_done(&args);
        assert_int_equal(extender_args_read(whole, strlen(whole), GIB, &args), 0);
        assert_null(extender_args_name(&args, 0));
        assert_null(extender_args_name(&args, 1));
        extender_args_done(&args);
}

static void what_is_not_a_json_object_is_refused(void **state)
{
        static const char *const bodies[] = { "{\"Pod\":{,},\"NodeNames\":[\"a\"]}",
                                              "{\"Pod\":" POD ",\"NodeNames\":[\"a\"]}}",
                                              "{\"Pod\":" POD ",\"NodeNames\":[\"a\",]}",
                                              "{\"Pod\":" POD ",\"NodeNames\":[\"a\n\"]}",
                                              "{\"NodeNames\":[\"a\\u0000b\"]}",
                                              "{\"Pod\":{\"a\":\"",
                                              "{\"Pod\":{\"a\":\"\\",
                                              "[]",
                                              "" };

        (void)state;
        for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
                struct extender_args args = { 0 };

                assert_int_equal(extender_args_read(bodies[i], strlen(bodies[i]), GIB, &args), -22);
                assert_null(args.root);
        }
}

static void what_is_written_is_json(void **state)
{
        static const char odd[] = "a\"b\\c\n\x01\xc3\xa9";
        struct writer writer = { 0 }, other = { 0 };
        char *text;
        size_t size;
        json_t *json;

        (void)state;
        writer_text(&other, ",");
        writer_number(&other, 0);
        writer_text(&other, ",");
        writer_number(&other, INT64_MAX);
        writer_text(&writer, "[");
        for (int i = 0; i < 5000; i++) {
                writer_text(&writer, i ? "," : "");
                writer_string(&writer, odd);
        }
        writer_add(&writer, &other);
        writer_text(&writer, "]");
        text = writer_take(&writer, &size);
        assert_int_equal(strlen(text), size);
        json = json_loads(text, 0, NULL);
        assert_int_equal(json_array_size(json), 5002);
        assert_string_equal(json_string_value(json_array_get(json, 4999)), odd);
        assert_true(json_integer_value(json_array_get(json, 5001)) == INT64_MAX);
        json_decref(json);
        free(text);
        writer_done(&other);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(names_come_alone_or_with_whole_nodes),
                cmocka_unit_test(an_entry_that_is_no_name_and_no_node_has_no_name),
                cmocka_unit_test(what_is_not_a_json_object_is_refused),
                cmocka_unit_test(what_is_written_is_json),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
