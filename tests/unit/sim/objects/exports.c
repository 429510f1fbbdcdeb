/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/rig.h"

static uint32_t put_one(const struct rig *rig, int fd, uint32_t memory)
{
        unsigned char params[24] = { 0 };

        rm_put32(params, sizeof(params), 4, DEVICE);
        rm_put32(params, sizeof(params), 12, memory);
        rm_put32(params, sizeof(params), 16, (uint32_t)fd);
        return rig_control(rig, rig->client, 0x3d05, params, sizeof(params));
}

static uint32_t take_one(const struct rig *rig, int fd, uint32_t memory)
{
        unsigned char params[20] = { 0 };

        rm_put32(params, sizeof(params), 0, (uint32_t)fd);
        rm_put32(params, sizeof(params), 12, DEVICE);
        rm_put32(params, sizeof(params), 16, memory);
        return rig_control(rig, rig->client, 0x3d06, params, sizeof(params));
}

/* Two objects at an index; max counts in the first call. */
static uint32_t put_two(const struct rig *rig, int fd, uint16_t max, uint32_t first, uint32_t second, uint16_t index)
{
        static unsigned char params[2128];

        memset(params, 0, sizeof(params));
        rm_put32(params, sizeof(params), 0, (uint32_t)fd);
        rm_put32(params, sizeof(params), 4, DEVICE);
        memcpy(params + 8, &max, 2);
        memcpy(params + 10, "hello", 5);
        rm_put32(params, sizeof(params), 76, first);
        rm_put32(params, sizeof(params), 80, second);
        rm_put32(params, sizeof(params), 2124, 2 | (uint32_t)index << 16);
        return rig_control(rig, rig->client, 0x3d0b, params, sizeof(params));
}

static uint32_t take_two(const struct rig *rig, int fd, uint32_t first, uint32_t second, uint16_t index,
                         unsigned char types[static 2])
{
        static unsigned char params[652];
        uint32_t status;

        memset(params, 0, sizeof(params));
        rm_put32(params, sizeof(params), 0, (uint32_t)fd);
        rm_put32(params, sizeof(params), 4, DEVICE);
        rm_put32(params, sizeof(params), 8, first);
        rm_put32(params, sizeof(params), 12, second);
        rm_put32(params, sizeof(params), 648, 2 | (uint32_t)index << 16);
        status = rig_control(rig, rig->client, 0x3d0c, params, sizeof(params));
        memcpy(types, params + 520, 2);
        return status;
}

static void an_export_holds_the_memory_until_its_file_closes(void **state)
{
        struct rig *rig = *state;
        int fd = rig_open(rig, "nvidiactl");

        assert_int_equal(rig_memory(rig, MEMORY, 100 * MIB), RM_STATUS_OK);
        assert_int_equal(put_one(rig, fd, MEMORY), RM_STATUS_OK);
        assert_int_equal(rig_free(rig, MEMORY), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 100 * MIB);
        assert_int_equal(take_one(rig, fd, MEMORY + 1), RM_STATUS_OK);
        close(fd);
        (void)usleep(20000);
        assert_int_equal(rig_heap_free(rig), GIB - 100 * MIB);
        assert_int_equal(rig_free(rig, MEMORY + 1), RM_STATUS_OK);
        rig_expect_free(rig, GIB);
}

