/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include <errno.h>
#include <string.h>

/* What is left of a line. */
struct rest {
        const char *at, *end;
};

/* The next word; words are separated by one blank. False: there is none. */
static bool word(struct rest *rest, struct rest *ret)
{
        const char *blank;

        if (rest->at == rest->end)
                return false;
        blank = memchr(rest->at, ' ', (size_t)(rest->end - rest->at));
        *ret = (struct rest){ rest->at, blank ? blank : rest->end };
        rest->at = blank ? blank + 1 : rest->end;
        return ret->at < ret->end && !(blank && rest->at == rest->end); /* no blank at the end */
}

static int digit_of(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

static bool number(struct rest *rest, unsigned int base, uint64_t max, uint64_t *ret)
{
        struct rest text;
        uint64_t value = 0;

        if (!word(rest, &text) || text.end - text.at > 20)
                return false;
        for (; text.at < text.end; text.at++) {
                unsigned int digit = (unsigned int)digit_of(*text.at);

                if (digit >= base || value > (max - digit) / base)
                        return false;
                value = value * base + digit;
        }
        *ret = value;
        return true;
}

static bool hex64(struct rest *rest, uint64_t *ret)
{
        return number(rest, 16, UINT64_MAX, ret);
}

static bool hex32(struct rest *rest, uint32_t *ret)
{
        uint64_t value;

        if (!number(rest, 16, UINT32_MAX, &value))
                return false;
        *ret = (uint32_t)value;
        return true;
}

/* A decimal number, perhaps negative, that fits an int. */
static bool integer(struct rest *rest, int *ret)
{
        bool is_negative = rest->at < rest->end && *rest->at == '-';
        uint64_t value;

        rest->at += is_negative;
        if (!number(rest, 10, INT32_MAX, &value))
                return false;
        *ret = is_negative ? -(int)value : (int)value;
        return true;
}

/* To the end of the line, blanks and all. */
static bool text_to_end(struct trace *trace, struct rest *rest)
{
        size_t size = (size_t)(rest->end - rest->at);

        if (size >= sizeof(trace->text))
                return false;
        memcpy(trace->text, rest->at, size);
        trace->text[size] = '\0';
        rest->at = rest->end;
        return true;
}

static bool text_word(struct trace *trace, struct rest *rest)
{
        struct rest text;

        return word(rest, &text) && text_to_end(trace, &text);
}

/* "0100z14.ff": hex pairs, and runs of zero bytes. */
static bool unpack(struct rest text, uint8_t buffer[static TRACE_BYTES_MAX], size_t *ret_size)
{
        size_t size = 0;

        while (text.at < text.end) {
                size_t zeros = 0;

                if (*text.at == 'z') {
                        for (text.at++; text.at < text.end && *text.at != '.'; text.at++) {
                                if (digit_of(*text.at) > 9 || zeros > TRACE_BYTES_MAX)
                                        return false;
                                zeros = zeros * 10 + (size_t)digit_of(*text.at);
                        }
                        if (text.at == text.end || zeros < 4 || zeros > TRACE_BYTES_MAX - size)
                                return false;
                        memset(buffer + size, 0, zeros);
                        size += zeros;
                        text.at++;
                        continue;
                }
                if (text.end - text.at < 2 || digit_of(text.at[0]) > 15 || digit_of(text.at[1]) > 15 ||
                    size == TRACE_BYTES_MAX)
                        return false;
                buffer[size++] = (uint8_t)(digit_of(text.at[0]) << 4 | digit_of(text.at[1]));
                text.at += 2;
        }
        *ret_size = size;
        return true;
}

/* [in=B] [out=B] [pin=B] [pout=B], in this order, each at most once. */
static bool byte_words(struct trace *trace, struct rest *rest, struct trace_event *event)
{
        static const char *const names[] = { "in=", "out=", "pin=", "pout=" };
        struct trace_bytes *bytes[] = { &event->in, &event->out, &event->pin, &event->pout };
        struct rest text;
        size_t next = 0;

        while (rest->at < rest->end) {
                size_t n;

                if (!word(rest, &text))
                        return false;
                for (; next < 4; next++) {
                        n = strlen(names[next]);
                        if ((size_t)(text.end - text.at) >= n && !memcmp(text.at, names[next], n))
                                break;
                }
                if (next == 4)
                        return false;
                text.at += strlen(names[next]);
                if (!unpack(text, trace->bytes[next], &bytes[next]->size))
                        return false;
                bytes[next]->data = trace->bytes[next];
                next++;
        }
        if (!event->out.data)
                event->out = event->in;
        if (!event->pout.data)
                event->pout = event->pin;
        return true;
}

static bool call(struct trace *trace, struct rest *rest, struct trace_event *event)
{
        uint64_t size;

        if (!integer(rest, &event->fd) || !hex32(rest, &event->request) || !number(rest, 10, UINT32_MAX, &size) ||
            !integer(rest, &event->rc) || !integer(rest, &event->error) || !number(rest, 10, UINT64_MAX, &event->usec))
                return false;
        event->size = (uint32_t)size;
        return byte_words(trace, rest, event);
}

static bool mapping(struct rest *rest, struct trace_event *event)
{
        uint64_t at;
        int error;

        if (!hex64(rest, &event->address) || !hex64(rest, &event->length) || !hex32(rest, &event->prot) ||
            !hex32(rest, &event->flags) || !integer(rest, &event->fd) || !hex64(rest, &event->offset))
                return false;
        if (rest->at < rest->end && *rest->at == '-') {
                if (!integer(rest, &error))
                        return false;
                event->ret = error;
                return true;
        }
        if (!number(rest, 16, INT64_MAX, &at))
                return false;
        event->ret = (int64_t)at;
        return true;
}

static bool fields(struct trace *trace, struct rest *rest, struct trace_event *event)
{
        switch (event->kind) {
        case TRACE_PROCESS:
                return integer(rest, &event->process) && integer(rest, &event->parent) && text_to_end(trace, rest);
        case TRACE_OPEN:
                return integer(rest, &event->fd) && text_word(trace, rest) && integer(rest, &event->error);
        case TRACE_HAVE:
                return integer(rest, &event->fd) && text_word(trace, rest);
        case TRACE_DUP:
                return integer(rest, &event->fd) && integer(rest, &event->new_fd);
        case TRACE_CLOSE:
                return integer(rest, &event->fd);
        case TRACE_IOCTL:
                return call(trace, rest, event);
        case TRACE_MMAP:
                return mapping(rest, event);
        case TRACE_MUNMAP:
                return hex64(rest, &event->address) && hex64(rest, &event->length);
        case TRACE_MARK:
                return text_to_end(trace, rest);
        }
        return false;
}

static bool kind_of(struct rest name, enum trace_kind *ret)
{
        static const char *const names[] = { "process", "open", "have",   "dup", "close",
                                             "ioctl",   "mmap", "munmap", "mark" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (strlen(names[i]) == (size_t)(name.end - name.at) && !memcmp(names[i], name.at, strlen(names[i]))) {
                        *ret = (enum trace_kind)i;
                        return true;
                }
        return false;
}

void trace_start(struct trace *trace, const char *text, size_t size)
{
        trace->at = text;
        trace->end = text + size;
        trace->line = 0;
}

int trace_next(struct trace *trace, struct trace_event *ret)
{
        struct trace_event event = { .fd = -1, .new_fd = -1, .text = trace->text };
        struct rest line, name;
        const char *end;

        if (trace->at == trace->end)
                return 0;
        trace->line++;
        end = memchr(trace->at, '\n', (size_t)(trace->end - trace->at));
        if (!end)
                return -EINVAL; /* the recorder writes whole lines */
        line = (struct rest){ trace->at, end };
        trace->at = end + 1;
        trace->text[0] = '\0';
        if (!word(&line, &name) || !kind_of(name, &event.kind) || !fields(trace, &line, &event) || line.at != line.end)
                return -EINVAL;
        *ret = event;
        return 1;
}
