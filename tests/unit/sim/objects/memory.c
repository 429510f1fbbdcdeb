/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/rig.h"

static void memory_takes_and_gives_back(void **state)
{
        struct rig *rig = *state;

        assert_int_equal(rig_memory(rig, MEMORY, 434110464), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 434110464);
        assert_int_equal(rig_memory(rig, MEMORY + 1, 1), RM_STATUS_OK); /* a huge page */
        assert_int_equal(rig_heap_free(rig), GIB - 434110464 - 2 * MIB);
        assert_int_equal(rig_free(rig, MEMORY), RM_STATUS_OK);
        assert_int_equal(rig_free(rig, MEMORY + 1), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB);
}

static void the_real_size_is_told(void **state)
{
        struct rig *rig = *state;
        unsigned char params[128] = { 0 };

        rm_put32(params, sizeof(params), 0, rig->client);
        rm_put32(params, sizeof(params), 24, 0x18000000); /* as libcuda asks, and what it is answered */
        rm_put64(params, sizeof(params), 64, 3 * MIB);
        assert_int_equal(rig_alloc(rig, DEVICE, MEMORY, RM_CLASS_VIDEO_MEMORY, params), RM_STATUS_OK);
        assert_int_equal(rm_get32(params, sizeof(params), 24), 0x11800000);
        assert_int_equal(rm_get32(params, sizeof(params), 28), 0x100005);
        assert_int_equal(rm_get64(params, sizeof(params), 64), 4 * MIB);
        assert_int_equal(rm_get64(params, sizeof(params), 88), 4 * MIB - 1);
}

