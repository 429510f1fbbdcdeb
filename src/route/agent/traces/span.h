/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans of a request, from the line that nginx logs at its end (nginx_conf.c, log_format spans), in OTLP's JSON form.
 *
 *      server      the request, as the client sees it; child of the client's span, if it named one (traceparent)
 *      hold        how long no replica could take it
 *      client      at the replica, from the last decision on; the replica is told this one as its parent
 *
 * Names of attributes: OpenTelemetry's conventions for HTTP and generative AI, 1.27; and sublet.* for the decision.
 * Pure.
 */
#pragma once

#include <jansson.h>

/* Appends the line's spans to the array `spans`. What is before the first brace is not looked at. NULL; or why nothing
 * was appended (static). */
const char *span_read(const char *line, size_t size, json_t *spans);

/* The body of a request to a collector: all spans of `spans`, of the service `name`. NULL: no memory. */
json_t *span_wrap(json_t *spans, const char *name, const char *version);
