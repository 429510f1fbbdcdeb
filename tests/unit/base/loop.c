/* SPDX-License-Identifier: Apache-2.0 */
/* The loop: whoever is dropped is not called any more, whenever that happens. */
#include "unit.h"

#include "base/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct loop *loop;
static struct loop_source sources[2];
static struct loop_timer timer, other;
static int n_calls;

static void drop_both(struct loop_source *source, uint32_t events)
{
        (void)source;
        (void)events;
        n_calls++;
        loop_drop(loop, &sources[0]);
        loop_drop(loop, &sources[1]);
}

static void stop(struct loop_timer *due)
{
        (void)due;
        loop_stop(loop);
}

static void count(struct loop_timer *due)
{
        (void)due;
        if (++n_calls == 3)
                loop_stop(loop);
}

static void drop_other(struct loop_timer *due)
{
        (void)due;
        loop_timer_drop(loop, &other);
}

static int set_up(void **state)
{
        (void)state;
        n_calls = 0;
        timer = other = (struct loop_timer){ 0 };
        return loop_new(&loop);
}

static int tear_down(void **state)
{
        (void)state;
        loop = loop_free(loop);
        return 0;
}

static void a_source_that_another_drops_in_the_same_round_is_not_called(void **state)
{
        (void)state;
        for (int i = 0; i < 2; i++) {
                sources[i] = (struct loop_source){ .fd = eventfd(1, EFD_CLOEXEC), .ready = drop_both };
                assert_int_equal(loop_add(loop, &sources[i], EPOLLIN), 0);
        }
        timer.due = stop;
        loop_timer_set(loop, &timer, 5 * NSEC_PER_MSEC, 0);
        assert_int_equal(loop_run(loop), 0);
        assert_int_equal(n_calls, 1);
        (void)close(sources[0].fd);
        (void)close(sources[1].fd);
}

static void a_timer_comes_again_and_never_early(void **state)
{
        nsec start = clock_now();

        (void)state;
        timer.due = count;
        loop_timer_set(loop, &timer, 3 * NSEC_PER_MSEC, 4 * NSEC_PER_MSEC);
        assert_int_equal(loop_run(loop), 0);
        assert_int_equal(n_calls, 3);
        assert_true(clock_now() - start >= 11 * NSEC_PER_MSEC);
}

static void a_timer_dropped_by_another_does_not_come(void **state)
{
        struct loop_timer last = { .due = stop };

        (void)state;
        timer.due = drop_other;
        other.due = count;
        loop_timer_set(loop, &timer, NSEC_PER_MSEC, 0);
        loop_timer_set(loop, &other, 2 * NSEC_PER_MSEC, 0);
        loop_timer_set(loop, &last, 8 * NSEC_PER_MSEC, 0);
        assert_int_equal(loop_run(loop), 0);
        assert_int_equal(n_calls, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        const struct CMUnitTest tests[] = {
                TEST(a_source_that_another_drops_in_the_same_round_is_not_called),
                TEST(a_timer_comes_again_and_never_early),
                TEST(a_timer_dropped_by_another_does_not_come),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
