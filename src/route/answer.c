/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the beginning of a body: chunks are joined byte by byte, and the bytes go through a reader of lines. */
#include "route/answer.h"

#include "base/cleanup.h"
#include "route/announced.h"

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
        LINE = 4096, /* what is longer is judged by its beginning */
};

enum event { EVENT_ANY, EVENT_QUIET, EVENT_ERROR };

/* By its name. What only announces an answer is sent by servers before the model has said anything. */
static const struct {
        const char *name;
        enum event is;
} event_names[] = {
        { "ping", EVENT_QUIET },
        { "message_start", EVENT_QUIET }, /* Anthropic's messages */
        { "content_block_start", EVENT_QUIET },
        { "response.created", EVENT_QUIET }, /* OpenAI's responses */
        { "response.queued", EVENT_QUIET },
        { "response.in_progress", EVENT_QUIET },
        { "response.output_item.added", EVENT_QUIET },
        { "response.content_part.added", EVENT_QUIET },
        { "response.failed", EVENT_ERROR },
        { "error", EVENT_ERROR },
};

struct events {
        char line[LINE]; /* its beginning */
        size_t n;        /* bytes of it, at most LINE */
        enum event event;
};

/* From `from` on it begins so; not yet, but it may: the line is shorter and equal as far as it goes. */
static bool begins(const struct events *events, size_t from, const char *with)
{
        size_t size = strlen(with);

        return events->n >= from + size && !memcmp(events->line + from, with, size);
}

static bool may_begin(const struct events *events, size_t from, const char *with)
{
        return events->n < from + strlen(with) && !memcmp(events->line + from, with, events->n - from);
}

/* A line that says nothing yet; is_whole: it has ended. */
static bool is_quiet(const struct events *events, bool is_whole)
{
        static const char *const quiet[] = { ":", "event:", "id:", "retry:", "\r" };

        for (size_t i = 0; i < ARRAY_SIZE(quiet); i++)
                if (begins(events, 0, quiet[i]) || (!is_whole && may_begin(events, 0, quiet[i])))
                        return true;
        return events->n == 0;
}

/* Where the field's value begins. */
static size_t value_at(const struct events *events, const char *field)
{
        size_t from = strlen(field);

        return from + (events->n > from && events->line[from] == ' ');
}

/* A line of data, as far as it is there. An object is judged when it is whole. */
static enum answer data_line(const struct events *events, bool is_whole)
{
        static const char *const errors[] = { "{\"error\":{",           "{\"error\": {",       "{\"object\":\"error\"",
                                              "{\"object\": \"error\"", "{\"type\":\"error\"", "{\"type\": \"error\"" };
        size_t from = value_at(events, "data:");

        for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
                if (begins(events, from, errors[i]))
                        return ANSWER_ERROR;
        if (is_whole)
                return announced_only(events->line + from, events->n - from) ? ANSWER_NONE : ANSWER_GOOD;
        return events->n == LINE || (events->n > from && events->line[from] != '{') ? ANSWER_GOOD : ANSWER_NONE;
}

static enum event event_of(const struct events *events)
{
        size_t from = value_at(events, "event:"), size = events->n - from;

        size -= size && events->line[events->n - 1] == '\r';
        for (size_t i = 0; i < ARRAY_SIZE(event_names); i++)
                if (size == strlen(event_names[i].name) && !memcmp(events->line + from, event_names[i].name, size))
                        return event_names[i].is;
        return EVENT_ANY;
}

static void line_ended(struct events *events)
{
        if (events->n <= 1 && (events->n == 0 || events->line[0] == '\r'))
                events->event = EVENT_ANY; /* the event's end */
        else if (begins(events, 0, "event:"))
                events->event = event_of(events);
        events->n = 0;
}

static enum answer line_so_far(const struct events *events, bool is_whole)
{
        if (!begins(events, 0, "data:"))
                return is_quiet(events, is_whole) || (!is_whole && may_begin(events, 0, "data:")) ?
                               ANSWER_NONE :
                               ANSWER_GOOD; /* nothing that is known: the client's to understand */
        if (events->event != EVENT_ANY)
                return events->event == EVENT_ERROR ? ANSWER_ERROR : ANSWER_NONE;
        return data_line(events, is_whole);
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
        struct events events;
        const char *at = body;

        events.n = 0;
        events.event = EVENT_ANY;
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
