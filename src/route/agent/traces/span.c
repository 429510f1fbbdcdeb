/* SPDX-License-Identifier: Apache-2.0 */
#include "route/agent/traces/span.h"

#include "base/cleanup.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        TRACE = 32, /* digits of a trace's number, and of a span's */
        SPAN = 16,
        NAME = 96,
        KIND_INTERNAL = 1,
        KIND_SERVER = 2,
        KIND_CLIENT = 3,
        STATUS_ERROR = 2,
};

#define MSEC 1000000.0      /* in ns */
#define SECONDS_MOST 1e11   /* the year 5138 */
#define REQUEST_MOST 31.6e6 /* seconds of a request: a year */

struct span {
        const json_t *line;
        json_t *attributes;
};

static const char *text_of(const json_t *line, const char *key)
{
        const char *text = json_string_value(json_object_get(line, key));

        return text ? text : "";
}

/* nginx writes some as numbers, some as text; what is none is 0. */
static double number_of(const json_t *line, const char *key)
{
        const json_t *value = json_object_get(line, key);
        double n = json_is_number(value) ? json_number_value(value) : strtod(text_of(line, key), NULL);

        return isfinite(n) && n > 0 && n < SECONDS_MOST ? n : 0;
}

static bool is_id(const char *text, size_t n)
{
        return strlen(text) == n && strspn(text, "0123456789abcdef") == n && strspn(text, "0") < n;
}

/* ---- attributes ----------------------------------------------------------------------------------------------- */

static void put_text(struct span *span, const char *name, const char *text)
{
        if (*text)
                (void)json_array_append_new(span->attributes,
                                            json_pack("{ss s{ss}}", "key", name, "value", "stringValue", text));
}

static void put_number(struct span *span, const char *name, const char *key)
{
        char text[24];

        if (!*text_of(span->line, key) && !json_is_number(json_object_get(span->line, key)))
                return;
        (void)snprintf(text, sizeof(text), "%" PRId64, (int64_t)number_of(span->line, key));
        (void)json_array_append_new(span->attributes, json_pack("{ss s{ss}}", "key", name, "value", "intValue", text));
}

static void put_real(struct span *span, const char *name, const char *key)
{
        if (*text_of(span->line, key))
                (void)json_array_append_new(span->attributes, json_pack("{ss s{sf}}", "key", name, "value",
                                                                        "doubleValue", number_of(span->line, key)));
}

/* ---- spans ---------------------------------------------------------------------------------------------------- */

static json_t *time_json(double nsec)
{
        return json_sprintf("%" PRIu64, (uint64_t)nsec);
}

/* Takes the attributes. */
static json_t *span_json(struct span *span, const char *id, const char *parent, const char *name, int kind, double from,
                         double to)
{
        json_t *json = json_pack("{ss ss ss si so so so}", "traceId", text_of(span->line, "trace"), "spanId", id,
                                 "name", name, "kind", kind, "startTimeUnixNano", time_json(from), "endTimeUnixNano",
                                 time_json(to > from ? to : from), "attributes", TAKE(span->attributes));

        if (*parent)
                (void)json_object_set_new(json, "parentSpanId", json_string(parent));
        return json;
}

static json_t *server_span(const json_t *line, double from, double to)
{
        struct span span = { line, json_array() };
        const char *path = text_of(line, "path"), *method = text_of(line, "method"), *parent = text_of(line, "parent");
        char name[NAME];
        json_t *json;

        put_text(&span, "http.request.method", method);
        put_text(&span, "url.path", path);
        put_number(&span, "http.response.status_code", "status");
        put_text(&span, "client.address", text_of(line, "client"));
        put_text(&span, "gen_ai.request.model", text_of(line, "model"));
        put_text(&span, "sublet.request_id", text_of(line, "id"));
        put_text(&span, "sublet.key", text_of(line, "key"));
        put_text(&span, "sublet.reason", text_of(line, "reason"));
        put_number(&span, "sublet.prompt_tokens", "prompt");
        put_number(&span, "sublet.cached_tokens", "matched");
        put_number(&span, "sublet.decision_us", "decision_us");
        (void)snprintf(name, sizeof(name), "%.16s%s%.64s", method, strlen(path) <= 64 ? " " : "",
                       strlen(path) <= 64 ? path : "");
        json = span_json(&span, text_of(line, "span"), is_id(parent, SPAN) ? parent : "", name, KIND_SERVER, from, to);
        if (number_of(line, "status") >= 500)
                (void)json_object_set_new(json, "status", json_pack("{si}", "code", STATUS_ERROR));
        return json;
}

