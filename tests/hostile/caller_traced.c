/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory by calls that a debugger puts into a program: it stops at a harmless request, and its registers are
 * changed before the kernel goes on. The kernel asks the filter after the debugger. */
#define _GNU_SOURCE
#include "kit.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static struct shared {
        struct kit_rm rm;
        unsigned long request;
        uint64_t got;
} * shared;

/* The request that the debugger puts in its place lies in shared->request. */
static int spelt(int fd, unsigned long request, void *block)
{
        shared->request = request;
        return (int)syscall(SYS_ioctl, fd, 0x5401ul, block);
}

static void traced(void)
{
        kit_rm_open(&shared->rm);
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
                kit_cannot("no debugger");
        (void)raise(SIGSTOP);
        kit_ioctl = spelt;
        shared->got = kit_rm_take(&shared->rm, KIT_MEMORY, 16, 2 * kit_quota_mib());
        kit_hold(shared->got);
        _exit(0);
}

int main(void)
{
        struct user_regs_struct registers;
        pid_t child;
        int status;

        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        child = shared == MAP_FAILED ? -1 : fork();
        if (child == 0)
                traced();
        while (child > 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
                if (ptrace(PTRACE_GETREGS, child, 0, &registers) == 0 && registers.orig_rax == SYS_ioctl &&
                    registers.rsi == 0x5401 && (int)registers.rdi == shared->rm.ctl) {
                        registers.rsi = shared->request;
                        (void)ptrace(PTRACE_SETREGS, child, 0, &registers);
                }
                (void)ptrace(PTRACE_SYSCALL, child, 0, 0);
        }
        return 0;
}
