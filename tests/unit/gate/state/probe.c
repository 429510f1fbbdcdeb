/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/fake.h"

#include "gate/state/probe.h"

struct rig {
        struct fake *fake;
        struct gate_driver driver;
        struct rm_layout layout;
        struct probe probe;
        struct lease lease;
};

static int open_rig(void **state)
{
        struct rig *rig = calloc(1, sizeof(*rig));

        if (!rig)
                return -1;
        rig->fake = fake_new(16 * GIB);
        rig->driver = fake_driver(rig->fake);
        rig->layout = layout_of(580, 159, 4);
        *state = rig;
        return probe_init(&rig->probe, &rig->driver, &rig->layout);
}

static int close_rig(void **state)
{
        struct rig *rig = *state;

        probe_done(&rig->probe);
        free(rig->fake);
        free(rig);
        return 0;
}

static void devices_are_found_in_the_order_of_the_bus(void **state)
{
        struct rig *rig = *state;

        assert_int_equal(probe_devices(&rig->probe, &rig->lease), 0);
        assert_int_equal(rig->lease.n_devices, FAKE_DEVICES);
        assert_int_equal(rig->lease.devices[0].gpu_id, 0x200); /* bus 0x0f */
        assert_int_equal(rig->lease.devices[0].minor, 1);
        assert_int_equal(rig->lease.devices[0].instance, 2);
        assert_int_equal(rig->lease.devices[1].gpu_id, 0x100);
        assert_int_equal(rig->lease.devices[1].minor, 0);
        for (size_t i = 0; i < FAKE_DEVICES; i++) {
                assert_int_equal(rig->lease.devices[i].total, 16 * GIB);
                assert_false(rig->lease.devices[i].is_granted);
        }
}

static void a_client_is_there_until_its_process_ends(void **state)
{
        struct rig *rig = *state;

        assert_true(probe_client(&rig->probe, rig->probe.client));
        assert_false(probe_client(&rig->probe, 0xc1d0ffff));
        assert_false(probe_client(&rig->probe, 0));
        rig->fake->clients[rig->fake->n_clients].handle = 0xc1d00bad;
        rig->fake->clients[rig->fake->n_clients++].owner = 0;
        assert_false(probe_client(&rig->probe, 0xc1d00bad));
}

static int no_answer(void *context, int fd, uint32_t request, void *block)
{
        (void)context;
        (void)fd;
        (void)request;
        (void)block;
        return -EIO;
}

static void a_client_is_there_when_in_doubt(void **state)
{
        struct rig *rig = *state;

        rig->driver.ioctl = no_answer;
        assert_true(probe_client(&rig->probe, 0xc1d0ffff));
        assert_int_equal(probe_devices(&rig->probe, &rig->lease), -EIO);
}

static int no_numa_info(void *context, int fd, uint32_t request, void *block)
{
        return (request & 0xff) == RM_NR_NUMA_INFO ? -EBUSY : fake_ioctl(context, fd, request, block);
}

static void a_device_of_which_the_driver_does_not_tell_may_be_a_node_of_the_hosts(void **state)
{
        struct rig *rig = *state;

        assert_int_equal(probe_devices(&rig->probe, &rig->lease), 0);
        assert_false(rig->lease.devices[0].is_node);
        probe_done(&rig->probe);
        assert_int_equal(probe_init(&rig->probe, &rig->driver, &rig->layout), 0);
        rig->driver.ioctl = no_numa_info;
        assert_int_equal(probe_devices(&rig->probe, &rig->lease), 0);
        assert_true(rig->lease.devices[0].is_node);
}

static void a_driver_that_makes_no_client_is_no_driver(void **state)
{
        struct gate_driver driver = { NULL, fake_node, no_answer, fake_open, NULL };
        struct rig *rig = *state;
        struct probe probe;

        assert_true(probe_init(&probe, &driver, &rig->layout) < 0);
        assert_int_equal(probe.ctl, -1);
}

static int no_node(void *context, const char *node)
{
        (void)context;
        (void)node;
        return -EACCES;
}

static void a_node_that_does_not_open_says_why(void **state)
{
        struct rig *rig = *state;
        struct probe probe;

        rig->driver.open = no_node;
        assert_int_equal(probe_init(&probe, &rig->driver, &rig->layout), -EACCES);
        assert_int_equal(probe_devices(&rig->probe, &rig->lease), -EACCES);
}

/* RM gives a client a device only if our process has its node open. */
static void only_granted_devices_stay_open(void **state)
{
        struct rig *rig = *state;
        struct probe gates;

        assert_int_equal(probe_devices(&rig->probe, &rig->lease), 0);
        rig->lease.devices[1].is_granted = true;
        assert_int_equal(probe_init(&gates, &rig->driver, &rig->layout), 0);
        assert_int_equal(probe_open_granted(&gates, &rig->lease), 0);
        assert_int_equal(gates.devices[0].fd, -1);
        assert_true(gates.devices[1].fd >= 0);
        probe_done(&gates);
}

static void figures_are_the_drivers(void **state)
{
        struct rig *rig = *state;
        bytes size;

        assert_int_equal(probe_devices(&rig->probe, &rig->lease), 0);
        (void)fake_put(rig->fake, &(struct fake_object){ .client = rig->probe.client, .size = 3 * GIB });
        assert_int_equal(probe_figure(&rig->probe, &rig->lease, 0, getpid(), &size), 0);
        assert_int_equal(size, 3 * GIB);
        rig->driver.ioctl = no_answer;
        assert_int_equal(probe_figure(&rig->probe, &rig->lease, 0, getpid(), &size), -EIO);
}

/* A descriptor that leaked would keep a device initialised for ever. */
static void nothing_stays_open(void **state)
{
        int before = dup(0), after;

        (void)state;
        (void)close(before);
        for (int i = 0; i < 3; i++) {
                void *rig;

                assert_int_equal(open_rig(&rig), 0);
                assert_int_equal(probe_devices(&((struct rig *)rig)->probe, &((struct rig *)rig)->lease), 0);
                assert_int_equal(close_rig(&rig), 0);
        }
        after = dup(0);
        (void)close(after);
        assert_int_equal(after, before);
}

#define probe_test(f) cmocka_unit_test_setup_teardown(f, open_rig, close_rig)

int main(void)
{
        const struct CMUnitTest tests[] = {
                probe_test(devices_are_found_in_the_order_of_the_bus),
                probe_test(a_client_is_there_until_its_process_ends),
                probe_test(a_client_is_there_when_in_doubt),
                probe_test(a_device_of_which_the_driver_does_not_tell_may_be_a_node_of_the_hosts),
                probe_test(a_driver_that_makes_no_client_is_no_driver),
                probe_test(a_node_that_does_not_open_says_why),
                probe_test(only_granted_devices_stay_open),
                probe_test(figures_are_the_drivers),
                cmocka_unit_test(nothing_stays_open),
        };

        return cmocka_run_group_tests_name("gate/state/probe", tests, NULL, NULL);
}
