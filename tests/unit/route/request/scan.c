/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "route/request/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct scan scan;
static struct prefix prefix;

static int read_body(const char *body)
{
        scan_begin(&scan, &prefix);
        (void)scan_feed(&scan, body, strlen(body));
        return scan_end(&scan);
}

/* The hash of the prompt, made long enough for a block. */
static uint64_t hash_of(const char *before, const char *after)
{
        char body[4096], text[601];

        memset(text, 'x', 600);
        text[600] = '\0';
        (void)snprintf(body, sizeof(body), "%s%s%s", before, text, after);
        assert_int_equal(read_body(body), SCAN_OK);
        assert_true(prefix.n_blocks >= 2);
        return prefix.chain[1];
}

static void what_the_router_needs_is_found(void **state)
{
        (void)state;
        assert_int_equal(read_body("{\"model\":\"m\\u00e9\", \"stream\" : "
                                   "true,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
                                   "\"user\":\"u\",\"session_id\":\"s\",\"priority\":-3,\"max_tokens\":77,\"n\":2,"
                                   "\"other\":{\"model\":\"no\",\"stream\":false}}"),
                         SCAN_OK);
        assert_string_equal(scan.model.text, "m\xc3\xa9");
        assert_string_equal(scan.user.text, "u");
        assert_string_equal(scan.session.text, "s");
        assert_true(scan.is_stream && scan.has_model && scan.has_prompt);
        assert_int_equal(scan.priority, -3);
        assert_int_equal(scan.n_priorities, 1);
        assert_int_equal(scan.n_priority, 2);
        assert_int_equal(scan.max_tokens, 77);
        assert_int_equal(scan.n, 2);
        assert_int_equal(prefix.size, 8); /* "user" and "hi", each with its end */
}

static void the_last_of_equal_keys_counts(void **state)
{
        (void)state;
        assert_int_equal(read_body("{\"model\":\"a\",\"model\":\"b\",\"stream\":true,\"stream\":false}"), SCAN_OK);
        assert_string_equal(scan.model.text, "b");
        assert_false(scan.is_stream);
}

static void the_background_of_a_picture_is_no_mistake(void **state)
{
        (void)state;
        assert_int_equal(read_body("{\"model\":\"a\",\"input\":\"b\",\"background\":true}"), SCAN_OK);
        assert_true(scan.is_background);
        assert_int_equal(read_body("{\"model\":\"a\",\"prompt\":\"b\",\"background\":\"transparent\"}"), SCAN_OK);
        assert_false(scan.is_background);
        assert_int_equal(read_body("{\"model\":\"a\",\"background\":{\"a\":[1]}}"), SCAN_OK);
        assert_false(scan.is_background);
}

static void order_of_the_other_keys_does_not_matter(void **state)
{
        uint64_t one = hash_of("{\"model\":\"m\",\"temperature\":0.5,\"messages\":[{\"role\":\"user\",\"content\":\"",
                               "\"}]}");
        uint64_t two = hash_of("{\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}],\"seed\":7,\"model\":\"m\"}");

        (void)state;
        assert_int_equal(one, two);
        assert_int_not_equal(one, hash_of("{\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}],\"model\":\"n\"}"));
        assert_int_not_equal(one,
                             hash_of("{\"messages\":[{\"role\":\"system\",\"content\":\"", "\"}],\"model\":\"m\"}"));
        assert_int_not_equal(two, hash_of("{\"messages\":[{\"role\":\"user\",\"content\":\"",
                                          "\"}],\"model\":\"m\",\"cache_salt\":\"z\"}"));
}

static void content_as_parts_is_content_as_text(void **state)
{
        (void)state;
        assert_int_equal(
                hash_of("{\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]}"),
                hash_of("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"", "\"}]}]}"));
}

static void a_picture_counts_by_its_hash(void **state)
{
        static const char form[] =
                "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":"
                "{\"url\":\"data:%s\"}},{\"type\":\"text\",\"text\":\"";
        char one[300], two[300];

        (void)state;
        (void)snprintf(one, sizeof(one), form, "AAAA");
        (void)snprintf(two, sizeof(two), form, "AAAB");
        assert_int_equal(hash_of(one, "\"}]}]}"), hash_of(one, "\"}]}]}"));
        assert_int_not_equal(hash_of(one, "\"}]}]}"), hash_of(two, "\"}]}]}"));
        assert_int_equal(scan.n_media, 1);
}

