/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the beginning of a body: chunks are joined byte by byte, and the bytes go through a reader of lines. */
#include "route/answer.h"

#include "base/cleanup.h"

#include <stdint.h>
#include <string.h>

static const struct answer_meaning meanings[ANSWERS] = {
        [ANSWER_NONE] = { "none", BREAKER_KEEPS, RETRY_NEVER, false },
#define STATUS(...)
#define ANSWER(kind, breaker, retry, teaches) [ANSWER_##kind] = { #kind, BREAKER_##breaker, RETRY_##retry, teaches },
#include "route/answers.def"
#undef ANSWER
#undef STATUS
};

static const struct {
        unsigned int first, last;
        bool wants_retry_after;
        enum answer answer;
} statuses[] = {
#define ANSWER(...)
#define STATUS(first, last, after, kind) { first, last, after, ANSWER_##kind },
#include "route/answers.def"
#undef ANSWER
#undef STATUS
};

const struct answer_meaning *answer_meaning(enum answer answer)
{
        return &meanings[answer < ANSWERS ? answer : ANSWER_NONE];
}

enum answer answer_of_status(unsigned int status, bool has_retry_after)
{
        for (size_t i = 0; i < ARRAY_SIZE(statuses); i++)
                if (status >= statuses[i].first && status <= statuses[i].last &&
                    (has_retry_after || !statuses[i].wants_retry_after))
                        return statuses[i].answer;
        return ANSWER_GARBLED;
}

/* ---- events ------------------------------------------------------------------------------------------------- */

enum {
        LINE = 48, /* as much of a line as decides what it is */
};

struct events {
        char line[LINE]; /* its beginning */
        size_t n;        /* bytes of it, at most LINE */
        bool is_ping;    /* the event's name says so */
};

static bool begins(const struct events *events, const char *with)
{
        size_t size = strlen(with);

        return events->n >= size && !memcmp(events->line, with, size);
}

/* The line may still become one that begins so. */
static bool may_begin(const struct events *events, const char *with)
{
        size_t size = strlen(with);

        return events->n < size && !memcmp(events->line, with, events->n);
}

/* A line that says nothing yet; is_whole: it has ended. */
static bool is_quiet(const struct events *events, bool is_whole)
{
        static const char *const quiet[] = { ":", "event:", "id:", "retry:", "\r" };

        for (size_t i = 0; i < ARRAY_SIZE(quiet); i++)
                if (begins(events, quiet[i]) || (!is_whole && may_begin(events, quiet[i])))
                        return true;
        return events->n == 0;
}

/* A line of data, as far as it is there. */
static enum answer data_line(const struct events *events)
{
        static const char *const errors[] = { "{\"error\":{",           "{\"error\": {",       "{\"object\":\"error\"",
                                              "{\"object\": \"error\"", "{\"type\":\"error\"", "{\"type\": \"error\"" };
        struct events value = { .n = 0 };
        size_t from = strlen("data:");

        from += events->n > from && events->line[from] == ' ';
        value.n = events->n - from;
        memcpy(value.line, events->line + from, value.n);
        for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
                if (begins(&value, errors[i]))
                        return ANSWER_ERROR;
        for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
                if (may_begin(&value, errors[i]))
                        return ANSWER_NONE;
        return ANSWER_GOOD;
}

static void line_ended(struct events *events)
{
        if (events->n <= 1 && (events->n == 0 || events->line[0] == '\r'))
                events->is_ping = false; /* the event's end */
        else if (begins(events, "event:"))
                events->is_ping = begins(events, "event: ping") || begins(events, "event:ping");
        events->n = 0;
}

static enum answer line_so_far(const struct events *events, bool is_whole)
{
        enum answer answer;

        if (!begins(events, "data:"))
                return is_quiet(events, is_whole) || (!is_whole && may_begin(events, "data:")) ?
                               ANSWER_NONE :
                               ANSWER_GOOD; /* nothing that is known: the client's to understand */
        if (events->is_ping)
                return ANSWER_NONE;
        answer = data_line(events);
        return answer == ANSWER_NONE && is_whole ? ANSWER_GOOD : answer; /* it could have become an error */
}

/* One byte more of the stream. */
static enum answer event_byte(struct events *events, char c)
{
        bool is_end = c == '\n';
        enum answer answer;

        if (!is_end && events->n < LINE)
                events->line[events->n++] = c;
        answer = line_so_far(events, is_end);
        if (is_end)
                line_ended(events);
        return answer;
}

/* ---- chunks -------------------------------------------------------------------------------------------------- */

enum chunk_state { SIZE, EXTENSION, DATA, DATA_END };

struct chunks {
        enum chunk_state state;
        uint64_t left; /* of the chunk */
        bool has_digit;
};

static int digit(char c)
{
        return c >= '0' && c <= '9' ? c - '0' :
               c >= 'a' && c <= 'f' ? c - 'a' + 10 :
               c >= 'A' && c <= 'F' ? c - 'A' + 10 :
                                      -1;
}

/* Takes a byte of the framing; true: c is a byte of the body. ret_is_over: the last chunk, or no chunks at all. */
static bool chunk_byte(struct chunks *chunks, char c, bool *ret_is_over)
{
        switch (chunks->state) {
        case SIZE:
                if (digit(c) >= 0) {
                        chunks->left = chunks->left << 4 | (uint64_t)digit(c);
                        chunks->has_digit = true;
                        return false;
                }
                *ret_is_over = !chunks->has_digit;
                chunks->state = EXTENSION;
                /* fall through */
        case EXTENSION:
                if (c == '\n') {
                        *ret_is_over |= !chunks->left;
                        chunks->state = DATA;
                }
                return false;
        case DATA:
                if (--chunks->left == 0)
                        chunks->state = DATA_END;
                return true;
        case DATA_END:
                if (c == '\n')
                        *chunks = (struct chunks){ .state = SIZE };
                return false;
        }
        return false;
}

enum answer answer_begun(const void *body, size_t size, struct answer_body how)
{
        struct chunks chunks = { .state = SIZE };
        struct events events = { .n = 0 };
        const char *at = body;

        for (size_t i = 0; i < size; i++) {
                bool is_over = false, is_body = !how.is_chunked || chunk_byte(&chunks, at[i], &is_over);
                enum answer answer = is_body && how.is_events ? event_byte(&events, at[i]) :
                                     is_body                  ? ANSWER_GOOD :
                                                                ANSWER_NONE;

                if (is_over)
                        return how.must_say ? ANSWER_EMPTY : ANSWER_GOOD;
                if (answer != ANSWER_NONE)
                        return answer;
        }
        return ANSWER_NONE;
}
