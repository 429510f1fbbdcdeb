/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "gate/policy/views.h"
#include "rm/layout.h"

#include <stdlib.h>
#include <string.h>

enum {
        INFO_SIZE = 72,
        MINE = 0x600,
        MINE_TOO = 0xa00,
        THEIRS = 0x700,
};

static struct lease *lease_of_two(void)
{
        static struct lease lease;

        memset(&lease, 0, sizeof(lease));
        lease.n_devices = 3;
        lease.devices[0] = (struct lease_device){ .is_granted = true, .gpu_id = MINE };
        lease.devices[1] = (struct lease_device){ .gpu_id = THEIRS };
        lease.devices[2] = (struct lease_device){ .is_granted = true, .gpu_id = MINE_TOO };
        lease.devices[0].quota.size = 8 * GIB;
        lease.devices[2].quota.size = 4 * GIB;
        return &lease;
}

/* What the driver says of index is `real` KiB; what a tenant of 8 GiB with 5 GiB free is told. */
static uint32_t told(uint32_t index, uint32_t real)
{
        struct view view = { 8 * GIB, 5 * GIB };
        uint32_t *list = malloc(8); /* its very size, for the sanitizer */
        uint32_t data;

        assert_non_null(list);
        list[0] = index;
        list[1] = real;
        view_fb_info(list, 1, &view);
        assert_int_equal(list[0], index);
        data = list[1];
        free(list);
        return data;
}

/* docs/rm-abi.md 5.1, for a device of 140 GiB with 100 GiB free. */
static void totals_are_the_quota(void **state)
{
        static const uint32_t totals[] = { 0x07, 0x08, 0x09, 0x20 };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(totals); i++)
                assert_int_equal(told(totals[i], 140u << 20), 8u << 20);
}

static void what_is_free_is_what_the_quota_has_left_and_the_device(void **state)
{
        static const uint32_t frees[] = { 0x12, 0x16, 0x34 };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(frees); i++) {
                assert_int_equal(told(frees[i], 100u << 20), 5u << 20);
                assert_int_equal(told(frees[i], 1u << 20), 1u << 20); /* a full device */
                assert_int_equal(told(frees[i], 0), 0);
        }
        assert_int_equal(told(0x13, 0xdeadbeef), 0); /* where the largest free block is */
}

static void parts_are_not_larger_than_the_quota(void **state)
{
        static const uint32_t parts[] = { 0x0a, 0x33 };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
                assert_int_equal(told(parts[i], 140u << 20), 8u << 20);
                assert_int_equal(told(parts[i], 256 << 10), 256 << 10);
        }
}

static void facts_of_the_device_stay(void **state)
{
        static const uint32_t facts[] = { 0x00, 0x01, 0x05, 0x0b, 0x10, 0x11, 0x15, 0x1d, 0x1e,
                                          0x1f, 0x27, 0x29, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x3b };

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(facts); i++)
                assert_int_equal(told(facts[i], 0x12345), 0x12345);
}

static void an_index_that_nobody_read_about_tells_nothing(void **state)
{
        (void)state;
        assert_int_equal(told(0x3c, 140u << 20), 0);
        assert_int_equal(told(0x1000, 140u << 20), 0);
        assert_int_equal(told(UINT32_MAX, 140u << 20), 0);
}

/* No index whatever tells more than 8 GiB of a figure that follows the device's size. */
static void a_list_is_corrected_to_its_end(void **state)
{
        struct view view = { 8 * GIB, 5 * GIB };
        uint32_t list[128][2];

        (void)state;
        for (size_t i = 0; i < 128; i++) {
                list[i][0] = i % 2 ? 0x08 : 0x16;
                list[i][1] = 140u << 20;
        }
        view_fb_info(list, 127, &view);
        for (size_t i = 0; i < 127; i++)
                assert_int_equal(list[i][1], i % 2 ? 8u << 20 : 5u << 20);
        assert_int_equal(list[127][1], 140u << 20); /* not ours to change */
}

static void a_quota_beyond_32_bits_of_kib_is_cut_off(void **state)
{
        struct view view = { UINT64_MAX, UINT64_MAX };
        uint32_t list[2][2] = { { 0x08, 1 }, { 0x16, 77 } };

        (void)state;
        view_fb_info(list, 2, &view);
        assert_int_equal(list[0][1], UINT32_MAX);
        assert_int_equal(list[1][1], 77);
}