/* The bytes of the prompt before a text that is long enough to be hashed. */
static uint64_t part(const char *fields)
{
        char head[400];

        (void)snprintf(head, sizeof(head),
                       "{\"messages\":[{\"role\":\"user\",\"content\":[{%s},{\"type\":\"text\",\"text\":\"", fields);
        return hash_of(head, "\"}]}]}");
}

#define AT(url) "\"type\":\"image_url\",\"image_url\":{\"url\":" url "}"

static void a_medium_at_an_address_is_what_its_mark_is(void **state)
{
        uint64_t plain = part(AT("\"http://a/1\"")), marked = part(AT("\"http://a/1\"") ",\"uuid\":\"e1\"");

        (void)state;
        assert_int_equal(part(AT("\"http://a/1\"")), plain);
        assert_int_not_equal(part(AT("\"http://a/2\"")), plain);
        assert_int_not_equal(marked, plain);
        assert_int_not_equal(part(AT("\"http://a/1\"") ",\"uuid\":\"e2\""), marked); /* other content now */
        assert_int_equal(part(AT("\"http://a/1?signed=2\"") ",\"uuid\":\"e1\""), marked);
        assert_int_equal(part("\"uuid\":\"e1\"," AT("\"http://a/1\"")), marked);
        assert_int_equal(part(AT("null") ",\"uuid\":\"e1\""), marked); /* the engine has it */
        assert_int_equal(part("\"image_url\":null,\"uuid\":\"e1\""), marked);
        assert_int_equal(part(AT("\"http://a/1\"") ",\"uuid\":null"), plain);
        assert_int_equal(part(AT("\"http://a/1\"") ",\"uuid\":\"\""), plain);
        assert_int_equal(part(AT("\"http://a/1\"") ",\"uuid\":[\"e1\"]"), plain);
        assert_int_equal(scan.n_media, 1);
        (void)part("\"type\":\"text\",\"uuid\":\"e1\"");
        assert_int_equal(scan.n_media, 0);
}

static void a_mark_is_of_its_part_alone(void **state)
{
        uint64_t two = part(AT("\"http://a/1\"") "},{" AT("\"http://a/2\""));

        (void)state;
        assert_int_not_equal(part(AT("\"http://a/1\"") ",\"uuid\":\"e\"},{" AT("\"http://a/2\"")), two);
        assert_int_not_equal(part(AT("\"http://a/1\"") ",\"uuid\":\"e\"},{" AT("\"http://a/2\"")),
                             part(AT("\"http://a/1\"") "},{" AT("\"http://a/2\"") ",\"uuid\":\"e\""));
        assert_int_equal(scan.n_media, 2);
}

static void tools_are_part_of_the_prompt(void **state)
{
        (void)state;
        assert_int_not_equal(hash_of("{\"tools\":[{\"name\":\"a\"}],\"messages\":[{\"content\":\"", "\"}]}"),
                             hash_of("{\"tools\":[{\"name\":\"b\"}],\"messages\":[{\"content\":\"", "\"}]}"));
        assert_int_not_equal(hash_of("{\"tools\":[{\"name\":1}],\"messages\":[{\"content\":\"", "\"}]}"),
                             hash_of("{\"tools\":[{\"name\":2}],\"messages\":[{\"content\":\"", "\"}]}"));
}

static void prompts_come_as_text_lists_and_tokens(void **state)
{
        (void)state;
        assert_int_equal(read_body("{\"prompt\":\"abc\"}"), SCAN_OK);
        assert_int_equal(prefix.size, 4);
        assert_int_equal(read_body("{\"prompt\":[\"a\",\"b\"]}"), SCAN_OK);
        assert_int_equal(prefix.size, 4);
        assert_int_equal(read_body("{\"prompt\":[[1,22],[3]]}"), SCAN_OK);
        assert_int_equal(prefix.size, 7);
        assert_int_equal(read_body("{\"input\":[\"a\",\"b\"]}"), SCAN_OK);
        assert_int_equal(prefix.size, 4);
        assert_int_equal(
                read_body("{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"}]}]}"),
                SCAN_OK);
        assert_int_equal(prefix.size, 7);
}

