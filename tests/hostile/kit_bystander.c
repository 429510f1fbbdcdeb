/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is nobody's tenant, with a number of the caller's choice and a page at an address of its choice.
 *
 *      kit-bystander NUMBER ADDRESS
 *
 * "bystander pid=N"; after the end of stdin "changed=N", how many bytes of the page are not what they were, and
 * "ended=". Status 3: nobody may choose a number here ("cannot").
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
        PAGE = 4096,
        PATTERN = 0x5a,
};

static int bystander_main(uintptr_t address)
{
        unsigned char *page = mmap((void *)address, PAGE, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        int n_changed = 0;
        char byte;

        if (page == MAP_FAILED)
                return 2;
        memset(page, PATTERN, PAGE);
        printf("bystander pid=%d\n", (int)getpid());
        (void)fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0)
                ;
        for (int i = 0; i < PAGE; i++)
                n_changed += page[i] != PATTERN;
        printf("changed=%d\n", n_changed);
        return 0;
}

int main(int argc, char **argv)
{
        pid_t number = argc == 3 ? atoi(argv[1]) : 0;
        struct clone_args args = { .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&number, .set_tid_size = 1 };
        int status = 0;
        pid_t child;

        if (number <= 0)
                return 2;
        child = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
        if (child == 0)
                exit(bystander_main(strtoull(argv[2], NULL, 0)));
        if (child < 0) {
                printf("cannot=%s\n", strerror(errno));
                return 3;
        }
        (void)waitpid(child, &status, 0);
        printf("ended=%s\n", WIFEXITED(status) ? "by itself" : strsignal(WTERMSIG(status)));
        return 0;
}
