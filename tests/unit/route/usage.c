/* SPDX-License-Identifier: Apache-2.0 */
#include "route/keys/usage.h"

#include "unit.h"

#include <string.h>

/* In pieces of so many bytes. */
static uint64_t read_in(const char *text, enum usage_form form, size_t piece, struct usage *ret)
{
        size_t size = strlen(text);

        usage_begin(ret, form);
        for (size_t at = 0; at < size; at += piece)
                usage_feed(ret, text + at, size - at < piece ? size - at : piece);
        return usage_tokens(ret);
}

/* The same, however it is cut. */
static uint64_t tokens_of(const char *text, enum usage_form form, struct usage *ret)
{
        uint64_t n = read_in(text, form, 1 << 20, ret);

        for (size_t piece = 1; piece < 40; piece++)
                assert_int_equal(read_in(text, form, piece, ret), n);
        return n;
}

static void usage_is_read_first_or_last_in_a_body(void **state)
{
        struct usage usage;

        (void)state;
        assert_int_equal(tokens_of("{\"id\":\"chatcmpl-1\",\"choices\":[{\"message\":{\"content\":\"hi\"}}],"
                                   "\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":30,\"total_tokens\":42,"
                                   "\"prompt_tokens_details\":{\"cached_tokens\":900}}}",
                                   USAGE_ONE, &usage),
                         42);
        assert_int_equal(usage.prompt, 12);
        assert_int_equal(usage.answer, 30);
        assert_string_equal(usage.id, "chatcmpl-1");
        assert_int_equal(
                tokens_of(" { \"usage\" : { \"input_tokens\" : 7 , \"output_tokens\" : 5 } , \"id\" : \"msg_1\" }",
                          USAGE_ONE, &usage),
                12);
        assert_int_equal(
                tokens_of("{\"data\":[{\"embedding\":[1,2]}],\"usage\":{\"prompt_tokens\":9,\"total_tokens\":9}}",
                          USAGE_ONE, &usage),
                9);
        assert_int_equal(tokens_of("{\"results\":[],\"usage\":{\"total_tokens\":56}}", USAGE_ONE, &usage), 56);
}

static void usage_is_read_in_one_event_of_a_stream(void **state)
{
        struct usage usage;

        (void)state;
        assert_int_equal(
                tokens_of("data: {\"id\":\"c-1\",\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n"
                          ": ping\n\n"
                          "data: "
                          "{\"id\":\"c-1\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}"
                          "\r\n\r\n"
                          "data: [DONE]\n\n",
                          USAGE_EVENTS, &usage),
                7);
        assert_int_equal(
                tokens_of(
                        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_7\","
                        "\"usage\":null}}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\","
                        "\"response\":{\"id\":\"resp_7\",\"output\":[{\"id\":\"msg_3\"}],"
                        "\"usage\":{\"input_tokens\":100,\"output_tokens\":11}}}\n\n",
                        USAGE_EVENTS, &usage),
                111);
        assert_string_equal(usage.id, "resp_7");
        assert_int_equal(
                tokens_of("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\","
                          "\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\nevent: message_delta\n"
                          "data: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":15}}\n\n",
                          USAGE_EVENTS, &usage),
                40);
        assert_int_equal(tokens_of("data: {\"usage\":\ndata: {\"total_tokens\": 5}}\n\n", USAGE_EVENTS, &usage), 5);
}

static void what_was_cached_of_a_prompt_counts_once(void **state)
{
        struct usage usage;

        (void)state;
        assert_int_equal(tokens_of("{\"usage\":{\"input_tokens\":3,\"cache_creation_input_tokens\":20,"
                                   "\"cache_read_input_tokens\":100,\"output_tokens\":5}}",
                                   USAGE_ONE, &usage),
                         128);
        assert_int_equal(tokens_of("{\"usage\":{\"input_tokens\":123,\"input_tokens_details\":{\"cached_tokens\":120},"
                                   "\"output_tokens\":5}}",
                                   USAGE_ONE, &usage),
                         128);
}

