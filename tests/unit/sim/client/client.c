/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/rig.h"

#include "sim/client/wire.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

static void nodes_are_recognised_by_their_peer(void **state)
{
        struct rig *rig = *state;
        int uvm = rig_open(rig, "nvidia-uvm"), second = rig_open(rig, "nvidia1"), copy = dup(rig->ctl);
        uint32_t minor = 7;

        assert_int_equal(sim_node(rig->directory, rig->ctl, NULL), RM_NODE_CTL);
        assert_int_equal(sim_node(rig->directory, copy, &minor), RM_NODE_CTL);
        assert_int_equal(sim_node(rig->directory, uvm, NULL), RM_NODE_UVM);
        assert_int_equal(sim_node(rig->directory, second, &minor), RM_NODE_DEVICE);
        assert_int_equal(minor, 1);
        assert_int_equal(sim_node(NULL, second, NULL), RM_NODE_DEVICE);
        rig_in_child(_exit(sim_node(rig->directory, rig->ctl, NULL) != RM_NODE_CTL));
        close(uvm), close(second), close(copy);
}

static void other_descriptors_are_not_nodes(void **state)
{
        struct rig *rig = *state;
        int pair[2], file = open("/dev/null", O_RDONLY | O_CLOEXEC);

        assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), errno);
        assert_int_equal(sim_node(rig->directory, file, NULL), RM_NODE_OTHER);
        assert_int_equal(sim_node(rig->directory, pair[0], NULL), RM_NODE_OTHER);
        assert_int_equal(sim_node(rig->directory, 9999, NULL), RM_NODE_OTHER);
        assert_int_equal(sim_node("/tmp/elsewhere", rig->ctl, NULL), RM_NODE_OTHER);
        assert_int_equal(sim_ioctl(file, &rig->layout, RM_REQUEST(RM_NR_SYS_PARAMS, 8), NULL), -ENOTTY);
        close(file), close(pair[0]), close(pair[1]);
}

/* The path is right, the process that listens there is not the server. */
static void an_imitation_of_a_node_is_not_one(void **state)
{
        struct rig *rig = *state;
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/dev/nvidia9", rig->directory);
        assert_return_code(bind(listener, (struct sockaddr *)&address, sizeof(address)), errno);
        assert_return_code(listen(listener, 1), errno);
        assert_return_code(connect(fd, (struct sockaddr *)&address, sizeof(address)), errno);
        assert_int_equal(sim_node(NULL, fd, NULL), RM_NODE_DEVICE);
        assert_int_equal(sim_node(rig->directory, fd, NULL), RM_NODE_OTHER);
        close(fd), close(listener);
}

static void a_node_that_is_not_there_cannot_be_opened(void **state)
{
        struct rig *rig = *state;

        assert_int_equal(sim_open(rig->directory, "nvidia7", 0), -ENOENT);
        assert_int_equal(sim_open("/tmp/sublet-nowhere", "nvidiactl", 0), -ENOENT);
        assert_int_equal(sim_open(rig->directory,
                                  "a-name-that-is-longer-than-the-address-of-a-socket-can-be-"
                                  "a-name-that-is-longer-than-the-address-of-a-socket-can-be",
                                  0),
                         -ENAMETOOLONG);
}

static void close_on_exec_is_as_asked(void **state)
{
        struct rig *rig = *state;
        int without = sim_open(rig->directory, "nvidiactl", O_RDWR);

        assert_int_equal(fcntl(rig->ctl, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        assert_int_equal(fcntl(without, F_GETFD) & FD_CLOEXEC, 0);
        close(without);
}

static void wild_pointers_fail_and_do_not_crash(void **state)
{
        struct rig *rig = *state;
        unsigned char block[48] = { 0 };

        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_ALLOC, NULL, 48), -EFAULT);
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_ALLOC, (void *)16, 48), -EFAULT);
        rm_put32(block, sizeof(block), 0, rig->client);
        rm_put32(block, sizeof(block), 4, DEVICE);
        rm_put32(block, sizeof(block), 8, MEMORY);
        rm_put32(block, sizeof(block), 12, RM_CLASS_VIDEO_MEMORY);
        rm_put64(block, sizeof(block), 16, 16);
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_ALLOC, block, sizeof(block)), -EFAULT);
        assert_int_equal(rig_heap_free(rig), 1 * GIB);
}

