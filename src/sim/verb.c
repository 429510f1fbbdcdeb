/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sublet sim: a simulated machine for as long as a program runs.
 *
 * A private directory, a server in it, and the program with three variables: SUBLET_SIM (the directory),
 * LD_PRELOAD (the nodes), LD_LIBRARY_PATH (libcuda and libnvidia-ml). The server ends with this process
 * in any case (PR_SET_PDEATHSIG), and removes the directory.
 *
 * Exit status: the program's, or 128 + the signal that ended it; 2: bad use; 127: no such program;
 * 126: it cannot be run; 1: the machine could not be made.
 */
#include "sim/environment.h"
#include "sim/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/flags.h"
#include "sim/client/wire.h"
#include "sim/server/machine.h"
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
        FAULTS_MAX = 16,
        DIRECTORY_MAX = 80, /* leaves room for /dev/nvidia-uvm-tools in a socket's address */
        EXIT_USE = 2,
        EXIT_CANNOT_RUN = 126,
        EXIT_NOT_FOUND = 127,
        EXIT_SIGNAL = 128,
        FD_READY = 3, /* of the server, which has no others but the first three */
        FD_LOCK = 4,
        FD_END,
};

struct plan {
        struct machine_options machine;
        char directory[DIRECTORY_MAX];
        bool is_given;  /* --dir: it is kept */
        bool is_joined; /* --join: it runs already */
        const char *faults[FAULTS_MAX + 1];
        size_t n_faults;
        char **command; /* ends with NULL; empty: only request the faults */
};

/* ---- options ------------------------------------------------------------------------------- */

static const char usage[] = "usage: sublet sim [OPTION...] [--] COMMAND [ARGUMENT...]\n"
                            "       sublet sim --join DIR [--] COMMAND [ARGUMENT...]\n"
                            "       sublet sim --dir DIR --fault NAME=N...\n"
                            "       sublet sim load [OPTION...] [KIND]\n"
                            "Runs COMMAND on a machine with simulated GPUs, a new one or one that runs; or injects\n"
                            "faults into one that runs. load: a program that keeps the machine's first GPU busy.\n"
                            "\n"
                            "\f\n"
                            "Faults, from the start on or on a running machine:\n";

static int read_instances(const struct flag *flag, const char *text, struct err *err)
{
        struct plan *plan = flag->to;
        struct machine_options *machine = &plan->machine;
        char copy[256], *rest = copy, *item;

        machine->n_instances = 0;
        if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
                return err_say(err, -EINVAL, "--mig has at most %d sizes", INSTANCES_MAX);
        while ((item = strsep(&rest, ","))) {
                if (machine->n_instances == INSTANCES_MAX)
                        return err_say(err, -EINVAL, "--mig has at most %d sizes", INSTANCES_MAX);
                if (bytes_parse(item, 0, &machine->instances[machine->n_instances]) < 0)
                        return err_say(err, -EINVAL, "--mig is a list of sizes such as 10G,20G, not '%s'", text);
                machine->n_instances++;
        }
        return 0;
}

static int read_directory(const struct flag *flag, const char *text, struct err *err)
{
        struct plan *plan = flag->to;
        char path[PATH_MAX];

        if (mkdir(text, 0700) < 0 && errno != EEXIST)
                return err_set(err, -errno, "making %s", text);
        if (!realpath(text, path))
                return err_set(err, -errno, "finding %s", text);
        if (strlen(path) >= sizeof(plan->directory))
                return err_say(err, -ENAMETOOLONG, "%s is longer than the %d characters that a socket's address leaves",
                               path, DIRECTORY_MAX - 1);
        strcpy(plan->directory, path);
        plan->is_given = true;
        return 0;
}

static int read_joined(const struct flag *flag, const char *text, struct err *err)
{
        struct plan *plan = flag->to;
        _cleanup_(closep) int fd = socket_connect(SOCK_SEQPACKET, 0, "%s/control", text);

        if (fd < 0)
                return err_say(err, fd, "no machine runs in %s: start one with 'sublet sim --dir %s -- COMMAND'", text,
                               text);
        plan->is_joined = true;
        return read_directory(flag, text, err);
}

