/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Says by its end of the pipe that it has its name. */
static pid_t child_start(const char *name)
{
        int ends[2];
        pid_t child;
        char byte;

        assert_int_equal(pipe(ends), 0);
        child = fork();
        if (child == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                (void)prctl(PR_SET_NAME, name);
                (void)!write(ends[1], "", 1);
                (void)pause();
                _exit(0);
        }
        assert_true(child > 0);
        assert_int_equal(read(ends[0], &byte, 1), 1);
        (void)(close(ends[0]) + close(ends[1]));
        return child;
}

static void child_end(pid_t child)
{
        (void)kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
}

static void a_process_has_one_beginning_whatever_it_calls_itself(void **state)
{
        uint64_t own = process_began(getpid());
        pid_t child = child_start("a) R 1 (b");
        uint64_t began = process_began(child);

        (void)state;
        assert_true(own && began >= own);
        (void)usleep(30 * 1000);
        assert_int_equal(process_began(child), began);
        assert_int_equal(process_began(getpid()), own);
        child_end(child);
}

static void one_that_begins_later_differs_and_one_that_has_gone_has_none(void **state)
{
        pid_t first = child_start("first"), second;
        uint64_t began = process_began(first);

        (void)state;
        (void)usleep(30 * 1000); /* a tick is 10 ms */
        second = child_start("second");
        assert_true(process_began(second) > began);
        child_end(first);
        child_end(second);
        assert_int_equal(process_began(first), 0);
}

static void its_parent_is_known_and_whether_it_lives(void **state)
{
        pid_t child = child_start(") Z 1");

        (void)state;
        assert_int_equal(process_parent(child), getpid());
        assert_true(process_is_alive(child));
        child_end(child);
        assert_false(process_is_alive(child));
        assert_int_equal(process_parent(child), -1);
}

static void *say_when_alone(void *argument)
{
        while (!process_is_ending(getpid()))
                (void)usleep(1000);
        (void)!write(*(int *)argument, "", 1);
        (void)pause();
        return NULL;
}

static void one_whose_main_thread_has_ended_is_ending_and_lives(void **state)
{
        int ends[2];
        pid_t child;
        char byte;

        (void)state;
        assert_int_equal(pipe(ends), 0);
        child = fork();
        if (child == 0) {
                pthread_t thread;

                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (process_is_ending(getpid()) || pthread_create(&thread, NULL, say_when_alone, &ends[1]) != 0)
                        _exit(1);
                (void)syscall(SYS_exit, 0); /* this thread */
        }
        (void)close(ends[1]);
        assert_int_equal(read(ends[0], &byte, 1), 1);
        (void)close(ends[0]);
        assert_true(process_is_ending(child));
        assert_true(process_is_alive(child));
        child_end(child);
        assert_true(process_is_ending(child));
}

/* A child that has become somebody else, or that has a PID namespace of its own. False: that is not allowed here. */
static bool is_child_near(uid_t user, bool has_namespace)
{
        int ends[2];
        bool is_near;
        pid_t child;
        char word = 'n';

        assert_int_equal(pipe(ends), 0);
        child = (pid_t)syscall(SYS_clone, SIGCHLD | (has_namespace ? CLONE_NEWPID : 0), 0, 0, 0, 0); /* as fork */
        if (child < 0)
                skip();
        if (child == 0) {
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
                word = user == getuid() || setresuid(user, user, user) == 0 ? 'y' : 'n';
                (void)!write(ends[1], &word, 1);
                (void)pause();
                _exit(0);
        }
        assert_int_equal(read(ends[0], &word, 1), 1);
        is_near = process_is_near(child, getuid());
        child_end(child);
        (void)(close(ends[0]) + close(ends[1]));
        if (word != 'y')
                skip();
        return is_near;
}

static void a_process_of_the_same_user_is_near(void **state)
{
        (void)state;
        assert_true(process_is_near(getpid(), getuid()));
        assert_false(process_is_near(getpid(), getuid() + 1));
        assert_true(is_child_near(getuid(), false));
}

static void another_users_is_not(void **state)
{
        (void)state;
        assert_false(is_child_near(4001, false));
}

static void one_of_a_container_is_not_though_its_user_has_the_same_number(void **state)
{
        (void)state;
        assert_false(is_child_near(getuid(), true));
}

/* ---- children --------------------------------------------------------------------------------------------------- */

