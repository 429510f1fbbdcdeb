/* SPDX-License-Identifier: Apache-2.0 */
/* A specification is given nodes, mounts and environment as a CDI file says, and only once. */
#include "unit.h"

#include "base/err.h"
#include "oci/give.h"

#include <errno.h>
#include <string.h>

static struct err err;

static json_t *json(const char *text)
{
        json_t *value = json_loads(text, 0, NULL);

        assert_non_null(value);
        return value;
}

/* /dev/null and /dev/zero stand for the driver's nodes: 1:3 and 1:5 on every Linux. */
static json_t *cdi(void)
{
        return json("{\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/dev/null\"}],\"mounts\":[{\"hostPath\":\"/h\","
                    "\"containerPath\":\"/c\",\"options\":[\"ro\"]}]},\"devices\":["
                    "{\"name\":\"0\",\"containerEdits\":{\"env\":[\"WRONG=1\"]}},"
                    "{\"name\":\"all\",\"containerEdits\":{\"env\":[\"V=void\"],\"deviceNodes\":["
                    "{\"path\":\"/dev/zero\"}]}}]}");
}

static void check(const char *before, const char *after)
{
        json_t *spec = json(before), *expected = json(after), *with = cdi(), *once;

        assert_int_equal(give_devices(spec, with, &err), 0);
        if (!json_equal(spec, expected))
                print_error("%s\n", json_dumps(spec, JSON_INDENT(1)));
        assert_true(json_equal(spec, expected));
        once = json_deep_copy(spec);
        assert_int_equal(give_devices(spec, with, &err), 0);
        assert_true(json_equal(json_object_get(spec, "mounts"), json_object_get(once, "mounts")));
        assert_true(json_equal(json_object_get(spec, "process"), json_object_get(once, "process")));
        assert_true(json_equal(json_object_get(spec, "linux"), json_object_get(once, "linux")));
        json_decref(once);
        json_decref(with);
        json_decref(expected);
        json_decref(spec);
}

#define NODE(path, minor)                                                                                              \
        "{\"path\":\"" path "\",\"type\":\"c\",\"major\":1,\"minor\":" minor ",\"fileMode\":438,\"uid\":0,\"gid\":0}"
#define RULE(minor) "{\"allow\":true,\"type\":\"c\",\"major\":1,\"minor\":" minor ",\"access\":\"rw\"}"
#define MOUNT "{\"destination\":\"/c\",\"source\":\"/h\",\"type\":\"bind\",\"options\":[\"ro\"]}"

static void nodes_mounts_and_variables_are_given(void **state)
{
        (void)state;
        check("{\"process\":{},\"linux\":{}}",
              "{\"process\":{\"env\":[\"V=void\"]},\"mounts\":[" MOUNT
              "],\"linux\":{\"devices\":[" NODE("/dev/null", "3") "," NODE(
                      "/dev/zero", "5") "],\"resources\":{\"devices\":[" RULE("3") "," RULE("5") "]}}}");
}

/* What is there stays, before ours; a variable of the same name is replaced. A rule that denies all comes first. */
static void what_is_there_stays(void **state)
{
        (void)state;
        check("{\"process\":{\"env\":[\"A=1\",\"V=all\",\"VV=2\",\"V=0\"]},\"mounts\":[{\"destination\":\"/"
              "c\"}],\"linux\":{"
              "\"devices\":[{\"path\":\"/dev/null\"}],\"resources\":{\"devices\":[{\"allow\":false}]}}}",
              "{\"process\":{\"env\":[\"A=1\",\"VV=2\",\"V=void\"]},\"mounts\":[{\"destination\":\"/c\"}],\"linux\":{"
              "\"devices\":[{\"path\":\"/dev/null\"}," NODE("/dev/zero",
                                                            "5") "],\"resources\":{\"devices\":[{\"allow\":false}"
                                                                 "," RULE("3") "," RULE("5") "]}}}");
}

static void what_is_no_specification_is_refused(void **state)
{
        static const char *const bad[] = { "{}",
                                           "{\"process\":{\"env\":7},\"linux\":{}}",
                                           "{\"process\":[],\"linux\":{}}",
                                           "{\"process\":{},\"linux\":{\"devices\":{}}}",
                                           "{\"process\":{},\"linux\":{\"resources\":[]}}",
                                           "{\"process\":{},\"mounts\":\"x\",\"linux\":{}}" };
        json_t *with = cdi();

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                json_t *spec = json(bad[i]);

                assert_int_equal(give_devices(spec, with, &err), -EINVAL);
                json_decref(spec);
        }
        json_decref(with);
}

static void a_node_that_is_missing_is_an_error(void **state)
{
        json_t *spec = json("{\"process\":{},\"linux\":{}}"),
               *none = json("{\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/dev/no-such-node\"}]}}"),
               *file = json("{\"containerEdits\":{\"deviceNodes\":[{\"path\":\"/\"}]}}");

        (void)state;
        assert_int_equal(give_devices(spec, none, &err), -ENOENT);
        assert_int_equal(give_devices(spec, file, &err), -EINVAL);
        json_decref(spec);
        json_decref(none);
        json_decref(file);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nodes_mounts_and_variables_are_given),
                cmocka_unit_test(what_is_there_stays),
                cmocka_unit_test(what_is_no_specification_is_refused),
                cmocka_unit_test(a_node_that_is_missing_is_an_error),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
