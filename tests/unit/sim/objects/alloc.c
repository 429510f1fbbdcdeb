/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/rig.h"

static void clients_get_growing_handles(void **state)
{
        struct rig *rig = *state;
        uint32_t second = rig_client(rig, rig->ctl, 0), third = rig_client(rig, rig->ctl, 1);

        assert_int_equal(rig->client & 0xfff00000, 0xc1d00000);
        assert_true(second > rig->client && third > second);
}

/* docs/rm-abi.md 7: the file that made the client, or a device file registered to it; nobody else. */
static void a_client_belongs_to_its_file(void **state)
{
        struct rig *rig = *state;
        int other = rig_open(rig, "nvidiactl"), device = rig_open(rig, "nvidia0"), copy = dup(rig->ctl);
        unsigned char params[128] = { 0 };
        int32_t number = other;

        assert_int_equal(rig_free_in(rig, other, rig->client, MEMORY), RM_STATUS_INVALID_CLIENT);
        assert_int_equal(rig_free_in(rig, device, rig->client, MEMORY), RM_STATUS_INVALID_CLIENT);
        assert_int_equal(rig_free_in(rig, copy, rig->client, MEMORY), RM_STATUS_OK);
        assert_int_equal(rig_free_in(rig, rig->node, rig->client, MEMORY), RM_STATUS_OK);
        assert_int_equal(rig_call(rig, device, RM_NR_REGISTER_FD, &number, sizeof(number)), 0);
        assert_int_equal(rig_free_in(rig, device, rig->client, MEMORY), RM_STATUS_INVALID_CLIENT);
        assert_int_equal(rig_alloc_in(rig, other, rig->client, DEVICE, MEMORY, RM_CLASS_VIDEO_MEMORY, params),
                         RM_STATUS_INVALID_CLIENT);
        close(other), close(device), close(copy);
}

static void a_device_file_registers_once_and_to_a_control_file(void **state)
{
        struct rig *rig = *state;
        int other = rig_open(rig, "nvidiactl"), device = rig_open(rig, "nvidia0");
        int32_t number = device;

        assert_int_equal(rig_call(rig, device, RM_NR_REGISTER_FD, &number, sizeof(number)), -EINVAL);
        number = 9999;
        assert_int_equal(rig_call(rig, device, RM_NR_REGISTER_FD, &number, sizeof(number)), -EINVAL);
        number = other;
        assert_int_equal(rig_call(rig, rig->node, RM_NR_REGISTER_FD, &number, sizeof(number)), -EINVAL);
        assert_int_equal(rig_call(rig, other, RM_NR_REGISTER_FD, &number, sizeof(number)), -EINVAL);
        number = rig->ctl;
        assert_int_equal(rig_call(rig, rig->node, RM_NR_REGISTER_FD, &number, sizeof(number)), 0);
        close(other), close(device);
}

static void the_order_of_refusals_is_the_drivers(void **state)
{
        struct rig *rig = *state;
        unsigned char device[56] = { 0 }, subdevice[4] = { 0 };

        assert_int_equal(rig_alloc(rig, 77, MEMORY, 0xbeef, NULL), RM_STATUS_INVALID_CLASS);
        assert_int_equal(rig_alloc(rig, 77, MEMORY, RM_CLASS_DEVICE, device), SIM_STATUS_INVALID_PARENT);
        assert_int_equal(rig_alloc(rig, rig->client, DEVICE, RM_CLASS_DEVICE, device), SIM_STATUS_DUPLICATE);
        assert_int_equal(rig_alloc(rig, DEVICE, MEMORY, RM_CLASS_DEVICE, device), SIM_STATUS_INVALID_PARENT);
        rm_put32(device, sizeof(device), 0, 2);
        assert_int_equal(rig_alloc(rig, rig->client, MEMORY, RM_CLASS_DEVICE, device), SIM_STATUS_INVALID_DEVICE);
        assert_int_equal(rig_alloc(rig, rig->client, MEMORY, RM_CLASS_SUBDEVICE, subdevice), SIM_STATUS_INVALID_PARENT);
        rm_put32(subdevice, sizeof(subdevice), 0, 1);
        assert_int_equal(rig_alloc(rig, DEVICE, MEMORY, RM_CLASS_SUBDEVICE, subdevice), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(rig_memory(rig, MEMORY, MIB), RM_STATUS_OK); /* nothing was left behind */
}

static void handle_0_is_picked_and_told(void **state)
{
        struct rig *rig = *state;
        unsigned char block[48] = { 0 };

        rm_put32(block, sizeof(block), 0, rig->client);
        rm_put32(block, sizeof(block), 4, DEVICE);
        rm_put32(block, sizeof(block), 12, 0x90f1);
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_ALLOC, block, sizeof(block)), 0);
        assert_int_equal(rm_get32(block, sizeof(block), 40), RM_STATUS_OK);
        assert_int_not_equal(rm_get32(block, sizeof(block), 8), 0);
        assert_int_equal(rig_free(rig, rm_get32(block, sizeof(block), 8)), RM_STATUS_OK);
}

