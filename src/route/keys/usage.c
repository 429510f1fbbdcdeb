/* SPDX-License-Identifier: Apache-2.0 */
#include "route/keys/usage.h"

#include "base/cleanup.h"

#include <string.h>

enum place { OUT, TOP, RESULT, INNER, USAGE, SKIP, ID, PROMPT, CACHED, CACHING, ANSWER, TOTAL };
enum state { BETWEEN, STRING, ESCAPE };
enum line { NAME, DATA, OTHER };

/* What a name means in an object. */
static const struct {
        enum place where;
        const char *name;
        enum place is;
} NAMES[] = {
        { TOP, "usage", USAGE },
        { TOP, "response", INNER },
        { TOP, "message", INNER },
        { TOP, "result", RESULT }, /* a line of the results of a batch of messages */
        { RESULT, "message", INNER },
        { TOP, "id", ID },
        { INNER, "usage", USAGE },
        { INNER, "id", ID },
        { USAGE, "prompt_tokens", PROMPT },
        { USAGE, "input_tokens", PROMPT },
        { USAGE, "cache_read_input_tokens", CACHED },
        { USAGE, "cache_creation_input_tokens", CACHING },
        { USAGE, "completion_tokens", ANSWER },
        { USAGE, "output_tokens", ANSWER },
        { USAGE, "total_tokens", TOTAL },
};

static enum place meaning(const struct usage *usage)
{
        for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++)
                if (NAMES[i].where == usage->where && !strcmp(NAMES[i].name, usage->word))
                        return NAMES[i].is;
        return SKIP;
}

static void begin_document(struct usage *usage)
{
        usage->state = BETWEEN;
        usage->where = usage->above = usage->around = OUT;
        usage->key = SKIP;
        usage->skipped = 0;
        usage->is_name = usage->is_number = false;
}

void usage_begin(struct usage *usage, enum usage_form form)
{
        memset(usage, 0, sizeof(*usage));
        usage->form = form;
        begin_document(usage);
}

static uint64_t of_document(const struct usage *usage)
{
        uint64_t sum = usage->prompt + usage->cached + usage->caching + usage->answer;

        return sum > usage->total ? sum : usage->total;
}

void usage_next(struct usage *usage)
{
        usage->earlier += of_document(usage);
        usage->prompt = usage->cached = usage->caching = usage->answer = usage->total = 0;
        begin_document(usage);
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

static void end_number(struct usage *usage)
{
        uint64_t *to = usage->key == PROMPT  ? &usage->prompt :
                       usage->key == CACHED  ? &usage->cached :
                       usage->key == CACHING ? &usage->caching :
                       usage->key == ANSWER  ? &usage->answer :
                       usage->key == TOTAL   ? &usage->total :
                                               NULL;

        if (usage->is_number && to) {
                usage->is_said = true;
                *to = usage->number > *to ? usage->number : *to;
        }
        usage->is_number = false;
}

/* Of a figure; a sign or a word is none. What comes after a point or an exponent is not read. */
static void value_byte(struct usage *usage, char c)
{
        if (c >= '0' && c <= '9' && usage->where == USAGE && (usage->is_number || usage->n_word == 0)) {
                usage->number = (usage->is_number ? usage->number : 0) * 10 + (uint64_t)(c - '0');
                usage->number = usage->number < USAGE_MAX ? usage->number : USAGE_MAX;
                usage->is_number = true;
        } else if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
                end_number(usage);
                usage->n_word = 1; /* no more digits in this one */
        }
}

static void open_value(struct usage *usage, char c)
{
        bool is_known =
                c == '{' && (usage->where == OUT || usage->key == USAGE || usage->key == INNER || usage->key == RESULT);

        if (usage->skipped || !is_known) {
                usage->skipped++;
                return;
        }
        if (usage->key == INNER)
                usage->around = usage->where;
        usage->above = usage->where;
        usage->where = usage->where == OUT ? TOP : usage->key;
        usage->is_name = true;
        usage->key = SKIP;
}