static void a_table_carries_many_and_tells_what_it_is(void **state)
{
        struct rig *rig = *state;
        int fd = rig_open(rig, "nvidiactl");
        unsigned char types[2], info[80] = { 0 };

        assert_int_equal(rig_memory(rig, MEMORY, 2 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_memory_as(rig, MEMORY + 1, RM_CLASS_HOST_MEMORY, MIB, ATTR_HOST), RM_STATUS_OK);
        assert_int_equal(put_two(rig, fd, 1000, MEMORY, MEMORY + 1, 6), RM_STATUS_OK);
        rm_put32(info, sizeof(info), 0, (uint32_t)fd);
        assert_int_equal(rig_control(rig, rig->client, 0x3d08, info, sizeof(info)), RM_STATUS_OK);
        assert_int_equal(rm_get32(info, sizeof(info), 12) & 0xffff, 1000);
        assert_string_equal((char *)info + 14, "hello");

        assert_int_equal(take_two(rig, fd, MEMORY + 2, MEMORY + 3, 6, types), RM_STATUS_OK);
        assert_int_equal(types[0], 1);
        assert_int_equal(types[1], 2);
        assert_int_equal(take_two(rig, fd, MEMORY + 4, MEMORY + 5, 7, types), RM_STATUS_OK);
        assert_int_equal(types[0], 2);
        assert_int_equal(types[1], 0); /* nothing there, no object made */
        assert_int_equal(rig_memory(rig, MEMORY + 5, MIB), RM_STATUS_OK);
        close(fd);
}

static void exporting_nothing_takes_away_what_was_there(void **state)
{
        struct rig *rig = *state;
        int fd = rig_open(rig, "nvidiactl");

        assert_int_equal(rig_memory(rig, MEMORY, 10 * MIB), RM_STATUS_OK);
        assert_int_equal(put_two(rig, fd, 2, MEMORY, 0, 0), RM_STATUS_OK);
        assert_int_equal(rig_free(rig, MEMORY), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 10 * MIB);
        assert_int_equal(put_two(rig, fd, 2, 0, 0, 0), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB);
        close(fd);
}

static void an_import_takes_all_or_none(void **state)
{
        struct rig *rig = *state;
        int fd = rig_open(rig, "nvidiactl");
        unsigned char types[2];

        assert_int_equal(rig_memory(rig, MEMORY, 2 * MIB), RM_STATUS_OK);
        assert_int_equal(put_two(rig, fd, 2, MEMORY, MEMORY, 0), RM_STATUS_OK);
        assert_int_equal(take_two(rig, fd, MEMORY + 1, MEMORY, 0, types), SIM_STATUS_DUPLICATE);
        assert_int_equal(take_two(rig, fd, MEMORY + 1, 0, 0, types), 0x3b);
        assert_int_equal(take_two(rig, fd, MEMORY + 1, MEMORY + 2, 0, types), RM_STATUS_OK);
        close(fd);
}

static void bounds_and_descriptors_are_checked(void **state)
{
        struct rig *rig = *state;
        int fd = rig_open(rig, "nvidiactl"), uvm = rig_open(rig, "nvidia-uvm");
        unsigned char types[2], info[80] = { 0 };

        assert_int_equal(rig_memory(rig, MEMORY, 2 * MIB), RM_STATUS_OK);
        assert_int_equal(take_one(rig, fd, MEMORY + 1), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(take_two(rig, fd, MEMORY + 1, MEMORY + 2, 0, types), RM_STATUS_INVALID_ARGUMENT);
        rm_put32(info, sizeof(info), 0, (uint32_t)fd);
        assert_int_equal(rig_control(rig, rig->client, 0x3d08, info, sizeof(info)), RM_STATUS_OBJECT_NOT_FOUND);
        assert_int_equal(put_one(rig, uvm, MEMORY), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(put_one(rig, -1, MEMORY), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(put_two(rig, fd, 0, MEMORY, 0, 0), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(put_two(rig, fd, 3, MEMORY, 0, 2), 0x3b);
        assert_int_equal(put_two(rig, fd, 3, 0x77, 0, 0), RM_STATUS_OBJECT_NOT_FOUND);
        assert_int_equal(take_two(rig, fd, MEMORY + 1, MEMORY + 2, 2, types), 0x3b);
        close(fd), close(uvm);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(an_export_holds_the_memory_until_its_file_closes),
                RIG_TEST(a_table_carries_many_and_tells_what_it_is),
                RIG_TEST(exporting_nothing_takes_away_what_was_there),
                RIG_TEST(an_import_takes_all_or_none),
                RIG_TEST(bounds_and_descriptors_are_checked),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
