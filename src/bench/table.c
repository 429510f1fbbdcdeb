/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/table.h"

#include "base/cleanup.h"

#include <jansson.h>

static const struct {
        const char *name, *unit, *meaning;
} rows[MEASURE_N] = {
#define ROW(name, unit, meaning) [MEASURE_##name] = { #name, unit, meaning },
#include "bench/rows.def"
#undef ROW
};

const char *table_name(enum measure_row row)
{
        return rows[row].name;
}

void table_print_row(FILE *to, const struct table *table, enum measure_row row)
{
        const struct table_row *is = &table->rows[row];

        if (is->is_had)
                (void)fprintf(to, "%-15s %8.3g %-6s %s\n", rows[row].name, is->value, rows[row].unit,
                              rows[row].meaning);
        else
                (void)fprintf(to, "%-15s %8s %-6s %s\n", rows[row].name, "-", "", is->why);
}

void table_print_all(FILE *to, const struct table *table)
{
        (void)fprintf(to, "%s%s, driver %s, %s\n", table->device,
                      table->is_simulated ? " (simulated: the figures are the simulator's)" : "", table->driver,
                      table->date);
        for (size_t i = 0; i < MEASURE_N; i++)
                table_print_row(to, table, (enum measure_row)i);
}

static json_t *row_json(const struct table *table, size_t i)
{
        const struct table_row *row = &table->rows[i];

        if (!row->is_had)
                return json_pack("{s:s, s:s, s:s}", "name", rows[i].name, "meaning", rows[i].meaning, "unavailable",
                                 row->why);
        return json_pack("{s:s, s:f, s:s, s:s}", "name", rows[i].name, "value", row->value, "unit", rows[i].unit,
                         "meaning", rows[i].meaning);
}

json_t *table_json(const struct table *table)
{
        json_t *list = json_array();

        for (size_t i = 0; i < MEASURE_N; i++)
                (void)json_array_append_new(list, row_json(table, i));
        return json_pack("{s:s, s:s, s:s, s:b, s:s, s:o}", "device", table->device, "driver", table->driver, "date",
                         table->date, "simulated", (int)table->is_simulated, "sublet", SUBLET_VERSION, "measured",
                         list);
}
