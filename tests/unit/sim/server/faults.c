/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/rig.h"

#include "base/clock.h"

#include <sys/socket.h>
#include <sys/un.h>

static void a_fault_is_a_known_name_and_a_number(void **state)
{
        struct faults faults = { 0 };
        enum fault fault;
        uint64_t value;

        (void)state;
        assert_int_equal(fault_parse("slow-control=500", &faults, &fault, &value), 0);
        assert_int_equal(faults.slow_control, 500);
        assert_int_equal(fault, FAULT_slow_control);
        assert_int_equal(value, 500);
        assert_int_equal(fault_parse("slow-control", &faults, &fault, &value), -EINVAL);
        assert_int_equal(fault_parse("slow-control=", &faults, &fault, &value), -EINVAL);
        assert_int_equal(fault_parse("slow-control=-1", &faults, &fault, &value), -EINVAL);
        assert_int_equal(fault_parse("slow=1", &faults, &fault, &value), -EINVAL);
        assert_int_equal(fault_parse("slow-control2=1", &faults, &fault, &value), -EINVAL);
        assert_int_equal(fault_parse("=1", &faults, &fault, &value), -EINVAL);
        assert_non_null(strstr(fault_help(), "lost-gpu"));
}

static void a_running_machine_takes_orders(void **state)
{
        struct rig *rig = *state;

        rig_order_expect(rig, "nonsense", "no such fault");
        rig_order_expect(rig, "lost-gpu=9", "no such fault");
        rig_order_expect(rig, "slow-control=0", "");
        assert_int_equal(rig_heap_free(rig), GIB);
}

static void slow_controls_answer_late_and_delay_nobody_else(void **state)
{
        struct rig *rig = *state;
        nsec began;
        int status, said[2];
        pid_t child;
        char byte;

        assert_int_equal(pipe(said), 0);
        rig_order_expect(rig, "slow-control=60000", "");
        began = clock_now();
        assert_int_equal(rig_heap_free(rig), GIB);
        assert_true(clock_now() - began >= 60 * NSEC_PER_MSEC);

        rig_order_expect(rig, "slow-control=2000000", "");
        child = fork();
        assert_return_code(child, errno);
        if (child == 0) {
                (void)!write(said[1], "", 1);
                (void)rig_heap_free(rig);
                _exit(0);
        }
        assert_int_equal(read(said[0], &byte, 1), 1);
        (void)usleep(10000); /* that the control is under way; if it is not yet, nothing is tested, and nothing fails */
        assert_int_equal(rig_memory(rig, MEMORY, MIB), RM_STATUS_OK); /* no control */
        assert_int_equal(waitpid(child, &status, WNOHANG), 0);        /* which is answered first */
        assert_int_equal(waitpid(child, &status, 0), child);
        (void)close(said[0]);
        (void)close(said[1]);
        assert_int_equal(status, 0);
}

static void the_nth_allocation_fails(void **state)
{
        struct rig *rig = *state;

        rig_order_expect(rig, "oom-at=2", "");
        assert_int_equal(rig_memory(rig, MEMORY, MIB), RM_STATUS_OK);
        assert_int_equal(rig_memory(rig, MEMORY + 1, MIB), RM_STATUS_NO_MEMORY);
        assert_int_equal(rig_memory(rig, MEMORY + 1, MIB), RM_STATUS_OK);
}

/* The machine's log holds the text. */
static bool is_logged(const struct rig *rig, const char *text)
{
        char path[128], line[256];
        bool is_there = false;
        FILE *log;

        (void)snprintf(path, sizeof(path), "%s/log", rig->directory);
        log = fopen(path, "r");
        while (log && fgets(line, sizeof(line), log))
                is_there |= strstr(line, text) != NULL;
        if (log)
                (void)fclose(log);
        return is_there;
}

