/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shapes of the OpenAI API that clients and routers look at: enough for the official clients to be
 * content, and no more.
 */
#include "replica/replica.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const WORDS[] = { " the", " one", " two", " and", " sea", " sun", " old", " new" };

const char *shape_word(uint64_t id, uint32_t i)
{
        return WORDS[(id * 31 + i * 7 + (i >> 3)) % 8];
}

static void reply(struct http_conn *conn, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void reply(struct http_conn *conn, int status, const char *format, ...)
{
        va_list args;
        char *text = NULL;
        int n;

        va_start(args, format);
        n = vasprintf(&text, format, args);
        va_end(args);
        if (n >= 0) {
                http_reply(conn, status, "application/json", text, (size_t)n);
                free(text);
        }
}

static void event(struct http_conn *conn, const char *name, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* One server-sent event; name: of the Responses API, else NULL. */
static void event(struct http_conn *conn, const char *name, const char *format, ...)
{
        char text[2048];
        va_list args;
        int n = name ? snprintf(text, sizeof(text), "event: %s\n", name) : 0;

        n += snprintf(text + n, sizeof(text) - (size_t)n, "data: ");
        va_start(args, format);
        n += vsnprintf(text + n, sizeof(text) - (size_t)n, format, args);
        va_end(args);
        if (n > 0 && (size_t)n + 2 < sizeof(text)) {
                memcpy(text + n, "\n\n", 2);
                http_chunk(conn, text, (size_t)n + 2);
        }
}

void shape_error(struct http_conn *conn, int status, const char *type, const char *text)
{
        reply(conn, status, "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":%d}}", text, type,
              status);
}

void shape_models(struct http_conn *conn, const struct replica *replica)
{
        reply(conn, 200,
              "{\"object\":\"list\",\"data\":[{\"id\":\"%s\",\"object\":\"model\",\"created\":1700000000,"
              "\"owned_by\":\"replica\",\"max_model_len\":%u}]}",
              replica->options.model, replica->options.blocks * replica->options.engine.block);
}

static void usage(const struct answer *answer, char ret[256])
{
        const struct engine_request *q = &answer->request;

        (void)snprintf(ret, 256,
                       "{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,"
                       "\"prompt_tokens_details\":{\"cached_tokens\":%u}}",
                       q->input, q->output, q->input + q->output, q->matched);
}

static void usage_of_response(const struct answer *answer, char ret[256])
{
        const struct engine_request *q = &answer->request;

        (void)snprintf(ret, 256,
                       "{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u},\"output_tokens\":%u,"
                       "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":%u}",
                       q->input, q->matched, q->output, q->input + q->output);
}

static void chunk(struct answer *answer, const char *delta, const char *finish)
{
        const char *model = answer->replica->options.model;

        if (answer->kind == ANSWER_CHAT)
                event(answer->conn, NULL,
                      "{\"id\":\"chatcmpl-%llx\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
                      "\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":%s,\"logprobs\":null,\"finish_reason\":%s}]"
                      "}",
                      (unsigned long long)answer->id, model, delta, finish);
        else
                event(answer->conn, NULL,
                      "{\"id\":\"cmpl-%llx\",\"object\":\"text_completion\",\"created\":1700000000,\"model\":\"%s\","
                      "\"choices\":[{\"index\":0,\"text\":%s,\"logprobs\":null,\"finish_reason\":%s}]}",
                      (unsigned long long)answer->id, model, delta, finish);
}

static void response(const struct answer *answer, const char *status, const char *text, char *ret, size_t size)
{
        char counts[256] = "null", output[1400] = "";

        if (text) {
                usage_of_response(answer, counts);
                (void)snprintf(output, sizeof(output),
                               "{\"type\":\"message\",\"id\":\"msg_%llx\",\"status\":\"completed\","
                               "\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"%s\","
                               "\"annotations\":[]}]}",
                               (unsigned long long)answer->id, text);
        }
        (void)snprintf(ret, size,
                       "{\"id\":\"resp_%llx\",\"object\":\"response\",\"created_at\":1700000000,\"status\":\"%s\","
                       "\"model\":\"%s\",\"error\":null,\"incomplete_details\":null,\"instructions\":null,"
                       "\"metadata\":{},\"parallel_tool_calls\":true,\"temperature\":1,\"tool_choice\":\"auto\","
                       "\"tools\":[],\"top_p\":1,\"output\":[%s],\"usage\":%s}",
                       (unsigned long long)answer->id, status, answer->replica->options.model, output, counts);
}

void shape_early(struct answer *answer)
{
        static const char comment[] = ": ping\n\n";

        http_begin(answer->conn, 200, "text/event-stream");
        http_chunk(answer->conn, comment, sizeof(comment) - 1);
        answer->is_begun = true;
}

void shape_begin(struct answer *answer)
{
        char text[1024];

        if (!answer->is_begun)
                http_begin(answer->conn, 200, "text/event-stream");
        if (answer->kind == ANSWER_CHAT)
                chunk(answer, "{\"role\":\"assistant\",\"content\":\"\"}", "null");
        if (answer->kind != ANSWER_RESPONSE)
                return;
        response(answer, "in_progress", NULL, text, sizeof(text));
        event(answer->conn, "response.created", "{\"type\":\"response.created\",\"sequence_number\":0,\"response\":%s}",
              text);
}

