/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "route/agent/traces/span.h"

#include <stdlib.h>
#include <string.h>

#define IDS                                                                                                            \
        "\"trace\":\"4bf92f3577b34da6a3ce929d0e0e4736\",\"span\":\"00f067aa0ba902b7\",\"span_hold\":"                  \
        "\"1111111111111111\","                                                                                        \
        "\"span_client\":\"2222222222222222\""
#define LINE                                                                                                           \
        "<190>Nov 23 17:13:42 sublet: {" IDS ",\"parent\":\"%s\",\"end\":\"1764000010.500\",\"seconds\":2.000,"        \
        "\"id\":\"r1\",\"client\":\"10.0.0.1\",\"key\":\"\",\"method\":\"POST\",\"path\":\"/v1/chat/completions\","    \
        "\"status\":%d,\"model\":\"m\",\"replica\":\"a\",\"reason\":\"cache\",\"prompt\":\"100\",\"matched\":\"64\","  \
        "\"held_ms\":\"%s\",\"first_ms\":\"250.5\",\"expected_ms\":\"240\",\"tries\":\"2\",\"decision_us\":\"41\","    \
        "\"upstream\":\"10.0.0.7:80, 10.0.0.8:80\",\"upstream_status\":\"502, 200\"}"

static json_t *read_line(const char *parent, int status, const char *held)
{
        json_t *spans = json_array();
        char line[2048];
        int n = snprintf(line, sizeof(line), LINE, parent, status, held);

        assert_null(span_read(line, (size_t)n, spans));
        return spans;
}

static const char *text(const json_t *span, const char *key)
{
        const char *found = json_string_value(json_object_get(span, key));

        return found ? found : "";
}

/* The value of an attribute, whatever its kind; "" : there is none. */
static const char *attribute(const json_t *span, const char *name)
{
        const json_t *one;
        size_t i;

        json_array_foreach (json_object_get(span, "attributes"), i, one) {
                const json_t *value = json_object_get(one, "value");

                if (!strcmp(text(one, "key"), name))
                        return *text(value, "stringValue") ? text(value, "stringValue") : text(value, "intValue");
        }
        return "";
}

static void a_request_is_a_server_span_and_a_client_span(void **state)
{
        json_t *spans = read_line("", 200, "0.000");
        const json_t *server = json_array_get(spans, 0), *client = json_array_get(spans, 1);

        (void)state;
        assert_int_equal(json_array_size(spans), 2);
        assert_string_equal(text(server, "traceId"), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_string_equal(text(server, "name"), "POST /v1/chat/completions");
        assert_null(json_object_get(server, "parentSpanId"));
        assert_null(json_object_get(server, "status"));
        assert_string_equal(text(server, "startTimeUnixNano"), "1764000008500000000");
        assert_string_equal(text(server, "endTimeUnixNano"), "1764000010500000000");
        assert_string_equal(attribute(server, "http.response.status_code"), "200");
        assert_string_equal(attribute(server, "sublet.reason"), "cache");
        assert_string_equal(attribute(server, "sublet.cached_tokens"), "64");
        assert_string_equal(attribute(server, "sublet.key"), "");
        assert_string_equal(text(client, "parentSpanId"), "00f067aa0ba902b7");
        assert_string_equal(text(client, "spanId"), "2222222222222222");
        assert_string_equal(attribute(client, "server.address"), "10.0.0.8:80");
        assert_string_equal(attribute(client, "sublet.tries"), "2");
        assert_string_equal(text(json_array_get(json_object_get(client, "events"), 0), "timeUnixNano"),
                            "1764000008750500096"); /* as near as a double is */
        json_decref(spans);
}

static void what_was_held_is_a_span_before_the_clients(void **state)
{
        json_t *spans = read_line("00000000000000ab", 503, "500.0");
        const json_t *server = json_array_get(spans, 0), *hold = json_array_get(spans, 1),
                     *client = json_array_get(spans, 2);

        (void)state;
        assert_int_equal(json_array_size(spans), 3);
        assert_string_equal(text(server, "parentSpanId"), "00000000000000ab");
        assert_int_equal(json_integer_value(json_object_get(json_object_get(server, "status"), "code")), 2);
        assert_string_equal(text(hold, "name"), "hold");
        assert_string_equal(text(hold, "endTimeUnixNano"), "1764000009000000000");
        assert_string_equal(text(client, "startTimeUnixNano"), "1764000009000000000");
        json_decref(spans);
}

static void what_is_no_such_line_gives_nothing(void **state)
{
        static const char *const bad[] = {
                "",
                "<190>",
                "{",
                "[]",
                "{}",
                "{" IDS "}",
                "{" IDS ",\"end\":\"x\"}",
                "{" IDS ",\"end\":\"1.5\",\"seconds\":2}",
                "{\"trace\":\"00000000000000000000000000000000\",\"span\":\"00f067aa0ba902b7\",\"end\":\"5\"}",
                "{\"trace\":\"4BF92F3577B34DA6A3CE929D0E0E4736\",\"span\":\"00f067aa0ba902b7\",\"end\":\"5\"}",
        };
        json_t *spans = json_array();

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_non_null(span_read(bad[i], strlen(bad[i]), spans));
        assert_int_equal(json_array_size(spans), 0);
        json_decref(spans);
}

static void a_path_that_is_no_text_is_still_a_span(void **state)
{
        static const char line[] =
                "{" IDS ",\"end\":\"1764000010.5\",\"seconds\":0,\"method\":\"GET\",\"path\":\"/\xff\xfe\"}";
        json_t *spans = json_array();

        (void)state;
        assert_null(span_read(line, sizeof(line) - 1, spans));
        assert_string_equal(text(json_array_get(spans, 0), "name"), "GET /\?\?");
        json_decref(spans);
}

static void the_body_has_service_and_scope(void **state)
{
        json_t *spans = read_line("", 200, "0"), *body = span_wrap(spans, "router", "9.9"), *resource;

        (void)state;
        resource = json_array_get(json_object_get(body, "resourceSpans"), 0);
        assert_string_equal(attribute(json_object_get(resource, "resource"), "service.name"), "router");
        assert_ptr_equal(json_object_get(json_array_get(json_object_get(resource, "scopeSpans"), 0), "spans"), spans);
        json_decref(body);
        json_decref(spans);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_request_is_a_server_span_and_a_client_span),
                cmocka_unit_test(what_was_held_is_a_span_before_the_clients),
                cmocka_unit_test(what_is_no_such_line_gives_nothing),
                cmocka_unit_test(a_path_that_is_no_text_is_still_a_span),
                cmocka_unit_test(the_body_has_service_and_scope),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