static void a_full_device_says_so_and_takes_nothing(void **state)
{
        struct rig *rig = *state;

        assert_int_equal(rig_memory(rig, MEMORY, GIB - 2 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_memory(rig, MEMORY + 1, 4 * MIB), RM_STATUS_NO_MEMORY);
        assert_int_equal(rig_heap_free(rig), 2 * MIB);
        assert_int_equal(rig_memory(rig, MEMORY + 1, 2 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), 0);
        assert_int_equal(rig_memory(rig, MEMORY + 2, UINT64_MAX), RM_STATUS_NO_MEMORY);
}

static void what_the_driver_does_not_accept_is_refused(void **state)
{
        struct rig *rig = *state;
        unsigned char params[128] = { 0 };

        assert_int_equal(rig_memory(rig, MEMORY, 0), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(rig_memory_as(rig, MEMORY, RM_CLASS_VIDEO_MEMORY, MIB, ATTR_HOST), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(rig_memory_as(rig, MEMORY, RM_CLASS_HOST_MEMORY, MIB, ATTR), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(rig_alloc(rig, DEVICE, MEMORY, RM_CLASS_VIDEO_MEMORY, NULL), RM_STATUS_INVALID_ARGUMENT);
        rm_put32(params, sizeof(params), 0, rig->client);
        rm_put32(params, sizeof(params), 8, RM_FLAG_VIRTUAL);
        rm_put64(params, sizeof(params), 64, MIB);
        assert_int_equal(rig_alloc(rig, DEVICE, MEMORY, RM_CLASS_VIDEO_MEMORY, params), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(rig_alloc(rig, rig->client, MEMORY, RM_CLASS_VIDEO_MEMORY, params), SIM_STATUS_INVALID_PARENT);
        rm_put32(params, sizeof(params), 0, 0); /* no owner */
        assert_int_equal(rig_alloc(rig, DEVICE, MEMORY, RM_CLASS_VIDEO_MEMORY, params), 0x39);
        assert_int_equal(rig_heap_free(rig), GIB);
}

static void host_memory_takes_no_heap_and_a_reservation_its_page_tables(void **state)
{
        struct rig *rig = *state;

        assert_int_equal(rig_memory_as(rig, MEMORY, RM_CLASS_HOST_MEMORY, 100 * MIB, ATTR_HOST), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB);
        assert_int_equal(rig_memory_as(rig, MEMORY + 1, 0x50a0, 16 * GIB, 0), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 34944 * KIB); /* as measured, H200, 580.159.04 */
        assert_int_equal(rig_free(rig, MEMORY + 1), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB);
}

static void devices_have_heaps_of_their_own(void **state)
{
        struct rig *rig = *state, other = *rig;

        rig_begin(&other, 1);
        assert_int_equal(rig_memory(&other, MEMORY, 100 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB);
        assert_int_equal(rig_heap_free(&other), GIB - 100 * MIB);
        rig_end(&other);
}

/* ---- the heap's own calls -------------------------------------------------------------------- */

static uint32_t heap_call(const struct rig *rig, uint32_t function, unsigned char block[static 184])
{
        rm_put32(block, 184, 0, rig->client);
        rm_put32(block, 184, 4, DEVICE);
        rm_put32(block, 184, 8, function);
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_VID_HEAP, block, 184), 0);
        return rm_get32(block, 184, 20);
}

static void the_heaps_own_calls_allocate_tell_and_free(void **state)
{
        struct rig *rig = *state;
        unsigned char block[184] = { 0 };

        rm_put32(block, sizeof(block), 40, rig->client);
        rm_put32(block, sizeof(block), 44, MEMORY);
        rm_put32(block, sizeof(block), 56, ATTR);
        rm_put64(block, sizeof(block), 88, 3 * MIB);
        assert_int_equal(heap_call(rig, 2, block), RM_STATUS_OK);
        assert_int_equal(rm_get64(block, sizeof(block), 88), 4 * MIB);
        assert_int_equal(rm_get64(block, sizeof(block), 112), 4 * MIB - 1);
        assert_int_equal(rm_get64(block, sizeof(block), 24), 0); /* totals are not told here */

        memset(block, 0, sizeof(block));
        assert_int_equal(heap_call(rig, 5, block), RM_STATUS_OK);
        assert_int_equal(rm_get64(block, sizeof(block), 24), GIB);
        assert_int_equal(rm_get64(block, sizeof(block), 32), GIB - 4 * MIB);
        assert_int_equal(rm_get64(block, sizeof(block), 56), GIB - 4 * MIB);

        memset(block, 0, sizeof(block));
        rm_put32(block, sizeof(block), 44, MEMORY);
        assert_int_equal(heap_call(rig, 3, block), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB);
        assert_int_equal(heap_call(rig, 27, block), 0x2a);
}

static void the_heap_picks_the_class_by_what_is_asked(void **state)
{
        struct rig *rig = *state;
        unsigned char block[184] = { 0 };

        rm_put32(block, sizeof(block), 40, rig->client);
        rm_put32(block, sizeof(block), 52, RM_FLAG_VIRTUAL);
        rm_put64(block, sizeof(block), 88, 100 * GIB);
        assert_int_equal(heap_call(rig, 2, block), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB);
        rm_put32(block, sizeof(block), 44, 0);
        rm_put32(block, sizeof(block), 52, 0);
        rm_put32(block, sizeof(block), 56, ATTR_HOST);
        rm_put64(block, sizeof(block), 88, MIB);
        assert_int_equal(heap_call(rig, 2, block), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void every_holder_sees_the_same_bytes(void **state)
{
        struct rig *rig = *state;
        uint32_t second = rig_client(rig, rig->ctl, 0);
        uint64_t size = 0, other_size = 0;
        int fd, other;
        char text[6] = { 0 };

        assert_int_equal(rig_memory(rig, MEMORY, 2 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_dup(rig, rig->ctl, second, DEVICE, MEMORY, rig->client, MEMORY), RM_STATUS_OK);
        fd = sim_gpu_backing(rig->ctl, rig->client, MEMORY, &size);
        other = sim_gpu_backing(rig->ctl, second, MEMORY, &other_size);
        assert_true(fd >= 0 && other >= 0);
        assert_int_equal(size, 2 * MIB);
        assert_int_equal(other_size, 2 * MIB);
        assert_int_equal(pwrite(fd, "hello", 5, 4096), 5);
        assert_int_equal(pread(other, text, 5, 4096), 5);
        assert_string_equal(text, "hello");
        assert_int_equal(sim_gpu_backing(rig->ctl, rig->client, 0x77, &size), -ENOENT);
        assert_int_equal(sim_gpu_backing(rig->ctl, 0xc1d0ffff, MEMORY, &size), -ENOENT);
        close(fd), close(other);
}

/* Whoever still has it mapped: no byte of a tenant outlives its memory. */
static void bytes_go_with_the_memory(void **state)
{
        struct rig *rig = *state;
        uint64_t size;
        int fd;
        char *at;

        assert_int_equal(rig_memory(rig, MEMORY, 2 * MIB), RM_STATUS_OK);
        fd = sim_gpu_backing(rig->ctl, rig->client, MEMORY, &size);
        at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_ptr_not_equal(at, MAP_FAILED);
        memset(at, 'x', size);
        assert_int_equal(rig_free(rig, MEMORY), RM_STATUS_OK);
        assert_int_equal(at[0], 0);
        assert_int_equal(at[size - 1], 0);
        (void)munmap(at, size);
        close(fd);
}

static void a_mapping_shows_the_memory(void **state)
{
        struct rig *rig = *state;
        uint64_t size;
        char *at, byte = 0;
        int fd;

        assert_int_equal(rig_memory_as(rig, MEMORY, RM_CLASS_HOST_MEMORY, 8192, ATTR_HOST), RM_STATUS_OK);
        at = rig_map(rig, MEMORY, 8192);
        at[5000] = 'y';
        fd = sim_gpu_backing(rig->ctl, rig->client, MEMORY, &size);
        assert_int_equal(pread(fd, &byte, 1, 5000), 1);
        assert_int_equal(byte, 'y');
        (void)munmap(at, 8192);
        close(fd);
}

static uint32_t map_on(const struct rig *rig, int fd, uint32_t memory, uint64_t offset, uint64_t length)
{
        unsigned char block[56] = { 0 };

        rm_put32(block, sizeof(block), 0, rig->client);
        rm_put32(block, sizeof(block), 4, DEVICE);
        rm_put32(block, sizeof(block), 8, memory);
        rm_put64(block, sizeof(block), 16, offset);
        rm_put64(block, sizeof(block), 24, length);
        rm_put32(block, sizeof(block), 48, (uint32_t)fd);
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_MAP_MEMORY, block, sizeof(block)), 0);
        return rm_get32(block, sizeof(block), 40);
}

static void a_mapping_must_fit_and_be_prepared(void **state)
{
        struct rig *rig = *state;
        int fd = rig_open(rig, "nvidiactl"), uvm = rig_open(rig, "nvidia-uvm");
        bool is_uvm;

        assert_int_equal(rig_memory(rig, MEMORY, 2 * MIB), RM_STATUS_OK);
        assert_int_equal(sim_mmap(fd, NULL, 4096, PROT_READ, MAP_SHARED, 0, &is_uvm), -EINVAL);
        assert_int_equal(map_on(rig, fd, MEMORY, 0, 2 * MIB + 1), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(map_on(rig, fd, MEMORY, UINT64_MAX, 2), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(map_on(rig, fd, 0x77, 0, 4096), RM_STATUS_OBJECT_NOT_FOUND);
        assert_int_equal(map_on(rig, uvm, MEMORY, 0, 4096), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(map_on(rig, -1, MEMORY, 0, 4096), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(map_on(rig, fd, MEMORY, MIB, 2608), RM_STATUS_OK); /* mmap maps whole pages */
        assert_int_equal(sim_mmap(fd, NULL, 8192, PROT_READ, MAP_SHARED, 0, &is_uvm), -EINVAL);
        assert_int_equal(munmap((void *)sim_mmap(fd, NULL, 4096, PROT_READ, MAP_SHARED, 0, &is_uvm), 4096), 0);
        close(fd), close(uvm);
}

/* rm_create_mmap_context compares the process. */
static void only_the_process_of_the_client_maps(void **state)
{
        struct rig *rig = *state;

        assert_int_equal(rig_memory(rig, MEMORY, 2 * MIB), RM_STATUS_OK);
        rig_in_child(_exit(map_on(rig, rig_open(rig, "nvidiactl"), MEMORY, 0, 4096) != RM_STATUS_INVALID_CLIENT));
}

static void the_page_of_live_figures_tells_the_devices_own(void **state)
{
        struct rig *rig = *state;
        unsigned char params[8] = { 0 }, *page;

        assert_int_equal(rig_memory(rig, MEMORY, 100 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_alloc(rig, SUBDEVICE, MEMORY + 1, RM_CLASS_USER_DATA, params), RM_STATUS_OK);
        page = rig_map(rig, MEMORY + 1, 4096);
        assert_int_equal(rm_get64(page, 4096, 24), GIB);
        assert_int_equal(rm_get64(page, 4096, 32), GIB - 100 * MIB);
        assert_int_equal(rig_memory(rig, MEMORY + 2, 2 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 102 * MIB);
        assert_int_equal(rm_get64(page, 4096, 32), GIB - 102 * MIB);
        assert_int_equal(rig_free(rig, MEMORY + 2), RM_STATUS_OK);
        (void)munmap(page, 4096);
        assert_int_equal(rig_free(rig, MEMORY + 1), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 100 * MIB);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(memory_takes_and_gives_back),
                RIG_TEST(the_real_size_is_told),
                RIG_TEST(a_full_device_says_so_and_takes_nothing),
                RIG_TEST(what_the_driver_does_not_accept_is_refused),
                RIG_TEST(host_memory_takes_no_heap_and_a_reservation_its_page_tables),
                RIG_TEST(devices_have_heaps_of_their_own),
                RIG_TEST(the_heaps_own_calls_allocate_tell_and_free),
                RIG_TEST(the_heap_picks_the_class_by_what_is_asked),
                RIG_TEST(every_holder_sees_the_same_bytes),
                RIG_TEST(bytes_go_with_the_memory),
                RIG_TEST(a_mapping_shows_the_memory),
                RIG_TEST(a_mapping_must_fit_and_be_prepared),
                RIG_TEST(only_the_process_of_the_client_maps),
                RIG_TEST(the_page_of_live_figures_tells_the_devices_own),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
