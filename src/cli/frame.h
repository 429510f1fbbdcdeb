/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A screen as a value: characters and styles. `sublet top` draws into it and does not know whether ncurses shows it or
 * a script reads it. What does not fit is cut off.
 *
 * Every character takes one column: wider and unprintable ones become '?'.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <wchar.h>

enum style {
        STYLE_PLAIN,
        STYLE_HEADING,
        STYLE_CHOSEN,
        STYLE_DIM,
        STYLE_GOOD, /* time that was granted */
        STYLE_WARN, /* less than promised; nearly full */
        STYLE_BAD,
        STYLE_MARK, /* where a share or a cap ends */
        STYLE_N,
};

struct cell {
        wchar_t c;
        enum style style;
};

struct frame {
        int n_rows, n_columns;
        bool is_plain; /* ASCII only: the locale has no block characters */
        struct cell *cells;
};

/* Blank, of that size. 0; -ENOMEM (the frame is as it was). */
int frame_reset(struct frame *frame, int n_rows, int n_columns);
void frame_done(struct frame *frame);

void frame_put(struct frame *frame, int row, int column, enum style style, wchar_t c);

/* Text of the locale's encoding, at most `width` columns of it. */
void frame_text(struct frame *frame, int row, int column, int width, enum style style, const char *text);
void frame_right(struct frame *frame, int row, int column, int width, enum style style, const char *text);

/* Gives a whole row the style. */
void frame_paint(struct frame *frame, int row, enum style style);

/* A bar: `part` of 1000 filled, to an eighth of a column. At `mark` and `stop` of 1000 (below 1000, else none) stand
 * the signs of the value it should reach and the value it may not pass. */
void frame_bar(struct frame *frame, int row, int column, int width, enum style style, double part, double mark,
               double stop);

/* The last `width` of n values of 0 to 1000 as columns of that height; negative: no sample. More values than
 * columns: each column is the mean of its part. */
void frame_spark(struct frame *frame, int row, int column, int width, const double *values, int n);

/* As text: blanks at line ends and blank rows at the end are left out. */
void frame_print(const struct frame *frame, FILE *to);