static void what_is_not_a_json_object_is_refused(void **state)
{
        static const struct {
                const char *body;
                int error;
        } cases[] = {
                { "", SCAN_E_SHORT },
                { "{", SCAN_E_SHORT },
                { "{\"a\":", SCAN_E_SHORT },
                { "{\"a\":1", SCAN_E_SHORT },
                { "{\"a\":tru", SCAN_E_SHORT },
                { "[]", SCAN_E_OBJECT },
                { "\"a\"", SCAN_E_OBJECT },
                { "{}}", SCAN_E_JSON },
                { "{} {}", SCAN_E_JSON },
                { "{\"a\" 1}", SCAN_E_JSON },
                { "{\"a\":1,}", SCAN_E_JSON },
                { "{,}", SCAN_E_JSON },
                { "{\"a\":[1,]}", SCAN_E_JSON },
                { "{\"a\":[1}", SCAN_E_JSON },
                { "{a:1}", SCAN_E_JSON },
                { "{'a':1}", SCAN_E_JSON },
                { "{\"a\":01}", SCAN_E_JSON },
                { "{\"a\":1.}", SCAN_E_JSON },
                { "{\"a\":+1}", SCAN_E_JSON },
                { "{\"a\":1e}", SCAN_E_JSON },
                { "{\"a\":NaN}", SCAN_E_JSON },
                { "{\"a\":truE}", SCAN_E_JSON },
                { "{\"a\":\"\n\"}", SCAN_E_JSON },
                { "{\"a\":\"\\x\"}", SCAN_E_JSON },
                { "{\"a\":\"\\u12g4\"}", SCAN_E_JSON },
                { "{\"model\":1}", SCAN_E_TYPE },
                { "{\"model\":[\"a\"]}", SCAN_E_TYPE },
                { "{\"stream\":\"yes\"}", SCAN_E_TYPE },
                { "{\"max_tokens\":1.5}", SCAN_E_TYPE },
                { "{\"max_tokens\":1234567890123456789012345678901234567890}", SCAN_E_TYPE },
                { "{\"a\":01234567890123456789012345678901234567890}", SCAN_E_JSON },
                { "{\"a\":1234567890123456789012345678901234567890.}", SCAN_E_JSON },
                { "{\"a\":1234567890123456789012345678901234567890.5.5}", SCAN_E_JSON },
                { "{\"a\":1.1234567890123456789012345678901234567890e}", SCAN_E_JSON },
                { "{\"a\":-1234567890123456789012345678901234567890-}", SCAN_E_JSON },
                { "\xef\xbb{}", SCAN_E_OBJECT },
                { " \xef\xbb\xbf{}", SCAN_E_OBJECT },
                { "\xef\xbb\xbf\xef\xbb\xbf{}", SCAN_E_OBJECT },
                { "\xef\xbb\xbf[]", SCAN_E_OBJECT },
                { "{\"a\":\xef\xbb\xbf{}}", SCAN_E_JSON },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                if (read_body(cases[i].body) != cases[i].error)
                        print_message("# %s: error %d\n", cases[i].body, scan.failed);
                assert_int_equal(scan.failed, cases[i].error);
        }
}

static void json_that_is_right_is_taken(void **state)
{
        static const char *const bodies[] = {
                "{}",
                " \t\r\n{ } \n",
                "{\"a\":[],\"b\":{},\"c\":[[],{}],\"d\":null,\"e\":[1,-0,0.5,1e9,-1.5E-3,true,false,null,\"x\"]}",
                "{\"\":\"\"}",
                "{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\ud83d\\ude00\\ud83d\"}",
                "{\"model\":null}",
                "\xef\xbb\xbf{}", /* a byte order mark */
                "\xef\xbb\xbf \n{}",
                "{\"a\":1234567890123456789012345678901234567890}", /* numbers of any length */
                "{\"a\":-1234567890123456789012345678901234567890.1234567890123456789012345678901234567890e-"
                "1234567890123456789012345678901234567890,\"b\":[1234567890123456789012345678901234567890,0."
                "1234567890123456789012345678901234567890]}",
                "{\"prompt\":[[1234567890123456789012345678901234567890]]}",
        };

        (void)state;
        for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
                assert_int_equal(read_body(bodies[i]), SCAN_OK);
}

static void escapes_are_the_characters_they_stand_for(void **state)
{
        (void)state;
        assert_int_equal(hash_of("{\"prompt\":\"a\\u00e9\\ud83d\\ude00\\n", "\"}"),
                         hash_of("{\"prompt\":\"\\u0061\xc3\xa9\xf0\x9f\x98\x80\\u000a", "\"}"));
}

