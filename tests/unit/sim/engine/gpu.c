/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/rig.h"

#include "base/clock.h"

#define MS ((uint64_t)NSEC_PER_MSEC)

static uint64_t last; /* values only grow */

static uint64_t launch(const struct rig *rig, uint32_t channel, uint64_t duration)
{
        struct sim_gpu gpu = {
                .op = SIM_GPU_LAUNCH, .client = rig->client, .object = channel, .duration = duration, .value = ++last
        };

        assert_int_equal(sim_gpu_send(rig->ctl, &gpu), 0);
        return last;
}

static int wait_for(const struct rig *rig, uint32_t channel, uint64_t value)
{
        return sim_gpu_wait(rig->ctl, rig->client, channel, value, 10000 * MS, NULL);
}

static void a_launch_takes_its_time(void **state)
{
        struct rig *rig = *state;
        nsec began;
        uint64_t value, reached = 0;

        (void)rig_channel(rig, GROUP, CHANNEL);
        began = clock_now();
        value = launch(rig, CHANNEL, 20 * MS);
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, CHANNEL, value, 0, &reached), -ETIMEDOUT);
        assert_true(reached < value);
        assert_int_equal(wait_for(rig, CHANNEL, value), 0);
        assert_true(clock_now() - began >= 20 * NSEC_PER_MSEC);
        assert_true(clock_now() - began < 200 * NSEC_PER_MSEC);
}

static void waiting_has_an_end(void **state)
{
        struct rig *rig = *state;
        nsec began = clock_now();

        (void)rig_channel(rig, GROUP, CHANNEL);
        (void)launch(rig, CHANNEL, 5000 * MS);
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, CHANNEL, last, 30 * MS, NULL), -ETIMEDOUT);
        assert_true(clock_now() - began >= 30 * NSEC_PER_MSEC);
        assert_true(clock_now() - began < 2000 * NSEC_PER_MSEC);
}

static void a_group_stands_for_its_first_channel(void **state)
{
        struct rig *rig = *state;

        (void)rig_channel(rig, GROUP, CHANNEL);
        (void)launch(rig, GROUP, 1 * MS);
        assert_int_equal(wait_for(rig, CHANNEL, last), 0);
}

static void only_ones_own_channels_can_be_rung(void **state)
{
        struct rig *rig = *state;
        int other = rig_open(rig, "nvidiactl");

        (void)rig_channel(rig, GROUP, CHANNEL);
        assert_int_equal(sim_gpu_wait(other, rig->client, CHANNEL, 1, 0, NULL), -ENOENT);
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, 0x77, 1, 0, NULL), -ENOENT);
        assert_int_equal(sim_gpu_wait(rig->ctl, 0xc1d0ffff, CHANNEL, 1, 0, NULL), -ENOENT);
        close(other);
}

static void a_semaphore_is_written_when_the_launch_is_done(void **state)
{
        struct rig *rig = *state;
        struct sim_gpu gpu = { .op = SIM_GPU_LAUNCH,
                               .client = rig->client,
                               .object = CHANNEL,
                               .duration = 5 * MS,
                               .semaphore = MEMORY,
                               .semaphore_offset = 64 };
        volatile uint64_t *place;
        nsec began;
        char *at;

        (void)rig_channel(rig, GROUP, CHANNEL);
        assert_int_equal(rig_memory_as(rig, MEMORY, RM_CLASS_HOST_MEMORY, 4096, ATTR_HOST), RM_STATUS_OK);
        at = rig_map(rig, MEMORY, 4096);
        place = (volatile uint64_t *)(void *)(at + 64);
        began = clock_now();
        gpu.value = ++last;
        assert_int_equal(sim_gpu_send(rig->ctl, &gpu), 0);
        assert_int_equal(place[0], 0);
        assert_int_equal(wait_for(rig, CHANNEL, last), 0);
        assert_int_equal(place[0], last);
        assert_true((nsec)place[1] >= began + 5 * NSEC_PER_MSEC && (nsec)place[1] <= clock_now());
        (void)munmap(at, 4096);
}

