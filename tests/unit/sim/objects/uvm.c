/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/rig.h"

/* A VA space of its own, with device 0 registered. */
struct space {
        struct rig *rig;
        int fd;
};

enum {
        BASE = 0x10000000,
        ILLEGAL = 0x16,
        IN_USE = 0x68,
};

static uint32_t uvm_call(const struct space *space, uint32_t request, void *block, size_t size, size_t status_at)
{
        assert_int_equal(sim_ioctl(space->fd, &space->rig->layout, request, block), 0);
        return rm_get32(block, size, status_at);
}

static uint32_t initialize(const struct space *space, uint64_t flags)
{
        unsigned char block[16] = { 0 };

        rm_put64(block, sizeof(block), 0, flags);
        return uvm_call(space, UVM_INITIALIZE, block, sizeof(block), 8);
}

static uint32_t register_gpu(const struct space *space, unsigned int index)
{
        unsigned char block[40] = { 0 };

        gpu_uuid(index, block);
        rm_put32(block, sizeof(block), 24, (uint32_t)space->rig->ctl);
        rm_put32(block, sizeof(block), 28, space->rig->client);
        return uvm_call(space, UVM_REGISTER_GPU, block, sizeof(block), 36);
}

static struct space space_open(struct rig *rig)
{
        struct space space = { rig, rig_open(rig, "nvidia-uvm") };

        assert_int_equal(initialize(&space, 0), RM_STATUS_OK);
        assert_int_equal(register_gpu(&space, 0), RM_STATUS_OK);
        return space;
}

/* Calls of { base, length, status@16 }. */
static uint32_t range_call(const struct space *space, uint32_t request, uint64_t base, uint64_t length)
{
        unsigned char block[24] = { 0 };

        rm_put64(block, sizeof(block), 0, base);
        rm_put64(block, sizeof(block), 8, length);
        return uvm_call(space, request, block, sizeof(block), 16);
}

static uint32_t map_external(const struct space *space, uint64_t base, uint64_t length, uint32_t client,
                             uint32_t memory, int ctl)
{
        static unsigned char block[9264];

        memset(block, 0, sizeof(block));
        rm_put64(block, sizeof(block), 0, base);
        rm_put64(block, sizeof(block), 8, length);
        rm_put32(block, sizeof(block), 9248, (uint32_t)ctl);
        rm_put32(block, sizeof(block), 9252, client);
        rm_put32(block, sizeof(block), 9256, memory);
        return uvm_call(space, UVM_MAP_EXTERNAL, block, sizeof(block), 9260);
}

static uint32_t unmap_external(const struct space *space, uint64_t base, uint64_t length)
{
        unsigned char block[40] = { 0 };

        rm_put64(block, sizeof(block), 0, base);
        rm_put64(block, sizeof(block), 8, length);
        return uvm_call(space, UVM_UNMAP_EXTERNAL, block, sizeof(block), 32);
}

static uint32_t semaphore_pool(const struct space *space, uint64_t base, uint64_t length)
{
        static unsigned char block[9248];

        memset(block, 0, sizeof(block));
        rm_put64(block, sizeof(block), 0, base);
        rm_put64(block, sizeof(block), 8, length);
        return uvm_call(space, UVM_SEMAPHORE_POOL, block, sizeof(block), 9240);
}

/* Memory of the rig, mapped at BASE. */
static void map_memory(const struct space *space, bytes size)
{
        assert_int_equal(rig_memory(space->rig, MEMORY, size), RM_STATUS_OK);
        assert_int_equal(range_call(space, UVM_CREATE_EXTERNAL, BASE, size), RM_STATUS_OK);
        assert_int_equal(map_external(space, BASE, size, space->rig->client, MEMORY, space->rig->ctl), RM_STATUS_OK);
}

/* ---- external -------------------------------------------------------------------------------- */

static void a_mapping_holds_memory_that_is_freed(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig);

        map_memory(&space, 100 * MIB);
        assert_int_equal(rig_free(rig, MEMORY), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 100 * MIB - RIG_REGISTERED);
        assert_int_equal(range_call(&space, UVM_FREE, BASE, 100 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - RIG_REGISTERED);
        close(space.fd);
}

static void unmapping_releases_too_and_so_does_the_end_of_the_space(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig);

        map_memory(&space, 100 * MIB);
        assert_int_equal(rig_free(rig, MEMORY), RM_STATUS_OK);
        assert_int_equal(unmap_external(&space, BASE, 100 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - RIG_REGISTERED);

        assert_int_equal(rig_memory(rig, MEMORY, 50 * MIB), RM_STATUS_OK);
        assert_int_equal(map_external(&space, BASE, 50 * MIB, rig->client, MEMORY, rig->ctl), RM_STATUS_OK);
        assert_int_equal(rig_free(rig, MEMORY), RM_STATUS_OK);
        close(space.fd);
        rig_expect_free(rig, GIB);
}