static void the_heap_call_tells_the_quota(void **state)
{
        struct view view = { 8 * GIB, 5 * GIB };
        uint8_t block[184] = { 0 };

        (void)state;
        rm_put64(block, sizeof(block), 24, 140 * GIB);
        rm_put64(block, sizeof(block), 32, 100 * GIB);
        view_heap_info(block, sizeof(block), &view);
        assert_int_equal(rm_get64(block, sizeof(block), 24), 8 * GIB);
        assert_int_equal(rm_get64(block, sizeof(block), 32), 5 * GIB);
        rm_put64(block, sizeof(block), 32, GIB);
        view_heap_info(block, sizeof(block), &view);
        assert_int_equal(rm_get64(block, sizeof(block), 32), GIB);
}

static void protected_memory_is_at_most_the_quota(void **state)
{
        uint8_t params[24] = { 0 };
        struct view view = { .size = 8 * GIB, .free = 5 * GIB };

        (void)state;
        rm_put64(params, sizeof(params), 8, GIB / KIB);
        rm_put64(params, sizeof(params), 16, 139 * GIB / KIB);
        view_protected(params, sizeof(params), &view);
        assert_int_equal(rm_get64(params, sizeof(params), 8), GIB / KIB);
        assert_int_equal(rm_get64(params, sizeof(params), 16), 8 * GIB / KIB);
        view_protected(params, 12, &view); /* short: nothing beyond its end */
}

static void ids_of_other_devices_are_not_shown(void **state)
{
        uint32_t ids[32];

        (void)state;
        memset(ids, 0xff, sizeof(ids));
        ids[0] = THEIRS;
        ids[1] = MINE;
        ids[2] = 0x900;
        ids[3] = MINE_TOO;
        view_gpu_ids(ids, 32, lease_of_two());
        assert_int_equal(ids[0], MINE);
        assert_int_equal(ids[1], MINE_TOO);
        for (size_t i = 2; i < 32; i++)
                assert_int_equal(ids[i], UINT32_MAX);
}

static void a_lease_of_nothing_shows_nothing(void **state)
{
        static struct lease nothing; /* not granted: all ids 0 */
        uint32_t ids[4] = { 0, MINE, UINT32_MAX, UINT32_MAX };
        uint8_t infos[2 * INFO_SIZE];

        (void)state;
        nothing.n_devices = LEASE_DEVICES_MAX;
        view_gpu_ids(ids, 4, &nothing);
        for (size_t i = 0; i < 4; i++)
                assert_int_equal(ids[i], UINT32_MAX);
        memset(infos, 1, sizeof(infos));
        view_devices(infos, 2, &nothing);
        for (size_t i = 0; i < sizeof(infos); i++)
                assert_int_equal(infos[i], 0);
        view_gpu_ids(ids, 0, &nothing);
        view_devices(infos, 0, &nothing);
}

static void info_put(uint8_t *info, uint32_t gpu_id, uint32_t minor)
{
        memset(info, 0, INFO_SIZE);
        info[0] = 1;
        rm_put32(info, INFO_SIZE, 16, gpu_id);
        rm_put64(info, INFO_SIZE, 48, 140 * GIB);
        rm_put32(info, INFO_SIZE, 56, minor);
}

static void other_devices_are_not_shown_and_the_tenants_are_as_large_as_its_quota(void **state)
{
        uint8_t infos[32 * INFO_SIZE] = { 0 };

        (void)state;
        info_put(infos, THEIRS, 0);
        info_put(infos + INFO_SIZE, MINE, 1);
        info_put(infos + 2 * INFO_SIZE, MINE_TOO, 2);
        view_devices(infos, 32, lease_of_two());
        assert_int_equal(rm_get32(infos, INFO_SIZE, 16), MINE);
        assert_int_equal(rm_get32(infos, INFO_SIZE, 56), 1);
        assert_int_equal(rm_get64(infos, INFO_SIZE, 48), 8 * GIB);
        assert_int_equal(rm_get32(infos + INFO_SIZE, INFO_SIZE, 16), MINE_TOO);
        assert_int_equal(rm_get64(infos + INFO_SIZE, INFO_SIZE, 48), 4 * GIB);
        for (size_t i = 2 * INFO_SIZE; i < sizeof(infos); i++)
                assert_int_equal(infos[i], 0);
}

static void a_device_that_is_not_valid_is_no_device(void **state)
{
        uint8_t infos[INFO_SIZE];

        (void)state;
        info_put(infos, MINE, 0);
        infos[0] = 0;
        view_devices(infos, 1, lease_of_two());
        assert_int_equal(rm_get32(infos, INFO_SIZE, 16), 0);
}