static void a_lost_device_answers_nothing_else_and_wakes_everybody(void **state)
{
        struct rig *rig = *state, other = *rig;
        unsigned char params[1028] = { 0 }, event[16] = { 0 }, data[24] = { 0 }, what[16] = { 0 };
        struct sim_gpu gpu = {
                .op = SIM_GPU_LAUNCH, .client = rig->client, .object = CHANNEL, .duration = 1u << 30, .value = 1
        };
        struct pollfd heard = { .fd = rig->node, .events = POLLIN };
        uint64_t place;

        (void)rig_channel(rig, GROUP, CHANNEL);
        rm_put32(event, sizeof(event), 0, rig->client);
        rm_put32(event, sizeof(event), 8, (uint32_t)rig->node);
        assert_int_equal(rig_call(rig, rig->node, RM_NR_ALLOC_EVENT, event, sizeof(event)), 0);
        rm_put32(data, sizeof(data), 16, (uint32_t)rig->node);
        assert_int_equal(rig_alloc(rig, SUBDEVICE, MEMORY + 9, RM_CLASS_OS_EVENT, data), RM_STATUS_OK);
        rm_put32(data, sizeof(data), 16, 77);
        assert_int_equal(rig_alloc(rig, SUBDEVICE, MEMORY + 8, RM_CLASS_OS_EVENT, data), SIM_STATUS_INVALID_EVENT);
        assert_int_equal(poll(&heard, 1, 0), 0);

        assert_int_equal(sim_gpu_send(rig->ctl, &gpu), 0);
        rig_order_expect(rig, "lost-gpu=0", "");
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, CHANNEL, 1, SIM_FOREVER, NULL), -ENODEV);
        assert_int_equal(poll(&heard, 1, -1), 1);
        rm_put64(what, sizeof(what), 0, (uintptr_t)&place);
        memset(what, 0, sizeof(what));
        assert_int_equal(rig_call(rig, rig->node, RM_NR_EVENT_DATA, what, sizeof(what)), 0);
        assert_int_equal(rm_get32(what, sizeof(what), 12), RM_STATUS_OK);
        assert_int_equal(poll(&heard, 1, 0), 0);
        assert_int_equal(rig_call(rig, rig->node, RM_NR_EVENT_DATA, what, sizeof(what)), 0);
        assert_int_equal(rm_get32(what, sizeof(what), 12), 0xffff);

        assert_int_equal(rig_memory(rig, MEMORY, MIB), SIM_STATUS_GPU_IS_LOST);
        assert_int_equal(rig_control(rig, SUBDEVICE, RM_FB_GET_INFO_V2, params, sizeof(params)),
                         SIM_STATUS_GPU_IS_LOST);
        assert_int_equal(rig_free(rig, DEVICE), RM_STATUS_OK);
        assert_int_equal(sim_open(rig->directory, "nvidia0", 0), -EIO);
        assert_true(is_logged(rig, "Xid (PCI:0000:01:00): 79"));
        rig_begin(&other, 1); /* the neighbour does not notice */
        assert_int_equal(rig_heap_free(&other), GIB);
        rig_end(&other);
}

static void a_device_can_be_lost_later(void **state)
{
        struct rig *rig = *state;
        uint32_t status = RM_STATUS_OK;

        rig_order_expect(rig, "lost-gpu-after=50", "");
        assert_int_equal(rig_memory(rig, MEMORY, MIB), RM_STATUS_OK);
        for (int i = 0; i < 1000 && status == RM_STATUS_OK; i++) {
                (void)usleep(1000);
                status = rig_memory(rig, MEMORY + 1, MIB);
                (void)rig_free(rig, MEMORY + 1);
        }
        assert_int_equal(status, SIM_STATUS_GPU_IS_LOST);
}

static void an_xid_stops_who_is_on_the_device_and_nobody_else(void **state)
{
        struct rig *rig = *state, other = *rig;
        struct sim_gpu gpu = {
                .op = SIM_GPU_LAUNCH, .client = rig->client, .object = CHANNEL, .duration = 1u << 30, .value = 1
        };

        (void)rig_channel(rig, GROUP, CHANNEL);
        rig_begin(&other, 0);
        (void)rig_channel(&other, GROUP, CHANNEL);
        assert_int_equal(sim_gpu_send(rig->ctl, &gpu), 0);
        rig_order_expect(rig, "xid=31", "");
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, CHANNEL, 1, SIM_FOREVER, NULL), -EIO);
        gpu.client = other.client;
        gpu.duration = 1000;
        assert_int_equal(sim_gpu_send(other.ctl, &gpu), 0);
        assert_int_equal(sim_gpu_wait(other.ctl, other.client, CHANNEL, 1, SIM_FOREVER, NULL), 0);
        assert_true(is_logged(rig, "): 31, pid="));
        rig_end(&other);
}

