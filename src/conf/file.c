/* SPDX-License-Identifier: Apache-2.0 */
#include "conf/file.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

struct reader {
        yaml_parser_t parser;
        const char *name;
        unsigned int depth;
        struct conf_lines *lines; /* NULL: nobody asks */
        struct err *err;
};

static int yaml_refuse(const struct reader *reader, const yaml_mark_t *at, const char *why)
{
        return err_say(reader->err, -EINVAL, "%s:%zu: %s", reader->name, at->line + 1, why);
}

static int next(struct reader *reader, yaml_event_t *ret)
{
        if (yaml_parser_parse(&reader->parser, ret))
                return 0;
        return yaml_refuse(reader, &reader->parser.problem_mark,
                           reader->parser.problem ? reader->parser.problem : "not YAML");
}

/* Without memory a complaint has no line; that is no failure. */
static void note_line(const struct reader *reader, const void *of, const yaml_mark_t *at)
{
        struct conf_lines *lines = reader->lines;

        if (lines && lines->n == lines->room) {
                size_t room = lines->room ? 2 * lines->room : 64;
                struct conf_line *more = reallocarray(lines->at, room, sizeof(*more));

                if (!more)
                        return;
                lines->at = more;
                lines->room = room;
        }
        if (lines)
                lines->at[lines->n++] = (struct conf_line){ of, at->line + 1 };
}

static bool is_any(const char *text, const char *const *words, size_t n)
{
        for (size_t i = 0; i < n; i++)
                if (!strcmp(text, words[i]))
                        return true;
        return false;
}

/* What looks like a number and is one to the last character. */
static json_t *number(const char *text)
{
        char *end;
        long long whole;
        double real;

        if (!*text || !strchr("+-.0123456789", *text))
                return NULL;
        errno = 0;
        whole = strtoll(text, &end, 10);
        if (!*end && errno == 0)
                return json_integer(whole);
        errno = 0;
        real = strtod(text, &end);
        if (!*end && errno == 0 && !strpbrk(text, "xXnNiI"))
                return json_real(real);
        return NULL;
}

static json_t *scalar(const yaml_event_t *event)
{
        static const char *const nothing[] = { "", "~", "null", "Null", "NULL" };
        static const char *const yes[] = { "true", "True", "TRUE" }, *const no[] = { "false", "False", "FALSE" };
        const char *text = (const char *)event->data.scalar.value;
        size_t size = event->data.scalar.length;
        json_t *value = NULL;

        if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strlen(text) == size) {
                if (is_any(text, nothing, ARRAY_SIZE(nothing)))
                        return json_null();
                if (is_any(text, yes, ARRAY_SIZE(yes)))
                        return json_true();
                if (is_any(text, no, ARRAY_SIZE(no)))
                        return json_false();
                value = number(text);
        }
        return value ? value : json_stringn(text, size);
}

static int node(struct reader *reader, const yaml_event_t *event, json_t **ret);

static int sequence(struct reader *reader, json_t **ret)
{
        _cleanup_(json_decrefp) json_t *list = json_array();

        for (;;) {
                yaml_event_t event;
                json_t *item = NULL;
                bool is_end;
                int r = next(reader, &event);

                if (r < 0)
                        return r;
                is_end = event.type == YAML_SEQUENCE_END_EVENT;
                if (!is_end && (r = node(reader, &event, &item)) == 0)
                        note_line(reader, item, &event.start_mark);
                yaml_event_delete(&event);
                if (r < 0)
                        return r;
                if (is_end)
                        break;
                if (json_array_append_new(list, item) < 0)
                        return err_set(reader->err, -ENOMEM, "%s", reader->name);
        }
        *ret = TAKE(list);
        return 0;
}

/* The value that belongs to the key just read. */
static int member(struct reader *reader, const yaml_event_t *key, json_t *object)
{
        const char *name = (const char *)key->data.scalar.value;
        yaml_event_t event;
        json_t *value = NULL;
        int r;

        if (key->type != YAML_SCALAR_EVENT || strlen(name) != key->data.scalar.length)
                return yaml_refuse(reader, &key->start_mark, "a key must be a word");
        if (json_object_get(object, name))
                return yaml_refuse(reader, &key->start_mark, "this key stands twice");
        r = next(reader, &event);
        if (r < 0)
                return r;
        r = node(reader, &event, &value);
        yaml_event_delete(&event);
        if (r < 0)
                return r;
        if (json_object_set_new(object, name, value) < 0)
                return yaml_refuse(reader, &key->start_mark, "this key is not text");
        note_line(reader, json_object_iter_key(json_object_iter_at(object, name)), &key->start_mark);
        return 0;
}

