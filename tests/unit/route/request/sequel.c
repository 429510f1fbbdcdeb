/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "route/request/sequel.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define REQUEST "{\"model\":\"m\",\"stream\":true,\"prompt\":\"a\\u00e9\",\"max_tokens\":9"

static bool may(const char *body)
{
        uint32_t n;

        return sequel_may(body, strlen(body), &n);
}

static bool may_with(const char *fields)
{
        char body[512];

        (void)snprintf(body, sizeof(body), "%s%s}", REQUEST, fields);
        return may(body);
}

static void a_request_that_means_the_same_with_a_longer_prompt_may_go_on(void **state)
{
        uint32_t most = 0;

        (void)state;
        assert_true(sequel_may(REQUEST "}", sizeof(REQUEST), &most));
        assert_int_equal(most, 9);
        assert_true(may_with(",\"n\":1,\"best_of\":null,\"echo\":false,\"suffix\":\"\",\"logprobs\":null"));
        assert_true(may_with(",\"temperature\":0.7,\"stop\":[\"x\"],\"presence_penalty\":0.0,\"new\":null"));
}

static void what_would_mean_something_else_may_not(void **state)
{
        static const char *const fields[] = {
                ",\"n\":2",
                ",\"n\":true",
                ",\"best_of\":2",
                ",\"echo\":true",
                ",\"logprobs\":0",
                ",\"suffix\":\"x\"",
                ",\"presence_penalty\":-1",
                ",\"frequency_penalty\":0.1",
                ",\"response_format\":{\"type\":\"json_object\"}",
                ",\"new\":1",
                ",\"prompt\":\"twice\"",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
                assert_false(may_with(fields[i]));
        assert_false(may("{\"stream\":true,\"prompt\":\"a\"}"));
        assert_false(may("{\"stream\":true,\"prompt\":\"a\",\"max_tokens\":0}"));
        assert_false(may("{\"stream\":true,\"prompt\":\"a\",\"max_tokens\":4294967296}"));
        assert_false(may("{\"stream\":true,\"prompt\":[\"a\",\"b\"],\"max_tokens\":9}"));
        assert_false(may("{\"stream\":true,\"prompt\":[1,2],\"max_tokens\":9}"));
        assert_false(may("{\"stream\":false,\"prompt\":\"a\",\"max_tokens\":9}"));
        assert_false(may("[]"));
        assert_false(may(""));
}

/* What may be sent after this piece. */
static const char *feed(struct sequel *sequel, const char *text)
{
        static char sent[4096];
        const char *at;
        size_t size;

        assert_true(sequel_feed(sequel, text, strlen(text)));
        sequel_take(sequel, &at, &size);
        assert_true(size < sizeof(sent));
        memcpy(sent, at, size);
        sent[size] = 0;
        sequel_gone(sequel);
        return sent;
}

static struct sequel begin(void)
{
        struct sequel sequel;

        assert_int_equal(sequel_init(&sequel, 1024), 0);
        sequel.max_tokens = 9;
        return sequel;
}

#define EVENT(text) "data: {\"choices\":[{\"index\":0,\"text\":\"" text "\",\"finish_reason\":null}]}\n\n"

/* The prompt of the next request. */
static void expect_prompt(const struct sequel *sequel, const char *prompt, int max_tokens)
{
        size_t size = 0;
        char *text = sequel_body(sequel, REQUEST ",\"top_p\":0.5}", sizeof(REQUEST ",\"top_p\":0.5}") - 1, &size);
        json_t *body = json_loadb(text, size, 0, NULL);

        assert_string_equal(json_string_value(json_object_get(body, "prompt")), prompt);
        assert_int_equal(json_integer_value(json_object_get(body, "max_tokens")), max_tokens);
        assert_true(json_is_true(json_object_get(body, "stream")));
        assert_true(json_real_value(json_object_get(body, "top_p")) > 0.49);
        assert_int_equal(json_object_size(body), 5);
        json_decref(body);
        free(text);
}

static void only_whole_events_are_given_and_a_cut_one_comes_again(void **state)
{
        struct sequel sequel = begin();

        (void)state;
        assert_string_equal(feed(&sequel, ": ping\n\n" EVENT("b\\\"") "data: {\"cho"), ": ping\n\n" EVENT("b\\\""));
        assert_string_equal(feed(&sequel, "ices\":[{\"text\":\"\\n"), "");
        assert_string_equal(feed(&sequel, "\"}]}\r\n\r"), "");
        assert_string_equal(feed(&sequel, "\n"), "data: {\"choices\":[{\"text\":\"\\n\"}]}\r\n\r\n");
        assert_int_equal(sequel.n_tokens, 2);
        assert_string_equal(feed(&sequel, "data: {\"choices\":[{\"text\":\"lost"), "");
        sequel_cut(&sequel);
        assert_true(sequel_is_open(&sequel));
        expect_prompt(&sequel,
                      "a\xc3\xa9"
                      "b\"\n",
                      7);
        assert_string_equal(feed(&sequel, EVENT("c")), EVENT("c"));
        expect_prompt(&sequel,
                      "a\xc3\xa9"
                      "b\"\nc",
                      6);
        sequel_done(&sequel);
}

static void what_is_on_its_way_stays_where_it_is(void **state)
{
        struct sequel sequel = begin();
        const char *first, *second;
        size_t n;

        (void)state;
        assert_true(sequel_feed(&sequel, EVENT("1") "data", sizeof(EVENT("1")) + 3));
        sequel_take(&sequel, &first, &n);
        assert_int_equal(n, sizeof(EVENT("1")) - 1);
        assert_true(sequel_feed(&sequel, &EVENT("2")[4], sizeof(EVENT("2")) - 5));
        sequel_take(&sequel, &second, &n);
        assert_ptr_equal(second, first + sizeof(EVENT("1")) - 1);
        assert_memory_equal(first, EVENT("1") EVENT("2"), 2 * (sizeof(EVENT("1")) - 1));
        sequel_gone(&sequel);
        sequel_take(&sequel, &second, &n);
        assert_int_equal(n, 0);
        sequel_done(&sequel);
}

static void one_that_has_ended_is_not_open(void **state)
{
        static const char *const ends[] = {
                "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n",
                "data: [DONE]\n\n",
                "data:[DONE]\r\n\r\n",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
                struct sequel sequel = begin();

                (void)feed(&sequel, EVENT("1"));
                assert_true(sequel_is_open(&sequel));
                (void)feed(&sequel, "data: {\"choices\":[],\"usage\":{}}\n\n");
                assert_true(sequel_is_open(&sequel));
                (void)feed(&sequel, ends[i]);
                assert_false(sequel_is_open(&sequel));
                assert_false(sequel.is_lost);
                sequel_done(&sequel);
        }
}

static void one_with_all_its_tokens_is_not_open(void **state)
{
        struct sequel sequel = begin();
        size_t size;

        (void)state;
        for (int i = 0; i < 8; i++)
                (void)feed(&sequel, EVENT("1"));
        assert_true(sequel_is_open(&sequel));
        (void)feed(&sequel, EVENT("1"));
        assert_false(sequel_is_open(&sequel));
        assert_null(sequel_body(&sequel, REQUEST "}", sizeof(REQUEST), &size));
        sequel_done(&sequel);
}

static void what_is_not_understood_ends_it_and_is_given_as_it_is(void **state)
{
        static const char *const strange[] = {
                "data: {\"error\":{\"message\":\"died\"}}\n\n",
                "data: {\"error\":{},\"choices\":[]}\n\n",
                "data: no JSON\n\n",
                "data: {\"choices\":[{\"text\":1}]}\n\n",
                "data: {\"choices\":[{\"delta\":{}}]}\n\n",
                "data: {\"choices\":[{\"index\":1,\"text\":\"\"}]}\n\n",
                "data: {\"choices\":[{\"text\":\"\"},{\"text\":\"\"}]}\n\n",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
                struct sequel sequel = begin();
                char all[256];

                (void)snprintf(all, sizeof(all), "%sdata: half", strange[i]);
                assert_string_equal(feed(&sequel, all), all);
                assert_true(sequel.is_lost);
                assert_false(sequel_is_open(&sequel));
                assert_false(sequel_feed(&sequel, "x", 1));
                sequel_done(&sequel);
        }
}

static void an_event_that_is_too_long_ends_it(void **state)
{
        struct sequel sequel = begin();
        const char *at;
        size_t n;

        (void)state;
        for (int i = 0; i < 5; i++) {
                char part[1024];

                memset(part, 'a', sizeof(part));
                assert_true(sequel_feed(&sequel, part, sizeof(part)));
        }
        assert_false(sequel_feed(&sequel, "a", 1));
        assert_true(sequel.is_lost);
        sequel_take(&sequel, &at, &n);
        assert_int_equal(n, 5 * 1024);
        sequel_done(&sequel);
        sequel_done(&sequel);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_request_that_means_the_same_with_a_longer_prompt_may_go_on),
                cmocka_unit_test(what_would_mean_something_else_may_not),
                cmocka_unit_test(only_whole_events_are_given_and_a_cut_one_comes_again),
                cmocka_unit_test(what_is_on_its_way_stays_where_it_is),
                cmocka_unit_test(one_that_has_ended_is_not_open),
                cmocka_unit_test(one_with_all_its_tokens_is_not_open),
                cmocka_unit_test(what_is_not_understood_ends_it_and_is_given_as_it_is),
                cmocka_unit_test(an_event_that_is_too_long_ends_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
