/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "lease/capabilities.h"

#include <errno.h>

static void lists_are_read_as_containers_write_them(void **state)
{
        static const struct {
                const char *text;
                unsigned int mask;
        } rows[] = {
                { "", CAPABILITIES_DEFAULT },
                { "compute,utility", CAPABILITIES_DEFAULT },
                { "video", CAPABILITY_VIDEO },
                { "utility,compute,video", CAPABILITIES_DEFAULT | CAPABILITY_VIDEO },
                { "all", CAPABILITIES_DEFAULT | CAPABILITY_VIDEO | CAPABILITY_GRAPHICS },
                { "all,profile", CAPABILITIES_KNOWN },
                { "compute,compat32,display,ngx", CAPABILITY_COMPUTE },
                { "none", CAPABILITY_NONE },
        };
        const char *wrong;
        unsigned int mask;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                assert_int_equal(capabilities_parse(rows[i].text, &mask, &wrong), 0);
                assert_int_equal(mask, rows[i].mask);
        }
}

static void another_word_is_refused_where_it_begins(void **state)
{
        static const char *const rows[] = { "compute,videos", "compute,vide", "compute, video", "compute,,video" };
        const char *wrong;
        unsigned int mask = 77;

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                assert_int_equal(capabilities_parse(rows[i], &mask, &wrong), -EINVAL);
                assert_ptr_equal(wrong, rows[i] + 8);
                assert_int_equal(mask, 77);
        }
}

static void what_is_formatted_reads_the_same(void **state)
{
        char text[CAPABILITIES_TEXT_MAX];
        const char *wrong;
        unsigned int mask;

        (void)state;
        for (unsigned int all = 0; all <= CAPABILITIES_KNOWN; all++) {
                assert_int_equal(capabilities_parse(capabilities_format(all, text), &mask, &wrong), 0);
                assert_int_equal(mask, all);
        }
        assert_string_equal(capabilities_format(CAPABILITIES_KNOWN, text), "compute,utility,video,graphics,profile");
        assert_string_equal(capabilities_format(0, text), "none");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(lists_are_read_as_containers_write_them),
                cmocka_unit_test(another_word_is_refused_where_it_begins),
                cmocka_unit_test(what_is_formatted_reads_the_same),
        };

        return cmocka_run_group_tests_name("lease/capabilities", tests, NULL, NULL);
}
