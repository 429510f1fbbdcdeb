/* SPDX-License-Identifier: Apache-2.0 */
/* How many tenancies a user may begin, on a clock of our own. */
#include "unit.h"

#include "daemon/state/starts.h"

#define SEC NSEC_PER_SEC

enum {
        ONE = 1000,
        OTHER = 1001,
        MANY = 5000,
};

/* How many it begins, of `most` tried at once. */
static unsigned int begins(struct starts *starts, uid_t user, nsec now, unsigned int most)
{
        unsigned int n = 0;

        while (n < most && starts_may(starts, user, now)) {
                starts_note(starts, user, now);
                n++;
        }
        return n;
}

static void so_many_begin_at_once_and_then_one_by_one(void **state)
{
        struct starts starts = { 0 };

        (void)state;
        assert_int_equal(begins(&starts, ONE, 5 * SEC, MANY), STARTS_AT_ONCE);
        assert_int_equal(begins(&starts, ONE, 5 * SEC + STARTS_EVERY / 2, MANY), 0);
        assert_int_equal(begins(&starts, ONE, 5 * SEC + STARTS_EVERY, MANY), 1);
        assert_int_equal(begins(&starts, ONE, 5 * SEC + 11 * STARTS_EVERY, MANY), 10);
        assert_int_equal(begins(&starts, ONE, 10000 * SEC, MANY), STARTS_AT_ONCE);
        starts_done(&starts);
}

static void what_one_user_begins_is_not_another_s(void **state)
{
        struct starts starts = { 0 };

        (void)state;
        assert_int_equal(begins(&starts, ONE, SEC, MANY), STARTS_AT_ONCE);
        assert_int_equal(begins(&starts, OTHER, SEC, 10), 10);
        starts_done(&starts);
}

static void users_that_have_rested_are_forgotten(void **state)
{
        struct starts starts = { 0 };

        (void)state;
        assert_int_equal(begins(&starts, ONE, SEC, MANY), STARTS_AT_ONCE);
        for (uid_t user = 100000; user < 100000 + MANY; user++)
                assert_int_equal(begins(&starts, user, user * 2 * SEC, 1), 1);
        assert_true(starts.users.n_used < 1000);
        assert_int_equal(begins(&starts, ONE, 100000 * 2 * SEC, MANY), STARTS_AT_ONCE);
        starts_done(&starts);
}

static void users_that_have_not_rested_are_remembered(void **state)
{
        struct starts starts = { 0 };

        (void)state;
        for (uid_t user = 100000; user < 100000 + MANY; user++)
                assert_int_equal(begins(&starts, user, SEC, 2), 2);
        for (uid_t user = 100000; user < 100000 + MANY; user++)
                assert_int_equal(begins(&starts, user, SEC, MANY), STARTS_AT_ONCE - 2);
        starts_done(&starts);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(so_many_begin_at_once_and_then_one_by_one),
                cmocka_unit_test(what_one_user_begins_is_not_another_s),
                cmocka_unit_test(users_that_have_rested_are_forgotten),
                cmocka_unit_test(users_that_have_not_rested_are_remembered),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
