/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "gate/state/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* A memory file stands for a node: it is open in some processes, and that is all that matters here. */
static int new_file(void)
{
        int fd = memfd_create("space", MFD_CLOEXEC);

        assert_true(fd >= 0);
        return fd;
}

static bool nobody_maps(struct files *files, pid_t process)
{
        (void)files;
        (void)process;
        return false;
}

static pid_t mapper;

static bool mapper_maps(struct files *files, pid_t process)
{
        (void)files;
        return process == mapper;
}

/* The space that was emptied last; 0: none. What may not be emptied stays. */
static uint64_t emptied;
static bool is_full;

static bool empty(void *context, const struct file *file)
{
        (void)context;
        if (!is_full)
                emptied = file->number;
        return !is_full;
}

static uint64_t drop_with(struct files *files, bool has_tasks, bool (*is_mapped)(struct files *files, pid_t process))
{
        const struct files_release release = { NULL, files_open_elsewhere, is_mapped, empty };

        emptied = 0;
        files_drop_unused(files, has_tasks, &release);
        return emptied;
}

/* Without what is in flight: other programs of this machine under a filter, as other tests are, may have something in
 * flight at any moment, and then nothing is dropped. */
static uint64_t drop(struct files *files)
{
        return drop_with(files, false, nobody_maps);
}

/* With it: what is kept for somebody else's sake is dropped at a later look, as the gate looks again. */
static uint64_t drop_when_nothing_is_in_flight(struct files *files)
{
        uint64_t number;

        do
                number = drop_with(files, true, nobody_maps);
        while (!number);
        return number;
}

/* A process that keeps what it has. What it does first, if anything, is said on ret_said. */
static pid_t holder(void (*first)(int fd), int fd)
{
        int said[2];
        pid_t child;
        char byte;

        assert_int_equal(pipe2(said, O_CLOEXEC), 0);
        child = fork();
        if (child == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (first)
                        first(fd);
                (void)!write(said[1], "", 1);
                for (;;)
                        (void)pause();
        }
        (void)close(said[1]);
        assert_int_equal(read(said[0], &byte, 1), 1);
        (void)close(said[0]);
        return child;
}

static void holder_end(pid_t child)
{
        (void)kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
}

static void a_file_has_one_number_however_it_is_held(void **state)
{
        struct files files;
        int a = new_file(), b = new_file(), other = dup(a), high = fcntl(a, F_DUPFD, 100);
        uint64_t number;

        (void)state;
        files_init(&files);
        assert_int_equal(files_find(&files, a), 0);
        number = files_keep(&files, a);
        assert_int_not_equal(number, 0);
        assert_int_equal(files_keep(&files, other), number);
        assert_int_equal(files_find(&files, high), number);
        assert_int_equal(files_find(&files, b), 0);
        assert_int_not_equal(files_keep(&files, b), number);
        assert_int_equal(files_count(&files), 2);
        (void)close(a);
        (void)close(other);
        (void)close(high);
        (void)close(b);
        files_done(&files);
}

/* The same inode opened twice is two files, as two opens of a node are two spaces. */
static void two_opens_are_two_files(void **state)
{
        struct files files;
        char path[64];
        int a = new_file(), b;

        (void)state;
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", a);
        b = open(path, O_RDWR | O_CLOEXEC);
        assert_true(b >= 0);
        files_init(&files);
        assert_int_not_equal(files_keep(&files, a), files_keep(&files, b));
        (void)close(a);
        (void)close(b);
        files_done(&files);
}

static void a_number_is_not_used_again(void **state)
{
        struct files files;
        uint64_t last = 0;

        (void)state;
        files_init(&files);
        for (int i = 0; i < 20; i++) {
                int fd = new_file();
                uint64_t number = files_keep(&files, fd);

                assert_true(number > last);
                last = number;
                assert_int_equal(drop(&files), number);
                assert_int_equal(files_find(&files, fd), 0);
                (void)close(fd);
        }
        assert_int_equal(files_count(&files), 0);
        files_done(&files);
}

static void a_file_is_kept_while_a_fork_has_it(void **state)
{
        struct files files;
        int fd = new_file();
        pid_t first = holder(NULL, -1), second = holder(NULL, -1);
        uint64_t number;

        (void)state;
        files_init(&files);
        number = files_keep(&files, fd);
        assert_int_equal(drop(&files), 0);
        holder_end(first);
        assert_int_equal(drop(&files), 0);
        holder_end(second);
        assert_int_equal(drop(&files), number); /* our own does not count */
        assert_int_equal(drop(&files), 0);
        (void)close(fd);
        files_done(&files);
}

static void duplicate_and_close(int fd)
{
        (void)fcntl(fd, F_DUPFD, 200);
        (void)close(fd);
}

static void a_file_is_kept_under_another_number(void **state)
{
        struct files files;
        int fd = new_file();
        pid_t child = holder(duplicate_and_close, fd);

        (void)state;
        files_init(&files);
        (void)files_keep(&files, fd);
        (void)close(fd);
        assert_int_equal(drop(&files), 0);
        holder_end(child);
        assert_int_not_equal(drop(&files), 0);
        files_done(&files);
}

