/* What the scheduler sends is read in place where that is safe, and through jansson where it is not: the same either way. */
#include "unit.h"

#include "kube/extender/extender_args.h"
#include "kube/extender/writer.h"

#include <string.h>

#define POD                                                                                                            \
        "{\"metadata\":{\"name\":\"p}{\",\"uid\":\"u\\\"\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":{" \
        "\"limits\":{\"sublet.dev/gpu-mem\":\"8\"}}}]}}"

static void assert_same(const struct extender_args *a, const struct extender_args *b)
{
        assert_int_equal(a->has_pod, b->has_pod);
        assert_memory_equal(&a->pod, &b->pod, sizeof(a->pod));
        assert_int_equal(a->n_names, b->n_names);
        for (size_t i = 0; i < a->n_names; i++) {
                assert_int_equal(a->names[i].size, b->names[i].size);
                assert_memory_equal(a->names[i].text, b->names[i].text, a->names[i].size);
        }
}

static void what_go_writes_is_read_without_a_value_for_each_name(void **state)
{
        static const char *const bodies[] = {
                "{\"Pod\":" POD ",\"Nodes\":null,\"NodeNames\":[\"n1\",\"n-2.example\"]}",
                "{\"Pod\":" POD ",\"Nodes\":null,\"NodeNames\":[]}\n",
                " { \"NodeNames\" : [ \"n1\" , \"n2\" ] , \"Pod\" : " POD " } ",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
                struct extender_args one = { 0 }, other = { 0 };

                assert_int_equal(extender_args_read(bodies[i], strlen(bodies[i]), GIB, &one), 0);
                assert_null(one.args); /* the short way */
                assert_int_equal(extender_args_read_whole(bodies[i], strlen(bodies[i]), GIB, &other), 0);
                assert_non_null(other.args);
                assert_int_equal(one.pod.wants[0].memory, 8 * GIB);
                assert_string_equal(one.pod.name, "p}{");
                assert_same(&one, &other);
                extender_args_done(&one);
                extender_args_done(&other);
        }
}

static void what_is_odd_is_left_to_jansson(void **state)
{
        static const struct {
                const char *body;
                int r;
                size_t n_names;
        } rows[] = {
                { "{\"Pod\":" POD ",\"NodeNames\":[\"n\\u0031\"]}", 0, 1 },
                { "{\"Pod\":" POD ",\"NodeNames\":[\"a\"],\"NodeNames\":[\"b\",\"c\"]}", 0, 2 },
                { "{\"Pod\":" POD ",\"Nodes\":{\"items\":[{\"metadata\":{\"name\":\"n\"}}]},\"NodeNames\":null}", 0,
                  1 },
                { "{\"Pod\":" POD ",\"More\":1,\"NodeNames\":[\"a\"]}", 0, 1 },
                { "{\"Pod\":" POD "}", 0, 0 },
                { "{\"Pod\":{,},\"NodeNames\":[\"a\"]}", -22, 0 },
                { "{\"Pod\":" POD ",\"NodeNames\":[\"a\"]}}", -22, 0 },
                { "{\"Pod\":" POD ",\"NodeNames\":[\"a\",]}", -22, 0 },
                { "{\"Pod\":" POD ",\"NodeNames\":[\"a\n\"]}", -22, 0 },
                { "{\"Pod\":{\"a\":\"", -22, 0 },
                { "{\"Pod\":{\"a\":\"\\", -22, 0 },
                { "[]", -22, 0 },
                { "", -22, 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                struct extender_args args = { 0 };

                assert_int_equal(extender_args_read(rows[i].body, strlen(rows[i].body), GIB, &args), rows[i].r);
                assert_int_equal(args.n_names, rows[i].n_names);
                assert_true(args.args || rows[i].r);
                extender_args_done(&args);
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
        writer_say(&other, ",");
        writer_number(&other, 0);
        writer_say(&other, ",");
        writer_number(&other, INT64_MAX);
        writer_say(&writer, "[");
        for (int i = 0; i < 5000; i++) {
                writer_say(&writer, i ? "," : "");
                writer_string(&writer, odd, strlen(odd));
        }
        writer_add(&writer, &other);
        writer_say(&writer, "]");
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
                cmocka_unit_test(what_go_writes_is_read_without_a_value_for_each_name),
                cmocka_unit_test(what_is_odd_is_left_to_jansson),
                cmocka_unit_test(what_is_written_is_json),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