static void active_put(uint8_t *params, size_t size, uint32_t i, uint32_t gpu_id)
{
        rm_put32(params, size, 4 + i * 12, gpu_id);
        rm_put32(params, size, 8 + i * 12, UINT32_MAX);
        rm_put32(params, size, 12 + i * 12, UINT32_MAX);
}

static void other_devices_are_not_active(void **state)
{
        uint8_t params[3076];

        (void)state;
        memset(params, 0xee, sizeof(params));
        rm_put32(params, sizeof(params), 0, 3);
        active_put(params, sizeof(params), 0, THEIRS);
        active_put(params, sizeof(params), 1, MINE_TOO);
        active_put(params, sizeof(params), 2, MINE);
        view_active_devices(params, sizeof(params), lease_of_two());
        assert_int_equal(rm_get32(params, sizeof(params), 0), 2);
        assert_int_equal(rm_get32(params, sizeof(params), 4), MINE_TOO);
        assert_int_equal(rm_get32(params, sizeof(params), 16), MINE);
        for (size_t i = 28; i < sizeof(params); i++)
                assert_int_equal(params[i], 0);
}

/* A count that the parameters do not hold, at every size: the sanitizer watches. */
static void a_count_beyond_the_parameters_is_not_followed(void **state)
{
        static const uint32_t counts[] = { 1, 255, 0x15555556, 0x80000000, UINT32_MAX };
        struct lease *lease = lease_of_two();

        (void)state;
        for (size_t size = 0; size < 64; size++) {
                for (size_t k = 0; k < ARRAY_SIZE(counts); k++) {
                        uint8_t *params = malloc(size ? size : 1);

                        assert_non_null(params);
                        memset(params, 0, size);
                        rm_put32(params, size, 0, counts[k]);
                        if (size >= 16)
                                active_put(params, size, 0, MINE);
                        view_active_devices(params, size, lease);
                        assert_true(rm_get32(params, size, 0) <= size / 12);
                        free(params);
                }
        }
}

static bytes a_mib_each(void *context, uint32_t pid)
{
        *(uint32_t *)context += 1;
        return pid * MIB;
}

static void the_processes_are_the_tenants(void **state)
{
        static const uint32_t pids[] = { 41, 42 };
        uint8_t params[3812];

        (void)state;
        memset(params, 0xee, sizeof(params));
        view_pids(params, sizeof(params), pids, 2);
        assert_int_equal(rm_get32(params, sizeof(params), 0), 0xeeeeeeee); /* the question */
        assert_int_equal(rm_get32(params, sizeof(params), 8), 2);
        assert_int_equal(rm_get32(params, sizeof(params), 12), 41);
        assert_int_equal(rm_get32(params, sizeof(params), 16), 42);
        for (size_t i = 20; i < sizeof(params); i++)
                assert_int_equal(params[i], 0);
}

static void more_processes_than_the_driver_has_room_for_are_not_listed(void **state)
{
        static uint32_t pids[2000];
        uint8_t params[3812 + 8];

        (void)state;
        for (size_t i = 0; i < 2000; i++)
                pids[i] = (uint32_t)i + 1;
        memset(params, 0, sizeof(params));
        view_pids(params, 3812, pids, 2000);
        assert_int_equal(rm_get32(params, sizeof(params), 8), 950);
        assert_int_equal(rm_get32(params, sizeof(params), 12 + 949 * 4), 950);
        assert_int_equal(rm_get64(params, sizeof(params), 3812), 0);
        for (size_t size = 0; size < 40; size++) {
                uint8_t *small = calloc(1, size ? size : 1);

                assert_non_null(small);
                view_pids(small, size, pids, 9);
                free(small);
        }
}

static void a_process_holds_what_the_books_say(void **state)
{
        uint32_t asked = 0;
        uint8_t params[14408] = { 0 };

        (void)state;
        rm_put32(params, sizeof(params), 0, 2);
        for (uint32_t i = 0; i < 3; i++) {
                rm_put32(params, sizeof(params), 8 + i * 72, 7 + i);
                rm_put32(params, sizeof(params), 8 + i * 72 + 8, 0x57); /* the driver does not know it */
                for (uint32_t at = 16; at < 64; at += 8)
                        rm_put64(params, sizeof(params), 8 + i * 72 + at, 99 * GIB);
        }
        view_pid_info(params, sizeof(params), a_mib_each, &asked);
        assert_int_equal(asked, 2);
        for (uint32_t i = 0; i < 2; i++) {
                assert_int_equal(rm_get32(params, sizeof(params), 8 + i * 72), 7 + i);
                assert_int_equal(rm_get32(params, sizeof(params), 8 + i * 72 + 8), 0);
                assert_int_equal(rm_get64(params, sizeof(params), 8 + i * 72 + 16), (7 + i) * MIB);
                for (uint32_t at = 24; at < 64; at += 8)
                        assert_int_equal(rm_get64(params, sizeof(params), 8 + i * 72 + at), 0);
        }
        assert_int_equal(rm_get64(params, sizeof(params), 8 + 2 * 72 + 16), 99 * GIB); /* not asked */
}