/* One prompt after the other, with runs of all lengths between their escapes, and read in pieces. */
static void escapes_may_be_anywhere_in_a_text(void **state)
{
        static const struct {
                const char *written, *meant;
        } escapes[] = { { "\\n", "\n" },
                        { "\\\"", "\"" },
                        { "\\\\", "\\" },
                        { "\\u00e9", "\xc3\xa9" },
                        { "\\ud83d\\ude00", "\xf0\x9f\x98\x80" } };
        enum { MOST = 40000 };
        static char body[MOST + 100], text[MOST];
        static struct prefix meant;
        unsigned int seed = 3;

        (void)state;
        for (unsigned int longest = 1; longest < 1000; longest = longest * 3 / 2 + 1) {
                size_t n = (size_t)sprintf(body, "{\"model\":\"m\",\"prompt\":\""), n_text = 0;

                while (n < MOST - longest - 20) {
                        unsigned int run = (unsigned int)rand_r(&seed) % longest,
                                     which = (unsigned int)rand_r(&seed) % 5;

                        for (; run; run--)
                                text[n_text++] = body[n++] = (char)('a' + rand_r(&seed) % 26);
                        n += (size_t)sprintf(body + n, "%s", escapes[which].written);
                        n_text += (size_t)sprintf(text + n_text, "%s", escapes[which].meant);
                }
                n += (size_t)sprintf(body + n, "\"}");
                prefix_begin(&meant);
                prefix_text(&meant, text, n_text);
                prefix_text(&meant, "\x1f", 1);
                prefix_bind(&meant, "m", 1, "", 0);
                scan_begin(&scan, &prefix);
                for (size_t at = 0, piece; at < n; at += piece) {
                        piece = 1 + (size_t)rand_r(&seed) % 2000;
                        piece = piece < n - at ? piece : n - at;
                        assert_int_equal(scan_feed(&scan, body + at, piece), SCAN_OK);
                }
                assert_int_equal(scan_end(&scan), SCAN_OK);
                assert_int_equal(prefix.size, meant.size);
                assert_int_equal(prefix.n_blocks, meant.n_blocks);
                assert_memory_equal(prefix.chain, meant.chain, meant.n_blocks * sizeof(*meant.chain));
        }
}

static void depth_and_names_have_bounds(void **state)
{
        char body[700];

        (void)state;
        (void)strcpy(body, "{\"a\":");
        memset(body + 5, '[', 100);
        body[105] = '\0';
        assert_int_equal(read_body(body), SCAN_E_DEPTH);
        (void)strcpy(body, "{\"model\":\"");
        memset(body + 10, 'm', 300);
        (void)strcpy(body + 310, "\"}");
        assert_int_equal(read_body(body), SCAN_E_LONG);
}

static void pieces_of_any_size_give_the_same(void **state)
{
        static const char body[] =
                "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"a\\ud83d\\ude00\\\"b\"},"
                "{\"content\":[{\"image_url\":{\"url\":\"http://x\"}},{\"text\":\"t\"}]}],\"n\":12,"
                "\"stream\":true,\"tools\":[1,2,{\"k\":\"v\"}]}";
        struct scan whole;
        uint64_t size;

        (void)state;
        assert_int_equal(read_body(body), SCAN_OK);
        whole = scan;
        size = prefix.size;
        for (size_t cut = 1; cut < 9; cut++) {
                scan_begin(&scan, &prefix);
                for (size_t at = 0; at < sizeof(body) - 1; at += cut)
                        assert_int_equal(
                                scan_feed(&scan, body + at, cut < sizeof(body) - 1 - at ? cut : sizeof(body) - 1 - at),
                                SCAN_OK);
                assert_int_equal(scan_end(&scan), SCAN_OK);
                assert_string_equal(scan.model.text, whole.model.text);
                assert_int_equal(scan.n, 12);
                assert_int_equal(scan.n_media, 1);
                assert_int_equal(prefix.size, size);
                assert_int_equal(scan.at, sizeof(body) - 1);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_the_router_needs_is_found),
                cmocka_unit_test(the_last_of_equal_keys_counts),
                cmocka_unit_test(the_background_of_a_picture_is_no_mistake),
                cmocka_unit_test(order_of_the_other_keys_does_not_matter),
                cmocka_unit_test(content_as_parts_is_content_as_text),
                cmocka_unit_test(a_picture_counts_by_its_hash),
                cmocka_unit_test(a_medium_at_an_address_is_what_its_mark_is),
                cmocka_unit_test(a_mark_is_of_its_part_alone),
                cmocka_unit_test(tools_are_part_of_the_prompt),
                cmocka_unit_test(prompts_come_as_text_lists_and_tokens),
                cmocka_unit_test(what_is_not_a_json_object_is_refused),
                cmocka_unit_test(json_that_is_right_is_taken),
                cmocka_unit_test(escapes_are_the_characters_they_stand_for),
                cmocka_unit_test(escapes_may_be_anywhere_in_a_text),
                cmocka_unit_test(depth_and_names_have_bounds),
                cmocka_unit_test(pieces_of_any_size_give_the_same),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
