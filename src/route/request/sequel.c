/* SPDX-License-Identifier: Apache-2.0 */
#include "route/request/sequel.h"

#include "base/cleanup.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

enum value { ANY, ZERO, ONE };

static const struct {
        const char *name;
        enum value value;
} fields[] = {
#define FIELD(name, value) { name, value },
#include "route/request/sequel.def"
#undef FIELD
};

/* ---- the request ------------------------------------------------------------------------------------------- */

static bool is_zero(const json_t *value)
{
        return json_is_false(value) ||
               (json_is_number(value) && !(json_number_value(value) < 0) && !(json_number_value(value) > 0)) ||
               (json_is_string(value) && !json_string_length(value));
}

static bool field_is_fine(const char *name, const json_t *value)
{
        if (json_is_null(value))
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
                if (!strcmp(fields[i].name, name))
                        return fields[i].value == ANY  ? true :
                               fields[i].value == ZERO ? is_zero(value) :
                                                         json_integer_value(value) == 1;
        return false;
}

static bool may_go_on(json_t *body)
{
        json_int_t most = json_integer_value(json_object_get(body, "max_tokens"));
        const char *name;
        json_t *value;

        if (!json_is_true(json_object_get(body, "stream")) || !json_is_string(json_object_get(body, "prompt")) ||
            most < 1 || most > UINT32_MAX)
                return false;
        json_object_foreach (body, name, value)
                if (!field_is_fine(name, value))
                        return false;
        return true;
}

bool sequel_may(const void *body, size_t size, uint32_t *ret_max_tokens)
{
        json_auto_t *root = size <= SEQUEL_BODY ? json_loadb(body, size, JSON_REJECT_DUPLICATES, NULL) : NULL;

        if (!json_is_object(root) || !may_go_on(root))
                return false;
        *ret_max_tokens = (uint32_t)json_integer_value(json_object_get(root, "max_tokens"));
        return true;
}

static json_t *longer_prompt(const struct sequel *sequel, const json_t *prompt)
{
        size_t size = json_string_length(prompt);
        _cleanup_(freep) char *text = malloc(size + sequel->n_text + 1);

        if (!text || !json_is_string(prompt))
                return NULL;
        memcpy(text, json_string_value(prompt), size);
        if (sequel->n_text)
                memcpy(text + size, sequel->text, sequel->n_text);
        return json_stringn(text, size + sequel->n_text);
}

char *sequel_body(const struct sequel *sequel, const void *body, size_t size, size_t *ret_size)
{
        json_auto_t *root = json_loadb(body, size, JSON_REJECT_DUPLICATES, NULL);
        json_int_t left = json_integer_value(json_object_get(root, "max_tokens")) - sequel->n_tokens;
        char *text;

        if (!json_is_object(root) || left < 1 ||
            json_object_set_new(root, "prompt", longer_prompt(sequel, json_object_get(root, "prompt"))) < 0 ||
            json_object_set_new(root, "max_tokens", json_integer(left)) < 0)
                return NULL;
        text = json_dumps(root, JSON_COMPACT);
        if (text)
                *ret_size = strlen(text);
        return text;
}

/* ---- an event ------------------------------------------------------------------------------------------------- */

static bool keep_text(struct sequel *sequel, const char *text, size_t size)
{
        size_t want = sequel->n_text + size, room = sequel->text_room ? sequel->text_room : 256;
        char *longer;

        if (want > SEQUEL_TEXT)
                return false;
        while (room < want)
                room *= 2;
        if (room > sequel->text_room) {
                longer = realloc(sequel->text, room);
                if (!longer)
                        return false;
                sequel->text = longer;
                sequel->text_room = room;
        }
        memcpy(sequel->text + sequel->n_text, text, size);
        sequel->n_text = want;
        return true;
}

