/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows and columns for people: a column is as wide as its widest cell. Cells are made safe for a terminal.
 *
 *      table_init(&table, "TENANT", "MEMORY>", NULL);          a > behind a heading: right-aligned; a ?: left out where
 *                                                              every cell is "-"
 *      table_row(&table, name, memory, NULL);
 *      table_print(&table, stdout); table_done(&table);
 */
#pragma once

#include <stdio.h>

enum {
        TABLE_COLUMNS = 24,
};

struct table {
        size_t n_columns, n_rows, room;
        char **cells; /* of all rows, the headings first; owned */
        int widths[TABLE_COLUMNS];
        unsigned int is_right, is_left_out; /* a bit per column */
        int failure;                        /* -ENOMEM: a row could not be kept */
};

void table_init(struct table *table, ...) __attribute__((sentinel));
void table_row(struct table *table, ...) __attribute__((sentinel)); /* as many texts as there are columns */

/* For a terminal of that width: leaves out whole columns, those of `least` first, until the rows fit; then takes back
 * what fits. Width 0: all stay; the first always. `least` has headings without > and ?, and ends with NULL. */
void table_fit(struct table *table, int width, const char *const *least);

/* The columns of the terminal that this is, or what $COLUMNS says of it; 0: it is none, or nobody knows. */
int table_width(FILE *to);

/* 0; -ENOMEM: some rows are missing. */
int table_print(const struct table *table, FILE *to);
void table_done(struct table *table);
