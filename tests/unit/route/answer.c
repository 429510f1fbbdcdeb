/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "route/answer.h"

#include <stdlib.h>
#include <string.h>

static void each_status_has_its_meaning(void **state)
{
        static const struct {
                unsigned int status;
                bool has_retry_after;
                enum answer wanted;
        } rows[] = {
                { 101, false, ANSWER_GOOD },   { 200, false, ANSWER_GOOD },    { 206, true, ANSWER_GOOD },
                { 301, false, ANSWER_CLIENT }, { 400, false, ANSWER_CLIENT },  { 401, false, ANSWER_CLIENT },
                { 407, false, ANSWER_CLIENT }, { 408, false, ANSWER_ERROR },   { 409, false, ANSWER_CLIENT },
                { 404, false, ANSWER_CLIENT }, { 422, true, ANSWER_CLIENT },   { 429, false, ANSWER_BUSY },
                { 429, true, ANSWER_BUSY },    { 499, false, ANSWER_CLIENT },  { 500, false, ANSWER_ERROR },
                { 500, true, ANSWER_ERROR },   { 501, false, ANSWER_CLIENT },  { 502, false, ANSWER_ERROR },
                { 503, false, ANSWER_ERROR },  { 503, true, ANSWER_BUSY },     { 504, false, ANSWER_ERROR },
                { 505, false, ANSWER_CLIENT }, { 529, false, ANSWER_ERROR },   { 0, false, ANSWER_GARBLED },
                { 99, false, ANSWER_GARBLED }, { 600, false, ANSWER_GARBLED }, { 999, true, ANSWER_GARBLED },
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                assert_int_equal(answer_of_status(rows[i].status, rows[i].has_retry_after), rows[i].wanted);
}

/* The table once more, as it was thought: a changed row must be changed here, too. */
static void each_end_of_a_try_has_its_meaning(void **state)
{
        static const struct {
                enum answer answer;
                enum answer_breaker breaker;
                enum answer_retry retry;
                bool teaches;
        } rows[] = {
                { ANSWER_NONE, BREAKER_KEEPS, RETRY_NEVER, false },
                { ANSWER_GOOD, BREAKER_CLEARS, RETRY_NEVER, true },
                { ANSWER_CLIENT, BREAKER_KEEPS, RETRY_NEVER, false },
                { ANSWER_BUSY, BREAKER_FILLS, RETRY_FREE, false },
                { ANSWER_ABSENT, BREAKER_KEEPS, RETRY_FREE, false },
                { ANSWER_ERROR, BREAKER_COUNTS, RETRY_BOUGHT, false },
                { ANSWER_GARBLED, BREAKER_COUNTS, RETRY_BOUGHT, false },
                { ANSWER_EMPTY, BREAKER_COUNTS, RETRY_BOUGHT, false },
                { ANSWER_BROKEN, BREAKER_COUNTS, RETRY_BOUGHT, false },
                { ANSWER_SILENT, BREAKER_COUNTS, RETRY_BOUGHT, false },
                { ANSWER_MOVED, BREAKER_KEEPS, RETRY_FREE, false },
                { ANSWER_REFUSED, BREAKER_TRIPS, RETRY_FREE, false },
                { ANSWER_STALE, BREAKER_KEEPS, RETRY_FREE, false },
                { ANSWER_CUT, BREAKER_COUNTS, RETRY_NEVER, false },
                { ANSWER_LEFT, BREAKER_KEEPS, RETRY_NEVER, false },
        };

        (void)state;
        assert_int_equal(ARRAY_SIZE(rows), ANSWERS);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const struct answer_meaning *is = answer_meaning(rows[i].answer);

                assert_int_equal(is->breaker, rows[i].breaker);
                assert_int_equal(is->retry, rows[i].retry);
                assert_int_equal(is->teaches, rows[i].teaches);
        }
}

static void begins(const char *body, struct answer_body how, enum answer wanted)
{
        if (answer_begun(body, strlen(body), how) != wanted)
                fail_msg("%s: %d, not %d", body, answer_begun(body, strlen(body), how), wanted);
}