void shape_token(struct answer *answer)
{
        const char *word = shape_word(answer->id, answer->n_given++);
        char delta[256];

        if (answer->kind == ANSWER_RESPONSE) {
                event(answer->conn, "response.output_text.delta",
                      "{\"type\":\"response.output_text.delta\",\"sequence_number\":%u,\"item_id\":\"msg_%llx\","
                      "\"output_index\":0,\"content_index\":0,\"delta\":\"%s\"}",
                      answer->n_given, (unsigned long long)answer->id, word);
                return;
        }
        if (answer->kind == ANSWER_COMPLETION)
                (void)snprintf(delta, sizeof(delta), "\"%s\"", word);
        else if (!answer->tool[0])
                (void)snprintf(delta, sizeof(delta), "{\"content\":\"%s\"}", word);
        else if (answer->n_given == 1)
                (void)snprintf(delta, sizeof(delta),
                               "{\"tool_calls\":[{\"index\":0,\"id\":\"call_%llx\",\"type\":\"function\","
                               "\"function\":{\"name\":\"%s\",\"arguments\":\"{}\"}}]}",
                               (unsigned long long)answer->id, answer->tool);
        else
                return;
        chunk(answer, delta, "null");
}

/* At most 200 words of it: no test reads more of an answer in one piece. */
static void words(const struct answer *answer, char ret[1024])
{
        size_t n = 0;

        for (uint32_t i = 0; i < answer->request.output && i < 200; i++)
                n += (size_t)snprintf(ret + n, 1024 - n, "%s", shape_word(answer->id, i));
        ret[n] = 0;
}

static const char *finish_of(const struct answer *answer)
{
        return answer->tool[0] && answer->kind == ANSWER_CHAT ? "\"tool_calls\"" : "\"stop\"";
}

void shape_end(struct answer *answer)
{
        char text[2048], all[1024], counts[256];

        if (answer->kind == ANSWER_RESPONSE) {
                words(answer, all);
                response(answer, "completed", all, text, sizeof(text));
                event(answer->conn, "response.completed",
                      "{\"type\":\"response.completed\",\"sequence_number\":%u,\"response\":%.*s}", answer->n_given + 1,
                      1900, text);
        } else {
                chunk(answer, answer->kind == ANSWER_CHAT ? "{}" : "\"\"", finish_of(answer));
                usage(answer, counts);
                if (answer->wants_usage)
                        event(answer->conn, NULL,
                              "{\"id\":\"chatcmpl-%llx\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
                              "\"model\":\"%s\",\"choices\":[],\"usage\":%s}",
                              (unsigned long long)answer->id, answer->replica->options.model, counts);
                event(answer->conn, NULL, "[DONE]");
        }
        http_end(answer->conn);
}

static void whole_chat(const struct answer *answer, const char *counts)
{
        char message[1200], text[1024];

        words(answer, text);
        if (answer->tool[0])
                (void)snprintf(message, sizeof(message),
                               "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_%llx\","
                               "\"type\":\"function\",\"function\":{\"name\":\"%s\",\"arguments\":\"{}\"}}]}",
                               (unsigned long long)answer->id, answer->tool);
        else
                (void)snprintf(message, sizeof(message), "{\"role\":\"assistant\",\"content\":\"%s\"}", text);
        reply(answer->conn, 200,
              "{\"id\":\"chatcmpl-%llx\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"%s\","
              "\"choices\":[{\"index\":0,\"message\":%s,\"logprobs\":null,\"finish_reason\":%s}],\"usage\":%s}",
              (unsigned long long)answer->id, answer->replica->options.model, message, finish_of(answer), counts);
}

/* Eight numbers per input, or their base64: the official clients ask for the latter. */
static void whole_embedding(const struct answer *answer)
{
        static const char *const VECTOR[2] = { "[0.5,0.5,0.5,0.5,-0.5,-0.5,-0.5,-0.5]",
                                               "\"AAAAPwAAAD8AAAA/AAAAPwAAAL8AAAC/AAAAvwAAAL8=\"" };
        char *data = NULL;
        size_t size = 0;
        FILE *to = open_memstream(&data, &size);

        if (!to)
                return;
        for (uint32_t i = 0; i < answer->n_inputs; i++)
                (void)fprintf(to, "%s{\"object\":\"embedding\",\"index\":%u,\"embedding\":%s}", i ? "," : "", i,
                              VECTOR[answer->is_base64]);
        (void)fclose(to);
        reply(answer->conn, 200,
              "{\"object\":\"list\",\"model\":\"%s\",\"data\":[%s],\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u}"
              "}",
              answer->replica->options.model, data, answer->request.input, answer->request.input);
        free(data);
}

void shape_whole(struct answer *answer)
{
        char counts[256], text[2048], all[1024];

        usage(answer, counts);
        words(answer, all);
        switch (answer->kind) {
        case ANSWER_CHAT:
                whole_chat(answer, counts);
                break;
        case ANSWER_COMPLETION:
                reply(answer->conn, 200,
                      "{\"id\":\"cmpl-%llx\",\"object\":\"text_completion\",\"created\":1700000000,\"model\":\"%s\","
                      "\"choices\":[{\"index\":0,\"text\":\"%s\",\"logprobs\":null,\"finish_reason\":\"stop\"}],"
                      "\"usage\":%s}",
                      (unsigned long long)answer->id, answer->replica->options.model, all, counts);
                break;
        case ANSWER_RESPONSE:
                response(answer, "completed", all, text, sizeof(text));
                reply(answer->conn, 200, "%s", text);
                break;
        case ANSWER_EMBEDDING:
                whole_embedding(answer);
                break;
        }
}