static int read_release(const struct flag *flag, const char *text, struct err *err)
{
        struct plan *plan = flag->to;
        struct rm_version version;

        if (rm_version_parse(text, &version) < 0 || strlen(text) >= sizeof(plan->machine.release))
                return err_say(err, -EINVAL, "--driver is a release such as " MACHINE_RELEASE ", not '%s'", text);
        strcpy(plan->machine.release, text);
        return 0;
}

static int read_fault(const struct flag *flag, const char *text, struct err *err)
{
        struct plan *plan = flag->to;
        struct faults ignored;
        enum fault fault;
        uint64_t value;

        if (fault_parse(text, &ignored, &fault, &value) < 0)
                return err_say(err, -EINVAL, "there is no fault '%s' ('sublet sim --help' lists them)", text);
        if (plan->n_faults == FAULTS_MAX)
                return err_say(err, -E2BIG, "at most %d faults", FAULTS_MAX);
        plan->faults[plan->n_faults++] = text;
        return 0;
}

static int read_count(const struct flag *flag, const char *text, struct err *err)
{
        uint64_t number;

        if (number_parse(text, &number) < 0 || number < 1 || number > GPUS_MAX)
                return err_say(err, -EINVAL, "--gpus is a number from 1 to %d, not '%s'", GPUS_MAX, text);
        *(unsigned int *)flag->to = (unsigned int)number;
        return 0;
}

static int read_memory(const struct flag *flag, const char *text, struct err *err)
{
        char wrong[BYTES_WRONG];
        bytes *memory = flag->to;

        if (bytes_parse(text, 0, memory) < 0 || *memory > 1024 * GIB)
                return bytes_wrong(text, NULL, wrong) ?
                               err_say(err, -EINVAL, "--memory %s: %s", text, wrong) :
                               err_say(err, -EINVAL, "--memory is a size such as 24G, at most 1024G, not '%s'", text);
        return 0;
}

/* 0; 1: help was printed; -errno. */
static int options_parse(int argc, char **argv, struct plan *plan, struct err *err)
{
        bool is_real_time = false;
        const struct flag fault = { "fault", 0, read_fault, plan, "NAME=N", "a fault of those below", NULL };
        const struct flag flags[] = {
                { "gpus", 0, read_count, &plan->machine.n_gpus, "N", "number of GPUs, 1 to 32 (1)", NULL },
                { "memory", 0, read_memory, &plan->machine.memory, "SIZE", "video memory of each (143771M)", NULL },
                { "mem", 0, read_memory, &plan->machine.memory, NULL, NULL, NULL },
                { "mig", 0, read_instances, plan, "SIZE,...", "device 0 is in MIG mode, with an instance of each size",
                  NULL },
                { "nvlink", 0, flag_is, &plan->machine.has_nvlink, NULL,
                  "the GPUs reach each other, and a fabric is up", NULL },
                { "driver", 0, read_release, plan, "VERSION", "release of the simulated driver (" MACHINE_RELEASE ")",
                  NULL },
                { "dir", 0, read_directory, plan, "DIR",
                  "make the machine in this directory, and keep it; at most 79 characters", NULL },
                { "join", 0, read_joined, plan, "DIR", "run COMMAND on the machine that runs there", NULL },
                { "realistic-time", 0, flag_is, &is_real_time, NULL, "scheduling controls take as long as on an H200",
                  NULL },
                fault,
        };
        int command = flags_read(argc, argv, flags, ARRAY_SIZE(flags), usage, true, err);

        if (command <= 0)
                return command < 0 ? command : 1;
        if (is_real_time && read_fault(&fault, "real-time=1", err) < 0)
                return -EINVAL;
        plan->command = argv + command;
        if (!*plan->command && plan->is_joined)
                return err_say(err, -EINVAL, "no command to run: 'sublet sim --join %s -- COMMAND'", plan->directory);
        if (!*plan->command && (!plan->is_given || !plan->n_faults))
                return err_say(err, -EINVAL, "no command to run: 'sublet sim -- COMMAND'");
        return 0;
}

/* ---- the machine --------------------------------------------------------------------------- */

