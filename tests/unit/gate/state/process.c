/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "gate/state/process.h"

#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
        N_THREADS = 5,
        PAGE = 4096,
};

/* A process to look at: it has threads, a page of memory, and a descriptor. It ends with its parent. */
struct subject {
        pid_t id;
        pid_t threads[N_THREADS];
        int fd;        /* its number there */
        ino_t inode;   /* of what is behind it */
        ino_t own;     /* of what is behind it in the table of the last thread, which is its own */
        uint8_t *page; /* its address, the same here and there */
};

static void *wait_for_ever(void *context)
{
        *(_Atomic pid_t *)context = (pid_t)syscall(SYS_gettid);
        while (pause())
                ;
        return NULL;
}

static ino_t inode_of(int fd)
{
        struct stat st;

        return fstat(fd, &st) < 0 ? 0 : st.st_ino;
}

struct own {
        _Atomic pid_t id;
        int fd;
        ino_t inode;
};

static void *wait_with_own_table(void *context)
{
        struct own *own = context;
        int other = memfd_create("own", 0);

        if (unshare(CLONE_FILES) < 0 || dup2(other, own->fd) < 0)
                _exit(1);
        own->inode = inode_of(own->fd);
        return wait_for_ever((void *)&own->id);
}

static bool main_thread_ends; /* of the next subject */

static void be_subject(int report, uint8_t *page)
{
        _Atomic pid_t ids[N_THREADS] = { 0 };
        struct subject subject = { .id = getpid(), .page = page };
        struct own own = { 0 };
        pthread_t thread;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        subject.fd = memfd_create("subject", 0);
        subject.inode = inode_of(subject.fd);
        memset(page, 0x5a, PAGE);
        for (int i = 0; i < N_THREADS - 1; i++) {
                if (pthread_create(&thread, NULL, wait_for_ever, (void *)&ids[i]))
                        _exit(1);
                while (!ids[i])
                        (void)sched_yield();
                subject.threads[i] = ids[i];
        }
        own.fd = subject.fd;
        if (pthread_create(&thread, NULL, wait_with_own_table, &own))
                _exit(1);
        while (!own.id)
                (void)sched_yield();
        subject.threads[N_THREADS - 1] = own.id;
        subject.own = own.inode;
        (void)!write(report, &subject, sizeof(subject));
        if (main_thread_ends)
                pthread_exit(NULL);
        for (;;)
                (void)pause();
}

static struct subject subject_new(void)
{
        uint8_t *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct subject subject;
        int report[2];
        pid_t child;

        assert_ptr_not_equal(page, MAP_FAILED);
        assert_int_equal(mprotect(page + PAGE, PAGE, PROT_NONE), 0); /* a hole would be filled by others */
        assert_int_equal(pipe(report), 0);
        child = fork();
        if (child == 0)
                be_subject(report[1], page);
        (void)close(report[1]);
        assert_int_equal(read(report[0], &subject, sizeof(subject)), sizeof(subject));
        (void)close(report[0]);
        return subject;
}

static void subject_end(const struct subject *subject)
{
        (void)kill(subject->id, SIGKILL);
        assert_int_equal(waitpid(subject->id, NULL, 0), subject->id);
        (void)munmap(subject->page, PAGE);
}

static bool is_there(const void *context)
{
        return !context;
}

static const struct process_caller there = { is_there, NULL }, gone = { is_there, "gone" };

static pid_t reap(struct processes *processes)
{
        struct pollfd ready = { processes->epoll, POLLIN, 0 };

        return poll(&ready, 1, 5000) == 1 ? processes_reap(processes) : 0;
}

static void every_thread_belongs_to_its_process(void **state)
{
        struct subject subject = subject_new();
        struct processes processes;
        struct process *first, *process;

        (void)state;
        assert_int_equal(processes_init(&processes), 0);
        assert_int_equal(process_get(&processes, subject.id, &there, &first), 0);
        assert_int_equal(first->id, subject.id);
        for (int round = 0; round < 3; round++)
                for (int i = 0; i < N_THREADS; i++) {
                        assert_int_equal(process_get(&processes, subject.threads[i], &there, &process), 0);
                        assert_ptr_equal(process, first);
                        process_put(&processes, process);
                        if (round == 1)
                                processes_forget_threads(&processes);
                }
        assert_int_equal(processes_count(&processes), 1);
        process_put(&processes, first);
        processes_done(&processes);
        subject_end(&subject);
}

