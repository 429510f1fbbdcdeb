/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/replica.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *const FAULT_NAMES[FAULTS] = { "none", "hang", "stall", "rst",  "close", "mid",    "500",
                                          "503",  "504",  "429",   "busy", "event", "garbage" };

static struct answer *answer_free(struct answer *answer)
{
        if (answer)
                free(answer->keys);
        free(answer);
        return NULL;
}

static void answer_freep(struct answer **answer)
{
        *answer = answer_free(*answer);
}

/* The tokens it has by now, as far as a stream has not been given them. */
static void give(struct answer *answer, uint32_t n)
{
        while (answer->conn && answer->is_stream && answer->n_given < n) {
                shape_token(answer);
                answer->replica->n_tokens++;
                if (answer->is_mid_fault && answer->n_given == 3) {
                        http_close(answer->conn, true);
                        answer->conn = NULL;
                }
        }
}

static void on_first(struct engine_request *request, void *context)
{
        struct answer *answer = request->owner;
        struct replica *replica = context;

        replica->n_first++;
        replica->ttft_sum += (double)(clock_now() - answer->came_at) / (double)NSEC_PER_SEC;
        if (!answer->is_stream)
                return;
        shape_begin(answer);
        give(answer, 1);
}

static void on_end(struct engine_request *request, void *context)
{
        struct answer *answer = request->owner;
        struct replica *replica = context;

        give(answer, request->output);
        if (answer->conn && answer->is_stream)
                shape_end(answer);
        else if (answer->conn)
                shape_whole(answer);
        replica->n_done++;
        (void)answer_free(answer);
}

static const struct engine_calls CALLS = { on_first, on_end };

int replica_new(const struct replica_options *options, struct replica **ret)
{
        struct replica *replica = calloc(1, sizeof(*replica));

        if (!replica)
                return -ENOMEM;
        *replica = (struct replica){ .options = *options, .busy_until = INT64_MAX, .wakes_at = INT64_MAX };
        if (engine_init(&replica->engine, &replica->options.engine, options->blocks, &CALLS, replica) < 0) {
                free(replica);
                return -ENOMEM;
        }
        replica->engine.speed = options->share * options->scale;
        *ret = replica;
        return 0;
}

struct replica *replica_free(struct replica *replica)
{
        if (replica)
                engine_done(&replica->engine);
        free(replica);
        return NULL;
}

static void begin_iteration(struct replica *replica, nsec now)
{
        nsec span = replica->is_asleep ? 0 : engine_begin(&replica->engine);

        if (span && replica->options.cold_seconds > 0) {
                span += (nsec)(replica->options.cold_seconds * NSEC_PER_SEC);
                replica->options.cold_seconds = 0;
        }
        replica->busy_until = span ? now + span : INT64_MAX;
}

static void give_all(struct replica *replica)
{
        struct engine *e = &replica->engine;

        for (uint32_t i = 0; i < e->n_decoding; i++) {
                struct engine_request *request = e->decoding[i];

                give(request->owner, request->output - (uint32_t)(request->ends - e->n_iterations));
        }
}

nsec replica_run(struct replica *replica, nsec now)
{
        if (replica->wakes_at <= now) {
                replica->wakes_at = INT64_MAX;
                replica->is_asleep = false;
                begin_iteration(replica, now);
        }
        for (int i = 0; replica->busy_until <= now && i < 100; i++) {
                nsec at = replica->busy_until;

                engine_finish(&replica->engine);
                give_all(replica);
                begin_iteration(replica, at); /* on time, also if we were called late */
        }
        return replica->busy_until < replica->wakes_at ? replica->busy_until : replica->wakes_at;
}

static bool is_true(json_t *body, const char *name)
{
        return json_is_true(json_object_get(body, name));
}

static uint32_t n_wanted(json_t *body)
{
        static const char *const NAMES[] = { "max_completion_tokens", "max_tokens", "max_output_tokens" };

        for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++) {
                json_int_t n = json_integer_value(json_object_get(body, NAMES[i]));

                if (n > 0)
                        return n < 100000 ? (uint32_t)n : 100000;
        }
        return 16;
}

static int read_answer(struct replica *replica, json_t *body, enum answer_kind kind, struct answer **ret)
{
        _cleanup_(answer_freep) struct answer *answer = calloc(1, sizeof(*answer));
        const char *format = json_string_value(json_object_get(body, "encoding_format"));
        int r;

        if (!answer)
                return -ENOMEM;
        answer->replica = replica;
        answer->kind = kind;
        answer->id = replica->n_requests;
        answer->came_at = clock_now();
        answer->is_stream = kind != ANSWER_EMBEDDING && is_true(body, "stream");
        answer->wants_usage = is_true(json_object_get(body, "stream_options"), "include_usage");
        answer->is_base64 = format && strcmp(format, "base64") == 0;
        answer->is_mid_fault = replica->fault == FAULT_MID;
        r = prompt_read(body, answer, replica->options.engine.block);
        if (r < 0)
                return r;
        answer->request.output = kind == ANSWER_EMBEDDING ? 1 : n_wanted(body);
        answer->request.owner = answer;
        if (!engine_fits(&replica->engine, &answer->request))
                return -E2BIG;
        *ret = TAKE(answer);
        return 0;
}