static void a_new_mapping_replaces_what_was_there(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig);

        map_memory(&space, 10 * MIB);
        assert_int_equal(rig_memory(rig, MEMORY + 1, 10 * MIB), RM_STATUS_OK);
        assert_int_equal(map_external(&space, BASE, 10 * MIB, rig->client, MEMORY + 1, rig->ctl), RM_STATUS_OK);
        assert_int_equal(rig_free(rig, MEMORY), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 10 * MIB - RIG_REGISTERED);
        /* The same once more: it must not go away in between. */
        assert_int_equal(map_external(&space, BASE, 10 * MIB, rig->client, MEMORY + 1, rig->ctl), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 10 * MIB - RIG_REGISTERED);
        close(space.fd);
}

static void ranges_do_not_overlap(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig);

        assert_int_equal(range_call(&space, UVM_CREATE_EXTERNAL, BASE, 4 * MIB), RM_STATUS_OK);
        assert_int_equal(range_call(&space, UVM_CREATE_EXTERNAL, BASE + MIB, 4 * MIB), IN_USE);
        assert_int_equal(range_call(&space, UVM_CREATE_EXTERNAL, BASE - MIB, 8 * MIB), IN_USE);
        assert_int_equal(range_call(&space, UVM_CREATE_EXTERNAL, BASE + 4 * MIB, MIB), RM_STATUS_OK);
        assert_int_equal(range_call(&space, UVM_CREATE_EXTERNAL, BASE + 1, MIB), SIM_STATUS_INVALID_ADDRESS);
        assert_int_equal(range_call(&space, UVM_CREATE_EXTERNAL, BASE + 64 * MIB, 0), SIM_STATUS_INVALID_ADDRESS);
        assert_int_equal(range_call(&space, UVM_CREATE_EXTERNAL, UINT64_MAX - 4095, 8192), SIM_STATUS_INVALID_ADDRESS);
        close(space.fd);
}

static void mapping_wants_a_range_and_ones_own_memory(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig);

        assert_int_equal(rig_memory(rig, MEMORY, 4 * MIB), RM_STATUS_OK);
        assert_int_equal(map_external(&space, BASE, 4 * MIB, rig->client, MEMORY, rig->ctl),
                         SIM_STATUS_INVALID_ADDRESS);
        assert_int_equal(range_call(&space, UVM_CREATE_EXTERNAL, BASE, 8 * MIB), RM_STATUS_OK);
        rig_in_child(_exit(map_external(&space, BASE, 4 * MIB, rig->client, MEMORY, rig->ctl) !=
                           RM_STATUS_INSUFFICIENT_PERMISSIONS));
        assert_int_equal(map_external(&space, BASE, 4 * MIB, rig->client, MEMORY, -1),
                         RM_STATUS_OK); /* not looked at */
        assert_int_equal(map_external(&space, BASE, 4 * MIB, 0xc1d0ffff, MEMORY, rig->ctl),
                         RM_STATUS_INVALID_OBJECT_HANDLE);
        assert_int_equal(map_external(&space, BASE, 4 * MIB, rig->client, 0x77, rig->ctl), RM_STATUS_OBJECT_NOT_FOUND);
        assert_int_equal(map_external(&space, BASE, 8 * MIB, rig->client, MEMORY, rig->ctl),
                         RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(range_call(&space, UVM_FREE, BASE + MIB, MIB), SIM_STATUS_INVALID_ADDRESS);
        close(space.fd);
}

static void a_space_that_was_not_initialized_does_nothing(void **state)
{
        struct rig *rig = *state;
        struct space space = { rig, rig_open(rig, "nvidia-uvm") };

        assert_int_equal(range_call(&space, UVM_CREATE_EXTERNAL, BASE, MIB), ILLEGAL);
        assert_int_equal(register_gpu(&space, 0), ILLEGAL);
        assert_int_equal(initialize(&space, 0), RM_STATUS_OK);
        assert_int_equal(register_gpu(&space, 7), 0x12);
        close(space.fd);
}

