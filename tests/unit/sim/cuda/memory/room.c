/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "sim/cuda/memory/room.h"

#include <sys/mman.h>

#define GIB ((uint64_t)1 << 30)

static const char host[] = "MemTotal:       24000000 kB\n"
                           "MemAvailable:   8388608 kB\n"   /* 8 GiB */
                           "Shmem:           2097152 kB\n"; /* 2 GiB */

static void half_of_what_would_be_available_is_the_bound(void **state)
{
        (void)state;
        assert_true(room_is_in(host, 3 * GIB)); /* 2 + 3 of 10 */
        assert_false(room_is_in(host, 3 * GIB + 1));
}

static void a_host_that_does_not_say_is_no_bound(void **state)
{
        (void)state;
        assert_true(room_is_in("MemTotal: 1 kB\n", 100 * GIB));
        assert_true(room_is_in("", 100 * GIB));
}

static void more_than_any_host_has_is_refused_before_it_is_touched(void **state)
{
        void *at = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        (void)state;
        assert_true(room_for(at, 1 << 16));
        assert_false(room_for(at, (uint64_t)1 << 46));
        (void)munmap(at, 1 << 16);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(half_of_what_would_be_available_is_the_bound),
                cmocka_unit_test(a_host_that_does_not_say_is_no_bound),
                cmocka_unit_test(more_than_any_host_has_is_refused_before_it_is_touched),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
