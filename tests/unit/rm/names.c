/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "rm/call.h"
#include "rm/numbers.h"

#include <string.h>

static void every_kind_has_a_name_of_its_own(void **state)
{
        (void)state;
        for (int i = 0; i < RM_N_KINDS; i++) {
                assert_string_not_equal(rm_kind_name((enum rm_kind)i), "?");
                for (int j = 0; j < i; j++)
                        assert_string_not_equal(rm_kind_name((enum rm_kind)i), rm_kind_name((enum rm_kind)j));
        }
        assert_string_equal(rm_kind_name(RM_ALLOC), "ALLOC");
        assert_string_equal(rm_kind_name(RM_UVM_MAP_EXTERNAL), "UVM_MAP_EXTERNAL");
        assert_string_equal(rm_kind_name(RM_N_KINDS), "?");
}

/* All that a CUDA start and nvidia-smi on an H200 with 580.159.04 allocate. */
static void the_classes_of_a_cuda_start_have_names(void **state)
{
        static const uint32_t seen[] = { 0x2080, 0x2081, 0x3e,   0x40,   0x41,   0x503c, 0x50a0, 0x79,
                                         0x80,   0x83de, 0x9067, 0x90e6, 0x90f1, 0xa06c, 0xc639, 0xc640,
                                         0xc661, 0xc86f, 0xc8b5, 0xcb33, 0xcbc0, 0xde };

        (void)state;
        for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
                assert_non_null(rm_class_name(seen[i]));
        assert_string_equal(rm_class_name(RM_CLASS_VIDEO_MEMORY), "VIDEO_MEMORY");
        assert_string_equal(rm_class_name(RM_CLASS_GROUP), "GROUP");
        assert_null(rm_class_name(0xabcd));
}

static void the_controls_that_have_a_number_here_have_a_name(void **state)
{
        static const uint32_t numbers[] = {
                RM_GET_PROBED_IDS, RM_GET_ATTACHED_IDS, RM_GET_ID_INFO,   RM_GET_ID_INFO_V2,   RM_FB_GET_INFO_V2,
                RM_GET_PIDS,       RM_GET_PID_INFO,     RM_SET_TIMESLICE, RM_DISABLE_CHANNELS,
        };

        (void)state;
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
                assert_non_null(rm_control_name(numbers[i]));
        assert_string_equal(rm_control_name(RM_SET_TIMESLICE), "SET_TIMESLICE");
        assert_null(rm_control_name(0));
        assert_null(rm_control_name(0xffffffff));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_kind_has_a_name_of_its_own),
                cmocka_unit_test(the_classes_of_a_cuda_start_have_names),
                cmocka_unit_test(the_controls_that_have_a_number_here_have_a_name),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