/* A client's own words come back in answers. */
static void what_others_wrote_into_an_answer_is_not_its_usage(void **state)
{
        static const char *const texts[] = {
                "{\"choices\":[{\"usage\":{\"prompt_tokens\":5}}]}",
                "{\"metadata\":{\"usage\":{\"prompt_tokens\":5}}}",
                "{\"response\":{\"metadata\":{\"usage\":{\"prompt_tokens\":5}}}}",
                "{\"response\":[{\"usage\":{\"prompt_tokens\":5}}]}",
                "{\"text\":\"\\\"},\\\"usage\\\":{\\\"prompt_tokens\\\":5}\"}",
                "{\"text\":\"usage\",\"x\":{\"prompt_tokens\":5}}",
                "{\"a\":\"usage\",\"prompt_tokens\":5}",
                "{\"usage\":[{\"prompt_tokens\":5}]}",
                "{\"usage\":{\"details\":{\"prompt_tokens\":5},\"prompt_tokens\":null}}",
                "{\"usage\":{\"prompt_tokens\":-5}}",
                "{\"usage\":{\"prompt_tokens\":\"5\"}}",
                "{\"usage\\u0000\":{\"prompt_tokens\":5}}",
                "[{\"usage\":{\"prompt_tokens\":5}}]",
                "",
        };
        struct usage usage;

        (void)state;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                assert_int_equal(tokens_of(texts[i], USAGE_ONE, &usage), 0);
                assert_false(usage.is_said);
        }
        assert_int_equal(tokens_of("event: {\"usage\":{\"prompt_tokens\":5}}\n\n", USAGE_EVENTS, &usage), 0);
        assert_int_equal(tokens_of("data: {\"usage\":\n\ndata: {\"prompt_tokens\":5}}\n\n", USAGE_EVENTS, &usage), 0);
}

static void a_large_body_is_read_like_a_small_one(void **state)
{
        static char text[3 << 20];
        const char *end = "\"]}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}";
        struct usage usage;

        (void)state;
        memset(text, 'x', sizeof(text) - 1);
        memcpy(text, "{\"choices\":[{\"a\":[\"", 19);
        memcpy(text + sizeof(text) - 1 - strlen(end), end, strlen(end));
        assert_int_equal(read_in(text, USAGE_ONE, 4096, &usage), 3);
        assert_int_equal(read_in(text, USAGE_ONE, 1, &usage), 3);
}

static void figures_have_a_bound_and_the_largest_counts(void **state)
{
        struct usage usage;

        (void)state;
        assert_int_equal(tokens_of("{\"usage\":{\"total_tokens\":99999999999999999999999999}}", USAGE_ONE, &usage),
                         USAGE_MAX);
        assert_int_equal(tokens_of("data: {\"usage\":{\"completion_tokens\":9}}\n\ndata: "
                                   "{\"usage\":{\"completion_tokens\":2}}\n\n",
                                   USAGE_EVENTS, &usage),
                         9);
        assert_int_equal(tokens_of("{\"usage\":{\"completion_tokens\":16.9}}", USAGE_ONE, &usage), 16);
}

static void lines_of_results_are_added_up(void **state)
{
        struct usage usage;

        (void)state;
        assert_int_equal(
                tokens_of("{\"custom_id\":\"1\",\"result\":{\"type\":\"succeeded\",\"message\":{\"id\":\"msg_1\","
                          "\"usage\":{\"input_tokens\":10,\"output_tokens\":5}}}}\n"
                          "{\"custom_id\":\"2\",\"result\":{\"type\":\"errored\",\"error\":{\"usage\":{\"input_"
                          "tokens\":9}}}}\n"
                          "{\"result\":{\"message\":{\"usage\":{\"input_tokens\":100},\"content\":[]},\"type\":"
                          "\"succeeded\"},"
                          "\"custom_id\":\"{\\\"usage\\\":{\\\"input_tokens\\\":7}}\"}\n",
                          USAGE_MANY, &usage),
                115);
        assert_true(usage.is_said);
        assert_int_equal(tokens_of("{\"result\":{\"usage\":{\"total_tokens\":5}}}", USAGE_MANY, &usage), 0);
        assert_int_equal(
                tokens_of("{\"usage\":{\"total_tokens\":5}}{\"usage\":{\"total_tokens\":5}}", USAGE_MANY, &usage), 10);
}

static void an_id_that_is_too_long_is_none(void **state)
{
        char text[300] = "{\"id\":\"", id[201] = "";
        struct usage usage;

        (void)state;
        memset(id, 'a', 200);
        (void)strcat(strcat(text, id), "\"}");
        (void)tokens_of(text, USAGE_ONE, &usage);
        assert_string_equal(usage.id, "");
        (void)tokens_of("{\"id\":\"a\\u0041\"}", USAGE_ONE, &usage);
        assert_string_equal(usage.id, "");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(usage_is_read_first_or_last_in_a_body),
                cmocka_unit_test(usage_is_read_in_one_event_of_a_stream),
                cmocka_unit_test(what_was_cached_of_a_prompt_counts_once),
                cmocka_unit_test(what_others_wrote_into_an_answer_is_not_its_usage),
                cmocka_unit_test(a_large_body_is_read_like_a_small_one),
                cmocka_unit_test(figures_have_a_bound_and_the_largest_counts),
                cmocka_unit_test(lines_of_results_are_added_up),
                cmocka_unit_test(an_id_that_is_too_long_is_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
