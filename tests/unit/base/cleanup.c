/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

static bool is_open(int fd)
{
        return fcntl(fd, F_GETFD) >= 0;
}

static void scope_closes_a_descriptor(void **state)
{
        int number;

        (void)state;
        {
                _cleanup_(closep) int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

                number = fd;
                assert_true(is_open(number));
        }
        assert_false(is_open(number));
}

static void a_descriptor_handed_on_stays_open(void **state)
{
        int kept;

        (void)state;
        {
                _cleanup_(closep) int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

                kept = TAKE_FD(fd);
                assert_int_equal(fd, -1);
        }
        assert_true(is_open(kept));
        closep(&kept);
        assert_int_equal(kept, -1);
        closep(&kept);
}

static void closing_keeps_errno(void **state)
{
        int fd = 1 << 20; /* not open: close fails */

        (void)state;
        errno = EDOM;
        closep(&fd);
        assert_int_equal(errno, EDOM);
}

static void freeing_keeps_errno_and_forgets(void **state)
{
        char *text = malloc(1 << 20);

        (void)state;
        errno = EDOM;
        freep(&text);
        assert_null(text);
        freep(&text);
        assert_int_equal(errno, EDOM);
}

struct pair {
        int number;
        const char *text;
};

static void take_leaves_zero_behind(void **state)
{
        struct pair pair = { 5, "five" }, taken;
        char *pointer = &(char){ 'x' }, *other = pointer;

        (void)state;
        taken = TAKE(pair);
        assert_int_equal(taken.number, 5);
        assert_string_equal(taken.text, "five");
        assert_int_equal(pair.number, 0);
        assert_null(pair.text);
        assert_ptr_equal(TAKE(pointer), other);
        assert_null(pointer);
}

static void take_evaluates_its_argument_once(void **state)
{
        int numbers[] = { 1, 2 }, *at = numbers, fds[] = { 7, 8 };

        (void)state;
        assert_int_equal(TAKE(*at++), 1);
        assert_ptr_equal(at, &numbers[1]);
        assert_int_equal(numbers[0], 0);
        assert_int_equal(numbers[1], 2);
        assert_int_equal(TAKE_FD(fds[1]), 8);
        assert_int_equal(fds[0], 7);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(scope_closes_a_descriptor), cmocka_unit_test(a_descriptor_handed_on_stays_open),
                cmocka_unit_test(closing_keeps_errno),       cmocka_unit_test(freeing_keeps_errno_and_forgets),
                cmocka_unit_test(take_leaves_zero_behind),   cmocka_unit_test(take_evaluates_its_argument_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