static void any_byte_begins_an_answer_that_is_no_stream(void **state)
{
        static const struct answer_body plain = { 0 }, chunked = { .is_chunked = true };

        (void)state;
        begins("", plain, ANSWER_NONE);
        begins("{", plain, ANSWER_GOOD);
        begins(": ping", plain, ANSWER_GOOD);
        begins("", chunked, ANSWER_NONE);
        begins("1a\r\n", chunked, ANSWER_NONE);
        begins("1a;name=value\r\n", chunked, ANSWER_NONE);
        begins("1a\r\n{", chunked, ANSWER_GOOD);
        begins("0\r\n\r\n", chunked, ANSWER_GOOD); /* empty, and over */
        begins("no chunk", chunked, ANSWER_GOOD);  /* nginx will say so */
}

static void an_answer_that_ends_without_a_word_is_none(void **state)
{
        static const struct answer_body chunked = { .is_chunked = true, .must_say = true };
        static const struct answer_body events = { .is_chunked = true, .is_events = true, .must_say = true };

        (void)state;
        begins("0\r\n\r\n", chunked, ANSWER_EMPTY);
        begins("1\r\n{\r\n0\r\n\r\n", chunked, ANSWER_GOOD);
        begins("8\r\n: ping\n\n\r\n", events, ANSWER_NONE);
        begins("8\r\n: ping\n\n\r\n0\r\n\r\n", events, ANSWER_EMPTY);
}

static void comments_and_pings_begin_nothing(void **state)
{
        static const struct answer_body events = { .is_events = true };
        static const char *const quiet[] = {
                ":",
                ": ping - 12:00:01\n\n",
                ": ping\r\n\r\n: ping\r\n\r\n",
                "event: ping\ndata: {\"type\": \"ping\"}\n\n",
                "id: 1\nretry: 100\n\n",
                "data",
                "data:",
                "data: ",
                "event: message_start\n",
                "\n\n",
                "data: {\"id\"", /* until the line is whole */
                "data: {\"error\":null,\"id\":",
        };
        static const char *const begun[] = {
                "data: {\"id\":1}\n",
                "data:x",
                ": ping\n\ndata: [DONE]",
                "event: ping\ndata: {}\n\nevent: content_block_delta\ndata: {\"type\":\"m\"}\n",
                "event: ping\ndata: {}\n\ndata: 1",
                "data: {\"error\":null,\"id\":1}\r\n",
                "data: {\"e\n",
                "data:\n",
                "{\"object\"",
                "dat\n",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(quiet); i++)
                begins(quiet[i], events, ANSWER_NONE);
        for (size_t i = 0; i < ARRAY_SIZE(begun); i++)
                begins(begun[i], events, ANSWER_GOOD);
}

static void a_stream_that_begins_with_an_error_has_failed(void **state)
{
        static const struct answer_body events = { .is_events = true };

        (void)state;
        begins("data: {\"error\": {\"message\"", events, ANSWER_ERROR);
        begins("data: {\"error\":{", events, ANSWER_ERROR);
        begins("data: {\"object\": \"error\"", events, ANSWER_ERROR);
        begins("event: error\r\ndata: {\"type\":\"error\"", events, ANSWER_ERROR);
        begins("data: {\"error", events, ANSWER_NONE);
        begins("data: {\"object\":\"chat\"}\n", events, ANSWER_GOOD);
        begins("event: response.created\ndata: {}\n\nevent: response.failed\ndata: {", events, ANSWER_ERROR);
}

#define CHUNK(delta, end)                                                                                              \
        "data: {\"id\":\"\\\"delta\\\"\",\"choices\":[{\"index\":0,\"delta\":" delta ",\"finish_reason\":" end "}]}"   \
        "\n\n"

