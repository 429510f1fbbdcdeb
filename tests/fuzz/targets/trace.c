/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace that is anything at all. Each line is an event or malformed, never both; what an event points
 * to lies in the trace; and reading ends.
 */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

static void require(bool holds)
{
        if (!holds)
                abort();
}

static uint8_t sum;

/* Reads all of it, for the sanitizer. */
static void trace_read_all(const struct trace *trace, struct trace_bytes bytes)
{
        require(bytes.size <= TRACE_BYTES_MAX && (bytes.data || !bytes.size));
        require(!bytes.data ||
                (bytes.data >= trace->bytes[0] && bytes.data + bytes.size <= trace->bytes[3] + TRACE_BYTES_MAX));
        for (size_t i = 0; i < bytes.size; i++)
                sum ^= bytes.data[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct trace trace;
        struct trace_event event;
        char *text = malloc(size ? size : 1); /* its very size, for the sanitizer */
        size_t n = 0;
        int r;

        require(text != NULL);
        if (size)
                memcpy(text, data, size);
        trace_start(&trace, text, size);
        while ((r = trace_next(&trace, &event)) > 0) {
                require(++n == trace.line && n <= size);
                require(event.text && strlen(event.text) < TRACE_TEXT_MAX);
                trace_read_all(&trace, event.in);
                trace_read_all(&trace, event.out);
                trace_read_all(&trace, event.pin);
                trace_read_all(&trace, event.pout);
                require(event.kind == TRACE_IOCTL || !event.in.data);
        }
        require(r < 0 ? trace.line == n + 1 : trace.at == trace.end);
        free(text);
        return 0;
}