static void a_second_descriptor_ties_its_mm(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig), second = { rig, rig_open(rig, "nvidia-uvm") };
        unsigned char block[8] = { 0 };

        rm_put32(block, sizeof(block), 0, (uint32_t)space.fd);
        assert_int_equal(uvm_call(&second, UVM_MM_INITIALIZE, block, sizeof(block), 4), RM_STATUS_OK);
        rm_put32(block, sizeof(block), 0, (uint32_t)rig->ctl);
        assert_int_equal(uvm_call(&second, UVM_MM_INITIALIZE, block, sizeof(block), 4), RM_STATUS_INVALID_ARGUMENT);
        close(space.fd), close(second.fd);
}

/* ---- managed --------------------------------------------------------------------------------- */

/* An address that is free here, reserved so that MAP_FIXED may go there. */
static char *address_of(size_t size)
{
        char *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        assert_ptr_not_equal(at, MAP_FAILED);
        return at;
}

static intptr_t map_managed(const struct space *space, char *at, size_t size)
{
        bool is_uvm = false;
        intptr_t r = sim_mmap(space->fd, at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                              (int64_t)(intptr_t)at, &is_uvm);

        assert_true(r < 0 || is_uvm);
        return r;
}

static void managed_memory_takes_the_heap_until_it_is_unmapped(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig);
        char *at = address_of(100 * MIB);

        assert_int_equal(map_managed(&space, at, 100 * MIB), (intptr_t)at);
        at[0] = at[100 * MIB - 1] = 'x';
        assert_int_equal(rig_heap_free(rig), GIB - 100 * MIB - RIG_REGISTERED);
        assert_int_equal(range_call(&space, 72, (uintptr_t)at, 100 * MIB), RM_STATUS_OK);
        assert_return_code(munmap(at, 100 * MIB), errno);
        assert_int_equal(sim_munmap(space.fd, at, 100 * MIB), 0);
        assert_int_equal(rig_heap_free(rig), GIB - RIG_REGISTERED);
        assert_int_equal(range_call(&space, 72, (uintptr_t)at, 100 * MIB), SIM_STATUS_INVALID_ADDRESS);
        close(space.fd);
}

static void managed_memory_is_called_so_in_maps(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig);
        char *at = address_of(2 * MIB), line[512];
        FILE *maps;
        bool is_there = false;

        assert_int_equal(map_managed(&space, at, 2 * MIB), (intptr_t)at);
        maps = fopen("/proc/self/maps", "r");
        while (fgets(line, sizeof(line), maps))
                is_there |= strtoull(line, NULL, 16) == (uintptr_t)at && strstr(line, "nvidia-uvm");
        (void)fclose(maps);
        assert_true(is_there);
        (void)munmap(at, 2 * MIB);
        close(space.fd);
}

static void managed_memory_overcommits_and_gives_way(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig);
        char *at = address_of(3 * GIB);

        assert_int_equal(map_managed(&space, at, 3 * GIB), (intptr_t)at);
        assert_int_equal(rig_heap_free(rig), 0);
        assert_int_equal(rig_memory(rig, MEMORY, 200 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), 0);
        (void)munmap(at, 3 * GIB);
        assert_int_equal(sim_munmap(space.fd, at, 3 * GIB), 0);
        assert_int_equal(rig_heap_free(rig), GIB - 200 * MIB - RIG_REGISTERED);
        close(space.fd);
}

static void a_part_that_is_unmapped_comes_back(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig);
        char *at = address_of(100 * MIB);

        assert_int_equal(map_managed(&space, at, 100 * MIB), (intptr_t)at);
        assert_int_equal(sim_munmap(space.fd, at + 60 * MIB, 40 * MIB), 0);
        assert_int_equal(rig_heap_free(rig), GIB - 60 * MIB - RIG_REGISTERED);
        assert_int_equal(sim_munmap(space.fd, at, 20 * MIB), 0);
        assert_int_equal(rig_heap_free(rig), GIB - 40 * MIB - RIG_REGISTERED);
        assert_int_equal(sim_munmap(space.fd, at, 100 * MIB), 0);
        assert_int_equal(rig_heap_free(rig), GIB - RIG_REGISTERED);
        (void)munmap(at, 100 * MIB);
        close(space.fd);
}

static void the_end_of_a_space_returns_managed_memory(void **state)
{
        struct rig *rig = *state;

        rig_in_child(struct space space = space_open(rig); char *at = address_of(64 * MIB);
                     if (map_managed(&space, at, 64 * MIB) != (intptr_t)at ||
                         rig_heap_free(rig) != GIB - 64 * MIB - RIG_REGISTERED) _exit(1));
        rig_expect_free(rig, GIB);
}

