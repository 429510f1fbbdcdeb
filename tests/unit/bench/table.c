/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "bench/table.h"

#include <string.h>

static const struct table table = {
        .device = "NVIDIA H200",
        .driver = "580.159.04",
        .date = "2026-11-22",
        .rows = { [MEASURE_turn_loss] = { .is_had = true, .value = 0.0125 },
                  [MEASURE_spatial_gain] = { .why = "no MPS here" } },
};

static void a_figure_has_its_unit_and_what_is_not_had_its_reason(void **state)
{
        char text[400] = "";
        FILE *to = fmemopen(text, sizeof(text), "w");

        (void)state;
        table_print_row(to, &table, MEASURE_turn_loss);
        table_print_row(to, &table, MEASURE_spatial_gain);
        (void)fclose(to);
        assert_string_equal(text, "turn_loss         0.0125 share  of a device's time that software turns cost\n"
                                  "spatial_gain           -        no MPS here\n");
}

static void the_file_has_a_row_for_each_with_a_value_or_a_reason(void **state)
{
        json_t *found = table_json(&table), *row, *list = json_object_get(found, "measured");
        size_t i;

        (void)state;
        assert_int_equal(json_array_size(list), MEASURE_N);
        json_array_foreach (list, i, row) {
                bool is_had = json_object_get(row, "value");

                assert_string_equal(json_string_value(json_object_get(row, "name")), table_name((enum measure_row)i));
                assert_true(is_had != !!json_object_get(row, "unavailable"));
                assert_true(is_had == (i == MEASURE_turn_loss));
        }
        assert_string_equal(json_string_value(json_object_get(found, "driver")), "580.159.04");
        json_decref(found);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_figure_has_its_unit_and_what_is_not_had_its_reason),
                cmocka_unit_test(the_file_has_a_row_for_each_with_a_value_or_a_reason),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
