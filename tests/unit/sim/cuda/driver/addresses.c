/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "sim/cuda/driver/addresses.h"

#include <errno.h>
#include <sys/mman.h>

static int is_reserved(uint64_t base)
{
        unsigned char state;

        return mincore((void *)(uintptr_t)base, 4096, &state) == 0 || errno != ENOMEM;
}

static void a_place_is_aligned_and_reserved(void **state)
{
        (void)state;
        for (uint64_t align = 4096; align <= 1u << 30; align *= 8) {
                uint64_t base = addresses_reserve(3 << 20, align);

                assert_true(base != 0);
                assert_int_equal(base % align, 0);
                assert_true(is_reserved(base));
                assert_true(is_reserved(base + (3 << 20) - 4096));
                addresses_release(base, 3 << 20);
                assert_false(is_reserved(base));
        }
}

static void a_taken_address_is_not_given_twice(void **state)
{
        uint64_t a = addresses_reserve(1 << 21, ADDRESS_GRANULE), b = addresses_reserve_at(a, 1 << 21);

        (void)state;
        assert_true(b != 0);
        assert_int_not_equal(a, b);
        addresses_release(a, 1 << 21);
        assert_int_equal(addresses_reserve_at(a, 1 << 21), a);
        addresses_release(a, 1 << 21);
        addresses_release(b, 1 << 21);
}

static void a_filled_place_can_be_written_and_restored(void **state)
{
        uint64_t base = addresses_reserve(1 << 21, ADDRESS_GRANULE);
        unsigned char *bytes = addresses_back(base + 4096, 8192);

        (void)state;
        assert_ptr_equal(bytes, (void *)(uintptr_t)(base + 4096));
        bytes[8191] = 1;
        addresses_reserve_again(base + 4096, 8192);
        assert_true(is_reserved(base + 4096));
        addresses_release(base, 1 << 21);
}

static void what_cannot_be_is_refused(void **state)
{
        (void)state;
        assert_int_equal(addresses_reserve(0, ADDRESS_GRANULE), 0);
        assert_int_equal(addresses_reserve(UINT64_MAX, ADDRESS_GRANULE), 0);
        assert_int_equal(addresses_reserve(1ull << 50, ADDRESS_GRANULE), 0);
        addresses_release(0, 4096); /* nothing */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_place_is_aligned_and_reserved),
                cmocka_unit_test(a_taken_address_is_not_given_twice),
                cmocka_unit_test(a_filled_place_can_be_written_and_restored),
                cmocka_unit_test(what_cannot_be_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