/* False: it is none of a completion with one choice. */
static bool read_chunk(struct sequel *sequel, const char *data, size_t size)
{
        json_auto_t *chunk = json_loadb(data, size, 0, NULL);
        const json_t *choices = json_object_get(chunk, "choices"), *choice = json_array_get(choices, 0);
        const json_t *text = json_object_get(choice, "text"), *finish = json_object_get(choice, "finish_reason");

        if (!json_is_array(choices) || json_object_get(chunk, "error") || json_array_size(choices) > 1)
                return false;
        if (!choice) /* only usage */
                return true;
        if (!json_is_string(text) || json_integer_value(json_object_get(choice, "index")) != 0 ||
            !keep_text(sequel, json_string_value(text), json_string_length(text)))
                return false;
        sequel->n_tokens++;
        sequel->is_over |= finish && !json_is_null(finish);
        return true;
}

static void read_line(struct sequel *sequel, const char *line, size_t size)
{
        static const char data[] = "data:", done[] = "[DONE]";
        const size_t n = sizeof(data) - 1;

        if (size < n || memcmp(line, data, n) != 0)
                return; /* a comment, or the event's name */
        line += n;
        size -= n;
        while (size && *line == ' ') {
                line++;
                size--;
        }
        if (size >= sizeof(done) - 1 && memcmp(line, done, sizeof(done) - 1) == 0)
                sequel->is_over = true;
        else if (!read_chunk(sequel, line, size))
                sequel->is_lost = true;
}

/* Of what is there the whole events: they end with an empty line, and lines with \n or \r\n. */
static void read_events(struct sequel *sequel)
{
        const char *from = sequel->buffer + sequel->n_whole, *end = sequel->buffer + sequel->size, *at = from, *line;

        while ((line = at) < end && (at = memchr(line, '\n', (size_t)(end - line)))) {
                at++;
                if (at - line > 2 || (at - line == 2 && *line != '\r'))
                        continue;
                for (const char *next; from < line && !sequel->is_lost && !sequel->is_over; from = next) {
                        next = (const char *)memchr(from, '\n', (size_t)(line - from)) + 1;
                        read_line(sequel, from, (size_t)(next - from));
                }
                from = at;
                sequel->n_whole = (size_t)(at - sequel->buffer);
        }
}

/* ---- the stream ------------------------------------------------------------------------------------------------ */

int sequel_init(struct sequel *sequel, size_t room)
{
        *sequel = (struct sequel){ .room = room + SEQUEL_EVENT };
        sequel->buffer = malloc(sequel->room);
        return sequel->buffer ? 0 : -ENOMEM;
}

void sequel_done(struct sequel *sequel)
{
        free(sequel->buffer);
        free(sequel->text);
        *sequel = (struct sequel){ .is_lost = true };
}

bool sequel_feed(struct sequel *sequel, const void *data, size_t size)
{
        if (size > sequel->room - sequel->size)
                sequel->is_lost = true;
        if (sequel->is_lost)
                return false;
        memcpy(sequel->buffer + sequel->size, data, size);
        sequel->size += size;
        read_events(sequel);
        return true;
}

void sequel_take(struct sequel *sequel, const char **ret, size_t *ret_size)
{
        if (sequel->is_lost || sequel->is_over)
                sequel->n_whole = sequel->size;
        *ret = sequel->buffer + sequel->n_given;
        *ret_size = sequel->n_whole - sequel->n_given;
        sequel->n_given = sequel->n_whole;
}

void sequel_gone(struct sequel *sequel)
{
        if (!sequel->n_given)
                return;
        sequel->size -= sequel->n_given;
        sequel->n_whole -= sequel->n_given;
        memmove(sequel->buffer, sequel->buffer + sequel->n_given, sequel->size);
        sequel->n_given = 0;
}

void sequel_cut(struct sequel *sequel)
{
        sequel->size = sequel->n_whole;
}

bool sequel_is_open(const struct sequel *sequel)
{
        return !sequel->is_lost && !sequel->is_over && sequel->n_tokens < sequel->max_tokens;
}
