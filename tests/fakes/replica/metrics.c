/* SPDX-License-Identifier: Apache-2.0 */
/* What engines say of themselves, under their own names (both generations of vLLM, SGLang). */
#include "replica/replica.h"

#include <stdio.h>
#include <stdlib.h>

static void vllm(FILE *to, const struct replica *replica)
{
        const struct engine *e = &replica->engine;
        const char *model = replica->options.model;
        const char *use = replica->options.metrics == METRICS_VLLM_OLD ? "gpu_cache_usage_perc" : "kv_cache_usage_perc";

        (void)fprintf(to, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"%s\"} %u\n",
                      model, e->n_running);
        (void)fprintf(to, "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=\"%s\"} %u\n",
                      model, e->n_waiting);
        (void)fprintf(to, "# TYPE vllm:%s gauge\nvllm:%s{model_name=\"%s\"} %.3f\n", use, use, model,
                      engine_kv_permille(e) / 1000.0);
        (void)fprintf(to,
                      "# TYPE vllm:cache_config_info gauge\n"
                      "vllm:cache_config_info{block_size=\"%u\",num_gpu_blocks=\"%u\"} 1.0\n",
                      replica->options.engine.block, replica->options.blocks);
        (void)fprintf(to,
                      "# TYPE vllm:prefix_cache_queries_total counter\n"
                      "vllm:prefix_cache_queries_total{model_name=\"%s\"} %llu\n"
                      "# TYPE vllm:prefix_cache_hits_total counter\n"
                      "vllm:prefix_cache_hits_total{model_name=\"%s\"} %llu\n",
                      model, (unsigned long long)e->n_prompt, model, (unsigned long long)e->n_hit);
        (void)fprintf(to,
                      "# TYPE vllm:time_to_first_token_seconds histogram\n"
                      "vllm:time_to_first_token_seconds_bucket{le=\"+Inf\",model_name=\"%s\"} %llu\n"
                      "vllm:time_to_first_token_seconds_sum{model_name=\"%s\"} %.6f\n"
                      "vllm:time_to_first_token_seconds_count{model_name=\"%s\"} %llu\n",
                      model, (unsigned long long)replica->n_first, model, replica->ttft_sum, model,
                      (unsigned long long)replica->n_first);
}

static void sglang(FILE *to, const struct replica *replica)
{
        const struct engine *e = &replica->engine;

        (void)fprintf(to, "sglang:num_running_reqs{model_name=\"%s\"} %u\n", replica->options.model, e->n_running);
        (void)fprintf(to, "sglang:num_queue_reqs{model_name=\"%s\"} %u\n", replica->options.model, e->n_waiting);
        (void)fprintf(to, "sglang:token_usage{model_name=\"%s\"} %.3f\n", replica->options.model,
                      engine_kv_permille(e) / 1000.0);
        (void)fprintf(to, "sglang:cache_config_info{page_size=\"%u\",num_pages=\"%u\"} 1\n",
                      replica->options.engine.block, replica->options.blocks);
        (void)fprintf(to, "sglang:cached_tokens_total{model_name=\"%s\"} %llu\n", replica->options.model,
                      (unsigned long long)e->n_hit);
}

void metrics_reply(struct http_conn *conn, const struct replica *replica)
{
        char *text = NULL;
        size_t size = 0;
        FILE *to = open_memstream(&text, &size);

        if (!to)
                return;
        if (replica->options.metrics == METRICS_SGLANG)
                sglang(to, replica);
        else
                vllm(to, replica);
        (void)fclose(to);
        http_reply(conn, 200, "text/plain; version=0.0.4", text, size);
        free(text);
}

void stats_reply(struct http_conn *conn, const struct replica *replica)
{
        const struct engine *e = &replica->engine;
        char text[1024];
        int n = snprintf(
                text, sizeof(text),
                "{\"requests\":%llu,\"done\":%llu,\"aborted\":%llu,\"tokens\":%llu,\"running\":%u,\"waiting\":%u,"
                "\"blocks\":%u,\"prompt_tokens\":%llu,\"hit_tokens\":%llu,\"asleep\":%s,\"fault\":\"%s\","
                "\"last_request_ns\":%lld,\"last_abort_ns\":%lld}\n",
                (unsigned long long)replica->n_requests, (unsigned long long)replica->n_done,
                (unsigned long long)replica->n_aborted, (unsigned long long)replica->n_tokens, e->n_running,
                e->n_waiting, e->cache.n_blocks, (unsigned long long)e->n_prompt, (unsigned long long)e->n_hit,
                replica->is_asleep ? "true" : "false", FAULT_NAMES[replica->fault], (long long)replica->last_request,
                (long long)replica->last_abort);

        http_reply(conn, 200, "application/json", text, (size_t)n);
}