static void no_more_processes_are_answered_than_fit(void **state)
{
        uint32_t asked = 0;

        (void)state;
        for (size_t size = 0; size < 200; size++) {
                uint8_t *params = calloc(1, size ? size : 1);

                assert_non_null(params);
                rm_put32(params, size, 0, UINT32_MAX);
                asked = 0;
                view_pid_info(params, size, a_mib_each, &asked);
                assert_int_equal(asked, size < 8 ? 0 : (size - 8) / 72);
                free(params);
        }
}

/* Regions as FB_GET_FB_REGION_INFO lists them, shown to a tenant of 8 GiB. */
static void regions_of_memory_are_together_the_quota(void **state)
{
        enum { SIZE = 904, FIRST_AT = 8, NEXT = 56 };
        const struct view view = { 8 * GIB, 5 * GIB };
        uint8_t *params = calloc(1, SIZE);

        (void)state;
        assert_non_null(params);
        rm_put32(params, SIZE, 0, 3);
        rm_put64(params, SIZE, FIRST_AT + 8, 3 * GIB - 1);
        rm_put64(params, SIZE, FIRST_AT + NEXT, 4 * GIB);
        rm_put64(params, SIZE, FIRST_AT + NEXT + 8, 140 * GIB - 1);
        rm_put64(params, SIZE, FIRST_AT + 2 * NEXT, 140 * GIB);
        rm_put64(params, SIZE, FIRST_AT + 2 * NEXT + 8, 141 * GIB - 1);
        view_regions(params, SIZE, &view);
        assert_int_equal(rm_get32(params, SIZE, 0), 2);
        assert_int_equal(rm_get64(params, SIZE, FIRST_AT + 8), 3 * GIB - 1);
        assert_int_equal(rm_get64(params, SIZE, FIRST_AT + NEXT + 8), 9 * GIB - 1);
        assert_int_equal(rm_get64(params, SIZE, FIRST_AT + 2 * NEXT + 8), 0);
        /* a count beyond the parameters, and a region that ends before it begins */
        rm_put32(params, SIZE, 0, UINT32_MAX);
        rm_put64(params, SIZE, FIRST_AT, 5);
        rm_put64(params, SIZE, FIRST_AT + 8, 4);
        view_regions(params, SIZE, &view);
        assert_int_equal(rm_get32(params, SIZE, 0), 1);
        free(params);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(totals_are_the_quota),
                cmocka_unit_test(regions_of_memory_are_together_the_quota),
                cmocka_unit_test(what_is_free_is_what_the_quota_has_left_and_the_device),
                cmocka_unit_test(parts_are_not_larger_than_the_quota),
                cmocka_unit_test(facts_of_the_device_stay),
                cmocka_unit_test(an_index_that_nobody_read_about_tells_nothing),
                cmocka_unit_test(a_list_is_corrected_to_its_end),
                cmocka_unit_test(a_quota_beyond_32_bits_of_kib_is_cut_off),
                cmocka_unit_test(the_heap_call_tells_the_quota),
                cmocka_unit_test(protected_memory_is_at_most_the_quota),
                cmocka_unit_test(ids_of_other_devices_are_not_shown),
                cmocka_unit_test(a_lease_of_nothing_shows_nothing),
                cmocka_unit_test(other_devices_are_not_shown_and_the_tenants_are_as_large_as_its_quota),
                cmocka_unit_test(a_device_that_is_not_valid_is_no_device),
                cmocka_unit_test(other_devices_are_not_active),
                cmocka_unit_test(a_count_beyond_the_parameters_is_not_followed),
                cmocka_unit_test(the_processes_are_the_tenants),
                cmocka_unit_test(more_processes_than_the_driver_has_room_for_are_not_listed),
                cmocka_unit_test(a_process_holds_what_the_books_say),
                cmocka_unit_test(no_more_processes_are_answered_than_fit),
        };

        return cmocka_run_group_tests_name("gate/policy/views", tests, NULL, NULL);
}