static int directory_make(struct plan *plan, struct err *err)
{
        const char *runtime = getenv("XDG_RUNTIME_DIR");

        if (plan->is_given)
                return 0;
        if (!runtime ||
            snprintf(plan->directory, sizeof(plan->directory), "%s/sublet-sim-XXXXXX", runtime) >=
                    (int)sizeof(plan->directory) ||
            !mkdtemp(plan->directory)) {
                strcpy(plan->directory, "/tmp/sublet-sim-XXXXXX");
                if (!mkdtemp(plan->directory))
                        return err_set(err, -errno, "making a directory in /tmp");
        }
        return 0;
}

/* The server's process; never returns. Its output goes to the machine's log. */
static void server_process(const struct plan *plan, pid_t parent, int lock, int ready)
{
        int log, null = open("/dev/null", O_RDWR | O_CLOEXEC), r;
        char path[256];

        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void)setpgid(0, 0); /* an interrupt at the terminal is the program's */
        (void)snprintf(path, sizeof(path), "%s/log", plan->directory);
        log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        (void)dup2(null, 0);
        (void)dup2(null, 1);
        (void)dup2(log < 0 ? null : log, 2);
        lock = fcntl(lock, F_DUPFD, FD_END);
        (void)dup2(ready, FD_READY);
        (void)dup2(lock, FD_LOCK);
        (void)close_range(FD_END, ~0U, 0);
        r = getppid() == parent ? server_run(&plan->machine, plan->faults, FD_READY) : -ESRCH;
        if (!plan->is_given)
                machine_files_remove(plan->directory);
        _exit(r < 0 ? -r : 0);
}

/* Its process, or -errno. */
static pid_t server_start(const struct plan *plan, struct err *err)
{
        _cleanup_(closep) int ours = -1, lock = machine_lock(plan->directory);
        pid_t parent = getpid(), pid;
        int pair[2], status = 0;
        char byte;

        if (lock == -EBUSY)
                return err_say(err, lock,
                               "a machine runs in %s: 'sublet sim --join %s -- COMMAND' runs a command on it; or take "
                               "another directory",
                               plan->directory, plan->directory);
        if (lock == -ENOTDIR)
                return err_say(err, lock, "%s is no directory: choose another --dir", plan->directory);
        if (lock < 0)
                return err_set(err, lock, "locking %s", plan->directory);
        if (pipe2(pair, O_CLOEXEC) < 0)
                return err_set(err, -errno, "making a pipe");
        ours = pair[0];
        pid = fork();
        if (pid == 0)
                server_process(plan, parent, lock, pair[1]);
        close(pair[1]);
        if (pid < 0)
                return err_set(err, -errno, "starting the machine");
        if (read(ours, &byte, 1) == 1)
                return pid;
        (void)waitpid(pid, &status, 0);
        return err_set(err, WIFEXITED(status) && WEXITSTATUS(status) ? -WEXITSTATUS(status) : -EIO,
                       "starting the machine in %s", plan->directory);
}

/* Of an H200's 143771 MiB the heap lacks 629824 KiB (580.159.04). */
static bytes reserved_of(bytes memory)
{
        return (bytes)((double)memory * 629824 / 147221504 / (64 * KIB)) * (64 * KIB);
}

static pid_t machine_start(struct plan *plan, struct err *err)
{
        int r = directory_make(plan, err);

        plan->machine.directory = plan->directory;
        plan->machine.reserved = reserved_of(plan->machine.memory);
        return r < 0 ? r : server_start(plan, err);
}

static void machine_end(const struct plan *plan, pid_t server)
{
        (void)kill(server, SIGTERM);
        (void)waitpid(server, NULL, 0);
        if (!plan->is_given)
                machine_files_remove(plan->directory);
}

/* ---- the program --------------------------------------------------------------------------- */

/* Its process, or -errno. */
static pid_t program_start(const struct plan *plan, const sigset_t *mask, struct err *err)
{
        pid_t pid = fork();

        if (pid < 0)
                return err_set(err, -errno, "starting %s", plan->command[0]);
        if (pid == 0) {
                (void)sigprocmask(SIG_SETMASK, mask, NULL);
                execvp(plan->command[0], plan->command);
                (void)dprintf(2, "sublet sim: %s: %s\n", plan->command[0], strerror(errno));
                _exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
        }
        return pid;
}