static void a_mapping_of_the_node_is_as_the_driver_wants_it(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig), fresh = { rig, rig_open(rig, "nvidia-uvm") };
        char *at = address_of(4 * MIB);
        bool is_uvm;

        assert_int_equal(map_managed(&fresh, at, MIB), -EBADFD);
        assert_int_equal(sim_mmap(space.fd, at, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, 0, &is_uvm),
                         -EINVAL);
        assert_int_equal(sim_mmap(space.fd, at, MIB, PROT_READ, MAP_SHARED | MAP_FIXED, (intptr_t)at, &is_uvm),
                         -EINVAL);
        assert_int_equal(
                sim_mmap(space.fd, at, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, (intptr_t)at, &is_uvm),
                -EINVAL);
        assert_int_equal(range_call(&space, UVM_CREATE_EXTERNAL, (uintptr_t)at, 2 * MIB), RM_STATUS_OK);
        assert_int_equal(map_managed(&space, at, MIB), -EINVAL); /* another range is there */
        assert_int_equal(rig_heap_free(rig), GIB - RIG_REGISTERED);
        (void)munmap(at, 4 * MIB);
        close(space.fd), close(fresh.fd);
}

static void only_the_process_of_the_space_maps_unless_it_is_shared(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig), shared = { rig, rig_open(rig, "nvidia-uvm") };
        char *at = address_of(2 * MIB);

        assert_int_equal(initialize(&shared, 2), RM_STATUS_OK);
        rig_in_child(_exit(map_managed(&space, at, 2 * MIB) != -EOPNOTSUPP));
        rig_in_child(_exit(map_managed(&shared, at, 2 * MIB) != (intptr_t)at));
        (void)munmap(at, 2 * MIB);
        close(space.fd), close(shared.fd);
}

static void a_semaphore_pool_is_mapped_and_takes_no_heap(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig);
        char *at = address_of(2 * MIB);

        assert_int_equal(semaphore_pool(&space, (uintptr_t)at, 2 * MIB), RM_STATUS_OK);
        assert_int_equal(map_managed(&space, at, MIB), -EINVAL); /* only whole */
        assert_int_equal(map_managed(&space, at, 2 * MIB), (intptr_t)at);
        at[4096] = 'x';
        assert_int_equal(rig_heap_free(rig), GIB - RIG_REGISTERED);
        assert_int_equal(range_call(&space, UVM_FREE, (uintptr_t)at, 2 * MIB), RM_STATUS_OK);
        (void)munmap(at, 2 * MIB);
        close(space.fd);
}

/* NV_PROCESSOR_UUID_CPU_DEFAULT (nvCpuUuid.c) */
static const uint8_t host[16] = { 0xa6, 0x5e, 0x0f, 0x4e, 0xd7, 0xd4, 0x7b, 0xa2,
                                  0x50, 0x47, 0x41, 0x2c, 0x14, 0x2a, 0x77, 0x73 };

static void managed_memory_moves_to_the_device_that_is_told(void **state)
{
        struct rig *rig = *state, other = *rig;
        struct space space = space_open(rig);
        char *at = address_of(10 * MIB);
        unsigned char block[80] = { 0 };

        rig_begin(&other, 1);
        assert_int_equal(map_managed(&space, at, 10 * MIB), (intptr_t)at);
        rm_put64(block, sizeof(block), 0, (uintptr_t)at);
        rm_put64(block, sizeof(block), 8, 10 * MIB);
        gpu_uuid(1, block + 16);
        assert_int_equal(uvm_call(&space, 51, block, sizeof(block), 72), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - RIG_REGISTERED);
        assert_int_equal(rig_heap_free(&other), GIB - 10 * MIB);
        memcpy(block + 16, host, 16);
        assert_int_equal(uvm_call(&space, 51, block, sizeof(block), 72), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(&other), GIB);
        (void)munmap(at, 10 * MIB);
        rig_end(&other);
        close(space.fd);
}

static uint32_t to_host(const struct space *space, uint64_t base, uint64_t length, uint32_t flags)
{
        unsigned char block[80] = { 0 };

        rm_put64(block, sizeof(block), 0, base);
        rm_put64(block, sizeof(block), 8, length);
        memcpy(block + 16, host, 16);
        rm_put32(block, sizeof(block), 32, flags);
        return uvm_call(space, 51, block, sizeof(block), 72);
}

