/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "preload/sms.h"

#include <errno.h>

/* A device that gives multiprocessors in groups of eight, or all: an H200. */
static unsigned int eights(void *context, unsigned int n)
{
        unsigned int all = *(const unsigned int *)context, size = (n + 7) / 8 * 8;

        return n > all ? 0 : size < all ? size : all;
}

static unsigned int none(void *context, unsigned int n)
{
        (void)context;
        (void)n;
        return 0;
}

/* What a lease gets of 132 multiprocessors. */
static unsigned int given(struct sms sms)
{
        unsigned int all = 132;

        return sms_nearest(sms_wanted(sms, all), eights, &all);
}

static void a_percentage_is_of_the_device_and_rounded(void **state)
{
        (void)state;
        assert_int_equal(sms_wanted((struct sms){ .permille = 250 }, 132), 33);
        assert_int_equal(sms_wanted((struct sms){ .permille = 1000 }, 132), 132);
        assert_int_equal(sms_wanted((struct sms){ .permille = 125 }, 132), 17); /* 16.5 */
        assert_int_equal(sms_wanted((struct sms){ .permille = 1 }, 132), 1);
        assert_int_equal(sms_wanted((struct sms){ .permille = 1 }, 2), 1); /* at least one */
}

static void a_count_is_a_count_and_more_than_there_are_is_nothing(void **state)
{
        (void)state;
        assert_int_equal(sms_wanted((struct sms){ .count = 40 }, 132), 40);
        assert_int_equal(sms_wanted((struct sms){ .count = 132 }, 132), 132);
        assert_int_equal(sms_wanted((struct sms){ .count = 133 }, 132), 0);
}

static void what_is_given_is_the_nearest_that_the_device_can_give(void **state)
{
        (void)state;
        assert_int_equal(given((struct sms){ .permille = 250 }), 32); /* 33 */
        assert_int_equal(given((struct sms){ .permille = 500 }), 64); /* 66 */
        assert_int_equal(given((struct sms){ .permille = 300 }), 40); /* 40 */
        assert_int_equal(given((struct sms){ .permille = 700 }), 88); /* 92: 88 and 96 are as far */
        assert_int_equal(given((struct sms){ .permille = 1000 }), 132);
        assert_int_equal(given((struct sms){ .permille = 990 }), 132); /* 131 */
        assert_int_equal(given((struct sms){ .permille = 980 }), 128); /* 129 */
}

static void a_device_that_gives_at_least_eight_gives_eight(void **state)
{
        (void)state;
        assert_int_equal(given((struct sms){ .count = 1 }), 8);
        assert_int_equal(given((struct sms){ .count = 12 }), 8); /* as far as 16 */
        assert_int_equal(given((struct sms){ .count = 13 }), 16);
}

static void a_device_that_cannot_be_divided_gives_nothing(void **state)
{
        (void)state;
        assert_int_equal(sms_nearest(33, none, NULL), 0);
}

static void a_size_is_a_percentage_or_a_count(void **state)
{
        static const char *const wrong[] = { "0", "0%", "101%", "4097", "-1", "25%%", "%", "a", " 25%", "25% ", "1e2" };
        struct sms sms = { 0 };

        (void)state;
        assert_int_equal(sms_parse("25%", &sms), 0);
        assert_int_equal(sms.permille, 250);
        assert_int_equal(sms.count, 0);
        assert_int_equal(sms_parse("12.5%", &sms), 0);
        assert_int_equal(sms.permille, 125);
        assert_int_equal(sms_parse("32", &sms), 0);
        assert_int_equal(sms.permille, 0);
        assert_int_equal(sms.count, 32);
        assert_int_equal(sms_parse("", &sms), 0);
        assert_int_equal(sms.permille + sms.count, 0);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
                assert_int_equal(sms_parse(wrong[i], &sms), -EINVAL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_size_is_a_percentage_or_a_count),
                cmocka_unit_test(a_percentage_is_of_the_device_and_rounded),
                cmocka_unit_test(a_count_is_a_count_and_more_than_there_are_is_nothing),
                cmocka_unit_test(what_is_given_is_the_nearest_that_the_device_can_give),
                cmocka_unit_test(a_device_that_gives_at_least_eight_gives_eight),
                cmocka_unit_test(a_device_that_cannot_be_divided_gives_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
