/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>

static void the_cause_says_what_and_why(void **state)
{
        struct err err = { 0 };

        (void)state;
        assert_int_equal(err_set(&err, -EACCES, "opening %s", "/dev/nvidiactl"), -EACCES);
        assert_int_equal(err.code, -EACCES);
        assert_string_equal(err.text, "opening /dev/nvidiactl: Permission denied");
}

static void a_text_that_says_it_all_stands_alone(void **state)
{
        struct err err = { 0 };

        (void)state;
        assert_int_equal(err_say(&err, -EINVAL, "'%s' is not a size", "8X"), -EINVAL);
        assert_string_equal(err.text, "'8X' is not a size");
}

static void the_way_up_is_put_in_front(void **state)
{
        struct err err = { 0 };

        (void)state;
        (void)err_set(&err, -ENOENT, "opening %s", "x");
        assert_int_equal(err_while(&err, "leasing to '%s'", "chat-1"), -ENOENT);
        assert_int_equal(err_while(&err, "starting"), -ENOENT);
        assert_string_equal(err.text, "starting: leasing to 'chat-1': opening x: No such file or directory");
}

static void nobody_may_care(void **state)
{
        (void)state;
        assert_int_equal(err_set(NULL, -EIO, "%d", 1), -EIO);
        assert_int_equal(err_say(NULL, -EIO, "%d", 1), -EIO);
        assert_int_equal(err_while(NULL, "%d", 1), -EINVAL);
}

static void a_failure_never_becomes_a_success(void **state)
{
        struct err err = { 0 };

        (void)state;
        assert_int_equal(err_while(&err, "asking somebody who said nothing"), -EINVAL);
}

static void long_texts_are_cut_and_end(void **state)
{
        char word[1000];
        struct err err = { 0 };

        (void)state;
        memset(word, 'x', sizeof(word));
        word[sizeof(word) - 1] = '\0';
        assert_int_equal(err_set(&err, -EIO, "%s", word), -EIO);
        assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
        assert_int_equal(err_while(&err, "%s", word), -EIO);
        assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
        (void)err_say(&err, -EIO, "cause");
        for (int i = 0; i < 300; i++)
                (void)err_while(&err, "%d", i);
        assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
        assert_memory_equal(err.text, "299: 298: ", 10);
}

static void a_number_that_is_no_errno_is_said_too(void **state)
{
        struct err err = { 0 };

        (void)state;
        assert_int_equal(err_set(&err, -99999, "asking"), -99999);
        assert_memory_equal(err.text, "asking: ", 8);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_cause_says_what_and_why),
                cmocka_unit_test(a_text_that_says_it_all_stands_alone),
                cmocka_unit_test(the_way_up_is_put_in_front),
                cmocka_unit_test(nobody_may_care),
                cmocka_unit_test(a_failure_never_becomes_a_success),
                cmocka_unit_test(long_texts_are_cut_and_end),
                cmocka_unit_test(a_number_that_is_no_errno_is_said_too),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
