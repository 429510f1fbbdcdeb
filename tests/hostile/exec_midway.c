/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a process in the midst of an exec: managed ranges that it mapped for its parent, with whom it shared the
 * address space, and exports of which it has the last descriptor. The exec closes a file of FUSE whose server does not
 * answer, and until it does whoever looks into that process (kcmp, its maps, where its thread is) waits: the gate must
 * not, and must not take the memory for gone. Just before, it maps an ordinary file where managed memory could lie, so
 * that the gate does want to know where the thread is. "slowest_ms" is what a call took meanwhile.
 *
 * The server lets go after KIT_FUSE_LIFE_SEC, and when this program has ended: nothing waits for ever.
 */
#define _GNU_SOURCE
#include "kit.h"
#include "kit_fuse.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
        PIECE = 128,
        MANAGED = 64,
        STACK = 1 << 20,
};

#define ELSEWHERE 0x2e0000000000u

static int alive[2], report[2]; /* hangs up when the attack ends; what became of a child */

/* ---- who has the memory -------------------------------------------------------------------------------------- */

/* fd: -1, or what it is to keep. */
static int child_main(int fd)
{
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(alive[1]);
        if ((fd < 0 || fcntl(fd, F_SETFD, 0) == 0) && kit_fuse_open(alive[0], report[1]) >= 0) {
                (void)mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, memfd_create("file", 0), ELSEWHERE);
                (void)execlp("sleep", "sleep", "60", (char *)NULL);
        }
        (void)!write(report[1], "n", 1);
        _exit(1);
}

static void await_exec(void)
{
        char word = 'n';

        if (read(report[0], &word, 1) != 1 || word != 'y')
                kit_cannot("no FUSE here");
}

static void hide(int fd)
{
        pid_t child = fork();

        if (child == 0)
                (void)child_main(fd);
        if (child < 0)
                kit_cannot("no child");
        await_exec();
        (void)close(fd);
}

static uint64_t mapped;

static int mapper_main(void *unused)
{
        (void)unused;
        kit_join();
        mapped += kit_take_managed(MANAGED, MANAGED);
        return child_main(-1);
}

/* Whoever made it stands still until it executes. */
static void map_and_exec(void)
{
        char *stack = malloc(STACK);

        if (!stack || clone(mapper_main, stack + STACK, CLONE_VM | SIGCHLD, NULL) < 0)
                kit_cannot("no clone");
        await_exec();
}

/* A space that nobody has any more: whoever wants to know looks at every descriptor of every process. */
static void lose_space(void)
{
        int uvm = open("/dev/nvidia-uvm", O_RDWR);
        uint64_t block[2] = { 0 };

        (void)kit_ioctl(uvm, 0x30000001, block); /* UVM_INITIALIZE */
        (void)close(uvm);
}

static uint64_t now_ms(void)
{
        struct timespec now;

        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int main(void)
{
        uint64_t most = 4 * kit_quota_mib(), got = 0, slowest = 0;

        kit_start();
        if (pipe2(alive, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC) < 0)
                kit_cannot("no pipe");
        for (int i = 0; i < 3; i++) {
                map_and_exec();
                kit_let_it_settle();
        }
        for (int refused = 0; got < most && refused < 3;) {
                uint64_t since = now_ms(), took;
                int fd;

                lose_space();
                fd = kit_export(PIECE);
                took = now_ms() - since;
                slowest = took > slowest ? took : slowest;
                if (fd >= 0)
                        hide(fd);
                got += fd >= 0 ? PIECE : 0;
                refused += fd < 0;
                kit_let_it_settle();
        }
        printf("slowest_ms=%llu\n", (unsigned long long)slowest);
        kit_hold(got + mapped);
        return 0;
}
