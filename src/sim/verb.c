/*
 * sublet sim: a simulated machine for as long as a program runs.
 *
 * A private directory, a server in it, and the program with three variables: SUBLET_SIM (where the
 * machine is), LD_PRELOAD (the kernel's side of the nodes), LD_LIBRARY_PATH (libcuda and libnvidia-ml).
 * The server dies with us whatever happens to us (PR_SET_PDEATHSIG) and takes the directory with it.
 */
#include "sim/sim.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "sim/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

enum {
        FAULTS_MAX = 16,
        DIRECTORY_MAX = 80, /* leaves room for /dev/nvidia-uvm-tools in a socket's address */
        EXIT_USE = 2,
        EXIT_NOT_FOUND = 127,
        EXIT_SIGNAL = 128,
};

struct plan {
        struct machine_options machine;
        char directory[DIRECTORY_MAX];
        bool is_given; /* --dir */
        const char *faults[FAULTS_MAX + 1];
        size_t n_faults;
        char **command; /* NULL: none */
};

/* ---- options ------------------------------------------------------------------------------------------- */

static void print_help(void)
{
        printf("usage: sublet sim [OPTION]... -- PROGRAM [ARGUMENT]...\n"
               "       sublet sim --dir DIR --fault NAME=N...\n"
               "\n"
               "Runs PROGRAM on a simulated machine with NVIDIA cards, or orders a fault on a running one.\n"
               "\n"
               "  --gpus N          cards, 1 to %d (1)\n"
               "  --memory SIZE     video memory of each (143771M)\n"
               "  --driver VERSION  release of the driver that it plays (%s)\n"
               "  --dir DIR         where the machine is (a new directory, removed at the end)\n"
               "  --fault NAME=N    what goes wrong:\n%s",
               GPUS_MAX, MACHINE_RELEASE, fault_help());
}

static int parse_number(const char *text, uint64_t max, uint64_t *ret)
{
        int r = number_parse(text, ret);

        return r < 0 ? r : *ret < 1 || *ret > max ? -ERANGE : 0;
}

static int parse_option(struct plan *plan, int option, const char *text, struct err *err)
{
        struct rm_version version;
        struct faults ignored;
        enum fault fault;
        uint64_t number;

        switch (option) {
        case 'g':
                if (parse_number(text, GPUS_MAX, &number) < 0)
                        return err_say(err, -EINVAL, "--gpus is 1 to %d, not '%s'", GPUS_MAX, text);
                plan->machine.n_gpus = (unsigned int)number;
                return 0;
        case 'm':
                if (bytes_parse(text, 0, &plan->machine.memory) < 0 || plan->machine.memory > 4096 * GIB)
                        return err_say(err, -EINVAL, "--memory is a size such as 24G, not '%s'", text);
                return 0;
        case 'r':
                if (rm_version_parse(text, &version) < 0 || strlen(text) >= sizeof(plan->machine.release))
                        return err_say(err, -EINVAL, "--driver is a release such as %s, not '%s'", MACHINE_RELEASE, text);
                strcpy(plan->machine.release, text);
                return 0;
        case 'd':
                if (!realpath(text, (char[PATH_MAX]){ 0 }))
                        return err_set(err, -errno, "--dir %s", text);
                return 0;
        case 'f':
                if (plan->n_faults == FAULTS_MAX || fault_parse(text, &ignored, &fault, &number) < 0)
                        return err_say(err, -EINVAL, "--fault has no '%s'; sublet sim --help lists them", text);
                plan->faults[plan->n_faults++] = text;
                return 0;
        default:
                return err_say(err, -EINVAL, "see sublet sim --help");
        }
}