static void send_to(int socket, int fd)
{
        union {
                struct cmsghdr header;
                char space[CMSG_SPACE(sizeof(int))];
        } control = { .header = {
                              .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) } };
        struct iovec data = { &(char){ 0 }, 1 };
        struct msghdr message = {
                .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };

        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
        assert_int_equal(sendmsg(socket, &message, 0), 1);
}

static void receive_from(int socket)
{
        char byte, control[CMSG_SPACE(sizeof(int))];
        struct iovec data = { &byte, 1 };
        struct msghdr message = {
                .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };

        if (recvmsg(socket, &message, 0) != 1)
                _exit(1);
}

static void a_file_is_kept_by_who_was_sent_it(void **state)
{
        struct files files;
        int sockets[2], fd;
        uint64_t number;
        pid_t child;

        (void)state;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
        fd = new_file();
        send_to(sockets[0], fd);
        files_init(&files);
        number = files_keep(&files, fd);
        (void)close(fd);
        child = holder(receive_from, sockets[1]); /* forked after our close: it has only what it received */
        assert_int_equal(drop(&files), 0);
        holder_end(child);
        assert_int_equal(drop(&files), number);
        (void)close(sockets[0]);
        (void)close(sockets[1]);
        files_done(&files);
}

static int in_flight_socket;

/* As a tenant is. */
static void be_filtered(void)
{
        struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog program = { 1, &allow };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
                _exit(1);
}

static void send_to_itself(int fd)
{
        int sockets[2];

        be_filtered();
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
                _exit(1);
        send_to(sockets[0], fd);
        in_flight_socket = sockets[1];
        (void)close(fd);
}

/* A tenant must not make the gate believe that a space has ended, and receive it again afterwards. */
static void a_file_in_flight_is_kept(void **state)
{
        struct files files;
        int fd = new_file();
        pid_t child = holder(send_to_itself, fd);
        uint64_t number;

        (void)state;
        files_init(&files);
        number = files_keep(&files, fd);
        (void)close(fd);
        assert_int_equal(drop_with(&files, true, nobody_maps), 0);
        holder_end(child);
        assert_int_equal(drop_when_nothing_is_in_flight(&files), number);
        files_done(&files);
}

/* Each is a line in what the kernel says of the socket, before the count of what is in flight. */
static void lock_and_send(int fd)
{
        send_to_itself(fd);
        for (off_t i = 0; i < 200; i++) {
                struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2 * i, .l_len = 1 };

                if (fcntl(in_flight_socket, F_SETLK, &lock) < 0)
                        _exit(1);
        }
}

static void a_file_in_flight_is_kept_however_much_is_said_of_its_socket(void **state)
{
        struct files files;
        int fd = new_file();
        pid_t child = holder(lock_and_send, fd);
        uint64_t number;

        (void)state;
        files_init(&files);
        number = files_keep(&files, fd);
        (void)close(fd);
        assert_int_equal(drop_with(&files, true, nobody_maps), 0);
        holder_end(child);
        assert_int_equal(drop_when_nothing_is_in_flight(&files), number);
        files_done(&files);
}

/* When no task of the tenant is left, who has something in flight is another tenant: it must not hold up our ledger. */
static void what_others_have_in_flight_keeps_no_space_of_a_tenant_that_is_gone(void **state)
{
        struct files files;
        int other = new_file();
        pid_t child = holder(send_to_itself, other);
        int fd = new_file();
        uint64_t number;

        (void)state;
        files_init(&files);
        number = files_keep(&files, fd);
        (void)close(fd);
        (void)close(other);
        assert_int_equal(drop_with(&files, true, nobody_maps), 0);
        assert_int_equal(drop_with(&files, false, nobody_maps), number);
        holder_end(child);
        files_done(&files);
}

static void a_mapping_keeps_a_file(void **state)
{
        struct files files;
        int fd = new_file();
        uint64_t number;

        (void)state;
        files_init(&files);
        number = files_keep(&files, fd);
        mapper = 4711;
        files_mapped(&files, number, mapper, 1);
        files_mapped(&files, number, mapper, 1);
        assert_int_equal(drop_with(&files, true, mapper_maps), 0);
        mapper = 4712; /* unmapped */
        assert_int_equal(drop_with(&files, false, mapper_maps), number);
        (void)close(fd);
        files_done(&files);
}

static void more_mappers_than_can_be_noted_keep_a_file(void **state)
{
        struct files files;
        int fd = new_file();
        uint64_t number;

        (void)state;
        files_init(&files);
        number = files_keep(&files, fd);
        for (pid_t i = 1; i <= FILE_MAPPERS + 1; i++)
                files_mapped(&files, number, i, 1);
        assert_int_equal(drop_with(&files, true, nobody_maps), 0);
        assert_int_equal(drop(&files), number); /* no task is left, so nobody maps */
        (void)close(fd);
        files_done(&files);
}