static void a_stuck_device_does_not_let_go(void **state)
{
        struct rig *rig = *state;
        struct sim_gpu gpu = {
                .op = SIM_GPU_LAUNCH, .client = rig->client, .object = CHANNEL, .duration = 1000, .value = 1
        };

        (void)rig_channel(rig, GROUP, CHANNEL);
        rig_order_expect(rig, "stuck=1", "");
        assert_int_equal(sim_gpu_send(rig->ctl, &gpu), 0);
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, CHANNEL, 1, 30000000, NULL), -ETIMEDOUT);
        rig_order_expect(rig, "stuck=0", "");
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, CHANNEL, 1, SIM_FOREVER, NULL), 0);
}

static void faults_can_be_there_from_the_start(void **state)
{
        static const char *const faults[] = { "oom-at=1", NULL };
        struct rig rig = { 0 };

        (void)state;
        rig_start_with(&rig, 1, 1 * GIB, faults);
        rig_begin(&rig, 0);
        assert_int_equal(rig_memory(&rig, MEMORY, MIB), RM_STATUS_NO_MEMORY);
        rig_end(&rig);
        rig_stop(&rig);
}

static void realistic_steering_takes_its_time_and_its_effect_comes_with_it(void **state)
{
        struct rig *rig = *state;
        unsigned char off[536] = { 1 }, slice[8] = { 0 };
        struct sim_gpu gpu = { .op = SIM_GPU_LAUNCH, .client = rig->client, .object = CHANNEL, .value = 1 };
        nsec began;

        (void)rig_channel(rig, GROUP, CHANNEL);
        rm_put32(off, sizeof(off), 4, 1);
        rm_put32(off, sizeof(off), 24, rig->client);
        rm_put32(off, sizeof(off), 280, CHANNEL);
        rig_order(rig, "real-time=1");
        began = clock_now();
        assert_int_equal(rig_control(rig, SUBDEVICE, RM_DISABLE_CHANNELS, off, sizeof(off)), RM_STATUS_OK);
        assert_true(clock_now() - began >= 600000);
        assert_int_equal(sim_gpu_send(rig->ctl, &gpu), 0);
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, CHANNEL, 1, 20000000, NULL), -ETIMEDOUT);
        off[0] = 0;
        began = clock_now();
        assert_int_equal(rig_control(rig, SUBDEVICE, RM_DISABLE_CHANNELS, off, sizeof(off)), RM_STATUS_OK);
        assert_true(clock_now() - began >= 300000);
        assert_int_equal(sim_gpu_wait(rig->ctl, rig->client, CHANNEL, 1, SIM_FOREVER, NULL), 0);
        rm_put64(slice, sizeof(slice), 0, 5000);
        assert_int_equal(rig_control(rig, GROUP, RM_SET_TIMESLICE, slice, sizeof(slice)), RM_STATUS_OK);
        assert_int_equal(rig_control(rig, GROUP, 0xa06c0104, slice, sizeof(slice)), RM_STATUS_OK);
        assert_int_equal(rm_get64(slice, sizeof(slice), 0), 5000);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_fault_is_a_known_name_and_a_number),
                RIG_TEST(a_running_machine_takes_orders),
                RIG_TEST(slow_controls_answer_late_and_delay_nobody_else),
                RIG_TEST(the_nth_allocation_fails),
                RIG_TEST(a_lost_device_answers_nothing_else_and_wakes_everybody),
                RIG_TEST(a_device_can_be_lost_later),
                RIG_TEST(an_xid_stops_who_is_on_the_device_and_nobody_else),
                RIG_TEST(a_stuck_device_does_not_let_go),
                RIG_TEST(realistic_steering_takes_its_time_and_its_effect_comes_with_it),
                cmocka_unit_test(faults_can_be_there_from_the_start),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