static void what_only_announces_an_answer_begins_nothing(void **state)
{
        static const struct answer_body events = { .is_events = true, .must_say = true };
        static const char *const quiet[] = {
                "event: response.created\ndata: {\"type\":\"response.created\"}\n\nevent: "
                "response.in_progress\r\ndata: {}\r\n\r\n",
                "event: message_start\ndata: {\"type\":\"message_start\"}\n\nevent:content_block_start\ndata: {}\n\n",
                CHUNK("{\"role\":\"assistant\",\"content\":\"\"}", "null"),
                CHUNK("{ \"content\" : null, \"tool_calls\": [ ], \"role\" : \"assistant\" }", " null"),
                CHUNK("{}", "null") CHUNK("{\"role\":\"assistant\"}", "null"),
        };
        static const char *const begun[] = {
                "event: response.created\ndata: {}\n\nevent: response.output_text.delta\ndata: {}\n",
                "event: response.created.late\ndata: {}\n",
                CHUNK("{\"role\":\"assistant\",\"content\":\" \"}", "null"),
                CHUNK("{\"role\":\"assistant\",\"tool_calls\":[{\"id\":1}]}", "null"),
                CHUNK("{\"role\":\"assistant\",\"content\":\"\"}", "\"stop\""),
                CHUNK("{\"role\":\"assistant\"}", "null") CHUNK("{\"content\":\"\\\"\"}", "null"),
                CHUNK("\"x\"", "null"),
                CHUNK("{\"role\":\"assistant\"}", "null") "data: [DONE]",
        };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(quiet); i++)
                begins(quiet[i], events, ANSWER_NONE);
        for (size_t i = 0; i < ARRAY_SIZE(begun); i++)
                begins(begun[i], events, ANSWER_GOOD);
}

/* However much of a line comes: it is not read beyond its end, and a long one is judged by its beginning. */
static void a_chunk_may_be_cut_anywhere(void **state)
{
        static const struct answer_body events = { .is_events = true };
        static const char chunk[] = CHUNK("{\"role\":\"assistant\",\"content\":\"\"}", "null");
        char line[6000] = "data: {\"a\":\"";

        (void)state;
        for (size_t n = 0; n < sizeof(chunk); n++) {
                char *piece = malloc(n + 1);

                assert_non_null(piece);
                memcpy(piece, chunk, n);
                assert_int_equal(answer_begun(piece, n, events), ANSWER_NONE);
                free(piece);
        }
        memset(line + strlen(line), 'x', sizeof(line) - strlen(line));
        assert_int_equal(answer_begun(line, sizeof(line), events), ANSWER_GOOD);
}

/* However a server cuts its chunks. */
static void chunks_may_be_cut_anywhere(void **state)
{
        static const struct answer_body how = { .is_chunked = true, .is_events = true };

        (void)state;
        begins("8\r\n: ping\n\n\r\n", how, ANSWER_NONE);
        begins("8\r\n: ping\n\n\r\n8\r\n: ping\n\n\r\n6\r\ndata: \r\n", how, ANSWER_NONE);
        begins("8\r\n: ping\n\n\r\n2\r\nda\r\n5\r\nta: x\r\n", how, ANSWER_GOOD);
        begins("2\r\n: \r\n2\r\nda\r\n3\r\nta:\r\n1\r\n\n\r\n", how, ANSWER_NONE);
        begins("8\r\n: ping\n\n\r\n0\r\n\r\n", how, ANSWER_GOOD);
}

static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_status_has_its_meaning),
        cmocka_unit_test(each_end_of_a_try_has_its_meaning),
        cmocka_unit_test(any_byte_begins_an_answer_that_is_no_stream),
        cmocka_unit_test(an_answer_that_ends_without_a_word_is_none),
        cmocka_unit_test(comments_and_pings_begin_nothing),
        cmocka_unit_test(a_stream_that_begins_with_an_error_has_failed),
        cmocka_unit_test(what_only_announces_an_answer_begins_nothing),
        cmocka_unit_test(a_chunk_may_be_cut_anywhere),
        cmocka_unit_test(chunks_may_be_cut_anywhere),
};

int main(void)
{
        return cmocka_run_group_tests(tests, NULL, NULL);
}