static void a_thread_that_is_not_there_has_no_process(void **state)
{
        struct processes processes;
        struct process *process = NULL;

        (void)state;
        assert_int_equal(processes_init(&processes), 0);
        assert_int_equal(process_get(&processes, INT32_MAX, &there, &process), -ESRCH);
        assert_null(process);
        assert_int_equal(processes_count(&processes), 0);
        processes_done(&processes);
}

/* Its number may be another program's by now, which would be taken for the tenant's, and be ended with it. */
static void a_process_is_not_met_through_a_caller_that_has_gone(void **state)
{
        struct subject subject = subject_new();
        struct processes processes;
        struct process *process = NULL;

        (void)state;
        assert_int_equal(processes_init(&processes), 0);
        assert_int_equal(process_get(&processes, subject.threads[1], &gone, &process), -ESRCH);
        assert_int_equal(process_find(&processes, subject.id, &process), -ESRCH);
        assert_null(process);
        assert_int_equal(processes_count(&processes), 0);
        processes_kill_all(&processes);
        assert_int_equal(kill(subject.id, 0), 0);
        assert_int_equal(process_get(&processes, subject.threads[1], &there, &process), 0);
        process_put(&processes, process);
        assert_int_equal(process_find(&processes, subject.id, &process), 0);
        assert_int_equal(process->id, subject.id);
        process_put(&processes, process);
        processes_done(&processes);
        subject_end(&subject);
}

/* A process of the number that another one had, which is there until `report` is closed. 0: not allowed here. */
static pid_t process_with_number(pid_t number, int *ret_report)
{
        struct clone_args args = { .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&number, .set_tid_size = 1 };
        nsec until = clock_now() + 5 * NSEC_PER_SEC;
        int report[2];
        pid_t child;
        char word;

        assert_int_equal(pipe(report), 0);
        do { /* of a thread it is given back a moment after its process was seen to end */
                child = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
        } while (child < 0 && errno == EEXIST && clock_now() < until && poll(NULL, 0, 1) == 0);
        if (child == 0) {
                (void)close(report[1]);
                (void)!read(report[0], &word, 1);
                _exit(7);
        }
        assert_true(child == number || errno == EPERM);
        (void)close(report[0]);
        *ret_report = report[1];
        return child > 0 ? child : 0;
}

static void a_number_that_is_used_again_names_nobody(void **state)
{
        struct subject subject = subject_new(), other = subject_new();
        struct processes processes;
        struct process *process;
        int report, status;

        (void)state;
        assert_int_equal(processes_init(&processes), 0);
        assert_int_equal(process_get(&processes, subject.id, &there, &process), 0);
        assert_true(process_has_thread(process, subject.id));
        assert_true(process_has_thread(process, subject.threads[1]));
        assert_false(process_has_thread(process, other.id));
        assert_false(process_has_thread(process, other.threads[1]));
        subject_end(&subject);
        assert_false(process_has_thread(process, subject.id));
        if (process_with_number(subject.id, &report)) {
                assert_int_equal(kill(subject.id, 0), 0);
                assert_false(process_has_thread(process, subject.id));
                assert_int_equal(process_fd(process, subject.id, 0), -ESRCH);
                processes_kill_all(&processes);
                processes_kill(&processes, subject.id);
                (void)close(report);
                assert_int_equal(waitpid(subject.id, &status, 0), subject.id);
                assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        } else {
                print_message("# no process may be given a number here\n");
        }
        process_put(&processes, process);
        processes_done(&processes);
        subject_end(&other);
}

/* The number of a thread, and then that of its process, come back for another process, before the end was noticed. */
static void a_thread_that_was_met_is_not_taken_for_another(void **state)
{
        struct subject subject = subject_new();
        struct processes processes;
        struct process *process;
        int report, status;

        (void)state;
        assert_int_equal(processes_init(&processes), 0);
        assert_int_equal(process_get(&processes, subject.threads[1], &there, &process), 0);
        process_put(&processes, process);
        subject_end(&subject);
        processes_forget_threads(&processes);
        if (process_with_number(subject.threads[1], &report)) {
                assert_int_equal(process_get(&processes, subject.threads[1], &there, &process), 0);
                assert_int_equal(process->id, subject.threads[1]);
                process_put(&processes, process);
                (void)close(report);
                assert_int_equal(waitpid(subject.threads[1], &status, 0), subject.threads[1]);
        }
        if (process_with_number(subject.id, &report)) {
                assert_int_equal(process_get(&processes, subject.id, &there, &process), -ESRCH);
                while (processes_reap(&processes))
                        ;
                assert_int_equal(process_get(&processes, subject.id, &there, &process), 0);
                assert_int_equal(process->id, subject.id);
                process_put(&processes, process);
                (void)close(report);
                assert_int_equal(waitpid(subject.id, &status, 0), subject.id);
        }
        processes_done(&processes);
}