/* Passes signals on until the program has ended. Those from the terminal it has got already. */
static int program_wait(pid_t program, const sigset_t *set)
{
        siginfo_t info;
        int status;

        for (;;) {
                if (sigwaitinfo(set, &info) < 0)
                        continue;
                if (info.si_signo != SIGCHLD && info.si_code != SI_KERNEL)
                        (void)kill(program, info.si_signo);
                if (waitpid(program, &status, WNOHANG) == program)
                        return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_SIGNAL + WTERMSIG(status);
        }
}

static int command_run(struct plan *plan, struct err *err)
{
        static const int passed[] = { SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH };
        sigset_t set, old;
        pid_t server;
        int r;

        sigemptyset(&set);
        for (size_t i = 0; i < ARRAY_SIZE(passed); i++)
                sigaddset(&set, passed[i]);
        (void)signal(SIGCHLD, SIG_DFL); /* ignored, it would take the exit status away */
        server = plan->is_joined ? 0 : machine_start(plan, err);
        if (server < 0) {
                if (!plan->is_given)
                        machine_files_remove(plan->directory);
                return server;
        }
        (void)sigprocmask(SIG_BLOCK, &set, &old);
        r = environment_make(plan->directory, err);
        if (!r)
                r = program_start(plan, &old, err);
        if (r > 0)
                r = program_wait(r, &set);
        if (server)
                machine_end(plan, server);
        (void)sigprocmask(SIG_SETMASK, &old, NULL);
        return r;
}

/* ---- faults on a running machine ----------------------------------------------------------- */

static int fault_request(const char *directory, const char *fault, struct err *err)
{
        _cleanup_(closep) int fd = socket_connect(SOCK_SEQPACKET, 0, "%s/control", directory);
        char answer[128] = { 0 };

        if (fd < 0)
                return err_set(err, fd, "reaching the machine in %s", directory);
        if (send(fd, fault, strlen(fault), MSG_NOSIGNAL) < 0 || recv(fd, answer, sizeof(answer) - 1, 0) < 0)
                return err_set(err, -errno, "requesting %s", fault);
        return *answer ? err_say(err, -EINVAL, "%s: %s", fault, answer) : 0;
}

static int faults_request(const struct plan *plan, struct err *err)
{
        int r = 0;

        for (size_t i = 0; i < plan->n_faults && !r; i++)
                r = fault_request(plan->directory, plan->faults[i], err);
        return r;
}

/* `sublet sim load`: the load of the benchmark, for who has no program of his own. Only within a simulated machine. */
static int load_run(int argc, char **argv)
{
        char verb[] = "burn", span[] = "--for", minute[] = "1m";
        char *for_a_minute[] = { argv[0], verb, span, minute, NULL };

        if (!getenv(SIM_ENV) && (argc < 3 || strcmp(argv[2], "--help"))) {
                (void)fputs("sublet sim load: not on a simulated machine: 'sublet sim -- sublet sim load'\n", stderr);
                return EXIT_USE;
        }
        argv[1] = verb;
        (void)execv("/proc/self/exe", argc == 2 ? for_a_minute : argv);
        (void)fprintf(stderr, "sublet sim load: %s\n", strerror(errno));
        return EXIT_FAILURE;
}

int sim_main(int argc, char **argv)
{
        struct plan plan = { .machine = { .n_gpus = 1, .memory = 143771 * MIB, .release = MACHINE_RELEASE } };
        struct err err = { 0 };
        int r;

        if (argc > 1 && !strcmp(argv[1], "load"))
                return load_run(argc, argv);
        r = options_parse(argc, argv, &plan, &err);
        if (r > 0) {
                (void)fputs(fault_help(), stdout);
                return 0;
        }
        if (r < 0) {
                (void)fprintf(stderr, "sublet sim: %s\n", err.text);
                return EXIT_USE;
        }
        r = *plan.command ? command_run(&plan, &err) : faults_request(&plan, &err);
        if (r < 0) {
                (void)fprintf(stderr, "sublet sim: %s\n", err.text);
                return EXIT_FAILURE;
        }
        return r;
}
