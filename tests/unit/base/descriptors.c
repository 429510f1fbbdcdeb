/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
        LIMIT = 100,
};

static struct rlimit limit_set(rlim_t soft)
{
        struct rlimit limit;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur = soft;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        return limit;
}

static void a_quarter_is_kept_back(void **state)
{
        int fd = -1, last;

        (void)state;
        (void)limit_set(LIMIT);
        do {
                last = fd;
                fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
                assert_true(fd >= 0);
        } while (!descriptors_are_few(fd));
        assert_int_equal(fd, LIMIT * 3 / 4);
        assert_false(descriptors_are_few(last));
        while (fd > 2 + 1)
                (void)close(fd--);
}

static void of_many_only_some_hundreds_are_kept_back(void **state)
{
        rlim_t hard = limit_set(LIMIT).rlim_max;

        (void)state;
        if (hard < 4096)
                skip();
        (void)limit_set(4096);
        assert_false(descriptors_are_few(4096 - 513));
        assert_true(descriptors_are_few(4096 - 512));
}

static void the_limit_is_raised_to_what_the_user_may_have(void **state)
{
        struct rlimit limit, is;

        (void)state;
        limit = limit_set(LIMIT);
        descriptors_raise();
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &is), 0);
        assert_int_equal(is.rlim_cur, limit.rlim_max);
        assert_int_equal(is.rlim_max, limit.rlim_max);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_quarter_is_kept_back),
                cmocka_unit_test(of_many_only_some_hundreds_are_kept_back),
                cmocka_unit_test(the_limit_is_raised_to_what_the_user_may_have),
        };

        return cmocka_run_group_tests_name("base/descriptors", tests, NULL, NULL);
}