static int mapping(struct reader *reader, json_t **ret)
{
        _cleanup_(json_decrefp) json_t *object = json_object();

        for (;;) {
                yaml_event_t key;
                bool is_end;
                int r = next(reader, &key);

                if (r < 0)
                        return r;
                is_end = key.type == YAML_MAPPING_END_EVENT;
                if (!is_end)
                        r = member(reader, &key, object);
                yaml_event_delete(&key);
                if (r < 0)
                        return r;
                if (is_end)
                        break;
        }
        *ret = TAKE(object);
        return 0;
}

static int node(struct reader *reader, const yaml_event_t *event, json_t **ret)
{
        int r;

        if (reader->depth >= CONF_DEPTH_MAX)
                return yaml_refuse(reader, &event->start_mark, "nested too deeply");
        switch (event->type) {
        case YAML_SCALAR_EVENT:
                if (event->data.scalar.anchor || event->data.scalar.tag)
                        return yaml_refuse(reader, &event->start_mark, "anchors and tags are not read here");
                *ret = scalar(event);
                return *ret ? 0 : yaml_refuse(reader, &event->start_mark, "this is not UTF-8 text");
        case YAML_SEQUENCE_START_EVENT:
        case YAML_MAPPING_START_EVENT:
                if (event->type == YAML_SEQUENCE_START_EVENT ?
                            event->data.sequence_start.anchor || event->data.sequence_start.tag :
                            event->data.mapping_start.anchor || event->data.mapping_start.tag)
                        return yaml_refuse(reader, &event->start_mark, "anchors and tags are not read here");
                reader->depth++;
                r = event->type == YAML_SEQUENCE_START_EVENT ? sequence(reader, ret) : mapping(reader, ret);
                reader->depth--;
                return r;
        case YAML_ALIAS_EVENT:
                return yaml_refuse(reader, &event->start_mark, "aliases are not read here");
        default:
                return yaml_refuse(reader, &event->start_mark, "a value is missing");
        }
}

/* Stream, document, its one value, and nothing after it. */
static int document(struct reader *reader, json_t **ret)
{
        static const yaml_event_type_t before[] = { YAML_STREAM_START_EVENT, YAML_DOCUMENT_START_EVENT },
                                       after[] = { YAML_DOCUMENT_END_EVENT, YAML_STREAM_END_EVENT };
        _cleanup_(json_decrefp) json_t *value = NULL;
        yaml_event_t event;
        int r = 0;

        for (size_t i = 0; i < 5 && r == 0; i++) {
                r = next(reader, &event);
                if (r < 0)
                        return r;
                if (i == 2)
                        r = node(reader, &event, &value);
                else if (event.type != (i < 2 ? before[i] : after[i - 3]))
                        r = yaml_refuse(reader, &event.start_mark,
                                        event.type == YAML_STREAM_END_EVENT ? "the file is empty" :
                                                                              "one document, please");
                yaml_event_delete(&event);
        }
        if (r == 0)
                *ret = TAKE(value);
        return r;
}

int conf_parse(const char *name, const char *text, size_t size, json_t **ret, struct conf_lines *lines, struct err *err)
{
        struct reader reader = { .name = name, .lines = lines, .err = err };
        int r;

        if (!yaml_parser_initialize(&reader.parser))
                return err_set(err, -ENOMEM, "%s", name);
        yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, size);
        r = document(&reader, ret);
        yaml_parser_delete(&reader.parser);
        return r;
}

int conf_read(const char *path, json_t **ret, struct conf_lines *lines, struct err *err)
{
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        _cleanup_(freep) char *text = NULL;
        size_t size = 0;
        ssize_t n;

        if (fd < 0)
                return err_set(err, -errno, "opening %s", path);
        text = malloc(CONF_SIZE_MAX + 1);
        if (!text)
                return err_set(err, -ENOMEM, "reading %s", path);
        while ((n = read(fd, text + size, CONF_SIZE_MAX + 1 - size)) > 0)
                size += (size_t)n;
        if (n < 0)
                return err_set(err, -errno, "reading %s", path);
        if (size > CONF_SIZE_MAX)
                return err_say(err, -EFBIG, "%s: larger than 4 MiB", path);
        return conf_parse(path, text, size, ret, lines, err);
}

/* ---- lines ----------------------------------------------------------------------------------------------------- */

size_t conf_line_of(const struct conf_lines *lines, const void *of)
{
        for (size_t i = 0; lines && i < lines->n; i++)
                if (lines->at[i].of == of)
                        return lines->at[i].line;
        return 0;
}

size_t conf_line_of_key(const struct conf_lines *lines, const json_t *in, const char *key)
{
        void *at = json_object_iter_at((json_t *)(uintptr_t)in, key);

        return at ? conf_line_of(lines, json_object_iter_key(at)) : 0;
}

void conf_lines_done(struct conf_lines *lines)
{
        free(lines->at);
        *lines = (struct conf_lines){ 0 };
}