static void a_semaphore_out_of_place_stops_the_channel(void **state)
{
        struct rig *rig = *state;
        struct sim_gpu gpu = { .op = SIM_GPU_LAUNCH,
                               .client = rig->client,
                               .object = CHANNEL,
                               .semaphore = MEMORY,
                               .semaphore_offset = 4096 - 8 };

        (void)rig_channel(rig, GROUP, CHANNEL);
        assert_int_equal(rig_memory_as(rig, MEMORY, RM_CLASS_HOST_MEMORY, 4096, ATTR_HOST), RM_STATUS_OK);
        gpu.value = ++last;
        assert_int_equal(sim_gpu_send(rig->ctl, &gpu), 0);
        assert_int_equal(wait_for(rig, CHANNEL, last), -EIO);
}

static void one_channel_waits_for_another(void **state)
{
        struct rig *rig = *state;
        struct sim_gpu gpu = { .op = SIM_GPU_LAUNCH,
                               .client = rig->client,
                               .object = CHANNEL + 1,
                               .after_client = rig->client,
                               .after_channel = CHANNEL };
        nsec began = clock_now();

        (void)rig_channel(rig, GROUP, CHANNEL);
        (void)rig_channel(rig, GROUP + 1, CHANNEL + 1);
        gpu.after_value = last + 2;
        gpu.value = last + 1;
        assert_int_equal(sim_gpu_send(rig->ctl, &gpu), 0);
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, CHANNEL + 1, gpu.value, 10 * MS, NULL), -ETIMEDOUT);
        last += 1;
        (void)launch(rig, CHANNEL, 10 * MS);
        assert_int_equal(wait_for(rig, CHANNEL + 1, gpu.value), 0);
        assert_true(clock_now() - began >= 20 * NSEC_PER_MSEC);
}

static void a_freed_channel_wakes_who_waits(void **state)
{
        struct rig *rig = *state;
        int status;
        pid_t child;

        (void)rig_channel(rig, GROUP, CHANNEL);
        (void)launch(rig, CHANNEL, 5000 * MS);
        child = fork();
        if (child == 0) {
                (void)usleep(30000);
                _exit((int)rig_free(rig, CHANNEL));
        }
        assert_int_equal(wait_for(rig, CHANNEL, last), -ENOENT);
        (void)waitpid(child, &status, 0);
        assert_int_equal(status, 0);
}

/* ---- steering -------------------------------------------------------------------------------- */

static uint32_t disable(const struct rig *rig, uint32_t client, uint32_t channel, bool is_disabled)
{
        static unsigned char params[536];

        memset(params, 0, sizeof(params));
        params[0] = is_disabled;
        rm_put32(params, sizeof(params), 4, 1);
        rm_put32(params, sizeof(params), 24, client);
        rm_put32(params, sizeof(params), 280, channel);
        return rig_control(rig, SUBDEVICE, RM_DISABLE_CHANNELS, params, sizeof(params));
}

static void a_channel_is_switched_off_and_on_by_anybody(void **state)
{
        struct rig *rig = *state, other = *rig;

        (void)rig_channel(rig, GROUP, CHANNEL);
        rig_begin(&other, 0);
        /* No owner is asked (docs/gpu.md 8). */
        assert_int_equal(disable(&other, rig->client, CHANNEL, true), RM_STATUS_OK);
        (void)launch(rig, CHANNEL, 1 * MS);
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, CHANNEL, last, 50 * MS, NULL), -ETIMEDOUT);
        assert_int_equal(disable(&other, rig->client, CHANNEL, false), RM_STATUS_OK);
        assert_int_equal(wait_for(rig, CHANNEL, last), 0);
        assert_int_equal(disable(&other, rig->client, 0x77, true), RM_STATUS_INVALID_CHANNEL);
        rig_end(&other);
}