static void the_short_block_allocates_too(void **state)
{
        struct rig *rig = *state;
        unsigned char block[32] = { 0 }, params[128] = { 0 };

        rm_put32(params, sizeof(params), 0, rig->client);
        rm_put32(params, sizeof(params), 24, ATTR);
        rm_put64(params, sizeof(params), 64, 2 * MIB);
        rm_put32(block, sizeof(block), 0, rig->client);
        rm_put32(block, sizeof(block), 4, DEVICE);
        rm_put32(block, sizeof(block), 8, MEMORY);
        rm_put32(block, sizeof(block), 12, RM_CLASS_VIDEO_MEMORY);
        rm_put64(block, sizeof(block), 16, (uintptr_t)params);
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_ALLOC, block, sizeof(block)), 0);
        assert_int_equal(rm_get32(block, sizeof(block), 28), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 2 * MIB);
}

static void freeing_what_is_not_there_is_fine(void **state)
{
        assert_int_equal(rig_free(*state, 0x12345678), RM_STATUS_OK);
}

/* CUDA's normal exit frees only the device. */
static void a_device_takes_its_memory_along(void **state)
{
        struct rig *rig = *state;
        uint32_t first = rig->client;

        assert_int_equal(rig_memory(rig, MEMORY, 100 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_free(rig, DEVICE), RM_STATUS_OK);
        rig->client = rig_client(rig, rig->ctl, 0);
        assert_int_equal(rig_heap_free(rig), GIB);
        assert_int_equal(rig_free_in(rig, rig->ctl, first, first), RM_STATUS_OK);
        assert_int_equal(rig_free_in(rig, rig->ctl, first, first), RM_STATUS_INVALID_CLIENT);
}

static void the_last_close_takes_everything_along(void **state)
{
        struct rig *rig = *state, other = *rig;

        rig_begin(&other, 0);
        assert_int_equal(rig_memory(&other, MEMORY, 100 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 100 * MIB);
        close(other.node);
        close(other.ctl);
        rig_expect_free(rig, GIB);
}

static void a_registered_device_file_keeps_the_control_file(void **state)
{
        struct rig *rig = *state, other = *rig;

        rig_begin(&other, 0);
        assert_int_equal(rig_memory(&other, MEMORY, 100 * MIB), RM_STATUS_OK);
        close(other.ctl);
        (void)usleep(20000);
        assert_int_equal(rig_heap_free(rig), GIB - 100 * MIB);
        close(other.node);
        rig_expect_free(rig, GIB);
}

static void a_fork_shares_the_file_and_a_death_gives_back(void **state)
{
        struct rig *rig = *state;

        rig_in_child(struct rig other = *rig; rig_begin(&other, 0); if (rig_memory(&other, MEMORY, MIB)) _exit(1));
        rig_expect_free(rig, GIB);
        rig_in_child(if (rig_memory(rig, MEMORY, 2 * MIB)) _exit(1));
        (void)usleep(20000);
        assert_int_equal(rig_heap_free(rig), GIB - 2 * MIB); /* the parent has the file */
        assert_int_equal(rig_free(rig, MEMORY), RM_STATUS_OK);
}

/* ---- second handles -------------------------------------------------------------------------- */

static void a_dup_holds_the_memory(void **state)
{
        struct rig *rig = *state;
        uint32_t second = rig_client(rig, rig->ctl, 0);

        assert_int_equal(rig_memory(rig, MEMORY, 100 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_dup(rig, rig->ctl, second, DEVICE, MEMORY, rig->client, MEMORY), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 100 * MIB);
        assert_int_equal(rig_free(rig, MEMORY), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 100 * MIB);
        assert_int_equal(rig_free_in(rig, rig->ctl, second, MEMORY), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB);
}

static void bogus_sources_of_a_dup_have_their_own_answers(void **state)
{
        struct rig *rig = *state;

        assert_int_equal(rig_dup(rig, rig->ctl, rig->client, DEVICE, MEMORY, 0xc1d0ffff, MEMORY),
                         RM_STATUS_INVALID_OBJECT_HANDLE);
        assert_int_equal(rig_dup(rig, rig->ctl, rig->client, DEVICE, MEMORY, rig->client, 0x77),
                         RM_STATUS_OBJECT_NOT_FOUND);
        assert_int_equal(rig_dup(rig, rig->ctl, rig->client, DEVICE, MEMORY, rig->client, rig->client),
                         RM_STATUS_OBJECT_NOT_FOUND);
        assert_int_equal(rig_dup(rig, rig->ctl, 0xc1d0ffff, DEVICE, MEMORY, rig->client, MEMORY),
                         RM_STATUS_INVALID_CLIENT);
}

/* The source client need not be the caller's; the process that made it decides. */
static void only_the_same_process_may_dup_by_default(void **state)
{
        struct rig *rig = *state;
        int other = rig_open(rig, "nvidiactl");

        assert_int_equal(rig_memory(rig, MEMORY, 2 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_dup(rig, other, rig_client(rig, other, 0), DEVICE, MEMORY, rig->client, MEMORY),
                         RM_STATUS_OK);
        rig_in_child(int mine = rig_open(rig, "nvidiactl"); uint32_t client = rig_client(rig, mine, 0);
                     _exit(rig_dup(rig, mine, client, DEVICE, MEMORY, rig->client, MEMORY) !=
                           RM_STATUS_INSUFFICIENT_PERMISSIONS));
        close(other);
}

static uint32_t share(const struct rig *rig, uint32_t object, uint32_t type, uint32_t action)
{
        unsigned char block[24] = { 0 };

        rm_put32(block, sizeof(block), 0, rig->client);
        rm_put32(block, sizeof(block), 4, object);
        rm_put32(block, sizeof(block), 12, 1); /* the right to dup */
        rm_put32(block, sizeof(block), 16, type | action << 16);
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_SHARE, block, sizeof(block)), 0);
        return rm_get32(block, sizeof(block), 20);
}

static uint32_t dup_by_another_process(const struct rig *rig, uint32_t object)
{
        int status = 0;
        pid_t child = fork();

        if (child == 0) {
                int mine = rig_open(rig, "nvidiactl");

                _exit((int)rig_dup(rig, mine, rig_client(rig, mine, 0), DEVICE, MEMORY + 7, rig->client, object));
        }
        (void)waitpid(child, &status, 0);
        return (uint32_t)WEXITSTATUS(status);
}

static void an_owner_can_widen_and_narrow_who_may_dup(void **state)
{
        struct rig *rig = *state;

        assert_int_equal(rig_memory(rig, MEMORY, 2 * MIB), RM_STATUS_OK);
        assert_int_equal(rig_memory(rig, MEMORY + 1, 2 * MIB), RM_STATUS_OK);
        assert_int_equal(share(rig, MEMORY, 1, 0), RM_STATUS_OK);
        assert_int_equal(dup_by_another_process(rig, MEMORY), RM_STATUS_OK);
        assert_int_equal(dup_by_another_process(rig, MEMORY + 1), RM_STATUS_INSUFFICIENT_PERMISSIONS);
        assert_int_equal(share(rig, MEMORY, 1, 1), RM_STATUS_OK); /* revoked */
        assert_int_equal(dup_by_another_process(rig, MEMORY), RM_STATUS_INSUFFICIENT_PERMISSIONS);
        assert_int_equal(share(rig, MEMORY, 2, 0), RM_STATUS_OK); /* the same user: all containers are uid 0 */
        assert_int_equal(dup_by_another_process(rig, MEMORY), RM_STATUS_OK);
        assert_int_equal(share(rig, 0x77, 1, 0), RM_STATUS_OBJECT_NOT_FOUND);
        assert_int_equal(share(rig, MEMORY, 99, 0), RM_STATUS_INVALID_ARGUMENT);
}

static void a_policy_of_the_client_is_inherited(void **state)
{
        struct rig *rig = *state;
        unsigned char policy[12] = { 0 };

        rm_put32(policy, sizeof(policy), 4, 1); /* the right to dup, */
        rm_put32(policy, sizeof(policy), 8, 1); /* for all */
        assert_int_equal(rig_control(rig, rig->client, 0xd04, policy, sizeof(policy)), RM_STATUS_OK);
        assert_int_equal(rig_memory(rig, MEMORY, 2 * MIB), RM_STATUS_OK);
        assert_int_equal(dup_by_another_process(rig, MEMORY), RM_STATUS_OK);
}

static uint32_t debug(const struct rig *rig, int ctl, uint32_t client, uint32_t handle)
{
        unsigned char session[12] = { 0 };

        rm_put32(session, sizeof(session), 4, rig->client);
        return rig_alloc_in(rig, ctl, client, DEVICE, handle, 0x83de, session);
}

/* As on an H200: a debugger is another client, and has its right from the program's. */
static void who_may_debug_is_told_by_the_program(void **state)
{
        struct rig *rig = *state;
        unsigned char policy[12] = { 0 };
        int mine = rig_open(rig, "nvidiactl");
        uint32_t debugger = rig_client(rig, mine, 0);

        assert_int_equal(debug(rig, rig->ctl, rig->client, 0x90), RM_STATUS_OK);
        assert_int_equal(debug(rig, mine, debugger, 0x91), RM_STATUS_INSUFFICIENT_PERMISSIONS);
        rm_put32(policy, sizeof(policy), 0, debugger);
        rm_put32(policy, sizeof(policy), 4, 4);           /* the right to debug, */
        rm_put32(policy, sizeof(policy), 8, 3 | 4 << 16); /* for this client, besides what there is */
        assert_int_equal(rig_control(rig, rig->client, 0xd04, policy, sizeof(policy)), RM_STATUS_OK);
        assert_int_equal(debug(rig, mine, debugger, 0x91), RM_STATUS_OK);
        close(mine);
}

/* ---- request 0x27 ---------------------------------------------------------------------------- */

static uint32_t old_memory(const struct rig *rig, int fd, uint32_t class_number, uint64_t *limit)
{
        unsigned char block[56] = { 0 };

        rm_put32(block, sizeof(block), 0, rig->client);
        rm_put32(block, sizeof(block), 4, DEVICE);
        rm_put32(block, sizeof(block), 8, MEMORY);
        rm_put32(block, sizeof(block), 12, class_number);
        rm_put64(block, sizeof(block), 32, *limit);
        rm_put32(block, sizeof(block), 48, UINT32_MAX);
        assert_int_equal(rig_call(rig, fd, RM_NR_ALLOC_MEMORY, block, sizeof(block)), 0);
        *limit = rm_get64(block, sizeof(block), 32);
        return rm_get32(block, sizeof(block), 40);
}

static void the_old_request_makes_host_memory_and_dummies(void **state)
{
        struct rig *rig = *state;
        uint64_t limit = 4 * MIB - 1;

        assert_int_equal(old_memory(rig, rig->ctl, RM_CLASS_HOST_MEMORY, &limit), RM_STATUS_INVALID_ARGUMENT);
        assert_int_equal(old_memory(rig, rig->node, RM_CLASS_OS_DESCRIPTOR, &limit), RM_STATUS_OK);
        assert_int_equal(rig_free(rig, MEMORY), RM_STATUS_OK);
        assert_int_equal(old_memory(rig, rig->node, RM_CLASS_DEVICE, &limit), RM_STATUS_INVALID_CLASS);
        assert_int_equal(old_memory(rig, rig->node, 0x3f, &limit), RM_STATUS_OK); /* registers: no memory */
        assert_int_equal(rig_free(rig, MEMORY), RM_STATUS_OK);
        assert_int_equal(old_memory(rig, rig->node, 0x70, &limit), RM_STATUS_OK); /* nothing at all */
        assert_int_equal(rig_free(rig, MEMORY), RM_STATUS_OK);
        assert_int_equal(limit, 4 * MIB - 1);
        assert_int_equal(old_memory(rig, rig->node, RM_CLASS_VIDEO_MEMORY, &limit), RM_STATUS_OK);
        assert_int_equal(limit, GIB - 1); /* the whole device's: a leak, not an allocation */
        assert_int_equal(rig_heap_free(rig), GIB);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(clients_get_growing_handles),
                RIG_TEST(a_client_belongs_to_its_file),
                RIG_TEST(a_device_file_registers_once_and_to_a_control_file),
                RIG_TEST(the_order_of_refusals_is_the_drivers),
                RIG_TEST(handle_0_is_picked_and_told),
                RIG_TEST(the_short_block_allocates_too),
                RIG_TEST(freeing_what_is_not_there_is_fine),
                RIG_TEST(a_device_takes_its_memory_along),
                RIG_TEST(the_last_close_takes_everything_along),
                RIG_TEST(a_registered_device_file_keeps_the_control_file),
                RIG_TEST(a_fork_shares_the_file_and_a_death_gives_back),
                RIG_TEST(a_dup_holds_the_memory),
                RIG_TEST(bogus_sources_of_a_dup_have_their_own_answers),
                RIG_TEST(only_the_same_process_may_dup_by_default),
                RIG_TEST(an_owner_can_widen_and_narrow_who_may_dup),
                RIG_TEST(a_policy_of_the_client_is_inherited),
                RIG_TEST(who_may_debug_is_told_by_the_program),
                RIG_TEST(the_old_request_makes_host_memory_and_dummies),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