/* What a shell says whose 1 is a pipe, and whose other descriptors are `fds` from 2 on. */
static int answer_of(const char *script, struct process_child *child, char *ret, size_t size)
{
        char shell[] = "sh", option[] = "-c", *text = strdup(script);
        char *argv[] = { shell, option, text, NULL };
        size_t length = 0;
        int ends[2], r;
        pid_t process;
        ssize_t n;

        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        child->program = "/bin/sh";
        child->argv = argv;
        child->fds[1] = ends[1];
        r = process_begin(child, &process);
        (void)close(ends[1]);
        free(text);
        while (r == 0 && (n = read(ends[0], ret + length, size - 1 - length)) > 0)
                length += (size_t)n;
        (void)close(ends[0]);
        ret[length] = '\0';
        if (r == 0)
                assert_int_equal(waitpid(process, NULL, 0), process);
        return r;
}

static void a_child_has_its_descriptors_at_their_numbers_and_no_others(void **state)
{
        struct process_child child = { .fds = { PROCESS_NULL, 0, PROCESS_NOTHING, 0, PROCESS_NOTHING, 0 }, .n_fds = 6 };
        char text[256];
        int many[40], file = memfd_create("given", MFD_CLOEXEC);

        (void)state;
        for (size_t i = 0; i < 40; i++) /* with and without close-on-exec, below and above what it is given */
                many[i] = fcntl(file, i % 2 ? F_DUPFD : F_DUPFD_CLOEXEC, (int)(3 + 7 * i));
        child.fds[3] = child.fds[5] = file;
        assert_int_equal(
                answer_of("for i in $(seq 0 300); do [ ! -e /proc/$$/fd/$i ] || echo $i; done; cd /proc/$$/fd; "
                          "readlink 0 3 5",
                          &child, text, sizeof(text)),
                0);
        assert_string_equal(text, "0\n1\n3\n5\n/dev/null\n/memfd:given (deleted)\n/memfd:given (deleted)\n");
        for (size_t i = 0; i < 40; i++)
                (void)close(many[i]);
        (void)close(file);
}

