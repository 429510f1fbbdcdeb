/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/process.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_process_has_one_beginning_whatever_it_calls_itself),
                cmocka_unit_test(one_that_begins_later_differs_and_one_that_has_gone_has_none),
                cmocka_unit_test(its_parent_is_known_and_whether_it_lives),
                cmocka_unit_test(a_process_of_the_same_user_is_near),
                cmocka_unit_test(another_users_is_not),
                cmocka_unit_test(one_of_a_container_is_not_though_its_user_has_the_same_number),
        };

        return cmocka_run_group_tests_name("base/process", tests, NULL, NULL);
}
