/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "record/verbs.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const struct {
        const char *name, *line;
} events[] = {
#define EVENT(name, level, line, meaning) { #name, line },
#include "sublet/events.def"
#undef EVENT
};

/* What the verb prints for an argument (NULL: none); standard output belongs to the tests. */
static int explain(const char *name, char *ret, size_t size)
{
        char verb[] = "explain", argument[64] = "";
        char *argv[] = { verb, argument, NULL };
        _cleanup_(closep) int saved = dup(STDOUT_FILENO);
        _cleanup_(closep) int memory = memfd_create("explain", MFD_CLOEXEC);
        ssize_t n;
        int r;

        (void)snprintf(argument, sizeof(argument), "%s", name ? name : "");
        if (!name)
                argv[1] = NULL;
        (void)fflush(stdout);
        assert_true(dup2(memory, STDOUT_FILENO) >= 0);
        r = explain_main(name ? 2 : 1, argv);
        (void)fflush(stdout);
        assert_true(dup2(saved, STDOUT_FILENO) >= 0);
        n = pread(memory, ret, size - 1, 0);
        assert_true(n >= 0);
        ret[n] = '\0';
        return r;
}

static void every_event_is_explained(void **state)
{
        char text[4096];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
                assert_int_equal(explain(events[i].name, text, sizeof(text)), 0);
                assert_memory_equal(text, events[i].name, strlen(events[i].name));
                assert_non_null(strstr(text, events[i].line));
        }
}

static void lines_are_short(void **state)
{
        char text[4096];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
                assert_int_equal(explain(events[i].name, text, sizeof(text)), 0);
                for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
                        assert_true(strcspn(line, "\n") <= 120);
        }
}

static void without_a_name_all_are_listed(void **state)
{
        char text[8192];

        (void)state;
        assert_int_equal(explain(NULL, text, sizeof(text)), 0);
        for (size_t i = 0; i < ARRAY_SIZE(events); i++)
                assert_non_null(strstr(text, events[i].name));
}

static void case_does_not_matter(void **state)
{
        char text[4096];

        (void)state;
        assert_int_equal(explain("quota_refused", text, sizeof(text)), 0);
        assert_memory_equal(text, "QUOTA_REFUSED", 13);
}

static void an_event_that_there_is_not_is_bad_use(void **state)
{
        char text[64];

        (void)state;
        assert_int_equal(explain("NO_SUCH_EVENT", text, sizeof(text)), 2);
        assert_string_equal(text, "");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_event_is_explained),
                cmocka_unit_test(lines_are_short),
                cmocka_unit_test(without_a_name_all_are_listed),
                cmocka_unit_test(case_does_not_matter),
                cmocka_unit_test(an_event_that_there_is_not_is_bad_use),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
