/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "rm/layout.h"

#include "rm/fields.h"
#include "rm/releases.h"

static void an_unknown_release_has_no_layout(void **state)
{
        struct rm_layout layout;

        (void)state;
        memset(&layout, 0x5a, sizeof(layout));
        assert_int_equal(rm_layout_for((struct rm_version){ 580, 159, 5 }, &layout), RM_E_VERSION);
        assert_int_equal(rm_layout_for((struct rm_version){ 535, 43, 8 }, &layout), RM_E_VERSION);
        assert_int_equal(rm_layout_for((struct rm_version){ 610, 43, 2 }, &layout), RM_E_VERSION);
        assert_int_equal(layout.alloc_size, 0x5a5a5a5a); /* untouched */
}

static void a_layout_says_of_which_release_it_is(void **state)
{
        struct rm_layout layout = layout_of(535, 288, 1);

        (void)state;
        assert_int_equal(layout.version.branch, 535);
        assert_int_equal(layout.version.minor, 288);
        assert_int_equal(layout.version.patch, 1);
}

/* What a trace of a CUDA start on an H200 with this release shows. */
static void the_layout_of_580_159_04_is_what_was_seen(void **state)
{
        struct rm_layout layout = layout_of(580, 159, 4);

        (void)state;
        assert_int_equal(layout.alloc_size, 48);
        assert_int_equal(layout.fb_info_size, 1028);
        assert_int_equal(layout.numa_info_size, 560);
        assert_int_equal(layout.wait_open_size, 8);
        assert_int_equal(layout.schedule_size, 3);
}

/* A border on either side, in the last release before it and the first with it. */
static void a_change_takes_effect_in_its_release_and_not_before(void **state)
{
        (void)state;
        assert_int_equal(layout_of(525, 147, 5).alloc_size, 40);
        assert_int_equal(layout_of(535, 54, 3).alloc_size, 48);
        assert_int_equal(layout_of(535, 54, 3).channel_params_size, 304);
        assert_int_equal(layout_of(535, 86, 5).channel_params_size, 360);
        assert_int_equal(layout_of(565, 77, 0).channel_params_size, 360);
        assert_int_equal(layout_of(570, 86, 15).channel_params_size, 368);
        assert_int_equal(layout_of(535, 288, 1).memory_params_size, 120);
        assert_int_equal(layout_of(545, 23, 6).memory_params_size, 128);
        assert_int_equal(layout_of(545, 29, 6).uvm_map_external_size, 1200);
        assert_int_equal(layout_of(550, 54, 14).uvm_map_external_size, 9264);
        assert_int_equal(layout_of(570, 211, 1).schedule_size, 2);
        assert_int_equal(layout_of(575, 51, 2).schedule_size, 3);
        assert_int_equal(layout_of(575, 64, 5).fb_info_size, 460);
        assert_int_equal(layout_of(580, 65, 6).fb_info_size, 1028);
        assert_int_equal(layout_of(580, 159, 4).uvm_free_size, 24);
        assert_int_equal(layout_of(590, 44, 1).uvm_free_size, 16);
        assert_int_equal(layout_of(590, 48, 1).uvm_atomics_size, 20);
        assert_int_equal(layout_of(595, 44, 2).uvm_atomics_size, RM_ABSENT);
}

static void every_field_has_a_value_in_every_branch(void **state)
{
        (void)state;
        for (size_t i = 0; i < N_RELEASES; i++) {
                struct rm_layout layout = layout_of_release(i);
                struct rm_field fields[RM_N_FIELDS];

                layout_fields(&layout, fields);
                for (size_t j = 0; j < RM_N_FIELDS; j++) {
                        assert_non_null(fields[j].name);
                        if (strcmp(fields[j].name, "user_data_has_memory") != 0)
                                assert_int_not_equal(fields[j].value, 0);
                }
        }
}

static void a_field_is_read_and_written_where_it_stands(void **state)
{
        uint8_t buffer[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };

        (void)state;
        assert_int_equal(rm_get32(buffer, sizeof(buffer), 0), 0x04030201);
        assert_int_equal(rm_get32(buffer, sizeof(buffer), 3), 0x07060504); /* no alignment needed */
        assert_int_equal(rm_get32(buffer, sizeof(buffer), 12), 0x100f0e0d);
        assert_true(rm_get64(buffer, sizeof(buffer), 8) == 0x100f0e0d0c0b0a09);

        rm_put32(buffer, sizeof(buffer), 4, 0xaabbccdd);
        rm_put64(buffer, sizeof(buffer), 8, 0x1122334455667788);
        assert_int_equal(buffer[3], 4);
        assert_int_equal(buffer[4], 0xdd);
        assert_int_equal(buffer[7], 0xaa);
        assert_int_equal(buffer[8], 0x88);
        assert_int_equal(buffer[15], 0x11);
}

static void a_field_that_sticks_out_reads_0_and_is_not_written(void **state)
{
        static const size_t offsets32[] = { 5, 6, 7, 8, 9, UINT32_MAX, SIZE_MAX - 3, SIZE_MAX };
        static const size_t offsets64[] = { 1, 4, 8, UINT32_MAX, SIZE_MAX - 7, SIZE_MAX };
        uint8_t buffer[16];

        (void)state;
        memset(buffer, 0xee, sizeof(buffer));
        for (size_t i = 0; i < sizeof(offsets32) / sizeof(offsets32[0]); i++) {
                assert_int_equal(rm_get32(buffer, 8, offsets32[i]), 0);
                rm_put32(buffer, 8, offsets32[i], 0);
        }
        for (size_t i = 0; i < sizeof(offsets64) / sizeof(offsets64[0]); i++) {
                assert_true(rm_get64(buffer, 8, offsets64[i]) == 0);
                rm_put64(buffer, 8, offsets64[i], 0);
        }
        assert_int_equal(rm_get32(NULL, 0, 0), 0);
        rm_put64(NULL, 0, 0, 1);
        for (size_t i = 0; i < sizeof(buffer); i++)
                assert_int_equal(buffer[i], 0xee);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(an_unknown_release_has_no_layout),
                cmocka_unit_test(a_layout_says_of_which_release_it_is),
                cmocka_unit_test(the_layout_of_580_159_04_is_what_was_seen),
                cmocka_unit_test(a_change_takes_effect_in_its_release_and_not_before),
                cmocka_unit_test(every_field_has_a_value_in_every_branch),
                cmocka_unit_test(a_field_is_read_and_written_where_it_stands),
                cmocka_unit_test(a_field_that_sticks_out_reads_0_and_is_not_written),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