static void an_end_is_noticed_once(void **state)
{
        struct subject subject = subject_new();
        struct processes processes;
        struct process *process;

        (void)state;
        assert_int_equal(processes_init(&processes), 0);
        assert_int_equal(process_get(&processes, subject.threads[2], &there, &process), 0);
        assert_int_equal(processes_reap(&processes), 0);
        subject_end(&subject);
        assert_int_equal(reap(&processes), subject.id);
        assert_int_equal(processes_reap(&processes), 0);
        assert_int_equal(processes_count(&processes), 0);
        assert_true(process->is_dead); /* ours until we put it back */
        assert_int_equal(process->id, subject.id);
        process_put(&processes, process);
        assert_int_equal(process_get(&processes, subject.threads[2], &there, &process), -ESRCH);
        processes_done(&processes);
}

static void many_processes_come_and_go(void **state)
{
        struct processes processes;
        struct process *process;

        (void)state;
        assert_int_equal(processes_init(&processes), 0);
        for (int i = 0; i < 40; i++) {
                pid_t child = fork();

                if (child == 0)
                        for (;;)
                                (void)pause();
                assert_int_equal(process_get(&processes, child, &there, &process), 0);
                process_put(&processes, process);
                (void)kill(child, SIGKILL);
                assert_int_equal(waitpid(child, NULL, 0), child);
                assert_int_equal(reap(&processes), child);
        }
        assert_int_equal(processes_count(&processes), 0);
        assert_int_equal(processes.by_thread.n_used, 0);
        processes_done(&processes);
}

static int read_piece(pid_t thread, void *to, uint64_t from, size_t size)
{
        struct iovec ours = { to, size }, theirs = { (void *)(uintptr_t)from, size };

        return process_read(thread, &ours, &theirs, 1);
}

static int write_piece(pid_t thread, uint64_t to, void *from, size_t size)
{
        struct iovec ours = { from, size }, theirs = { (void *)(uintptr_t)to, size };

        return process_write(thread, &ours, &theirs, 1);
}

static void memory_is_read_and_written(void **state)
{
        struct subject subject = subject_new();
        uint8_t bytes[64] = { 0 };

        (void)state;
        assert_int_equal(read_piece(subject.threads[0], bytes, (uintptr_t)subject.page + 100, sizeof(bytes)), 0);
        for (size_t i = 0; i < sizeof(bytes); i++)
                assert_int_equal(bytes[i], 0x5a);
        assert_int_equal(subject.page[100], 0); /* ours is another */
        memset(bytes, 7, sizeof(bytes));
        assert_int_equal(write_piece(subject.threads[1], (uintptr_t)subject.page + 200, bytes, sizeof(bytes)), 0);
        memset(bytes, 0, sizeof(bytes));
        assert_int_equal(read_piece(subject.id, bytes, (uintptr_t)subject.page + 199, 3), 0);
        assert_int_equal(bytes[0], 0x5a);
        assert_int_equal(bytes[1], 7);
        subject_end(&subject);
}

static void what_is_not_there_cannot_be_copied(void **state)
{
        struct subject subject = subject_new();
        uint64_t end = (uintptr_t)subject.page + PAGE;
        uint8_t bytes[64] = { 0 };

        (void)state;
        assert_int_equal(read_piece(subject.id, bytes, 0, 8), -EFAULT);
        assert_int_equal(read_piece(subject.id, bytes, end, 8), -EFAULT);
        assert_int_equal(read_piece(subject.id, bytes, end - 8, 16), -EFAULT); /* a part is not enough */
        assert_int_equal(read_piece(subject.id, bytes, UINT64_MAX - 3, 8), -EFAULT);
        assert_int_equal(read_piece(subject.id, bytes, (uint64_t)1 << 63, 8), -EFAULT);
        assert_int_equal(write_piece(subject.id, end - 8, bytes, 16), -EFAULT);
        assert_int_equal(write_piece(subject.id, 4096, bytes, 16), -EFAULT);
        assert_int_equal(read_piece(subject.id, bytes, 0, 0), 0); /* nothing, from anywhere */
        assert_int_equal(write_piece(subject.id, 0, bytes, 0), 0);
        subject_end(&subject);
        assert_int_equal(read_piece(subject.id, bytes, (uintptr_t)end - PAGE, 8), -ESRCH);
}

