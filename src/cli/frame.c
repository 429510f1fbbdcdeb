/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame.h"

#include "base/cleanup.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

/* From empty to full, by eighths: horizontal and vertical. */
static const wchar_t lying[] = L" ▏▎▍▌▋▊▉█", standing[] = L" ▁▂▃▄▅▆▇█", standing_plain[] = L" .:-=+*%#";

int frame_reset(struct frame *frame, int n_rows, int n_columns)
{
        size_t n = (size_t)n_rows * (size_t)n_columns;
        struct cell *cells = realloc(frame->cells, (n ? n : 1) * sizeof(*cells));

        if (!cells)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                cells[i] = (struct cell){ L' ', STYLE_PLAIN };
        frame->cells = cells;
        frame->n_rows = n_rows;
        frame->n_columns = n_columns;
        return 0;
}

void frame_done(struct frame *frame)
{
        free(frame->cells);
        *frame = (struct frame){ 0 };
}

static struct cell *cell_at(struct frame *frame, int row, int column)
{
        if (row < 0 || row >= frame->n_rows || column < 0 || column >= frame->n_columns)
                return NULL;
        return &frame->cells[row * frame->n_columns + column];
}

void frame_put(struct frame *frame, int row, int column, enum style style, wchar_t c)
{
        struct cell *cell = cell_at(frame, row, column);

        if (cell)
                *cell = (struct cell){ c, style };
}

/* The next character of text, or '?'; moves on. */
static wchar_t character(const char **text)
{
        mbstate_t state = { 0 };
        wchar_t c;
        size_t n = mbrtowc(&c, *text, strlen(*text), &state);

        if (n == 0 || n > strlen(*text)) {
                (*text)++;
                return L'?';
        }
        *text += n;
        return iswprint((wint_t)c) && wcwidth(c) == 1 ? c : L'?';
}

void frame_text(struct frame *frame, int row, int column, int width, enum style style, const char *text)
{
        for (int i = 0; i < width && *text; i++)
                frame_put(frame, row, column + i, style, character(&text));
}

void frame_right(struct frame *frame, int row, int column, int width, enum style style, const char *text)
{
        int length = 0;

        for (const char *at = text; *at; length++)
                (void)character(&at);
        frame_text(frame, row, column + (length < width ? width - length : 0), width, style, text);
}

void frame_paint(struct frame *frame, int row, enum style style)
{
        for (int i = 0; i < frame->n_columns; i++) {
                struct cell *cell = cell_at(frame, row, i);

                if (cell)
                        cell->style = style;
        }
}

static double within(double permille)
{
        return permille > 1000 ? 1000 : permille > 0 ? permille : 0;
}

/* The column of a position of 0 to 1000. */
static int column_of(double place, int width)
{
        int column = (int)(place * width / 1000);

        return column >= width ? width - 1 : column;
}

void frame_bar(struct frame *frame, int row, int column, int width, enum style style, double part, double mark,
               double stop)
{
        int eighths = (int)(within(part) * width * 8 / 1000 + 0.5);

        for (int i = 0; i < width; i++) {
                int filled = eighths - i * 8;

                if (filled <= 0 || (frame->is_plain && filled < 4))
                        frame_put(frame, row, column + i, STYLE_DIM, frame->is_plain ? L'.' : L'·');
                else
                        frame_put(frame, row, column + i, style,
                                  frame->is_plain ? L'#' : lying[filled < 8 ? filled : 8]);
        }
        if (mark > 0 && mark < 1000)
                frame_put(frame, row, column + column_of(mark, width), STYLE_MARK, frame->is_plain ? L'|' : L'│');
        if (stop > 0 && stop < 1000)
                frame_put(frame, row, column + column_of(stop, width), STYLE_MARK, frame->is_plain ? L']' : L'┫');
}

/* The mean of the samples that exist; -1: none. */
static double mean(const double *values, int n)
{
        double sum = 0;
        int taken = 0;

        for (int i = 0; i < n; i++)
                if (values[i] >= 0) {
                        sum += values[i];
                        taken++;
                }
        return taken ? sum / taken : -1;
}

void frame_spark(struct frame *frame, int row, int column, int width, const double *values, int n)
{
        const wchar_t *heights = frame->is_plain ? standing_plain : standing;

        if (width > n) {
                column += width - n;
                width = n;
        }
        for (int i = 0; i < width; i++) {
                int from = n * i / width, to = n * (i + 1) / width;
                double value = mean(values + from, to - from);
                int height = (int)(within(value) * 8 / 1000 + 0.5);

                height = height == 0 && value >= 1 ? 1 : height; /* a small value is still visible */
                if (value >= 0)
                        frame_put(frame, row, column + i, STYLE_GOOD, heights[height]);
        }
}

/* Columns up to the last that is not blank. */
static int length_of(const struct frame *frame, int row)
{
        int n = frame->n_columns;

        while (n > 0 && frame->cells[row * frame->n_columns + n - 1].c == L' ')
                n--;
        return n;
}

static void print_row(const struct frame *frame, int row, FILE *to)
{
        int n = length_of(frame, row);

        for (int i = 0; i < n; i++) {
                char text[MB_LEN_MAX + 1] = { 0 };
                mbstate_t state = { 0 };

                if (wcrtomb(text, frame->cells[row * frame->n_columns + i].c, &state) == (size_t)-1)
                        (void)strcpy(text, "?");
                (void)fputs(text, to);
        }
        (void)putc('\n', to);
}

void frame_print(const struct frame *frame, FILE *to)
{
        int n = frame->n_rows;

        while (n > 0 && length_of(frame, n - 1) == 0)
                n--;
        for (int row = 0; row < n; row++)
                print_row(frame, row, to);
}