static json_t *hold_span(const json_t *line, double from, double to)
{
        struct span span = { line, json_array() };

        return span_json(&span, text_of(line, "span_hold"), text_of(line, "span"), "hold", KIND_INTERNAL, from, to);
}

/* Of several tries nginx lists the answers, and the last counts. */
static const char *last_of(const char *list)
{
        const char *comma = strrchr(list, ' ');

        return comma ? comma + 1 : list;
}

static json_t *client_span(const json_t *line, double from, double to)
{
        struct span span = { line, json_array() };
        double first = from + number_of(line, "first_ms") * MSEC;
        char name[NAME];
        json_t *json;

        put_text(&span, "sublet.replica", text_of(line, "replica"));
        put_text(&span, "server.address", last_of(text_of(line, "upstream")));
        put_text(&span, "sublet.upstream_status", last_of(text_of(line, "upstream_status")));
        put_number(&span, "sublet.tries", "tries");
        put_real(&span, "sublet.expected_ms", "expected_ms");
        put_real(&span, "sublet.first_ms", "first_ms");
        (void)snprintf(name, sizeof(name), "replica %.63s", text_of(line, "replica"));
        json = span_json(&span, text_of(line, "span_client"), text_of(line, "span"), name, KIND_CLIENT, from, to);
        if (first > from && first <= to)
                (void)json_object_set_new(
                        json, "events", json_pack("[{ss so}]", "name", "first byte", "timeUnixNano", time_json(first)));
        return json;
}

/* nginx passes bytes on that are no UTF-8. */
static json_t *parse(const char *line, size_t size)
{
        const char *begin = size ? memchr(line, '{', size) : NULL;
        size_t n = begin ? size - (size_t)(begin - line) : 0;
        _cleanup_(freep) char *text = begin ? malloc(n) : NULL;

        if (!text)
                return NULL;
        for (size_t i = 0; i < n; i++)
                text[i] = (unsigned char)begin[i] < 0x80 ? begin[i] : '?';
        return json_loadb(text, n, 0, NULL);
}

static const char *append(const json_t *line, json_t *spans)
{
        double to = number_of(line, "end") * 1e9, seconds = number_of(line, "seconds"),
               held = number_of(line, "held_ms") * MSEC, from;

        if (!is_id(text_of(line, "trace"), TRACE) || !is_id(text_of(line, "span"), SPAN) ||
            !is_id(text_of(line, "span_hold"), SPAN) || !is_id(text_of(line, "span_client"), SPAN))
                return "a trace has 32 digits and a span 16";
        if (to <= 0 || seconds > REQUEST_MOST || seconds * 1e9 >= to)
                return "no time at which it ended";
        from = to - seconds * 1e9;
        held = held < to - from ? held : to - from;
        (void)json_array_append_new(spans, server_span(line, from, to));
        if (held > 0)
                (void)json_array_append_new(spans, hold_span(line, from, from + held));
        if (*text_of(line, "replica"))
                (void)json_array_append_new(spans, client_span(line, from + held, to));
        return NULL;
}

const char *span_read(const char *line, size_t size, json_t *spans)
{
        json_t *json = parse(line, size);
        const char *why = json_is_object(json) ? append(json, spans) : "no JSON object";

        json_decref(json);
        return why;
}

json_t *span_wrap(json_t *spans, const char *name, const char *version)
{
        return json_pack("{s[{s{s[{ss s{ss}}]} s[{s{ss ss} sO}]}]}", "resourceSpans", "resource", "attributes", "key",
                         "service.name", "value", "stringValue", name, "scopeSpans", "scope", "name", "sublet",
                         "version", version, "spans", spans);
}
