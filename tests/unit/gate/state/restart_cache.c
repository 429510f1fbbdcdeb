/* SPDX-License-Identifier: Apache-2.0 */
/* An answer that was not delivered answers the same call of the same thread, made again, and nothing else. */
#include "unit.h"

#include "gate/state/restart_cache.h"

#include <string.h>
#include <unistd.h>

static struct restart_cache restart_cache;
static const struct restart_block nothing;

static int set_up(void **state)
{
        (void)state;
        memset(&restart_cache, 0, sizeof(restart_cache));
        restart_cache_init(&restart_cache);
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        restart_cache_done(&restart_cache);
        return 0;
}

/* A thread that there is: ours. */
static struct seccomp_notif notification_of(uint64_t address)
{
        struct seccomp_notif notification = { .pid = (uint32_t)getpid(),
                                              .data = { .nr = 16, .instruction_pointer = 1 } };

        notification.data.args[2] = address;
        return notification;
}

static bool comes(const struct seccomp_notif *notification, int64_t *ret_value)
{
        struct restart_call call;
        bool is_again;

        assert_false(restart_cache_must_wait(&restart_cache, notification));
        is_again = restart_cache_begin(&restart_cache, &call, notification, -1, ret_value);
        assert_true(restart_cache_must_wait(&restart_cache, notification)); /* the same thread, before it is answered */
        restart_cache_end(&restart_cache, &call);
        return is_again;
}

/* The kernel may lose what it took. */
static void a_delivered_answer_is_given_again_over_the_same_block_only(void **state)
{
        uint8_t block[RESTART_BLOCK] = "made";
        struct restart_block left = { (uintptr_t)block, sizeof(block), block };
        struct seccomp_notif first = notification_of((uintptr_t)block);
        int64_t value = -1;

        (void)state;
        restart_cache_keep_delivered(&restart_cache, &first, 7, &left, 0);
        assert_true(comes(&first, &value));
        assert_int_equal(value, 7);
        restart_cache_keep_delivered(&restart_cache, &first, 7, &left, 0);
        block[100]++; /* another handle */
        assert_false(comes(&first, &value));
        restart_cache_keep_delivered(&restart_cache, &first, 7, &nothing, 0);
        assert_false(comes(&first, &value));
}

/* It was not delivered, was given again, and the kernel lost that. */
static void an_answer_that_was_given_again_may_be_lost_too(void **state)
{
        uint8_t block[RESTART_BLOCK] = "made";
        const struct restart_block left = { (uintptr_t)block, sizeof(block), block };
        struct seccomp_notif first = notification_of((uintptr_t)block);
        struct restart_call call;
        int64_t value = -1;

        (void)state;
        restart_cache_keep(&restart_cache, &first, 7, &left);
        for (int n = 0; n < 3; n++) {
                assert_true(restart_cache_begin(&restart_cache, &call, &first, -1, &value));
                assert_int_equal(value, 7);
                restart_cache_keep_delivered(&restart_cache, &first, value, &call.left, call.delivered);
                restart_cache_end(&restart_cache, &call);
        }
        block[100]++; /* another handle */
        assert_false(comes(&first, &value));
}

/* However often it is given: whoever makes the call anew later means it. */
static void a_delivered_answer_is_not_given_longer_for_being_given_again(void **state)
{
        uint8_t block[RESTART_BLOCK] = "made";
        const struct restart_block left = { (uintptr_t)block, sizeof(block), block };
        struct seccomp_notif first = notification_of((uintptr_t)block);
        nsec long_ago = clock_now() - (RESTART_SECONDS - 1) * NSEC_PER_SEC;
        struct restart_call call;
        int64_t value = -1;

        (void)state;
        restart_cache_keep_delivered(&restart_cache, &first, 7, &left, long_ago);
        assert_true(restart_cache_begin(&restart_cache, &call, &first, -1, &value));
        restart_cache_end(&restart_cache, &call);
        assert_int_equal(call.delivered, long_ago);
        restart_cache_keep_delivered(&restart_cache, &first, 7, &left, long_ago - NSEC_PER_SEC);
        assert_false(comes(&first, &value));
}

static void the_same_call_gets_the_answer_once(void **state)
{
        struct seccomp_notif first = notification_of(0x1000);
        int64_t value = -1;

        (void)state;
        assert_false(comes(&first, &value));
        restart_cache_keep(&restart_cache, &first, 7, &nothing);
        assert_true(comes(&first, &value));
        assert_int_equal(value, 7);
        assert_false(comes(&first, &value));
}

static void another_call_does_not_and_ends_it(void **state)
{
        struct seccomp_notif first = notification_of(0x1000), other = notification_of(0x2000);
        int64_t value;

        (void)state;
        restart_cache_keep(&restart_cache, &first, 7, &nothing);
        assert_false(comes(&other, &value));
        assert_false(comes(&first, &value));
}

static void another_thread_does_not(void **state)
{
        struct seccomp_notif first = notification_of(0x1000), other = first;
        int64_t value;

        (void)state;
        restart_cache_keep(&restart_cache, &first, 7, &nothing);
        other.pid += RESTART_SLOTS; /* the same place */
        assert_false(comes(&other, &value));
        assert_true(comes(&first, &value));
}

static void nothing_is_kept_for_a_thread_that_is_gone(void **state)
{
        struct seccomp_notif gone = notification_of(0x1000);

        (void)state;
        gone.pid = 1u << 22; /* above the highest number there can be */
        restart_cache_keep(&restart_cache, &gone, 7, &nothing);
        assert_int_equal(restart_cache.n, 0);
}

static void a_number_that_is_used_again_is_another_thread(void **state)
{
        struct seccomp_notif first = notification_of(0x1000);
        int64_t value;

        (void)state;
        restart_cache_keep(&restart_cache, &first, 7, &nothing);
        restart_cache.answers[first.pid % RESTART_SLOTS].since--;
        assert_false(comes(&first, &value));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(a_delivered_answer_is_given_again_over_the_same_block_only, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(an_answer_that_was_given_again_may_be_lost_too, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_delivered_answer_is_not_given_longer_for_being_given_again, set_up,
                                                tear_down),
                cmocka_unit_test_setup_teardown(the_same_call_gets_the_answer_once, set_up, tear_down),
                cmocka_unit_test_setup_teardown(another_call_does_not_and_ends_it, set_up, tear_down),
                cmocka_unit_test_setup_teardown(another_thread_does_not, set_up, tear_down),
                cmocka_unit_test_setup_teardown(nothing_is_kept_for_a_thread_that_is_gone, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_number_that_is_used_again_is_another_thread, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
