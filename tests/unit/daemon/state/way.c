/* SPDX-License-Identifier: Apache-2.0 */
/* Which way a tenant of --mode auto goes. */
#include "unit.h"

#include "base/cleanup.h"
#include "daemon/state/mps/way.h"

#include <string.h>

static const struct way_view ordinary = { .has_program = true, .n_devices = 1, .class = TURNS_NORMAL };

static void nothing_speaks_against_side_by_side(void **state)
{
        struct way_view view = ordinary;

        (void)state;
        assert_null(way_choose(&view));
        view.has_latency_mate = view.has_batch_mate = true; /* they are there as they are */
        assert_null(way_choose(&view));
        view.class = TURNS_LATENCY;
        view.has_batch_mate = false;
        assert_null(way_choose(&view));
        view.class = TURNS_BATCH;
        view.has_latency_mate = false;
        view.has_batch_mate = true;
        assert_null(way_choose(&view));
}

/* A2, A4 */
static void what_a_group_has_not_is_given_by_turns(void **state)
{
        struct way_view views[] = { ordinary, ordinary, ordinary, ordinary, ordinary, ordinary };
        static const char *const why[] = { "goal", "job", "one device", "one device", "suspended", "nvidia-cuda" };

        (void)state;
        views[0].has_goal = true;
        views[1].has_job = true;
        views[2].n_devices = 2;
        views[3].n_devices = 0;
        views[4].is_suspended_at_times = true;
        views[5].has_program = false;
        for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
                assert_non_null(way_choose(&views[i]));
                assert_non_null(strstr(way_choose(&views[i]), why[i]));
        }
}

/* A3: whoever comes second */
static void class_latency_and_class_batch_are_not_side_by_side(void **state)
{
        struct way_view service = ordinary, batch = ordinary;

        (void)state;
        service.class = TURNS_LATENCY;
        service.has_batch_mate = true;
        assert_non_null(strstr(way_choose(&service), "batch work"));
        batch.class = TURNS_BATCH;
        batch.has_latency_mate = true;
        assert_non_null(strstr(way_choose(&batch), "class latency"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nothing_speaks_against_side_by_side),
                cmocka_unit_test(what_a_group_has_not_is_given_by_turns),
                cmocka_unit_test(class_latency_and_class_batch_are_not_side_by_side),
        };

        return cmocka_run_group_tests_name("daemon/state/way", tests, NULL, NULL);
}