static void infer(struct replica *replica, struct http_conn *conn, const struct http_request *request,
                  enum answer_kind kind)
{
        json_auto_t *body = json_loadb(request->body, request->body_size, 0, NULL);
        const char *model = json_string_value(json_object_get(body, "model"));
        struct answer *answer;
        int r;

        if (!json_is_object(body)) {
                shape_error(conn, 400, "invalid_request_error", "the body is not a JSON object");
                return;
        }
        if (!model || strcmp(model, replica->options.model) != 0) {
                shape_error(conn, 404, "NotFoundError", "the model does not exist");
                return;
        }
        r = read_answer(replica, body, kind, &answer);
        if (r < 0) {
                shape_error(conn, 400, "invalid_request_error",
                            r == -E2BIG ? "this is more than the maximum context length" : "nothing to answer");
                return;
        }
        answer->conn = conn;
        http_set(conn, answer);
        if (replica->options.is_early && answer->is_stream)
                shape_early(answer);
        engine_submit(&replica->engine, &answer->request);
        if (!replica->engine.is_busy)
                begin_iteration(replica, clock_now());
}

/* true: this request got the fault that is set. */
static bool fail(struct replica *replica, struct http_conn *conn)
{
        static const char GARBAGE[] = "\001\002 this is no HTTP\r\n\r\n";
        static const char ERROR_EVENT[] = "data: {\"error\":{\"message\":\"told to fail\",\"code\":500}}\n\n";
        enum fault fault = replica->fault;

        if (fault == FAULT_NONE)
                return false;
        if (replica->n_faults > 0 && --replica->n_faults == 0)
                replica->fault = FAULT_NONE;
        switch (fault) {
        case FAULT_HANG:
        case FAULT_STALL:
                return true;
        case FAULT_BUSY:
                http_reply(conn, 503, "application/json\r\nRetry-After: 1", "{}", 2);
                return true;
        case FAULT_EVENT:
                http_begin(conn, 200, "text/event-stream");
                http_chunk(conn, ERROR_EVENT, sizeof(ERROR_EVENT) - 1);
                http_end(conn);
                return true;
        case FAULT_RST:
        case FAULT_CLOSE:
                http_close(conn, fault == FAULT_RST);
                return true;
        case FAULT_GARBAGE:
                http_raw(conn, GARBAGE, sizeof(GARBAGE) - 1);
                http_close(conn, false);
                return true;
        case FAULT_500:
        case FAULT_503:
        case FAULT_504:
        case FAULT_429:
                shape_error(conn, atoi(FAULT_NAMES[fault]), "server_error", "told to fail");
                return true;
        default:
                return false;
        }
}

/* Without engine and JSON. */
static void instant(struct replica *replica, struct http_conn *conn, const struct http_request *request)
{
        struct answer answer = { .replica = replica, .conn = conn, .id = replica->n_requests, .request.output = 4 };

        answer.is_stream = memmem(request->body, request->body_size, "\"stream\":true", 13) ||
                           memmem(request->body, request->body_size, "\"stream\": true", 14);
        replica->n_done++;
        if (!answer.is_stream) {
                shape_whole(&answer);
                return;
        }
        shape_begin(&answer);
        give(&answer, answer.request.output);
        shape_end(&answer);
}

static void infer_or_fail(struct replica *replica, struct http_conn *conn, const struct http_request *request,
                          enum answer_kind kind)
{
        bool is_mid = replica->fault == FAULT_MID;

        replica->n_requests++;
        replica->last_request = clock_now();
        if (!is_mid && fail(replica, conn))
                return;
        if (replica->is_asleep)
                shape_error(conn, 503, "server_error", "the replica is asleep");
        else if (replica->options.is_instant)
                instant(replica, conn, request);
        else
                infer(replica, conn, request, kind);
        if (is_mid)
                (void)fail(replica, conn); /* counts it */
}

/* The text after "name=" in a query, up to its end (also further arguments); NULL: not there. */
static const char *argument(const char *query, const char *name)
{
        size_t length = strlen(name);

        for (const char *at = query; at; at = strchr(at, '&')) {
                at += *at == '&';
                if (strncmp(at, name, length) == 0 && at[length] == '=')
                        return at + length + 1;
        }
        return NULL;
}