static void a_part_of_managed_memory_leaves_the_device_and_no_more_is_taken_for_it(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig);
        char *at = address_of(20 * MIB);
        uint64_t base = (uintptr_t)at;

        assert_int_equal(map_managed(&space, at, 10 * MIB), (intptr_t)at);
        assert_int_equal(map_managed(&space, at + 10 * MIB, 4 * MIB), (intptr_t)at + 10 * (intptr_t)MIB);
        assert_int_equal(to_host(&space, base, 4 * MIB, 0), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 10 * MIB - RIG_REGISTERED);
        assert_int_equal(to_host(&space, base, 4 * MIB, 0), RM_STATUS_OK); /* it is there */
        assert_int_equal(rig_heap_free(rig), GIB - 10 * MIB - RIG_REGISTERED);
        assert_int_equal(to_host(&space, base + 8 * MIB, 4 * MIB, 0), RM_STATUS_OK); /* of both */
        assert_int_equal(rig_heap_free(rig), GIB - 6 * MIB - RIG_REGISTERED);
        assert_int_equal(to_host(&space, base, 20 * MIB, 0), SIM_STATUS_INVALID_ADDRESS);
        assert_int_equal(to_host(&space, base + 16 * MIB, MIB, 0), SIM_STATUS_INVALID_ADDRESS);
        assert_int_equal(to_host(&space, base + 1, MIB, 0), SIM_STATUS_INVALID_ADDRESS);
        assert_int_equal(to_host(&space, base, 0, 0), SIM_STATUS_INVALID_ADDRESS);
        assert_int_equal(to_host(&space, base, MIB, 2), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(rig_heap_free(rig), GIB - 6 * MIB - RIG_REGISTERED);
        rig_order(rig, "migrate-refused-at=1");
        assert_int_equal(to_host(&space, base + 4 * MIB, 4 * MIB, 0), RM_STATUS_NO_MEMORY);
        assert_int_equal(rig_heap_free(rig), GIB - 4 * MIB - RIG_REGISTERED);
        assert_int_equal(to_host(&space, base, 14 * MIB, 0), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - RIG_REGISTERED);
        (void)munmap(at, 20 * MIB);
        close(space.fd);
}

static void the_rest_of_the_calls_of_a_start_answer_ok(void **state)
{
        struct rig *rig = *state;
        struct space space = space_open(rig);
        unsigned char block[80] = { 0 };

        assert_int_equal(uvm_call(&space, 39, block, 8, 4), RM_STATUS_OK);
        assert_int_equal(uvm_call(&space, 23, block, 16, 8), RM_STATUS_OK);
        assert_int_not_equal(rm_get64(block, 16, 0), 0);
        assert_int_equal(uvm_call(&space, 25, block, 32, 28), RM_STATUS_OK);
        assert_int_equal(uvm_call(&space, 27, block, 56, 48), RM_STATUS_OK);
        rm_put64(block, 40, 0, BASE);
        rm_put64(block, 40, 8, 2 * MIB);
        assert_int_equal(uvm_call(&space, 65, block, 40, 32), RM_STATUS_OK);
        assert_int_equal(range_call(&space, UVM_FREE, BASE, 2 * MIB), RM_STATUS_OK);
        assert_int_equal(sim_ioctl(space.fd, &rig->layout, UVM_DEINITIALIZE, NULL), 0);
        assert_int_equal(uvm_call(&space, 39, block, 8, 4), RM_STATUS_OK);       /* it does nothing */
        assert_int_equal(sim_ioctl(space.fd, &rig->layout, 62, block), -EINVAL); /* a tool's */
        close(space.fd);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(a_mapping_holds_memory_that_is_freed),
                RIG_TEST(unmapping_releases_too_and_so_does_the_end_of_the_space),
                RIG_TEST(a_new_mapping_replaces_what_was_there),
                RIG_TEST(ranges_do_not_overlap),
                RIG_TEST(mapping_wants_a_range_and_ones_own_memory),
                RIG_TEST(a_space_that_was_not_initialized_does_nothing),
                RIG_TEST(a_second_descriptor_ties_its_mm),
                RIG_TEST(managed_memory_takes_the_heap_until_it_is_unmapped),
                RIG_TEST(managed_memory_is_called_so_in_maps),
                RIG_TEST(managed_memory_overcommits_and_gives_way),
                RIG_TEST(a_part_that_is_unmapped_comes_back),
                RIG_TEST(the_end_of_a_space_returns_managed_memory),
                RIG_TEST(a_mapping_of_the_node_is_as_the_driver_wants_it),
                RIG_TEST(only_the_process_of_the_space_maps_unless_it_is_shared),
                RIG_TEST(a_semaphore_pool_is_mapped_and_takes_no_heap),
                RIG_TEST(managed_memory_moves_to_the_device_that_is_told),
                RIG_TEST(a_part_of_managed_memory_leaves_the_device_and_no_more_is_taken_for_it),
                RIG_TEST(the_rest_of_the_calls_of_a_start_answer_ok),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
