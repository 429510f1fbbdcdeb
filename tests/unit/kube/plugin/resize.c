/* SPDX-License-Identifier: Apache-2.0 */
/* What a running pod's annotations may change (resize.h R1, R2), and what is asked of the daemon again. */
#include "unit.h"

#include "base/err.h"
#include "kube/plugin/resize/resize.h"
#include "kube/plugin/resize/resizer.h"

#include <errno.h>
#include <string.h>

static const struct resize_row row = { .memory = 8 * GIB, .share = 400 };

static json_t *asked(const char *json)
{
        json_t *annotations = json_loads(json, 0, NULL), *read;

        assert_non_null(annotations);
        read = resize_read(annotations);
        json_decref(annotations);
        return read;
}

static void assert_made(const struct resize_row *of, const char *annotations, const char *expected)
{
        json_t *ask = asked(annotations), *body = NULL, *wanted = json_loads(expected, 0, NULL);
        struct err err = { 0 };

        assert_int_equal(resize_make(ask, of, &body, &err), 0);
        if (!json_equal(body, wanted))
                fail_msg("%s", json_dumps(body, 0));
        json_decref(ask);
        json_decref(body);
        json_decref(wanted);
}

static void assert_refused(const struct resize_row *of, const char *annotations, const char *why)
{
        json_t *ask = asked(annotations), *body = NULL;
        struct err err = { 0 };

        assert_int_equal(resize_make(ask, of, &body, &err), -EINVAL);
        assert_null(body);
        assert_non_null(strstr(err.text, why));
        json_decref(ask);
}

static void what_fits_into_the_allocation_is_asked_of_the_daemon(void **state)
{
        (void)state;
        assert_made(&row,
                    "{\"sublet.dev/mem\":\"2G\",\"sublet.dev/share\":\"25\",\"sublet.dev/cap\":\"50\","
                    "\"sublet.dev/class\":\"batch\",\"sublet.dev/latency\":\"10ms\",\"other\":\"1\"}",
                    "{\"mem\":2147483648,\"share_permille\":250,\"cap_permille\":500,\"class\":\"batch\","
                    "\"latency_us\":10000}");
        assert_made(&row, "{\"sublet.dev/mem\":\"8G\",\"sublet.dev/share\":\"40%\"}",
                    "{\"mem\":8589934592,\"share_permille\":400}");
        assert_made(&row, "{\"sublet.dev/mem\":\"25%\"}", "{\"mem\":2147483648}");
        assert_made(&row, "{\"sublet.dev/cap\":\"none\",\"sublet.dev/latency\":\"none\"}",
                    "{\"cap_permille\":null,\"latency_us\":null}");
        assert_made(&row, "{\"sublet.dev/sleep-after\":\"30s\"}", "{\"sleep_after_us\":30000000}");
        assert_made(&row, "{\"sublet.dev/sleep-after\":\"none\"}", "{\"sleep_after_us\":null}");
        assert_made(&row, "{\"sublet.dev/host-swap\":\"2G\"}", "{\"host_swap_bytes\":2147483648}");
        assert_made(&row, "{\"sublet.dev/host-swap\":\"none\"}", "{\"host_swap_bytes\":null}");
}

static void more_than_was_allocated_is_refused_and_nothing_with_it(void **state)
{
        const struct resize_row equal = { .memory = GIB };

        (void)state;
        assert_refused(&row, "{\"sublet.dev/mem\":\"9G\",\"sublet.dev/class\":\"batch\"}", "8 GiB are allocated to it");
        assert_refused(&row, "{\"sublet.dev/share\":\"41\"}", "40% are allocated to it");
        assert_refused(&equal, "{\"sublet.dev/share\":\"1\"}", "no share is allocated to it");
}