static void a_child_has_default_signals_and_a_session_if_it_is_to(void **state)
{
        struct process_child child = { .fds = { PROCESS_NULL, 0, STDERR_FILENO }, .n_fds = 3, .is_leader = true };
        void (*before)(int) = signal(SIGPIPE, SIG_IGN);
        char text[1024];
        long process, session;

        (void)state;
        /* In the place of the shell, which blocks signals for the moment in which it begins to wait for a command. */
        assert_int_equal(answer_of("cat /proc/$$/stat; exec grep -E 'Sig(Blk|Ign)' /proc/self/status", &child, text,
                                   sizeof(text)),
                         0);
        assert_int_equal(sscanf(text, "%ld (%*[^)]) %*c %*d %*d %ld", &process, &session), 2);
        assert_int_equal(process, session);
        assert_non_null(strstr(text, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"));
        (void)signal(SIGPIPE, before);
}

/* What others put there by a mount of it, a program of root must not write through. */
static void a_covered_directory_is_the_childs_own_and_no_link_in_it_leads_out(void **state)
{
        char covered[] = "/tmp/sublet-process-XXXXXX", text[64];
        struct process_child child = { .fds = { PROCESS_NULL, 0, PROCESS_NULL }, .n_fds = 3, .covers = covered };

        (void)state;
        if (geteuid() != 0)
                skip();
        assert_non_null(mkdtemp(covered));
        assert_int_equal(setenv("COVERED", covered, 1), 0);
        assert_int_equal(answer_of("cd $COVERED/.. && touch $COVERED/its && ln -s /etc/passwd $COVERED/link && "
                                   "ls $COVERED && cat $COVERED/link || echo not followed",
                                   &child, text, sizeof(text)),
                         0);
        assert_string_equal(text, "its\nlink\nnot followed\n");
        assert_int_equal(rmdir(covered), 0);
        assert_int_equal(answer_of("true", &child, text, sizeof(text)), -ENOENT); /* it has gone */
        (void)unsetenv("COVERED");
}

/* The directory has what it needs to run a program, and the machine's root has what is not there. */
static void a_childs_root_is_the_whole_of_its_mounts_and_a_directory_is_covered_in_it(void **state)
{
        char root[] = "/tmp/sublet-root-XXXXXX", text[512], make[512];
        struct process_child child = { .fds = { PROCESS_NULL, 0, PROCESS_NULL }, .n_fds = 3, .root = root };

        (void)state;
        if (geteuid() != 0)
                skip();
        assert_non_null(mkdtemp(root));
        (void)snprintf(make, sizeof(make),
                       "set -e; cd %s; mkdir usr proc shared; ln -s usr/bin usr/lib usr/lib64 .; touch shared/outside; "
                       "mount --bind /usr usr; mount -t proc proc proc",
                       root);
        assert_int_equal(system(make), 0);
        child.covers = "/shared";
        assert_int_equal(
                answer_of("pwd; ls /; touch /shared/inside; ls /shared; cut -d' ' -f5 /proc/self/mountinfo | sort",
                          &child, text, sizeof(text)),
                0);
        assert_string_equal(text, "/\nbin\nlib\nlib64\nproc\nshared\nusr\ninside\n/\n/proc\n/shared\n/usr\n");
        (void)snprintf(make, sizeof(make),
                       "cd %s; [ \"$(ls shared)\" = outside ] && umount usr proc && cd / && rm -r %s", root, root);
        assert_int_equal(system(make), 0);
        assert_int_equal(answer_of("true", &child, text, sizeof(text)), -ENOENT); /* it has gone */
}

static void what_cannot_run_says_why_and_leaves_no_child(void **state)
{
        struct process_child child = { .program = "/nonexistent", .argv = (char *[]){ NULL }, .n_fds = 1 };
        pid_t process;

        (void)state;
        child.fds[0] = PROCESS_NULL;
        assert_int_equal(process_begin(&child, &process), -ENOENT);
        child.program = "/dev/null";
        assert_int_equal(process_begin(&child, &process), -EACCES);
        child.fds[0] = 99999;
        assert_int_equal(process_begin(&child, &process), -EBADF);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* A connection whose last close waits for a minute, and whose peer is *ret_peer. */
static int lingering(int *ret_peer)
{
        const struct linger linger = { 1, 60 };
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        static const char bytes[65536];
        int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
        socklen_t size = sizeof(at);

        assert_int_equal(bind(listener, (const struct sockaddr *)&at, sizeof(at)), 0);
        assert_int_equal(listen(listener, 1), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
        *ret_peer = accept(listener, NULL, NULL);
        while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                ;
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
        (void)close(listener);
        return fd;
}

static void *closes(void *fd)
{
        (void)close(*(int *)fd);
        return NULL;
}

/* Closed by a thread while children are made: whichever comes first, no child is the last to have it. */
static void no_child_waits_for_what_others_sent(void **state)
{
        struct process_child child = { .fds = { PROCESS_NULL, 0, PROCESS_NOTHING }, .n_fds = 3 };
        char text[8];

        (void)state;
        for (int i = 0; i < 30; i++) {
                int peer, first = lingering(&peer), fd = fcntl(first, F_DUPFD_CLOEXEC, 64); /* K2 */
                struct timespec before, after;
                pthread_t thread;

                (void)close(first);
                (void)clock_gettime(CLOCK_MONOTONIC, &before);
                assert_int_equal(pthread_create(&thread, NULL, closes, &fd), 0);
                assert_int_equal(answer_of("echo yes", &child, text, sizeof(text)), 0);
                (void)clock_gettime(CLOCK_MONOTONIC, &after);
                assert_string_equal(text, "yes\n");
                assert_true(after.tv_sec - before.tv_sec < 30);
                (void)close(peer); /* which lets the thread go */
                assert_int_equal(pthread_join(thread, NULL), 0);
        }
}

static int prepare(void **state)
{
        (void)state;
        return process_children_prepare();
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_process_has_one_beginning_whatever_it_calls_itself),
                cmocka_unit_test(one_that_begins_later_differs_and_one_that_has_gone_has_none),
                cmocka_unit_test(its_parent_is_known_and_whether_it_lives),
                cmocka_unit_test(one_whose_main_thread_has_ended_is_ending_and_lives),
                cmocka_unit_test(a_process_of_the_same_user_is_near),
                cmocka_unit_test(another_users_is_not),
                cmocka_unit_test(one_of_a_container_is_not_though_its_user_has_the_same_number),
                cmocka_unit_test(a_child_has_its_descriptors_at_their_numbers_and_no_others),
                cmocka_unit_test(a_child_has_default_signals_and_a_session_if_it_is_to),
                cmocka_unit_test(a_covered_directory_is_the_childs_own_and_no_link_in_it_leads_out),
                cmocka_unit_test(a_childs_root_is_the_whole_of_its_mounts_and_a_directory_is_covered_in_it),
                cmocka_unit_test(what_cannot_run_says_why_and_leaves_no_child),
                cmocka_unit_test(no_child_waits_for_what_others_sent),
        };

        return cmocka_run_group_tests_name("base/process", tests, prepare, NULL);
}
