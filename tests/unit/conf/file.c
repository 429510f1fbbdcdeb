/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/err.h"
#include "conf/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct err err;

/* What a text becomes, as compact JSON; or what is said of it. */
static char *read_text(const char *text)
{
        json_t *value = NULL;
        char *found;

        memset(&err, 0, sizeof(err));
        if (conf_parse("x.yaml", text, strlen(text), &value, NULL, &err) < 0)
                return strdup(err.text);
        found = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
        json_decref(value);
        return found;
}

#define BECOMES(text, json)                                                                                            \
        do {                                                                                                           \
                char *found_ = read_text(text);                                                                        \
                assert_string_equal(found_, json);                                                                     \
                free(found_);                                                                                          \
        } while (0)

static void scalars_are_what_they_look_like(void **state)
{
        (void)state;
        BECOMES("a: 1\nb: -2.5\nc: true\nd: ~\ne: word\nf: 8G\n",
                "{\"a\":1,\"b\":-2.5,\"c\":true,\"d\":null,\"e\":\"word\",\"f\":\"8G\"}");
        BECOMES("[1, two, '3', \"true\", 0x10, .inf, nan, 1e3]",
                "[1,\"two\",\"3\",\"true\",\"0x10\",\".inf\",\"nan\",1000.0]");
        BECOMES("a: 99999999999999999999\n", "{\"a\":1e20}");
}

static void lists_and_mappings_nest(void **state)
{
        (void)state;
        BECOMES("services:\n- name: chat\n  memory: 8G\n- {name: embed, gpus: [0, 1]}\n",
                "{\"services\":[{\"memory\":\"8G\",\"name\":\"chat\"},{\"gpus\":[0,1],\"name\":\"embed\"}]}");
}

static void a_complaint_names_file_and_line(void **state)
{
        (void)state;
        BECOMES("a: 1\nb: 2\na: 3\n", "x.yaml:3: this key stands twice");
        BECOMES("a: &x 1\nb: *x\n", "x.yaml:1: anchors and tags are not read here");
        BECOMES("b: *x\n", "x.yaml:1: aliases are not read here");
        BECOMES("? [1]\n: 2\n", "x.yaml:1: a key must be a word");
        BECOMES("", "x.yaml:1: the file is empty");
        BECOMES("a: 1\n---\nb: 2\n", "x.yaml:2: one document, please");
        BECOMES("a: !!int 1\n", "x.yaml:1: anchors and tags are not read here");
        BECOMES("a: [1\n", "x.yaml:2: did not find expected ',' or ']'");
}

static void depth_has_a_bound(void **state)
{
        char text[200];

        (void)state;
        memset(text, '[', 100);
        text[100] = '\0';
        BECOMES(text, "x.yaml:1: nested too deeply");
}

static void a_missing_file_is_said(void **state)
{
        json_t *value = NULL;

        (void)state;
        assert_int_equal(conf_read("/nonexistent/x.yaml", &value, NULL, &err), -ENOENT);
        assert_string_equal(err.text, "opening /nonexistent/x.yaml: No such file or directory");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(scalars_are_what_they_look_like), cmocka_unit_test(lists_and_mappings_nest),
                cmocka_unit_test(a_complaint_names_file_and_line), cmocka_unit_test(depth_has_a_bound),
                cmocka_unit_test(a_missing_file_is_said),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