static void what_is_not_understood_is_refused(void **state)
{
        (void)state;
        assert_refused(&row, "{\"sublet.dev/mem\":\"8\"}", "mem=8: ");
        assert_refused(&row, "{\"sublet.dev/mem\":\"\"}", "mem=: ");
        assert_refused(&row, "{\"sublet.dev/share\":\"0\"}", "share=0: percent");
        assert_refused(&row, "{\"sublet.dev/cap\":\"101\"}", "cap=101: percent");
        assert_refused(&row, "{\"sublet.dev/class\":\"gold\"}", "latency, normal or batch");
        assert_refused(&row, "{\"sublet.dev/latency\":\"11s\"}", "a time from 1ms to 10s");
        assert_refused(&row, "{\"sublet.dev/sleep-after\":\"8d\"}", "sleep-after=8d: a time from 1s to 7d");
        assert_refused(&row, "{\"sublet.dev/sleep-after\":\"\"}", "sleep-after=: a time");
        assert_refused(&row, "{\"sublet.dev/host-swap\":\"25%\"}", "host-swap=25%: a size such as 8G");
}

static void pods_that_ask_for_nothing_are_left_alone(void **state)
{
        (void)state;
        assert_null(asked("{\"sublet.dev/job\":\"train\",\"sublet.dev/mem\":7}"));
        assert_null(resize_read(NULL));
}

static void what_does_not_fit_now_is_asked_again_and_said_once(void **state)
{
        const nsec now = 1000 * NSEC_PER_SEC;
        struct resizer_done done[2];
        struct resizer resizer = { .done = done };

        (void)state;
        assert_true(resizer_is_due(&resizer, 7, "A", now));
        assert_int_equal(resizer_note(&resizer, 7, "A", -EBUSY, now), RESIZER_SAY_FIRST);
        assert_false(resizer_is_due(&resizer, 7, "A", now + RESIZER_AGAIN - 1));
        assert_true(resizer_is_due(&resizer, 7, "B", now));
        assert_true(resizer_is_due(&resizer, 7, "A", now + RESIZER_AGAIN));
        assert_int_equal(resizer_note(&resizer, 7, "A", -EBUSY, now + RESIZER_AGAIN), RESIZER_SAY_NOTHING);
        assert_false(resizer_is_due(&resizer, 7, "A", now + RESIZER_AGAIN));
        assert_int_equal(resizer_note(&resizer, 7, "A", 0, now + 2 * RESIZER_AGAIN), RESIZER_SAY_NEW);
        assert_false(resizer_is_due(&resizer, 7, "A", now + 1000 * RESIZER_AGAIN));
        free(done[0].asked);
}

/* Each is said under a name of its own, also where a pod asks for what it has asked for before. */
static void what_is_refused_for_good_is_asked_once_until_it_changes(void **state)
{
        struct resizer_done done[2];
        struct resizer resizer = { .done = done };

        (void)state;
        assert_int_equal(resizer_note(&resizer, 7, "A", -EINVAL, 1), RESIZER_SAY_FIRST);
        assert_false(resizer_is_due(&resizer, 7, "A", 1 + 1000 * RESIZER_AGAIN));
        assert_int_equal(resizer_note(&resizer, 7, "B", 0, 2), RESIZER_SAY_NEW);
        assert_true(resizer_is_due(&resizer, 7, "A", 3));
        assert_int_equal(resizer_note(&resizer, 7, "A", -EINVAL, 3), RESIZER_SAY_NEW);
        assert_int_equal(resizer_note(&resizer, 8, "A", 0, 3), RESIZER_SAY_FIRST);
        for (size_t i = 0; i < resizer.n_done; i++)
                free(done[i].asked);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_fits_into_the_allocation_is_asked_of_the_daemon),
                cmocka_unit_test(more_than_was_allocated_is_refused_and_nothing_with_it),
                cmocka_unit_test(what_is_not_understood_is_refused),
                cmocka_unit_test(pods_that_ask_for_nothing_are_left_alone),
                cmocka_unit_test(what_does_not_fit_now_is_asked_again_and_said_once),
                cmocka_unit_test(what_is_refused_for_good_is_asked_once_until_it_changes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
