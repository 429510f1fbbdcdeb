/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "net/http/watch.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

static char said[256];
static int outcome;

static void begin(void *context)
{
        (void)context;
        (void)strcat(said, "[");
}

static int object_keep(void *context, const json_t *object)
{
        (void)context;
        (void)strcat(said, json_string_value(json_object_get(object, "name")));
        return outcome;
}

static void drop(void *context, const json_t *object)
{
        (void)context;
        (void)strcat(strcat(said, "-"), json_string_value(json_object_get(object, "name")));
}

static void end(void *context)
{
        (void)context;
        (void)strcat(said, "]");
}

static struct watch watch_new(void)
{
        said[0] = '\0';
        outcome = 0;
        return (struct watch){
                .path = "/pods", .select = "&x=y", .begin = begin, .put = object_keep, .drop = drop, .end = end
        };
}

static int page(struct watch *watch, const char *text)
{
        json_t *root = json_loads(text, 0, NULL);
        int r = watch_page(watch, 0, 200, root);

        json_decref(root);
        return r;
}

static int line(struct watch *watch, const char *text)
{
        return watch_line(watch, text, strlen(text));
}

#define ITEMS(names, version, more)                                                                                    \
        "{\"items\":[" names "],\"metadata\":{\"resourceVersion\":\"" version "\",\"continue\":\"" more "\"}}"
#define EVENT(type, name, version)                                                                                     \
        "{\"type\":\"" type "\",\"object\":{\"name\":\"" name "\",\"metadata\":{\"resourceVersion\":\"" version "\"}}" \
        "}"

static void a_list_comes_in_pages_and_the_stream_from_its_version(void **state)
{
        struct watch watch = watch_new();
        char path[WATCH_PATH];

        (void)state;
        assert_false(watch_next(&watch, path));
        assert_string_equal(path, "/pods?limit=500&x=y");
        assert_int_equal(page(&watch, ITEMS("{\"name\":\"a\"}", "7", "more")), 0);
        assert_false(watch_next(&watch, path));
        assert_string_equal(path, "/pods?limit=500&x=y&continue=more");
        assert_int_equal(page(&watch, ITEMS("{\"name\":\"b\"}", "8", "")), 0);
        assert_string_equal(said, "[ab]");
        assert_true(watch_next(&watch, path));
        assert_non_null(strstr(path, "resourceVersion=8&x=y"));
}

static void what_the_server_says_is_one_value_of_the_query(void **state)
{
        struct watch watch = watch_new();
        char path[WATCH_PATH];

        (void)state;
        (void)watch_next(&watch, path);
        assert_int_equal(page(&watch, ITEMS("", "7&watch=0", "a+/b= &limit=0#")), 0);
        assert_false(watch_next(&watch, path));
        assert_string_equal(path, "/pods?limit=500&x=y&continue=a%2B%2Fb%3D%20%26limit%3D0%23");
        assert_int_equal(page(&watch, ITEMS("", "7&watch=0", "")), 0);
        assert_true(watch_next(&watch, path));
        assert_non_null(strstr(path, "resourceVersion=7%26watch%3D0&x=y"));
}

static void a_page_that_is_too_large_is_asked_for_in_smaller_ones(void **state)
{
        struct watch watch = watch_new();
        char path[WATCH_PATH];
        size_t most;

        (void)state;
        (void)watch_next(&watch, path);
        most = watch.most;
        for (int i = 0; i < 3; i++) {
                assert_int_equal(watch_page(&watch, -EMSGSIZE, 0, NULL), 0);
                (void)watch_next(&watch, path);
        }
        assert_string_equal(path, "/pods?limit=1&x=y");
        assert_true(watch.most > most);
        assert_int_equal(watch_page(&watch, -EMSGSIZE, 0, NULL), -EMSGSIZE);
        assert_string_equal(said, "[");
}

static void a_list_that_fails_begins_anew(void **state)
{
        struct watch watch = watch_new();
        char path[WATCH_PATH];

        (void)state;
        for (int i = 0; i < 4; i++) {
                static const int outcomes[] = { -ESTALE, -EIO, -ETIMEDOUT, -EIO };

                (void)watch_next(&watch, path);
                assert_int_equal(page(&watch, ITEMS("", "7", "more")), 0);
                assert_int_equal(i == 3 ? page(&watch, "{}") :
                                          watch_page(&watch, i == 2 ? -ETIMEDOUT : 0, i == 0 ? 410 : 500, NULL),
                                 outcomes[i]);
        }
        (void)watch_next(&watch, path);
        assert_string_equal(path, "/pods?limit=500&x=y");
        outcome = -ENOMEM;
        assert_int_equal(page(&watch, ITEMS("{\"name\":\"a\"}", "7", "")), -ENOMEM);
        assert_false(watch_next(&watch, path));
}

static void events_are_applied_and_their_version_is_kept(void **state)
{
        struct watch watch = watch_new();
        char path[WATCH_PATH];

        (void)state;
        (void)watch_next(&watch, path);
        assert_int_equal(page(&watch, ITEMS("", "7", "")), 0);
        assert_int_equal(line(&watch, EVENT("ADDED", "a", "8")), 0);
        assert_int_equal(line(&watch, EVENT("MODIFIED", "b", "9")), 0);
        assert_int_equal(line(&watch, EVENT("DELETED", "c", "10")), 0);
        assert_int_equal(line(&watch, EVENT("BOOKMARK", "d", "11")), 0);
        assert_string_equal(said, "[]ab-c");
        assert_int_equal(watch_ended(&watch, 0, 200), 0);
        assert_true(watch_next(&watch, path));
        assert_non_null(strstr(path, "resourceVersion=11&"));
        assert_int_equal(watch_ended(&watch, -ETIMEDOUT, 0), -ETIMEDOUT);
        assert_true(watch_next(&watch, path)); /* and is taken up where it was */
}

static void history_that_is_gone_and_what_is_no_event_mean_a_new_list(void **state)
{
        static const struct {
                const char *line; /* NULL: the status is 410 */
                int outcome;
        } cases[] = { { NULL, -ESTALE },
                      { "{\"type\":\"ERROR\",\"object\":{\"code\":410}}", -ESTALE },
                      { "{\"type\":\"ERROR\",\"object\":{\"code\":500}}", -EPROTO },
                      { "{\"object\":{}}", -EPROTO },
                      { "<html>", -EPROTO },
                      { EVENT("ADDED", "a", "8"), -ESTALE } };
        char path[WATCH_PATH];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct watch watch = watch_new();
                int r = 0;

                (void)watch_next(&watch, path);
                assert_int_equal(page(&watch, ITEMS("", "7", "")), 0);
                outcome = -ENOMEM;
                if (cases[i].line)
                        r = line(&watch, cases[i].line);
                assert_int_equal(watch_ended(&watch, r, cases[i].line ? 200 : 410), cases[i].outcome);
                assert_false(watch_next(&watch, path));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_list_comes_in_pages_and_the_stream_from_its_version),
                cmocka_unit_test(what_the_server_says_is_one_value_of_the_query),
                cmocka_unit_test(a_page_that_is_too_large_is_asked_for_in_smaller_ones),
                cmocka_unit_test(a_list_that_fails_begins_anew),
                cmocka_unit_test(events_are_applied_and_their_version_is_kept),
                cmocka_unit_test(history_that_is_gone_and_what_is_no_event_mean_a_new_list),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