static void timeslices_are_set_and_echoed(void **state)
{
        struct rig *rig = *state;
        uint64_t usec = 0;

        (void)rig_channel(rig, GROUP, CHANNEL);
        assert_int_equal(rig_control(rig, GROUP, 0xa06c0104, &usec, 8), RM_STATUS_OK);
        assert_int_equal(usec, 2048);
        usec = 200;
        assert_int_equal(rig_control(rig, GROUP, RM_SET_TIMESLICE, &usec, 8), RM_STATUS_OK);
        usec = 0;
        assert_int_equal(rig_control(rig, GROUP, 0xa06c0104, &usec, 8), RM_STATUS_OK);
        assert_int_equal(usec, 200);
        usec = 0;
        assert_int_equal(rig_control(rig, GROUP, RM_SET_TIMESLICE, &usec, 8), RM_STATUS_OK);
        (void)launch(rig, CHANNEL, 1 * MS);
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, CHANNEL, last, 30 * MS, NULL), -ETIMEDOUT);
        usec = UINT64_MAX;
        assert_int_equal(rig_control(rig, GROUP, RM_SET_TIMESLICE, &usec, 8), RM_STATUS_INVALID_ARGUMENT);
        usec = 1;
        assert_int_equal(rig_control(rig, GROUP, RM_SET_TIMESLICE, &usec, 8), RM_STATUS_OK);
        assert_int_equal(wait_for(rig, CHANNEL, last), 0);
}

static void slices_of_1_to_4_give_20_to_80(void **state)
{
        struct rig *rig = *state;
        uint64_t before[2] = { 0 }, after[2] = { 0 }, usec[2] = { 1000, 4000 }, did[2];

        for (uint32_t i = 0; i < 2; i++) {
                (void)rig_channel(rig, GROUP + i, CHANNEL + i);
                assert_int_equal(rig_control(rig, GROUP + i, RM_SET_TIMESLICE, &usec[i], 8), RM_STATUS_OK);
                assert_int_equal(disable(rig, rig->client, CHANNEL + i, true), RM_STATUS_OK);
        }
        for (uint32_t i = 0; i < 2; i++) {
                for (int n = 0; n < 3000; n++)
                        (void)launch(rig, CHANNEL + i, MS / 4);
        }
        for (uint32_t i = 0; i < 2; i++)
                assert_int_equal(disable(rig, rig->client, CHANNEL + i, false), RM_STATUS_OK);
        (void)usleep(20000); /* from here on both are there, however late this process came to it */
        for (uint32_t i = 0; i < 2; i++)
                (void)sim_gpu_wait(rig->ctl, rig->client, CHANNEL + i, UINT64_MAX, 0, &before[i]);
        (void)usleep(300000);
        for (uint32_t i = 0; i < 2; i++) {
                (void)sim_gpu_wait(rig->ctl, rig->client, CHANNEL + i, UINT64_MAX, 0, &after[i]);
                did[i] = after[i] - before[i];
        }
        assert_in_range(did[1] * 100 / (did[0] + did[1]), 75, 85);
}

static void a_group_wants_an_engine_and_a_device(void **state)
{
        struct rig *rig = *state;
        unsigned char params[368] = { 0 };

        assert_int_equal(rig_alloc(rig, DEVICE, GROUP, RM_CLASS_GROUP, params), RM_STATUS_INVALID_ARGUMENT);
        rm_put32(params, 20, 12, 0x54);
        assert_int_equal(rig_alloc(rig, DEVICE, GROUP, RM_CLASS_GROUP, params), RM_STATUS_INVALID_ARGUMENT);
        rm_put32(params, 20, 12, 1);
        assert_int_equal(rig_alloc(rig, SUBDEVICE, GROUP, RM_CLASS_GROUP, params), SIM_STATUS_INVALID_PARENT);
        assert_int_equal(rig_alloc(rig, DEVICE, GROUP, RM_CLASS_GROUP, params), RM_STATUS_OK);
        assert_int_equal(rig_alloc(rig, SUBDEVICE, CHANNEL, 0xc86f, params), SIM_STATUS_INVALID_PARENT);
        assert_int_equal(rig_alloc(rig, GROUP, CHANNEL, 0xc36f, params), RM_STATUS_OK); /* any class of channel */
        assert_int_equal(rig_alloc(rig, GROUP, CHANNEL + 1, 0xc86f, NULL), RM_STATUS_INVALID_ARGUMENT);
}

static void channels_have_numbers_of_their_own(void **state)
{
        struct rig *rig = *state;
        uint32_t first = rig_channel(rig, GROUP, CHANNEL), second = rig_channel(rig, GROUP + 1, CHANNEL + 1), cid = 0;

        assert_true(first && second && first != second);
        assert_int_equal(rig_control(rig, CHANNEL, 0xa06f0113, &cid, 4), RM_STATUS_OK);
        assert_int_equal(cid, first);
}

