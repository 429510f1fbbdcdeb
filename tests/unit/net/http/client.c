/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http/canned.h"

#include "unit.h"

#include "net/http/client.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct http_answer call(const struct server *server, struct http_request request)
{
        struct http_client *client = NULL;
        struct http_answer answer;
        int r;

        assert_int_equal(http_client_new(&client), 0);
        if (!request.base)
                request.base = server->base;
        if (!request.path)
                request.path = "/x?y=1";
        request.limit = 5 * NSEC_PER_SEC;
        r = http_call(client, &request, &answer);
        assert_int_equal(r, answer.code);
        (void)http_client_free(client);
        return answer;
}

static void a_call_is_carried_with_its_headers_and_body(void **state)
{
        struct server *server = *state;
        struct http_answer answer;

        server->answer = HEAD("201 Created") "made";
        answer = call(server, (struct http_request){
                                      .method = "PUT", .body = "{}", .token = "secret", .accept = "application/json" });
        assert_int_equal(answer.code, 0);
        assert_int_equal(answer.status, 201);
        assert_true(answer.is_anew);
        assert_string_equal(http_text(&answer), "made");
        assert_memory_equal(server->request, "PUT /x?y=1 HTTP/1.1\r\n", 21);
        assert_non_null(strstr(server->request, "Authorization: Bearer secret\r\n"));
        assert_non_null(strstr(server->request, "Accept: application/json\r\n"));
        assert_non_null(strstr(server->request, "Content-Type: application/json\r\n"));
        assert_null(strstr(server->request, "Expect"));
        assert_non_null(strstr(server->request, "\r\n\r\n{}"));
        buffer_done(&answer.body);
}

static void what_goes_wrong_has_its_own_code(void **state)
{
        char *token = malloc(20 << 10);
        struct server *server = *state;
        struct http_answer answer;

        answer = call(server, (struct http_request){ .base = "unix:/nonexistent/socket" });
        assert_int_equal(answer.code, -ECONNREFUSED);
        answer = call(server, (struct http_request){ 0 }); /* hangs up */
        assert_int_equal(answer.code, -ECONNRESET);
        server->answer = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}";
        answer = call(server, (struct http_request){ 0 });
        assert_int_equal(answer.code, -ECONNRESET);
        buffer_done(&answer.body);
        server->answer = HEAD("200 OK") "more than four";
        answer = call(server, (struct http_request){ .most = 4 });
        assert_int_equal(answer.code, -EMSGSIZE);
        assert_true(answer.is_stopped);
        buffer_done(&answer.body);
        (void)memset(token, 'x', (20 << 10) - 1);
        token[(20 << 10) - 1] = '\0';
        answer = call(server, (struct http_request){ .token = token });
        assert_int_equal(answer.code, -ENAMETOOLONG);
        free(token);
}

static void an_unavailable_server_says_when_to_come_back(void **state)
{
        struct server *server = *state;
        struct http_answer answer;

        server->answer = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n";
        answer = call(server, (struct http_request){ 0 });
        assert_int_equal(answer.status, 429);
        assert_int_equal(answer.retry_after, 7 * NSEC_PER_SEC);
        assert_string_equal(http_text(&answer), "");
}

static void a_call_that_is_cut_ends_before_its_limit(void **state)
{
        struct server *server = *state;
        atomic_bool is_cut = true;
        nsec began = clock_now();
        struct http_answer answer;

        server->answer = "";
        answer = call(server, (struct http_request){ .cuts = { NULL, &is_cut } });
        assert_true(answer.code < 0);
        assert_true(clock_now() - began < 3 * NSEC_PER_SEC);
}

struct taken {
        char text[64];
        int outcome;
};

static int take(void *context, char *data, size_t size)
{
        struct taken *taken = context;

        (void)strncat(taken->text, data, size);
        (void)strcat(taken->text, "|");
        return taken->outcome;
}

static void a_success_is_handed_on_as_it_comes_and_a_failure_is_kept(void **state)
{
        struct taken pieces = { 0 }, lines = { 0 }, none = { 0 }, full = { .outcome = -ENOSPC };
        struct server *server = *state;
        struct http_answer answer;

        server->answer = HEAD("200 OK") "one\n\ntwo\nhalf";
        answer = call(server, (struct http_request){ .take = take, .context = &pieces });
        assert_int_equal(answer.code, 0);
        assert_string_equal(pieces.text, "one\n\ntwo\nhalf|");
        answer = call(server, (struct http_request){ .take = take, .is_lines = true, .context = &lines });
        assert_int_equal(answer.code, 0);
        assert_string_equal(lines.text, "one|two|");
        buffer_done(&answer.body);
        answer = call(server, (struct http_request){ .take = take, .is_lines = true, .context = &full });
        assert_int_equal(answer.code, -ENOSPC);
        assert_true(answer.is_stopped);
        assert_string_equal(full.text, "one|");
        buffer_done(&answer.body);
        server->answer = HEAD("410 Gone") "gone\n";
        answer = call(server, (struct http_request){ .take = take, .is_lines = true, .context = &none });
        assert_int_equal(answer.status, 410);
        assert_string_equal(none.text, "");
        assert_string_equal(http_text(&answer), "gone\n");
        buffer_done(&answer.body);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_call_is_carried_with_its_headers_and_body, server_start, server_stop),
                cmocka_unit_test_setup_teardown(what_goes_wrong_has_its_own_code, server_start, server_stop),
                cmocka_unit_test_setup_teardown(an_unavailable_server_says_when_to_come_back, server_start,
                                                server_stop),
                cmocka_unit_test_setup_teardown(a_call_that_is_cut_ends_before_its_limit, server_start, server_stop),
                cmocka_unit_test_setup_teardown(a_success_is_handed_on_as_it_comes_and_a_failure_is_kept, server_start,
                                                server_stop),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
