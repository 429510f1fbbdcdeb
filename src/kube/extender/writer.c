/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/extender/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        ROOM_FIRST = 4096,
};

void writer_done(struct writer *writer)
{
        free(writer->text);
        *writer = (struct writer){ 0 };
}

bool writer_reserve(struct writer *writer, size_t more)
{
        size_t room = writer->room ? writer->room : ROOM_FIRST;
        char *text;

        if (writer->is_broken || more >= SIZE_MAX / 4 - writer->size) {
                writer->is_broken = true;
                return false;
        }
        if (writer->size + more < writer->room)
                return true;
        while (room <= writer->size + more)
                room *= 2;
        text = realloc(writer->text, room);
        writer->is_broken = !text;
        if (!text)
                return false;
        writer->text = text;
        writer->room = room;
        return true;
}

void writer_number(struct writer *writer, uint64_t number)
{
        char text[20];
        size_t at = sizeof(text);

        do
                text[--at] = (char)('0' + number % 10);
        while (number /= 10);
        writer_put(writer, text + at, sizeof(text) - at);
}

static void put_odd(struct writer *writer, unsigned char c)
{
        char text[8];
        int n = snprintf(text, sizeof(text), c < ' ' ? "\\u%04x" : "\\%c", c);

        writer_put(writer, text, (size_t)n);
}

void writer_string(struct writer *writer, const char *text)
{
        size_t from = 0, size = strlen(text);

        writer_put(writer, "\"", 1);
        for (size_t i = 0; i < size; i++) {
                unsigned char c = (unsigned char)text[i];

                if (c >= ' ' && c != '"' && c != '\\')
                        continue;
                writer_put(writer, text + from, i - from);
                put_odd(writer, c);
                from = i + 1;
        }
        writer_put(writer, text + from, size - from);
        writer_put(writer, "\"", 1);
}

void writer_add(struct writer *writer, const struct writer *other)
{
        writer->is_broken |= other->is_broken;
        if (other->size)
                writer_put(writer, other->text, other->size);
}

char *writer_take(struct writer *writer, size_t *ret_size)
{
        char *text = NULL;

        if (writer_reserve(writer, 0)) {
                writer->text[writer->size] = '\0';
                *ret_size = writer->size;
                text = TAKE(writer->text);
        }
        writer_done(writer);
        return text;
}