/* What no handle stands for: HEAP_FREE knows it, accounting by process does not (docs/rm-abi.md 2.1, 2.5). */
static void groups_and_channels_take_memory_and_give_it_back(void **state)
{
        struct rig *rig = *state;
        unsigned char params[20] = { 0 };

        (void)rig_channel(rig, GROUP, CHANNEL);
        assert_int_equal(rig_heap_free(rig), GIB - 4480 * KIB);
        assert_int_equal(rig_free(rig, CHANNEL), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB - 4416 * KIB);
        assert_int_equal(rig_free(rig, GROUP), RM_STATUS_OK);
        assert_int_equal(rig_heap_free(rig), GIB);
        assert_int_equal(rig_memory(rig, MEMORY, GIB - 2 * MIB), RM_STATUS_OK);
        rm_put32(params, sizeof(params), 12, 1);
        assert_int_equal(rig_alloc(rig, DEVICE, GROUP, RM_CLASS_GROUP, params), RM_STATUS_NO_MEMORY);
}

/* A channel goes with its context share, as the driver's registered dependants do. */
static void a_channel_goes_with_its_context_share(void **state)
{
        struct rig *rig = *state;
        unsigned char params[368] = { 0 }, share[12] = { 0 };

        rm_put32(params, 20, 12, 1);
        assert_int_equal(rig_alloc(rig, DEVICE, GROUP, RM_CLASS_GROUP, params), RM_STATUS_OK);
        assert_int_equal(rig_alloc(rig, GROUP, CHANNEL + 5, RM_CLASS_CONTEXT_SHARE, share), RM_STATUS_OK);
        memset(params, 0, sizeof(params));
        rm_put32(params, sizeof(params), 24, CHANNEL + 5);
        rm_put32(params, sizeof(params), 128, 1);
        assert_int_equal(rig_alloc(rig, GROUP, CHANNEL, 0xc86f, params), RM_STATUS_OK);
        assert_int_equal(rig_free(rig, CHANNEL + 5), RM_STATUS_OK);
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, CHANNEL, 1, 0, NULL), -ENOENT);
}

/* As on the device: put moves with a launch, get when the work begins. */
static void positions_of_a_ring_are_read_in_mapped_memory(void **state)
{
        struct rig *rig = *state;
        unsigned char params[368] = { 0 }, off[536] = { 1 }, schedule[3] = { 1 };
        struct sim_gpu gpu = { .op = SIM_GPU_LAUNCH, .client = rig->client, .object = CHANNEL, .duration = 1000 };
        const unsigned char *userd;

        assert_int_equal(rig_memory(rig, MEMORY, 2 * MIB), RM_STATUS_OK);
        rm_put32(params, 20, 12, 1);
        assert_int_equal(rig_alloc(rig, DEVICE, GROUP, RM_CLASS_GROUP, params), RM_STATUS_OK);
        memset(params, 0, sizeof(params));
        rm_put32(params, sizeof(params), 16, 4);
        rm_put32(params, sizeof(params), 32, MEMORY);
        rm_put64(params, sizeof(params), 64, 0x3000);
        assert_int_equal(rig_alloc(rig, GROUP, CHANNEL, 0xc86f, params), RM_STATUS_OK);
        assert_int_equal(rig_control(rig, GROUP, 0xa06c0101, schedule, sizeof(schedule)), RM_STATUS_OK);
        userd = (unsigned char *)rig_map(rig, MEMORY, 2 * MIB) + 0x3000;
        for (gpu.value = 1; gpu.value <= 5; gpu.value++)
                assert_int_equal(sim_gpu_send(rig->ctl, &gpu), 0);
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, CHANNEL, 5, SIM_FOREVER, NULL), 0);
        assert_int_equal(rm_get32(userd, 512, 0x8c), 5 % 4);
        assert_int_equal(rm_get32(userd, 512, 0x88), 5 % 4);

        rm_put32(off, sizeof(off), 4, 1);
        rm_put32(off, sizeof(off), 24, rig->client);
        rm_put32(off, sizeof(off), 280, CHANNEL);
        assert_int_equal(rig_control(rig, SUBDEVICE, RM_DISABLE_CHANNELS, off, sizeof(off)), RM_STATUS_OK);
        assert_int_equal(sim_gpu_send(rig->ctl, &gpu), 0);
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, CHANNEL, 6, 20000000, NULL), -ETIMEDOUT);
        assert_int_equal(rm_get32(userd, 512, 0x8c), 6 % 4);
        assert_int_equal(rm_get32(userd, 512, 0x88), 5 % 4);
        (void)munmap((void *)(uintptr_t)(userd - 0x3000), 2 * MIB);
}

