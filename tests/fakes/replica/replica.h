/* SPDX-License-Identifier: Apache-2.0 */
/* One modelled replica: an engine behind a socket, and the answers it owes. */
#pragma once

#include "replica/http.h"
#include "simulator/engine.h"

#include <jansson.h>

enum fault {
        FAULT_NONE,
        FAULT_HANG,  /* reads the request, never answers */
        FAULT_STALL, /* the same, but for what is no inference: /health is well */
        FAULT_RST,   /* resets the connection instead of answering */
        FAULT_CLOSE, /* closes it without a byte */
        FAULT_MID,   /* resets it after the third token */
        FAULT_500,
        FAULT_503,
        FAULT_504,
        FAULT_429,
        FAULT_BUSY,    /* 503 with Retry-After */
        FAULT_EVENT,   /* a stream whose first event is an error */
        FAULT_GARBAGE, /* answers what is no HTTP */
        FAULTS,
};

extern const char *const FAULT_NAMES[FAULTS];

enum metrics_names {
        METRICS_VLLM,
        METRICS_VLLM_OLD, /* gpu_cache_usage_perc */
        METRICS_SGLANG,
};

struct replica_options {
        const char *model;
        double share, scale; /* part of the device; how much faster than real time */
        uint32_t blocks;
        double wake_seconds;
        double cold_seconds; /* the first iteration takes so much longer */
        bool is_early;       /* sends the head of a stream and a comment at once, as ASGI servers do */
        bool is_instant;     /* answers at once, without engine or JSON: for measuring a proxy */
        enum metrics_names metrics;
        struct engine_model engine;
};

struct replica {
        struct replica_options options;
        struct engine engine;
        nsec busy_until, wakes_at; /* INT64_MAX: idle; not asleep or not asked to wake */
        bool is_asleep;
        enum fault fault;
        uint64_t n_faults; /* how many more requests get it */
        uint64_t n_requests, n_done, n_aborted, n_tokens, n_first;
        nsec last_request, last_abort; /* CLOCK_MONOTONIC: a test on this machine can compare */
        double ttft_sum;
        struct replica *next;
};

enum answer_kind {
        ANSWER_CHAT,
        ANSWER_COMPLETION,
        ANSWER_RESPONSE,
        ANSWER_EMBEDDING,
};

/* What a client waits for. */
struct answer {
        struct engine_request request;
        struct replica *replica;
        struct http_conn *conn;
        enum answer_kind kind;
        bool is_stream, wants_usage, is_base64, is_mid_fault, is_begun;
        uint32_t n_inputs; /* of an embedding */
        char tool[64];     /* the function to be called; "": none */
        uint64_t id, *keys;
        uint32_t n_given; /* tokens */
        nsec came_at;
};

extern const struct http_calls REPLICA_CALLS;

int replica_new(const struct replica_options *options, struct replica **ret);
struct replica *replica_free(struct replica *replica);

/* Runs the engine up to now; when it wants to be called again. */
nsec replica_run(struct replica *replica, nsec now);

/* prompt.c: the tokens of a request's text, 4 bytes each, and a chained key per full block. The image and
 * the tools count. -EINVAL: not what this endpoint takes. */
int prompt_read(json_t *body, struct answer *answer, uint32_t block);

/* shapes.c: the API's words. */
const char *shape_word(uint64_t id, uint32_t i);
void shape_error(struct http_conn *conn, int status, const char *type, const char *text);
void shape_early(struct answer *answer); /* of a stream: its head and a comment, before there is a token */
void shape_begin(struct answer *answer); /* of a stream */
void shape_token(struct answer *answer); /* the next token of a stream */
void shape_end(struct answer *answer);   /* of a stream */
void shape_whole(struct answer *answer); /* an answer in one piece */
void shape_models(struct http_conn *conn, const struct replica *replica);

/* metrics.c */
void metrics_reply(struct http_conn *conn, const struct replica *replica);
void stats_reply(struct http_conn *conn, const struct replica *replica);
