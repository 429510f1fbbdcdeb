/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorded trace of what a process said to the driver, event by event. The grammar stands at the top
 * of tools/record.c; this is its only reader in C.
 *
 *      struct trace trace;     large: allocate it
 *
 *      trace_start(&trace, text, size);
 *      while ((r = trace_next(&trace, &event)) > 0)
 *              ...
 *      if (r < 0)
 *              line trace.line is malformed
 *
 * The text is the caller's and is not changed. What an event points to lies in the trace and lasts
 * until the next event. Nothing is guessed: a word too many, too few or out of range is malformed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_kind {
        TRACE_PROCESS,
        TRACE_OPEN,
        TRACE_HAVE,
        TRACE_DUP,
        TRACE_CLOSE,
        TRACE_IOCTL,
        TRACE_MMAP,
        TRACE_MUNMAP,
        TRACE_MARK,
};

/* data is NULL where the trace has no such word; `out` and `pout` without a word are `in` and `pin`:
 * nothing changed, or (README.md of a directory of traces) the reply was left out. */
struct trace_bytes {
        const uint8_t *data;
        size_t size;
};

struct trace_event {
        enum trace_kind kind;
        const char *text; /* of process the program, of open and have the node, of mark the text */
        int process, parent;
        int fd; /* -1: none */
        int new_fd;
        int error;

        uint32_t request; /* ioctl */
        uint32_t size;
        int rc;
        uint64_t usec;
        struct trace_bytes in, out, pin, pout;

        uint64_t address, length, offset; /* mmap, munmap */
        uint32_t prot, flags;
        int64_t ret; /* the address, or -errno */
};

enum {
        TRACE_BYTES_MAX = 65536,
        TRACE_TEXT_MAX = 4096,
};

struct trace {
        const char *at, *end;
        size_t line; /* of the latest event, from 1 */
        char text[TRACE_TEXT_MAX];
        uint8_t bytes[4][TRACE_BYTES_MAX];
};

void trace_start(struct trace *trace, const char *text, size_t size);

/* 1: *ret is the next event; 0: the end; -EINVAL: the line is malformed, *ret is not written. */
int trace_next(struct trace *trace, struct trace_event *ret);