static void close_value(struct usage *usage)
{
        end_number(usage);
        if (usage->skipped) {
                usage->skipped--;
                return;
        }
        usage->where = usage->where == USAGE  ? usage->above :
                       usage->where == INNER  ? usage->around :
                       usage->where == RESULT ? TOP :
                                                OUT;
        usage->key = SKIP;
        usage->is_name = false;
        if (usage->where == OUT && usage->form == USAGE_MANY)
                usage_next(usage);
}

/* ---- strings --------------------------------------------------------------------------------------------------- */

static void end_string(struct usage *usage)
{
        bool is_whole = usage->n_word < (usage->is_name ? USAGE_WORD : USAGE_ID);

        usage->state = BETWEEN;
        if (usage->skipped || usage->where == OUT)
                return;
        if (usage->is_name) {
                usage->word[is_whole ? usage->n_word : 0] = 0;
                usage->key = (unsigned char)(is_whole ? meaning(usage) : SKIP);
                usage->is_name = false;
        } else if (usage->key == ID) {
                usage->id[is_whole ? usage->n_word : 0] = 0;
        }
        usage->n_word = 0;
}

/* Returns the end of what it took: up to the next quote or backslash, if nobody needs the text. */
static const char *string_bytes(struct usage *usage, const char *at, const char *end)
{
        bool is_kept = !usage->skipped && (usage->is_name || usage->key == ID);
        uint32_t room = usage->is_name ? USAGE_WORD : USAGE_ID;

        for (; at < end && *at != '"' && *at != '\\'; at++) {
                if (is_kept && usage->n_word < room - 1)
                        (usage->is_name ? usage->word : usage->id)[usage->n_word] = *at;
                usage->n_word += usage->n_word < room;
        }
        if (at == end)
                return at;
        if (*at == '"') {
                end_string(usage);
        } else {
                usage->state = ESCAPE;
                usage->n_word = USAGE_ID; /* with an escape it is no word that is known */
        }
        return at + 1;
}

/* ---- a document ------------------------------------------------------------------------------------------------ */

static void byte_between(struct usage *usage, char c)
{
        switch (c) {
        case '"':
                usage->state = STRING;
                usage->n_word = 0;
                if (usage->key == ID && !usage->is_name && !usage->skipped)
                        usage->id[0] = 0;
                break;
        case '{':
        case '[':
                open_value(usage, c);
                break;
        case '}':
        case ']':
                close_value(usage);
                break;
        case ',':
                end_number(usage);
                if (!usage->skipped) {
                        usage->is_name = usage->where != OUT;
                        usage->key = SKIP;
                }
                break;
        case ':':
                usage->n_word = 0;
                break;
        default:
                if (!usage->skipped)
                        value_byte(usage, c);
                break;
        }
}

static void feed_document(struct usage *usage, const char *at, const char *end)
{
        while (at < end)
                if (usage->state == STRING) {
                        at = string_bytes(usage, at, end);
                } else if (usage->state == ESCAPE) {
                        usage->state = STRING;
                        at++;
                } else {
                        byte_between(usage, *at++);
                }
}

/* ---- events ---------------------------------------------------------------------------------------------------- */

/* A byte of a line's name, before it is known what the line is. */
static void name_byte(struct usage *usage, char c)
{
        static const char data[] = "data:";

        if (c == '\r')
                return;
        if (c != data[usage->n_line])
                usage->line = OTHER;
        else if (++usage->n_line == sizeof(data) - 1)
                usage->line = DATA;
}

static void end_line(struct usage *usage)
{
        if (usage->line == NAME && usage->n_line == 0)
                begin_document(usage); /* an empty line ends the event */
        usage->line = NAME;
        usage->n_line = 0;
}

void usage_feed(struct usage *usage, const void *data, size_t size)
{
        const char *at = data, *end = at + size, *next;

        if (usage->form != USAGE_EVENTS) {
                feed_document(usage, at, end);
                return;
        }
        while (at < end) {
                if (usage->line == NAME && *at != '\n') {
                        name_byte(usage, *at++);
                        continue;
                }
                next = memchr(at, '\n', (size_t)(end - at));
                if (usage->line == DATA)
                        feed_document(usage, at, next ? next : end);
                if (next)
                        end_line(usage);
                at = next ? next + 1 : end;
        }
}

uint64_t usage_tokens(const struct usage *usage)
{
        return usage->earlier + of_document(usage);
}