static void what_no_driver_knows_is_invalid(void **state)
{
        struct rig *rig = *state;
        unsigned char block[64] = { 0 };

        assert_int_equal(rig_call(rig, rig->ctl, 0x39, block, 32), -EINVAL);
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_ALLOC, block, 33), -EINVAL);
        assert_int_equal(sim_ioctl(rig->ctl, &rig->layout, 0x5401, block), -EINVAL); /* TCGETS */
}

/* The type byte, the direction and the upper half do not count. */
static void a_request_counts_by_number_and_size(void **state)
{
        struct rig *rig = *state;
        uint64_t value = 0;

        assert_int_equal(sim_ioctl(rig->ctl, &rig->layout, RM_REQUEST(RM_NR_SYS_PARAMS, 8), &value), 0);
        assert_true(value > 0);
        value = 0;
        assert_int_equal(sim_ioctl(rig->ctl, &rig->layout, RM_REQUEST(RM_NR_SYS_PARAMS, 8) | 0x5a00, &value), 0);
        assert_true(value > 0);
}

static void an_indirect_request_is_unwrapped_once(void **state)
{
        struct rig *rig = *state;
        unsigned char outer[16], middle[16];
        uint64_t value = 0;

        rm_put32(middle, sizeof(middle), 0, RM_NR_SYS_PARAMS);
        rm_put32(middle, sizeof(middle), 4, sizeof(value));
        rm_put64(middle, sizeof(middle), 8, (uintptr_t)&value);
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_XFER, middle, sizeof(middle)), 0);
        assert_true(value > 0);

        rm_put32(outer, sizeof(outer), 0, RM_NR_XFER);
        rm_put32(outer, sizeof(outer), 4, sizeof(middle));
        rm_put64(outer, sizeof(outer), 8, (uintptr_t)middle);
        assert_int_equal(rig_call(rig, rig->ctl, RM_NR_XFER, outer, sizeof(outer)), -EINVAL);
}

static void lists_inside_parameters_travel_both_ways(void **state)
{
        struct rig *rig = *state;
        uint32_t list[4] = { RM_FB_TOTAL_RAM, 0, RM_FB_HEAP_FREE, 0 };
        unsigned char params[16] = { 0 };

        rm_put32(params, sizeof(params), 0, 2);
        rm_put64(params, sizeof(params), 8, (uintptr_t)list);
        assert_int_equal(rig_control(rig, SUBDEVICE, 0x20801301, params, sizeof(params)), RM_STATUS_OK);
        assert_int_equal(list[1], GIB / KIB);
        assert_int_equal(list[3], GIB / KIB);
}

static void output_strings_come_back(void **state)
{
        struct rig *rig = *state;
        char version[64] = { 0 }, other[64], title[64];
        unsigned char params[40] = { 0 };

        rm_put32(params, sizeof(params), 0, sizeof(version));
        rm_put64(params, sizeof(params), 8, (uintptr_t)version);
        rm_put64(params, sizeof(params), 16, (uintptr_t)other);
        rm_put64(params, sizeof(params), 24, (uintptr_t)title);
        assert_int_equal(rig_control(rig, rig->client, 0x101, params, sizeof(params)), RM_STATUS_OK);
        assert_string_equal(version, MACHINE_RELEASE);
}

/* Nothing is written to the caller's parameters when the driver refuses. */
static void parameters_of_a_refused_call_are_untouched(void **state)
{
        struct rig *rig = *state;
        unsigned char *params = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        assert_ptr_not_equal(params, MAP_FAILED);
        rm_put32(params, 128, 0, rig->client);
        rm_put64(params, 128, 64, 2 * GIB);
        rm_put32(params, 128, 24, ATTR);
        assert_return_code(mprotect(params, 4096, PROT_READ), errno); /* a write would be EFAULT */
        assert_int_equal(rig_alloc(rig, DEVICE, MEMORY, RM_CLASS_VIDEO_MEMORY, params), RM_STATUS_NO_MEMORY);
        (void)munmap(params, 4096);
}

static void nothing(int number)
{
        (void)number;
}

static void signals_do_not_disturb_a_call(void **state)
{
        struct rig *rig = *state;
        struct sigaction action = { .sa_handler = nothing }, old;
        struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { 0 };

        assert_return_code(sigaction(SIGALRM, &action, &old), errno);
        assert_return_code(setitimer(ITIMER_REAL, &often, NULL), errno);
        for (int i = 0; i < 300; i++)
                assert_int_equal(rig_heap_free(rig), 1 * GIB);
        assert_return_code(setitimer(ITIMER_REAL, &never, NULL), errno);
        (void)sigaction(SIGALRM, &old, NULL);
}

