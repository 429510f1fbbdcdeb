/* SPDX-License-Identifier: Apache-2.0 */
/* Which leases of the device plugin are over, on literal checkpoints. */
#include "unit.h"

#include "base/cleanup.h"
#include "kube/plugin/checkpoint.h"
#include "kube/plugin/plugin_leases.h"

#include <errno.h>
#include <string.h>

#define MEMORY "sublet.dev/gpu-mem"
#define NOW (100000 * NSEC_PER_SEC)

static const char *const two[] = { "a", "b" }, *const turned[] = { "b", "a" }, *const one[] = { "b" };

/* Rows of a, b of the first n_rows containers; allocated now: an id, or NULL. Over or not, one letter for each: "y",
 * "n". */
static const char *over(const struct leases_name *list, size_t n, size_t n_rows, char *now)
{
        struct checkpoint_row rows[4];
        struct checkpoint checkpoint = { .rows = rows, .n_rows = n_rows };
        struct plugin_lease_request asked = { .resource = MEMORY, .ids = &now, .n_ids = 1 };
        static char said[8];

        for (size_t i = 0; i < n_rows; i++)
                rows[i] = (struct checkpoint_row){ "u", "main", MEMORY, (const char **)(uintptr_t)two, 2 };
        for (size_t i = 0; i < n; i++)
                said[i] = leases_is_expired(list, i, &checkpoint, now ? &asked : NULL, NOW) ? 'y' : 'n';
        said[n] = '\0';
        return said;
}

static struct leases_name aged(const char *const *ids, size_t n, int seconds)
{
        return (struct leases_name){ leases_hash(MEMORY, ids, n), NOW - seconds * NSEC_PER_SEC };
}

static void ids_are_a_set_of_a_resource(void **state)
{
        (void)state;
        assert_true(leases_hash(MEMORY, two, 2) == leases_hash(MEMORY, turned, 2));
        assert_true(leases_hash(MEMORY, two, 2) != leases_hash(MEMORY, one, 1));
        assert_true(leases_hash(MEMORY, two, 2) != leases_hash("aliyun.com/gpu-mem", two, 2));
}

static void a_name_says_for_what_and_since_when(void **state)
{
        static const char *const wrong[] = { "",
                                             "k8s-",
                                             "k8s-062ba8b2edba75a9-18ea40c1a935065",
                                             "k8s-062ba8b2edba75a9-18ea40c1a93506599",
                                             "k8s-062BA8b2edba75a9-18ea40c1a9350659",
                                             "k8s-062ba8b2edba75a9-f8ea40c1a9350659",
                                             "k8s--62ba8b2edba75a9-18ea40c1a9350659" };
        struct leases_name name = aged(two, 2, 3), again = { 0 };
        char text[LEASES_NAME];

        (void)state;
        leases_name_format(name, text);
        assert_int_equal(leases_name_parse(text, &again), 0);
        assert_true(again.ids == name.ids && again.since == name.since);
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
                assert_int_equal(leases_name_parse(wrong[i], &again), -EINVAL);
}

static void a_lease_without_a_row_is_over_but_not_in_its_first_minute(void **state)
{
        const struct leases_name list[] = { aged(one, 1, -5), aged(one, 1, 59), aged(one, 1, 61), aged(two, 2, 90) };

        (void)state;
        assert_string_equal(over(list, 4, 0, NULL), "nnyy");
        assert_string_equal(over(list, 4, 1, NULL), "nnyn");
}

static void of_several_for_the_same_ids_the_newest_stay(void **state)
{
        const struct leases_name list[] = { aged(turned, 2, 70), aged(two, 2, 80), aged(two, 2, 90) };

        (void)state;
        assert_string_equal(over(list, 3, 1, NULL), "nyy");
        assert_string_equal(over(list, 3, 2, NULL), "nny");
        assert_string_equal(over(list, 3, 4, NULL), "nnn");
}

static void ids_that_are_allocated_anew_are_free_but_for_the_last_seconds(void **state)
{
        char again[] = "a", other[] = "c";
        const struct leases_name list[] = { aged(two, 2, 9), aged(two, 2, 11), aged(one, 1, 20) };

        (void)state;
        assert_string_equal(over(list, 3, 2, again), "nyn");
        assert_string_equal(over(list, 3, 2, other), "nnn");
        assert_string_equal(over(list, 3, 2, NULL), "nnn");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(ids_are_a_set_of_a_resource),
                cmocka_unit_test(a_name_says_for_what_and_since_when),
                cmocka_unit_test(a_lease_without_a_row_is_over_but_not_in_its_first_minute),
                cmocka_unit_test(of_several_for_the_same_ids_the_newest_stay),
                cmocka_unit_test(ids_that_are_allocated_anew_are_free_but_for_the_last_seconds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
