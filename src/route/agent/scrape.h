/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of an engine's /metrics that the router uses: vLLM (both generations of names), SGLang, TensorRT-LLM.
 *
 * The text is Prometheus' 0.0.4 (OpenMetrics reads the same here). It comes from a replica, which is not
 * trusted: any bytes, any length. Malformed lines are skipped.
 *
 * Pure. Threads: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scrape_value {
        double sum;
        uint32_t n; /* series seen; 0: the engine does not report this */
};

enum {
        SCRAPE_OK,
        SCRAPE_E_NOTHING, /* no known metric is in it */
};

struct scrape {
        struct scrape_value waiting, running;     /* requests */
        struct scrape_value kv_use;               /* 0 to 1, summed over the series */
        struct scrape_value kv_tokens;            /* size of the KV cache */
        struct scrape_value block_tokens, blocks; /* the same as two gauges */
        struct scrape_value looked_up;            /* tokens ever; less than before: the engine was restarted */
        struct scrape_value started;              /* seconds since the epoch */
};

/* text need not end with a NUL. SCRAPE_OK; SCRAPE_E_NOTHING (*ret is all zero). */
int scrape_parse(const char *text, size_t size, struct scrape *ret);

uint32_t scrape_kv_permille(const struct scrape *scrape); /* 0..1000 */
uint32_t scrape_kv_tokens(const struct scrape *scrape);   /* 0: not reported */
uint32_t scrape_waiting(const struct scrape *scrape);

/* The engine was restarted between the two, and lost its cache. False if that cannot be seen. */
bool scrape_is_restart(const struct scrape *before, const struct scrape *after);
