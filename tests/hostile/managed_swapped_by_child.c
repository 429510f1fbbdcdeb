/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory through a number that another thread changes between UVM and an ordinary file, mapped by children that
 * share the address space (CLONE_VM): whoever ends such a child for it has not ended the range, which is its parent's,
 * too. The quota is full from the start, so that nothing is mapped with leave.
 */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        PIECE_MIB = 64,
        NUMBER = 600, /* that changes its file */
};

static _Alignas(64) char stack[256 * 1024];
static int uvm, plain;
static uint64_t at = 0x7000000000;

static void *swapper(void *unused)
{
        (void)unused;
        for (;;) {
                (void)dup2(uvm, NUMBER);
                (void)dup2(plain, NUMBER);
        }
        return NULL;
}

static bool is_uvm(void)
{
        FILE *maps = fopen("/proc/self/maps", "re");
        bool is_it = false;
        char line[512];

        while (maps && fgets(line, sizeof(line), maps))
                if (strtoull(line, NULL, 16) == at)
                        is_it = strstr(line, "nvidia-uvm");
        if (maps)
                (void)fclose(maps);
        return is_it;
}

static int child_main(void *unused)
{
        enum { TRIES = 300 };

        (void)unused;
        for (int i = 0; i < TRIES; i++)
                if (mmap((void *)at, PIECE_MIB * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, NUMBER,
                         (off_t)at) != MAP_FAILED &&
                    is_uvm())
                        break;
        return 0;
}

int main(void)
{
        pthread_t thread;
        uint64_t got;
        int n = 0;

        kit_start();
        uvm = kit_uvm();
        plain = memfd_create("plain", MFD_CLOEXEC);
        got = kit_take_device(PIECE_MIB, kit_quota_mib());
        if (dup2(plain, NUMBER) < 0 || pthread_create(&thread, NULL, swapper, NULL))
                kit_cannot("no thread");
        for (; n < 24; n++, at += PIECE_MIB * MIB) {
                pid_t child = clone(child_main, stack + sizeof(stack), CLONE_VM | CLONE_FILES | SIGCHLD, NULL);

                if (child < 0 || waitpid(child, NULL, 0) != child)
                        kit_cannot("no child");
                if (!is_uvm())
                        continue;
                kit_migrate(uvm, at, PIECE_MIB * MIB);
                got += PIECE_MIB;
        }
        kit_let_it_settle();
        kit_hold(got);
        _exit(0);
}