static void set_fault(struct replica *replica, const char *query)
{
        const char *kind = argument(query, "kind"), *n = argument(query, "n");

        replica->fault = FAULT_NONE;
        for (enum fault f = FAULT_NONE; kind && f < FAULTS; f++)
                if (strncmp(kind, FAULT_NAMES[f], strlen(FAULT_NAMES[f])) == 0)
                        replica->fault = f;
        replica->n_faults = n ? strtoull(n, NULL, 10) : 0;
}

static void ok(struct http_conn *conn)
{
        http_reply(conn, 200, "application/json", "{}", 2);
}

static void wake(struct replica *replica)
{
        if (replica->is_asleep && replica->wakes_at == INT64_MAX)
                replica->wakes_at = clock_now() + (nsec)(replica->options.wake_seconds * NSEC_PER_SEC);
}

static void tokenize(struct replica *replica, struct http_conn *conn, const struct http_request *request)
{
        json_auto_t *body = json_loadb(request->body, request->body_size, 0, NULL);
        struct answer answer = { .kind = json_object_get(body, "messages") ? ANSWER_CHAT : ANSWER_COMPLETION };
        char text[128];
        int n;

        if (!body || prompt_read(body, &answer, replica->options.engine.block) < 0) {
                shape_error(conn, 400, "invalid_request_error", "nothing to tokenize");
                return;
        }
        n = snprintf(text, sizeof(text), "{\"count\":%u,\"max_model_len\":%u,\"tokens\":[]}", answer.request.input,
                     replica->options.blocks * replica->options.engine.block);
        http_reply(conn, 200, "application/json", text, (size_t)n);
        free(answer.keys);
}

static void administer(struct replica *replica, struct http_conn *conn, const struct http_request *request)
{
        const char *value = argument(request->query, "value");

        if (strcmp(request->path, "/sleep") == 0) {
                replica->is_asleep = true;
                replica->wakes_at = INT64_MAX;
                cache_clear(&replica->engine.cache);
        } else if (strcmp(request->path, "/wake_up") == 0) {
                wake(replica);
        } else if (strcmp(request->path, "/replica/fault") == 0) {
                set_fault(replica, request->query);
        } else if (strcmp(request->path, "/replica/clear") == 0) {
                cache_clear(&replica->engine.cache);
        } else if (strcmp(request->path, "/replica/share") == 0 && value && atof(value) > 0) {
                replica->engine.speed = atof(value) * replica->options.scale;
        } else {
                shape_error(conn, 404, "NotFoundError", "no such path");
                return;
        }
        ok(conn);
}

static void on_request(struct http_conn *conn, const struct http_request *request, void *listener)
{
        static const char *const PATHS[] = {
                [ANSWER_CHAT] = "/v1/chat/completions",
                [ANSWER_COMPLETION] = "/v1/completions",
                [ANSWER_RESPONSE] = "/v1/responses",
                [ANSWER_EMBEDDING] = "/v1/embeddings",
        };
        struct replica *replica = listener;

        for (enum answer_kind kind = ANSWER_CHAT; kind <= ANSWER_EMBEDDING; kind++)
                if (strcmp(request->path, PATHS[kind]) == 0) {
                        infer_or_fail(replica, conn, request, kind);
                        return;
                }
        if (strcmp(request->path, "/replica/stats") == 0)
                stats_reply(conn, replica);
        else if (strncmp(request->path, "/replica/", 9) != 0 && replica->fault == FAULT_HANG)
                return; /* a hung process answers nothing at all */
        else if (strcmp(request->path, "/v1/models") == 0)
                shape_models(conn, replica);
        else if (strcmp(request->path, "/metrics") == 0)
                metrics_reply(conn, replica);
        else if (strcmp(request->path, "/health") == 0)
                ok(conn);
        else if (strcmp(request->path, "/is_sleeping") == 0)
                http_reply(conn, 200, "application/json",
                           replica->is_asleep ? "{\"is_sleeping\":true}" : "{\"is_sleeping\":false}",
                           replica->is_asleep ? 20 : 21);
        else if (strcmp(request->path, "/tokenize") == 0)
                tokenize(replica, conn, request);
        else
                administer(replica, conn, request);
}

static void on_gone(struct http_conn *conn, void *listener)
{
        struct replica *replica = listener;
        struct answer *answer = http_get(conn);

        replica->n_aborted++;
        replica->last_abort = clock_now();
        if (!answer)
                return;
        engine_abort(&replica->engine, &answer->request);
        (void)answer_free(answer);
}

const struct http_calls REPLICA_CALLS = { on_request, on_gone };
