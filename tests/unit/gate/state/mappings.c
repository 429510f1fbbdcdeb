/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "gate/state/mappings.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

static bool waits(const void *context)
{
        return context == NULL;
}

static struct mapping_call begun(struct mappings *mappings, pid_t thread, uint64_t base)
{
        struct mapping_call call = { .thread = thread, .process = getpid(), .base = base, .length = 4096 };

        assert_int_equal(mappings_begin(mappings, &call, waits, NULL), 0);
        return call;
}

static void what_is_being_checked_is_on_its_way_still(void **state)
{
        struct mapping_call call, found;
        struct mappings mappings;

        (void)state;
        mappings_init(&mappings);
        call = begun(&mappings, getpid(), 0x1000);
        assert_true(mappings_of(&mappings, getpid(), &found));
        assert_true(mappings_at(&mappings, 0, &found));
        mappings_end(&mappings, &call);
        assert_false(mappings_of(&mappings, getpid(), &found));
        assert_false(mappings_at(&mappings, 0, &found));
        mappings_done(&mappings);
}

static void the_end_of_one_is_not_that_of_the_next_under_its_threads_number(void **state)
{
        struct mapping_call first, second, found;
        struct mappings mappings;

        (void)state;
        mappings_init(&mappings);
        first = begun(&mappings, getpid(), 0x1000);
        second = begun(&mappings, getpid(), 0x1000);
        mappings_end(&mappings, &first);
        assert_true(mappings_of(&mappings, getpid(), &found));
        mappings_end(&mappings, &second);
        assert_false(mappings_of(&mappings, getpid(), &found));
        mappings_done(&mappings);
}

static void a_thread_that_is_not_there_is_gone_and_stays_until_it_was_checked(void **state)
{
        struct mapping_call call, found;
        struct mappings mappings;
        size_t i = 0;

        (void)state;
        mappings_init(&mappings);
        (void)begun(&mappings, getpid(), 0x1000);
        assert_false(mappings_gone(&mappings, &i, &found));
        call = begun(&mappings, INT_MAX, 0x2000);
        i = 0;
        assert_true(mappings_gone(&mappings, &i, &found) && found.base == 0x2000);
        assert_true(mappings_gone(&mappings, &i, &found) && found.base == 0x2000);
        mappings_end(&mappings, &call);
        assert_false(mappings_gone(&mappings, &i, &found));
        mappings_done(&mappings);
}

/* A tenant may have thousands of either kind: who is there is not asked about again for each that is gone. */
static void each_that_is_gone_is_met_once_and_who_is_there_is_passed(void **state)
{
        enum { N = 100 };
        struct mapping_call found;
        struct mappings mappings;
        size_t i = 0, at = 0;
        unsigned int n = 0;

        (void)state;
        mappings_init(&mappings);
        (void)begun(&mappings, getpid(), 0x1000);
        (void)begun(&mappings, 1, 0x1000);
        for (int k = 0; k < N; k++)
                (void)begun(&mappings, INT_MAX - k, 0x2000);
        for (; mappings_gone(&mappings, &i, &found); n++) {
                assert_int_equal(found.base, 0x2000);
                assert_true(i >= 2 && i >= at);
                at = i;
                mappings_end(&mappings, &found);
        }
        assert_int_equal(n, N);
        assert_int_equal(mappings.n, 2);
        mappings_done(&mappings);
}

/* Its number may be another thread's by now, which is about to map. */
static void who_waits_for_no_answer_replaces_nothing(void **state)
{
        struct mapping_call late = { .thread = getpid(), .process = getpid(), .base = 0x2000, .length = 4096 }, found;
        struct mappings mappings;

        (void)state;
        mappings_init(&mappings);
        (void)begun(&mappings, getpid(), 0x1000);
        assert_int_equal(mappings_begin(&mappings, &late, waits, &late), -EINTR);
        assert_true(mappings_of(&mappings, getpid(), &found) && found.base == 0x1000);
        mappings_done(&mappings);
}

static void others_are_in_the_way_where_they_have_an_address_in_common(void **state)
{
        struct mappings mappings;

        (void)state;
        mappings_init(&mappings);
        (void)begun(&mappings, getpid(), 0x4000);
        assert_false(mappings_has_others(&mappings, getpid(), 0x4000, 4096));
        assert_true(mappings_has_others(&mappings, 0, 0x4000, 4096));
        assert_true(mappings_has_others(&mappings, 0, 0x4fff, 1));
        assert_true(mappings_has_others(&mappings, 0, 0x1000, 0x3001));
        assert_false(mappings_has_others(&mappings, 0, 0x1000, 0x3000));
        assert_false(mappings_has_others(&mappings, 0, 0x5000, UINT64_MAX));
        assert_true(mappings_has_others(&mappings, 0, 0, UINT64_MAX));
        mappings_done(&mappings);
}

/* The last takes the place of one that ends. */
static void from_the_last_to_the_first_none_is_missed_when_another_ends(void **state)
{
        enum { N = 9 };

        (void)state;
        for (size_t ends = 0; ends < N; ends++) {
                struct mapping_call calls[N], found;
                struct mappings mappings;
                uint64_t seen = 0;

                mappings_init(&mappings);
                for (size_t i = 0; i < N; i++)
                        calls[i] = begun(&mappings, (pid_t)i + 1, i);
                for (size_t i = N; i-- > 0;) {
                        if (mappings_at(&mappings, i, &found))
                                seen |= 1u << found.base;
                        if (i == N / 2)
                                mappings_end(&mappings, &calls[ends]);
                }
                assert_int_equal(seen | 1u << ends, (1u << N) - 1);
                mappings_done(&mappings);
        }
}

static void a_look_that_is_due_is_not_put_off_by_what_comes_after(void **state)
{
        struct mappings mappings;

        (void)state;
        mappings_init(&mappings);
        assert_false(mappings_take_due(&mappings, 1000));
        mappings_note_due(&mappings, 10);
        for (nsec now = 1; now < 10; now++) {
                assert_false(mappings_take_due(&mappings, now));
                mappings_note_due(&mappings, now + 10);
        }
        assert_true(mappings_take_due(&mappings, 10));
        assert_false(mappings_take_due(&mappings, 18)); /* and one more, for the latest */
        assert_true(mappings_take_due(&mappings, 19));
        assert_false(mappings_take_due(&mappings, 1000));
        mappings_done(&mappings);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_is_being_checked_is_on_its_way_still),
                cmocka_unit_test(the_end_of_one_is_not_that_of_the_next_under_its_threads_number),
                cmocka_unit_test(a_thread_that_is_not_there_is_gone_and_stays_until_it_was_checked),
                cmocka_unit_test(each_that_is_gone_is_met_once_and_who_is_there_is_passed),
                cmocka_unit_test(who_waits_for_no_answer_replaces_nothing),
                cmocka_unit_test(others_are_in_the_way_where_they_have_an_address_in_common),
                cmocka_unit_test(from_the_last_to_the_first_none_is_missed_when_another_ends),
                cmocka_unit_test(a_look_that_is_due_is_not_put_off_by_what_comes_after),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