static void a_space_in_use_is_not_closed(void **state)
{
        struct files files;
        int fd = new_file(), ours, child_fd = fcntl(fd, F_DUPFD, 150);
        pid_t child = holder(NULL, -1);
        uint64_t number, used;

        (void)state;
        files_init(&files);
        number = files_keep(&files, fd);
        assert_true(files_use(&files, child, child_fd, &ours, &used));
        assert_int_equal(used, number);
        assert_int_equal(files_find(&files, ours), number);
        holder_end(child);
        (void)close(fd);
        (void)close(child_fd);
        assert_int_equal(drop(&files), 0);
        assert_true(fcntl(ours, F_GETFD) >= 0);
        files_unuse(&files, number);
        assert_int_equal(drop(&files), number);
        assert_int_equal(fcntl(ours, F_GETFD), -1);
        files_done(&files);
}

static void a_space_that_cannot_be_emptied_stays(void **state)
{
        struct files files;
        int fd = new_file();
        uint64_t number;

        (void)state;
        files_init(&files);
        number = files_keep(&files, fd);
        (void)close(fd);
        is_full = true;
        assert_int_equal(drop(&files), 0);
        assert_int_equal(files_count(&files), 1);
        is_full = false;
        assert_int_equal(drop(&files), number);
        assert_int_equal(files_count(&files), 0);
        files_done(&files);
}

static void spaces_are_visited_by_number_and_in_use_meanwhile(void **state)
{
        struct files files;
        int a = new_file(), b = new_file();
        struct file file = { 0 };

        (void)state;
        files_init(&files);
        (void)files_keep(&files, a);
        (void)files_keep(&files, b);
        assert_true(files_next(&files, 0, &file));
        assert_int_equal(file.number, 1);
        files_mapped(&files, 2, getpid(), 77);
        assert_int_equal(files_mapped_at(&files, 2), 77);
        files_unuse(&files, 1);
        assert_true(files_next(&files, 1, &file));
        assert_int_equal(file.number, 2);
        files_unuse(&files, 2);
        assert_false(files_next(&files, 2, &file));
        (void)close(a);
        (void)close(b);
        files_done(&files);
}

/* The lines of our own address space that are a range of a space of `files`. */
static unsigned int count_ranges(struct files *files)
{
        FILE *maps = fopen("/proc/self/maps", "re");
        unsigned int n = 0;
        char line[4352];

        assert_non_null(maps);
        while (fgets(line, sizeof(line), maps))
                n += files_have_range(files, line);
        (void)fclose(maps);
        return n;
}

static void a_range_is_known_by_the_node_not_by_its_name(void **state)
{
        char name[] = "/dev/shm/sublet-XXXXXX"; /* as a container's /dev: a tmpfs of its own, and any name */
        uint8_t *const address = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int fd = mkostemp(name, O_CLOEXEC);
        struct files files;

        (void)state;
        assert_true(fd >= 0 &&
                    address != MAP_FAILED); /* free anywhere: where UVM has its own, a sanitizer has others */
        assert_int_equal(munmap(address, 4096), 0);
        files_init(&files);
        assert_true(mmap(address, 4096, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, (off_t)address) == address);
        assert_int_equal(count_ranges(&files), 0); /* nobody's space */
        assert_true(files_keep(&files, fd) > 0);
        assert_int_equal(count_ranges(&files), 1);
        assert_int_equal(unlink(name), 0);
        assert_int_equal(count_ranges(&files), 1); /* "... (deleted)" */
        assert_int_equal(munmap(address, 4096), 0);
        assert_true(mmap(address, 4096, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) == address);
        assert_int_equal(count_ranges(&files), 0); /* no range of UVM's: its offset is another */
        assert_int_equal(munmap(address, 4096), 0);
        (void)close(fd);
        files_done(&files);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_file_has_one_number_however_it_is_held),
                cmocka_unit_test(two_opens_are_two_files),
                cmocka_unit_test(a_number_is_not_used_again),
                cmocka_unit_test(a_file_is_kept_while_a_fork_has_it),
                cmocka_unit_test(a_file_is_kept_under_another_number),
                cmocka_unit_test(a_file_is_kept_by_who_was_sent_it),
                cmocka_unit_test(a_file_in_flight_is_kept),
                cmocka_unit_test(a_file_in_flight_is_kept_however_much_is_said_of_its_socket),
                cmocka_unit_test(what_others_have_in_flight_keeps_no_space_of_a_tenant_that_is_gone),
                cmocka_unit_test(a_mapping_keeps_a_file),
                cmocka_unit_test(more_mappers_than_can_be_noted_keep_a_file),
                cmocka_unit_test(a_space_in_use_is_not_closed),
                cmocka_unit_test(a_space_that_cannot_be_emptied_stays),
                cmocka_unit_test(spaces_are_visited_by_number_and_in_use_meanwhile),
                cmocka_unit_test(a_range_is_known_by_the_node_not_by_its_name),
        };

        return cmocka_run_group_tests_name("gate/state/files", tests, NULL, NULL);
}
