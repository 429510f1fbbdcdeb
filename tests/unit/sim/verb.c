/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "sim/verbs.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a run of the verb said on both its outputs, and how it ended. */
struct said {
        char text[8192];
        int status;
};

static struct said run(const char *const *arguments)
{
        struct said said = { 0 };
        char *argv[16] = { NULL };
        size_t size = 0;
        int argc = 0, pair[2];
        ssize_t n;
        pid_t child;

        while (arguments[argc] && argc < 15) {
                argv[argc] = strdup(arguments[argc]);
                argc++;
        }
        assert_return_code(pipe(pair), errno);
        (void)fflush(NULL);
        child = fork();
        if (child == 0) {
                (void)dup2(pair[1], 1);
                (void)dup2(pair[1], 2);
                said.status = sim_main(argc, argv);
                (void)fflush(NULL);
                _exit(said.status);
        }
        close(pair[1]);
        while ((n = read(pair[0], said.text + size, sizeof(said.text) - 1 - size)) > 0)
                size += (size_t)n;
        close(pair[0]);
        (void)waitpid(child, &said.status, 0);
        said.status = WIFEXITED(said.status) ? WEXITSTATUS(said.status) : -1;
        while (argc)
                free(argv[--argc]);
        return said;
}

#define RUN(...) run((const char *const[]){ "sim", __VA_ARGS__, NULL })

static void assert_one_line(const struct said *said, int status, const char *part)
{
        const char *end = strchr(said->text, '\n');

        assert_int_equal(said->status, status);
        assert_non_null(strstr(said->text, part));
        assert_non_null(end);
        assert_string_equal(end, "\n");
        assert_int_equal(strncmp(said->text, "sublet sim: ", 12), 0);
}

static void bad_use_is_said_in_one_line(void **state)
{
        struct said said;

        (void)state;
        said = RUN("--gpus", "0", "--", "true");
        assert_one_line(&said, 2, "1 to 32, not '0'");
        said = RUN("--gpus", "33", "--", "true");
        assert_one_line(&said, 2, "not '33'");
        said = RUN("--memory", "lots", "--", "true");
        assert_one_line(&said, 2, "not 'lots'");
        said = RUN("--memory", "2048G", "--", "true");
        assert_one_line(&said, 2, "at most 1024G");
        said = RUN("--driver", "new", "--", "true");
        assert_one_line(&said, 2, "not 'new'");
        said = RUN("--fault", "rain=1", "--", "true");
        assert_one_line(&said, 2, "'rain=1'");
        said = RUN("--gpus", "2");
        assert_one_line(&said, 2, "no command to run");
        said = RUN("--dir", "/nowhere/at/all", "--", "true");
        assert_one_line(&said, 2, "making /nowhere/at/all");
}

static void help_lists_the_faults(void **state)
{
        struct said said = RUN("--help");

        (void)state;
        assert_int_equal(said.status, 0);
        assert_non_null(strstr(said.text, "usage: sublet sim"));
        assert_non_null(strstr(said.text, "lost-gpu=N"));
        assert_non_null(strstr(said.text, "slow-control=N"));
}

static void a_directory_that_is_too_long_for_a_socket_is_refused(void **state)
{
        char path[160] = "/tmp/sublet-unit-";
        struct said said;

        (void)state;
        memset(path + strlen(path), 'a', 100);
        said = RUN("--dir", path, "--", "true");
        (void)rmdir(path);
        assert_one_line(&said, 2, "longer than");
}

static size_t n_entries(const char *path)
{
        DIR *directory = opendir(path);
        size_t n = 0;

        assert_non_null(directory);
        while (readdir(directory))
                n++;
        (void)closedir(directory);
        return n;
}

/* The libraries are not beside this program: after the machine has started, that is the end. */
static void what_fails_leaves_nothing_behind(void **state)
{
        char directory[] = "/tmp/sublet-unit-XXXXXX";
        struct said said;

        (void)state;
        assert_non_null(mkdtemp(directory));
        assert_return_code(setenv("XDG_RUNTIME_DIR", directory, 1), errno);
        said = RUN("--", "true");
        assert_one_line(&said, 1, "libsublet-sim.so");
        assert_int_equal(n_entries(directory), 2); /* . and .. */
        assert_return_code(rmdir(directory), errno);
        said = RUN("--dir", "/tmp", "--fault", "xid=31");
        assert_one_line(&said, 1, "reaching the machine in /tmp");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(bad_use_is_said_in_one_line),
                cmocka_unit_test(help_lists_the_faults),
                cmocka_unit_test(a_directory_that_is_too_long_for_a_socket_is_refused),
                cmocka_unit_test(what_fails_leaves_nothing_behind),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
