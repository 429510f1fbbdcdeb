/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "ask/field.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

enum {
        CELL_MAX = 512,
        GAP = 2,
};

/* Columns that a cleaned text takes. */
static int width_of(const char *text)
{
        wchar_t wide[CELL_MAX];
        size_t n = mbstowcs(wide, text, CELL_MAX);
        int width = n == (size_t)-1 || n == CELL_MAX ? -1 : wcswidth(wide, n);

        return width < 0 ? (int)strlen(text) : width;
}

static char *cell_new(struct table *table, size_t column, const char *text)
{
        char clean[CELL_MAX];
        int width;

        (void)field_clean(text, clean, sizeof(clean));
        width = width_of(clean);
        if (width > table->widths[column])
                table->widths[column] = width;
        return strdup(clean);
}

static int reserve(struct table *table, size_t n)
{
        size_t room = (n + table->n_columns) * 2;
        char **cells;

        if (n + table->n_columns <= table->room)
                return 0;
        cells = realloc(table->cells, room * sizeof(*cells));
        if (!cells)
                return -ENOMEM;
        table->cells = cells;
        table->room = room;
        return 0;
}

static void row(struct table *table, va_list args)
{
        size_t n = table->n_rows * table->n_columns, i = 0;
        const char *text;

        if (table->failure || reserve(table, n) < 0) {
                table->failure = -ENOMEM;
                return;
        }
        for (; i < table->n_columns && (text = va_arg(args, const char *)); i++) {
                table->cells[n + i] = cell_new(table, i, text);
                if (strcmp(text, "-") != 0)
                        table->is_left_out &= ~(1u << i);
        }
        for (; i < table->n_columns; i++)
                table->cells[n + i] = NULL;
        table->n_rows++;
}

void table_init(struct table *table, ...)
{
        char heading[CELL_MAX];
        const char *text;
        va_list args;

        *table = (struct table){ 0 };
        va_start(args, table);
        while (table->n_columns < TABLE_COLUMNS && va_arg(args, const char *))
                table->n_columns++;
        va_end(args);
        if (reserve(table, 0) < 0) {
                table->failure = -ENOMEM;
                return;
        }
        va_start(args, table);
        for (size_t i = 0; i < table->n_columns && (text = va_arg(args, const char *)); i++) {
                (void)snprintf(heading, sizeof(heading), "%.*s", (int)strcspn(text, ">?"), text);
                table->is_right |= strchr(text, '>') ? 1u << i : 0;
                table->is_left_out |= strchr(text, '?') ? 1u << i : 0;
                table->cells[i] = cell_new(table, i, heading);
        }
        va_end(args);
        table->n_rows = 1;
}

void table_row(struct table *table, ...)
{
        va_list args;

        va_start(args, table);
        row(table, args);
        va_end(args);
}

static const char *text_at(const struct table *table, size_t row, size_t column)
{
        const char *text = table->cells[row * table->n_columns + column];

        return text ? text : "";
}

/* What a row takes at most: those of the bits are left out. */
static int width_without(const struct table *table, unsigned int left_out)
{
        int sum = 0;

        for (size_t i = 0; i < table->n_columns; i++)
                if (!((left_out >> i) & 1))
                        sum += (sum ? GAP : 0) + table->widths[i];
        return sum;
}

/* The first column says whose the row is, and stays. */
static unsigned int bit_of(const struct table *table, const char *heading)
{
        for (size_t i = 1; i < table->n_columns; i++)
                if (!strcmp(text_at(table, 0, i), heading))
                        return 1u << i;
        return 0;
}

void table_fit(struct table *table, int width, const char *const *least)
{
        unsigned int always = table->is_left_out, bit;
        size_t n = 0;

        if (table->failure || width == 0)
                return;
        for (; least[n] && width_without(table, table->is_left_out) > width; n++)
                table->is_left_out |= bit_of(table, least[n]);
        while (n-- > 0) {
                bit = bit_of(table, least[n]) & ~always;
                if (width_without(table, table->is_left_out & ~bit) <= width)
                        table->is_left_out &= ~bit;
        }
}

int table_width(FILE *to)
{
        const char *text = getenv("COLUMNS");
        struct winsize size;
        uint64_t columns;

        if (!isatty(fileno(to)))
                return 0;
        if (text && number_parse(text, &columns) == 0 && columns >= 1 && columns <= 10000)
                return (int)columns;
        return ioctl(fileno(to), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static void print_row(const struct table *table, size_t row, FILE *to)
{
        int blanks = 0; /* written before the next text, so that no line ends with blanks */

        for (size_t column = 0; column < table->n_columns; column++) {
                const char *text = text_at(table, row, column);
                int rest = table->widths[column] - width_of(text);

                if ((table->is_left_out >> column) & 1)
                        continue;
                if ((table->is_right >> column) & 1)
                        blanks += rest;
                if (*text) {
                        (void)fprintf(to, "%*s%s", blanks, "", text);
                        blanks = 0;
                }
                blanks += ((table->is_right >> column) & 1 ? 0 : rest) + GAP;
        }
        (void)putc('\n', to);
}

int table_print(const struct table *table, FILE *to)
{
        for (size_t row = 0; row < table->n_rows; row++)
                print_row(table, row, to);
        return table->failure;
}

void table_done(struct table *table)
{
        for (size_t i = 0; i < table->n_rows * table->n_columns; i++)
                free(table->cells[i]);
        free(table->cells);
        *table = (struct table){ 0 };
}
