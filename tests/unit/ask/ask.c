/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "ask/ask.h"
#include "net/http/canned.h"

#include <errno.h>
#include <string.h>

static struct ask *to;

static int begin(void **state)
{
        const struct server *server;

        assert_int_equal(server_start(state), 0);
        server = *state;
        return ask_new(server->dir, &to, NULL);
}

static int end(void **state)
{
        to = ask_free(to);
        return server_stop(state);
}

static void an_answer_is_json(void **state)
{
        struct server *server = *state;
        struct err err = { 0 };
        json_t *root = NULL;

        server->answer = HEAD("200 OK") "{\"api\": 1}\n";
        assert_int_equal(ask_get(to, "/v1/version", &root, &err), 0);
        assert_int_equal(json_integer_value(json_object_get(root, "api")), 1);
        assert_memory_equal(server->request, "GET /v1/version HTTP/1.1\r\n", 26);
        json_decref(root);
}

static void a_change_carries_its_body(void **state)
{
        struct server *server = *state;
        json_t *body = json_pack("{s:i}", "share_permille", 300), *root = NULL;

        server->answer = HEAD("200 OK") "{}";
        assert_int_equal(ask_patch(to, "/v1/tenants/a", body, &root, NULL), 0);
        assert_memory_equal(server->request, "PATCH /v1/tenants/a HTTP/1.1\r\n", 30);
        assert_non_null(strstr(server->request, "Content-Type: application/json\r\n"));
        assert_non_null(strstr(server->request, "\r\n\r\n{\"share_permille\":300}"));
        json_decref(body);
        json_decref(root);
}

static void an_end_needs_no_answer(void **state)
{
        struct server *server = *state;

        server->answer = HEAD("204 No Content");
        assert_int_equal(ask_delete(to, "/v1/tenants/a", NULL), 0);
        assert_memory_equal(server->request, "DELETE /v1/tenants/a ", 21);
}

static void what_the_daemon_refuses_is_said_in_its_words(void **state)
{
        static const struct {
                const char *answer, *text;
                int outcome;
        } cases[] = {
                { HEAD("404 Not Found") "{\"error\":\"there is no tenant 'x'\"}", "there is no tenant 'x'", -ENOENT },
                { HEAD("403 Forbidden") "{\"error\":\"not yours\"}", "not yours", -EACCES },
                { HEAD("409 Conflict") "{\"error\":\"40% is free\"}", "40% is free", -EBUSY },
                { HEAD("400 Bad Request") "{\"error\":\"no\"}", "no", -EINVAL },
                { HEAD("500 Oops"), "the daemon answered with HTTP status 500 and no reason", -EIO },
                { HEAD("404 Not Found") "<html>", "the daemon answered with HTTP status 404 and no reason", -ENOENT },
        };
        struct server *server = *state;

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct err err = { 0 };
                json_t *root = NULL;

                server->answer = cases[i].answer;
                assert_int_equal(ask_get(to, "/v1/tenants/x", &root, &err), cases[i].outcome);
                assert_string_equal(err.text, cases[i].text);
                assert_null(root);
        }
}

static void what_is_no_daemon_is_told_apart(void **state)
{
        struct server *server = *state;
        struct err err = { 0 };
        json_t *root = NULL;

        server->answer = HEAD("200 OK") "<html>hello</html>";
        assert_int_equal(ask_get(to, "/", &root, &err), -EPROTO);
        assert_non_null(strstr(err.text, "is not a daemon of Sublet"));
        server->answer = "SSH-2.0-OpenSSH\r\n";
        assert_true(ask_get(to, "/", &root, &err) < 0);
        server->answer = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}";
        assert_int_equal(ask_get(to, "/", &root, &err), -EIO);
        assert_non_null(strstr(err.text, "went away"));
        assert_null(root);
}

static void no_daemon_names_the_next_step(void **state)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        struct err err = { 0 };
        json_t *root = NULL;

        (void)state;
        assert_int_equal(ask_new("/nonexistent", &ask, NULL), 0);
        assert_int_equal(ask_get(ask, "/v1/version", &root, &err), -ECONNREFUSED);
        assert_string_equal(err.text, "no daemon answers at /nonexistent/sublet.sock: start it with 'sublet daemon "
                                      "--dir /nonexistent'");
}