static void a_descriptor_is_fetched(void **state)
{
        struct subject subject = subject_new();
        struct processes processes;
        struct process *process;
        struct stat st;
        int fd;

        (void)state;
        assert_int_equal(processes_init(&processes), 0);
        assert_int_equal(process_get(&processes, subject.threads[3], &there, &process), 0);
        fd = process_fd(process, subject.threads[3], subject.fd);
        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_ino, subject.inode);
        (void)close(fd);
        assert_int_equal(process_fd(process, subject.threads[3], 999), -EBADF);
        assert_int_equal(process_fd(process, subject.threads[3], -1), -EBADF);
        subject_end(&subject);
        assert_true(process_fd(process, subject.threads[3], subject.fd) < 0);
        process_put(&processes, process);
        processes_done(&processes);
}

static ino_t fetch(const struct process *process, pid_t thread, int theirs)
{
        _cleanup_(closep) int fd = process_fd(process, thread, theirs);

        return fd == -EOPNOTSUPP ? (ino_t)-1 : fd < 0 ? 0 : inode_of(fd);
}

static void a_descriptor_is_looked_up_in_the_threads_own_table(void **state)
{
        struct subject subject = subject_new();
        struct processes processes;
        struct process *process;
        ino_t own;

        (void)state;
        assert_int_equal(processes_init(&processes), 0);
        assert_int_equal(process_get(&processes, subject.id, &there, &process), 0);
        assert_int_equal(fetch(process, subject.threads[0], subject.fd), subject.inode);
        own = fetch(process, subject.threads[N_THREADS - 1], subject.fd);
        assert_true(own == subject.own || own == (ino_t)-1); /* before Linux 6.9 it is refused */
        assert_int_not_equal(subject.own, subject.inode);
        process_put(&processes, process);
        processes_done(&processes);
        subject_end(&subject);
}

/* Waits until it is: the others know it by the state that the kernel shows. */
static bool has_ended(pid_t main_thread)
{
        char text[512];

        for (int i = 0; i < 5000; i++) {
                if (process_text(main_thread, "stat", text, sizeof(text)) > 0 && strstr(text, ") Z "))
                        return true;
                (void)poll(NULL, 0, 1);
        }
        return false;
}

static void a_descriptor_is_fetched_when_the_main_thread_has_ended(void **state)
{
        struct processes processes;
        struct process *process;
        struct subject subject;
        uint8_t byte = 0;
        ino_t inode;

        (void)state;
        main_thread_ends = true;
        subject = subject_new();
        main_thread_ends = false;
        assert_true(has_ended(subject.id));
        assert_int_equal(processes_init(&processes), 0);
        assert_int_equal(process_get(&processes, subject.threads[1], &there, &process), 0);
        assert_int_equal(process->id, subject.id);
        inode = fetch(process, subject.threads[1], subject.fd);
        assert_true(inode == subject.inode || inode == (ino_t)-1);
        assert_int_equal(read_piece(subject.threads[1], &byte, (uintptr_t)subject.page, 1), 0);
        assert_int_equal(byte, 0x5a);
        assert_int_equal(processes_reap(&processes), 0); /* it lives */
        process_put(&processes, process);
        subject_end(&subject);
        assert_int_equal(reap(&processes), subject.id);
        processes_done(&processes);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(every_thread_belongs_to_its_process),
                cmocka_unit_test(a_thread_that_is_not_there_has_no_process),
                cmocka_unit_test(a_process_is_not_met_through_a_caller_that_has_gone),
                cmocka_unit_test(a_number_that_is_used_again_names_nobody),
                cmocka_unit_test(a_thread_that_was_met_is_not_taken_for_another),
                cmocka_unit_test(an_end_is_noticed_once),
                cmocka_unit_test(many_processes_come_and_go),
                cmocka_unit_test(memory_is_read_and_written),
                cmocka_unit_test(what_is_not_there_cannot_be_copied),
                cmocka_unit_test(a_descriptor_is_fetched),
                cmocka_unit_test(a_descriptor_is_looked_up_in_the_threads_own_table),
                cmocka_unit_test(a_descriptor_is_fetched_when_the_main_thread_has_ended),
        };

        return cmocka_run_group_tests_name("gate/state/process", tests, NULL, NULL);
}
