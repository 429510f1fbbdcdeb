/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process is killed in the middle of a driver call, and its number is free before the driver has answered. Whoever
 * gets that number (kit_bystander.c, which is no tenant) has memory where the call's block was: the answer must not be
 * written there, and the bystander must not be ended with the tenant.
 *
 *      "ready"                 the driver may be made slow now; then a line on stdin
 *      "free pid=N at=A"       somebody may have the number now; then a line on stdin
 *      "holding"               another call, begun later, has been answered
 */
#include "kit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT 0x7a0000000000ull

enum {
        PAGE = 4096,
        NR_CONTROL = 0x2a,
        CONTROL_SIZE = 32,
        PARAMS_AT = 256,
        ATTACHED_IDS = 0x201,
        ATTACHED_IDS_SIZE = 128,
};

/* Block and parameters in the page, and both are written. */
static void call(const struct kit_rm *rm)
{
        unsigned char *block = mmap((void *)AT, PAGE, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

        if (block == MAP_FAILED)
                kit_cannot("no page");
        kit_put32(block, 0, rm->client);
        kit_put32(block, 4, rm->client);
        kit_put32(block, 8, ATTACHED_IDS);
        kit_put64(block, 16, AT + PARAMS_AT);
        kit_put32(block, 24, ATTACHED_IDS_SIZE);
        kit_put32(block, 28, 0xffffffffu);
        (void)kit_ioctl(rm->ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_CONTROL, CONTROL_SIZE), block);
}

static _Noreturn void child_main(int report)
{
        struct kit_rm rm;

        kit_rm_open(&rm);
        (void)!write(report, "c", 1);
        call(&rm);
        _exit(0);
}

/* Also when it has ended. */
static bool is_in_ioctl(pid_t process)
{
        char path[64], text[64] = "";
        ssize_t n;
        int fd;

        (void)snprintf(path, sizeof(path), "/proc/%d/syscall", process);
        fd = open(path, O_RDONLY);
        n = read(fd, text, sizeof(text) - 1);
        (void)close(fd);
        return n <= 0 || strncmp(text, "16 ", 3) == 0;
}

static void wait_for_line(void)
{
        char line[16];

        if (!fgets(line, sizeof(line), stdin))
                exit(0);
}

int main(void)
{
        struct kit_rm rm;
        int report[2];
        char word = 0;
        pid_t child;

        kit_rm_open(&rm);
        if (pipe(report) < 0)
                kit_cannot("no pipe");
        puts("ready");
        wait_for_line();
        child = fork();
        if (child == 0)
                child_main(report[1]);
        (void)!read(report[0], &word, 1);
        while (!is_in_ioctl(child))
                (void)usleep(1000);
        (void)usleep(300 * 1000); /* the gate has made the call by now; else there is less to see */
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        printf("free pid=%d at=0x%llx\n", (int)child, (unsigned long long)AT);
        wait_for_line();
        call(&rm);
        kit_hold(0);
        return 0;
}
