/* SPDX-License-Identifier: Apache-2.0 */
#include "route/agent/scrape.h"

#include "unit.h"

#include <stdio.h>
#include <string.h>

static int parse(const char *text, struct scrape *ret)
{
        return scrape_parse(text, strlen(text), ret);
}

static void both_generations_of_vllm_say_the_same(void **state)
{
        const char *names[] = { "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc" };
        char text[600];
        struct scrape s;

        (void)state;
        for (size_t i = 0; i < 2; i++) {
                (void)snprintf(text, sizeof(text),
                               "# HELP %s 1 means 100 percent usage.\n# TYPE %s gauge\n"
                               "%s{engine=\"0\",model_name=\"m\"} 0.25\n"
                               "vllm:num_requests_waiting{model_name=\"m\"} 3.0\n"
                               "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\",x=\"None\"} 1.0\n",
                               names[i], names[i], names[i]);
                assert_int_equal(parse(text, &s), SCRAPE_OK);
                assert_int_equal(scrape_kv_permille(&s), 250);
                assert_int_equal(scrape_waiting(&s), 3);
                assert_int_equal(scrape_kv_tokens(&s), 16000);
        }
}

static void sglang_is_read_with_colon_and_without(void **state)
{
        struct scrape s;

        (void)state;
        assert_int_equal(parse("sglang:num_queue_reqs{a=\"b\"} 2\nsglang:token_usage 0.5\n", &s), SCRAPE_OK);
        assert_int_equal(scrape_waiting(&s), 2);
        assert_int_equal(
                parse("sglang_num_queue_reqs 2\nsglang_cache_config_info{page_size=\"1\",num_pages=\"77\"} 1", &s),
                SCRAPE_OK);
        assert_int_equal(scrape_waiting(&s), 2);
        assert_int_equal(scrape_kv_tokens(&s), 77);
}

static void tensorrt_llm_reports_its_cache_in_two_gauges(void **state)
{
        struct scrape s;

        (void)state;
        (void)parse("trtllm_kv_cache_tokens_per_block 32\ntrtllm_kv_cache_max_blocks 100\n", &s);
        assert_int_equal(scrape_kv_tokens(&s), 3200);
}

static void data_parallel_engines_are_added_up(void **state)
{
        struct scrape s;

        (void)state;
        (void)parse("vllm:num_requests_waiting{engine=\"0\"} 1\nvllm:num_requests_waiting{engine=\"1\"} 2\n"
                    "vllm:kv_cache_usage_perc{engine=\"0\"} 0.2\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.4\n",
                    &s);
        assert_int_equal(scrape_waiting(&s), 3);
        assert_int_equal(scrape_kv_permille(&s), 300);
}

static void an_escaped_quote_does_not_end_a_label(void **state)
{
        struct scrape s;

        (void)state;
        (void)parse("vllm:num_requests_waiting{model_name=\"a\\\"} 9\\\\\"} 4 1700000000000\n", &s);
        assert_int_equal(scrape_waiting(&s), 4);
}

static void what_is_no_line_is_skipped(void **state)
{
        struct scrape s;

        (void)state;
        assert_int_equal(parse("", &s), SCRAPE_E_NOTHING);
        assert_int_equal(parse("<html>not found</html>", &s), SCRAPE_E_NOTHING);
        assert_int_equal(parse("vllm:num_requests_waiting{a=\"", &s), SCRAPE_E_NOTHING);
        assert_int_equal(scrape_parse("a\0b\nvllm:num_requests_waiting 1\n", 31, &s), SCRAPE_OK);
        assert_int_equal(parse("vllm:num_requests_waiting NaN\nvllm:num_requests_waiting -1\n", &s), SCRAPE_E_NOTHING);
        assert_int_equal(parse("vllm:num_requests_waiting\n}{ 4\nvllm:num_requests_waiting 1\n", &s), SCRAPE_OK);
        assert_int_equal(scrape_waiting(&s), 1);
        (void)parse("vllm:cache_config_info{block_size=\"1e300\",num_gpu_blocks=\"1e300\"} 1\n", &s);
        assert_int_equal(scrape_kv_tokens(&s), 2000000000);
}

static void a_restart_is_seen_by_its_start_or_by_a_counter(void **state)
{
        struct scrape a, b;

        (void)state;
        (void)parse("vllm:prefix_cache_queries_total 100\n", &a);
        (void)parse("vllm:prefix_cache_queries_total 120\n", &b);
        assert_false(scrape_is_restart(&a, &b));
        assert_true(scrape_is_restart(&b, &a));
        (void)parse("process_start_time_seconds 1.7e9\n", &a);
        assert_false(scrape_is_restart(&a, &b));
        (void)parse("process_start_time_seconds 1700000100\n", &b);
        assert_true(scrape_is_restart(&a, &b));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(both_generations_of_vllm_say_the_same),
                cmocka_unit_test(sglang_is_read_with_colon_and_without),
                cmocka_unit_test(tensorrt_llm_reports_its_cache_in_two_gauges),
                cmocka_unit_test(data_parallel_engines_are_added_up),
                cmocka_unit_test(an_escaped_quote_does_not_end_a_label),
                cmocka_unit_test(what_is_no_line_is_skipped),
                cmocka_unit_test(a_restart_is_seen_by_its_start_or_by_a_counter),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