/* Whether work of a group of that engine and work of a graphics group wait for each other. */
static bool shares_graphics(const struct rig *rig, uint32_t engine, uint32_t class_number)
{
        uint32_t group = GROUP + 0x100 + engine, channel = CHANNEL + 0x100 + engine;
        unsigned char params[16] = { 0 };
        uint64_t value;
        nsec began = clock_now();

        (void)rig_channel_of(rig, group, channel, engine);
        if (class_number)
                assert_int_equal(rig_alloc(rig, channel, channel + 0x1000, class_number, params), RM_STATUS_OK);
        value = launch(rig, channel, 100 * MS);
        (void)launch(rig, CHANNEL, 100 * MS);
        assert_int_equal(wait_for(rig, CHANNEL, last), 0);
        assert_int_equal(wait_for(rig, channel, value), 0);
        return clock_now() - began >= 200 * NSEC_PER_MSEC;
}

/* That they do not wait for each other is tried some times: a busy machine is late by itself. */
static void a_group_computes_on_the_graphics_engine_whatever_it_says(void **state)
{
        struct rig *rig = *state;

        (void)rig_channel(rig, GROUP, CHANNEL);
        assert_true(shares_graphics(rig, 9, 0)); /* copy engines 0 and 1 have the graphics run list */
        assert_true(shares_graphics(rig, 10, 0xc8b5));
        assert_true(shares_graphics(rig, 11, 0xcbc0));
        for (uint32_t engine = 12; engine < 18; engine++)
                if (!shares_graphics(rig, engine, 0xc8b5))
                        return;
        fail();
}

static void where_a_group_runs_is_settled_by_its_first_object(void **state)
{
        struct rig *rig = *state;
        unsigned char params[16] = { 0 };

        (void)rig_channel_of(rig, GROUP, CHANNEL, 11);
        assert_int_equal(rig_alloc(rig, CHANNEL, 0x5c000201, 0xc8b5, params), RM_STATUS_OK);
        assert_int_equal(rig_alloc(rig, CHANNEL, 0x5c000202, 0xcbc0, params), 0x40); /* measured, H100, 580.159.04 */
        assert_int_equal(rig_alloc(rig, CHANNEL, 0x5c000203, 0xc8b5, params), RM_STATUS_OK);
        (void)rig_channel_of(rig, GROUP + 1, CHANNEL + 1, 9); /* which has the graphics run list */
        assert_int_equal(rig_alloc(rig, CHANNEL + 1, 0x5c000204, 0xc8b5, params), RM_STATUS_OK);
        assert_int_equal(rig_alloc(rig, CHANNEL + 1, 0x5c000205, 0xcbc0, params), RM_STATUS_OK);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(a_launch_takes_its_time),
                RIG_TEST(positions_of_a_ring_are_read_in_mapped_memory),
                RIG_TEST(waiting_has_an_end),
                RIG_TEST(a_group_stands_for_its_first_channel),
                RIG_TEST(only_ones_own_channels_can_be_rung),
                RIG_TEST(a_semaphore_is_written_when_the_launch_is_done),
                RIG_TEST(a_semaphore_out_of_place_stops_the_channel),
                RIG_TEST(one_channel_waits_for_another),
                RIG_TEST(a_freed_channel_wakes_who_waits),
                RIG_TEST(a_channel_is_switched_off_and_on_by_anybody),
                RIG_TEST(timeslices_are_set_and_echoed),
                RIG_TEST(slices_of_1_to_4_give_20_to_80),
                RIG_TEST(a_group_wants_an_engine_and_a_device),
                RIG_TEST(channels_have_numbers_of_their_own),
                RIG_TEST(groups_and_channels_take_memory_and_give_it_back),
                RIG_TEST(a_channel_goes_with_its_context_share),
                RIG_TEST(a_group_computes_on_the_graphics_engine_whatever_it_says),
                RIG_TEST(where_a_group_runs_is_settled_by_its_first_object),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