static void the_directory_is_given_or_the_environments_or_the_default(void **state)
{
        static const char *const texts[] = { "/given/sublet.sock", "/environment/sublet.sock",
                                             "/run/sublet/sublet.sock" };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                _cleanup_(ask_freep) struct ask *ask = NULL;
                struct err err = { 0 };
                json_t *root = NULL;

                (void)setenv("SUBLET_DIR", i < 2 ? "/environment" : "", 1);
                assert_int_equal(ask_new(i == 0 ? "/given" : NULL, &ask, NULL), 0);
                if (ask_get(ask, "/v1/version", &root, &err) == 0)
                        json_decref(root); /* a daemon runs on this machine */
                else
                        assert_non_null(strstr(err.text, texts[i]));
        }
        (void)unsetenv("SUBLET_DIR");
}

static void a_directory_too_long_for_a_socket_is_refused(void **state)
{
        struct ask *ask = NULL;
        struct err err = { 0 };
        char dir[200];

        (void)state;
        (void)memset(dir, 'x', sizeof(dir) - 1);
        dir[sizeof(dir) - 1] = '\0';
        assert_int_equal(ask_new(dir, &ask, &err), -ENAMETOOLONG);
        assert_null(ask);
}

struct taken {
        char text[64];
        int outcome;
};

static int take(void *context, char *data, size_t size)
{
        struct taken *taken = context;

        (void)strncat(taken->text, data, size);
        return taken->outcome;
}

static void a_stream_is_handed_on_as_it_comes(void **state)
{
        struct taken taken = { 0 }, refused = { 0 }, full = { .outcome = -ENOSPC };
        struct server *server = *state;
        struct err err = { 0 };

        server->answer = HEAD("200 OK") "one\ntwo\n";
        assert_int_equal(ask_stream(to, "/v1/events?follow=1", 0, take, &taken, &err), 0);
        assert_string_equal(taken.text, "one\ntwo\n");
        assert_int_equal(ask_stream(to, "/v1/trace", 0, take, &full, &err), -ENOSPC);
        server->answer = HEAD("403 Forbidden") "{\"error\":\"not yours\"}";
        assert_int_equal(ask_stream(to, "/v1/trace", 0, take, &refused, &err), -EACCES);
        assert_string_equal(refused.text, "");
}

static void lines_are_whole_and_without_their_end(void **state)
{
        struct server *server = *state;
        struct taken taken = { 0 };

        server->answer = HEAD("200 OK") "one\n\ntwo\n";
        assert_int_equal(ask_lines(to, "/v1/events?follow=1", take, &taken, NULL), 0);
        assert_string_equal(taken.text, "onetwo");
}

static void names_cannot_leave_their_place_in_a_path(void **state)
{
        char path[ASK_PATH], name[ASK_PATH];

        (void)state;
        assert_int_equal(ask_path(path, "/v1/tenants/", "a/../b?c=d#e %\n"), 0);
        assert_string_equal(path, "/v1/tenants/a%2F..%2Fb%3Fc%3Dd%23e%20%25%0A");
        assert_int_equal(ask_query(path, "since", "2026-11-21 10:30"), 0);
        assert_int_equal(ask_query(path, "tenant", "é"), 0);
        assert_non_null(strstr(path, "?since=2026-11-21%2010%3A30&tenant=%C3%A9"));
        (void)memset(name, 'x', sizeof(name) - 1);
        name[sizeof(name) - 1] = '\0';
        assert_int_equal(ask_path(path, "/v1/tenants/", name), -ENAMETOOLONG);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(an_answer_is_json, begin, end),
                cmocka_unit_test_setup_teardown(a_change_carries_its_body, begin, end),
                cmocka_unit_test_setup_teardown(an_end_needs_no_answer, begin, end),
                cmocka_unit_test_setup_teardown(what_the_daemon_refuses_is_said_in_its_words, begin, end),
                cmocka_unit_test_setup_teardown(what_is_no_daemon_is_told_apart, begin, end),
                cmocka_unit_test(no_daemon_names_the_next_step),
                cmocka_unit_test(the_directory_is_given_or_the_environments_or_the_default),
                cmocka_unit_test(a_directory_too_long_for_a_socket_is_refused),
                cmocka_unit_test_setup_teardown(a_stream_is_handed_on_as_it_comes, begin, end),
                cmocka_unit_test_setup_teardown(lines_are_whole_and_without_their_end, begin, end),
                cmocka_unit_test(names_cannot_leave_their_place_in_a_path),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