static int n_descriptors(void)
{
        int n = 0;

        for (int fd = 0; fd < 256; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

static void calls_leave_no_descriptor_and_no_errno_behind(void **state)
{
        struct rig *rig = *state;
        int n = n_descriptors();

        errno = EDOM;
        for (int i = 0; i < 100; i++)
                (void)rig_heap_free(rig);
        assert_int_equal(rig_call(rig, rig->ctl, 0x39, NULL, 32), -EINVAL);
        assert_int_equal(sim_open(rig->directory, "nvidia7", 0), -ENOENT);
        assert_int_equal(errno, EDOM);
        assert_int_equal(n_descriptors(), n);
}

static void a_dead_server_ends_the_wait(void **state)
{
        struct rig rig = { 0 };
        int status;
        pid_t killer;

        (void)state;
        rig_start(&rig, 1, 1 * GIB);
        rig_begin(&rig, 0);
        (void)rig_channel(&rig, GROUP, CHANNEL);
        killer = fork();
        if (killer == 0) {
                (void)usleep(50000);
                (void)kill(rig.server, SIGKILL);
                _exit(0);
        }
        assert_int_equal(sim_gpu_wait(rig.ctl, rig.client, CHANNEL, 1, SIM_FOREVER, NULL), -EPIPE);
        assert_int_equal(rig_call(&rig, rig.ctl, RM_NR_SYS_PARAMS, (uint64_t[1]){ 0 }, 8), -ENODEV);
        assert_int_equal(sim_open(rig.directory, "nvidiactl", 0), -ENODEV);
        assert_int_equal(sim_gpu_send(rig.ctl, &(struct sim_gpu){ .op = SIM_GPU_LAUNCH }), -EPIPE);
        (void)waitpid(killer, &status, 0);
        (void)waitpid(rig.server, &status, 0);
        rig_end(&rig);
        machine_files_remove(rig.directory);
}

static void a_message_beyond_all_bounds_is_not_sent(void **state)
{
        struct rig *rig = *state;
        static unsigned char much[2 * SIM_MESSAGE_MAX];
        struct sim_request request = { .op = SIM_OP_IOCTL };
        struct sim_buffer buffer = { much, sizeof(much) };
        struct sim_answer answer;

        assert_int_equal(sim_transact(rig->ctl, &request, &buffer, 1, -1, &answer, NULL), -EMSGSIZE);
        /* A control that claims them is refused by its size. */
        assert_int_equal(rig_control(rig, SUBDEVICE, RM_FB_GET_INFO_V2, much, sizeof(much)),
                         RM_STATUS_INVALID_PARAM_STRUCT);
}

static void a_release_is_read_or_refused(void **state)
{
        struct rig *rig = *state;
        struct rm_layout layout;
        char path[128];
        FILE *file;

        assert_int_equal(rig->layout.alloc_size, 48);
        assert_int_equal(sim_layout("/tmp/sublet-nowhere", &layout), -ENOENT);
        (void)snprintf(path, sizeof(path), "%s/sys/module/nvidia/version", rig->directory);
        file = fopen(path, "w");
        assert_non_null(file);
        (void)fputs("999.99.99\n", file);
        (void)fclose(file);
        assert_int_equal(sim_layout(rig->directory, &layout), RM_E_VERSION);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(nodes_are_recognised_by_their_peer),
                RIG_TEST(other_descriptors_are_not_nodes),
                RIG_TEST(an_imitation_of_a_node_is_not_one),
                RIG_TEST(a_node_that_is_not_there_cannot_be_opened),
                RIG_TEST(close_on_exec_is_as_asked),
                RIG_TEST(wild_pointers_fail_and_do_not_crash),
                RIG_TEST(what_no_driver_knows_is_invalid),
                RIG_TEST(a_request_counts_by_number_and_size),
                RIG_TEST(an_indirect_request_is_unwrapped_once),
                RIG_TEST(lists_inside_parameters_travel_both_ways),
                RIG_TEST(output_strings_come_back),
                RIG_TEST(parameters_of_a_refused_call_are_untouched),
                RIG_TEST(signals_do_not_disturb_a_call),
                RIG_TEST(calls_leave_no_descriptor_and_no_errno_behind),
                cmocka_unit_test(a_dead_server_ends_the_wait),
                RIG_TEST(a_message_beyond_all_bounds_is_not_sent),
                RIG_TEST(a_release_is_read_or_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
