/* SPDX-License-Identifier: Apache-2.0 */
/* A line of the span log, whatever it says: refused with a reason and nothing appended, or spans that are whole. */
#include "route/agent/traces/span.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static void need(int is_so)
{
        if (!is_so)
                abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        json_t *spans = json_array(), *span, *body;
        const char *why = span_read((const char *)data, size, spans);
        size_t i;

        need(why ? why[0] && !json_array_size(spans) : json_array_size(spans) >= 1 && json_array_size(spans) <= 3);
        json_array_foreach (spans, i, span) {
                const char *from = json_string_value(json_object_get(span, "startTimeUnixNano")),
                           *to = json_string_value(json_object_get(span, "endTimeUnixNano"));

                need(from && to && strtoull(from, NULL, 10) <= strtoull(to, NULL, 10));
                need(strlen(json_string_value(json_object_get(span, "traceId"))) == 32);
                need(strlen(json_string_value(json_object_get(span, "spanId"))) == 16);
                need(json_is_array(json_object_get(span, "attributes")));
        }
        body = span_wrap(spans, "a", "b");
        need(body != NULL);
        json_decref(body);
        json_decref(spans);
        return 0;
}
