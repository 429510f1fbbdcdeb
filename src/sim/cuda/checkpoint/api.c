/* SPDX-License-Identifier: Apache-2.0 */
/* cuCheckpointProcess*: the caller's side. Needs no cuInit here: the work is the other process's. */
#include "sim/cuda/checkpoint/mailbox.h"
#include "sublet/sim/cuda.h"

#include "base/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

static void closedirp(DIR **directory)
{
        if (*directory)
                (void)closedir(*directory);
}

static void unmapp(struct mailbox **mailbox)
{
        if (*mailbox)
                (void)munmap(*mailbox, sizeof(**mailbox));
}

/* A descriptor of the process's mailbox, the caller's; -1: it has none, or is not ours to look at. */
static int mailbox_open(int pid)
{
        static const char wanted[] = "/memfd:" MAILBOX_NAME;
        char path[320], target[64] = "";
        const struct dirent *entry;

        (void)snprintf(path, sizeof(path), "/proc/%d/fd", pid);
        _cleanup_(closedirp) DIR *directory = opendir(path);
        while (directory && (entry = readdir(directory))) {
                (void)snprintf(path, sizeof(path), "/proc/%d/fd/%s", pid, entry->d_name);
                if (readlink(path, target, sizeof(target) - 1) >= (ssize_t)(sizeof(wanted) - 1) &&
                    !strncmp(target, wanted, sizeof(wanted) - 1))
                        return open(path, O_RDWR | O_CLOEXEC);
        }
        return -1;
}

static CUresult mailbox_map(int pid, int *ret_fd, struct mailbox **ret)
{
        _cleanup_(closep) int fd = mailbox_open(pid);
        struct stat file;
        void *at;

        if (fd < 0 || fstat(fd, &file) < 0 || file.st_size != sizeof(**ret))
                return CUDA_ERROR_INVALID_VALUE;
        at = mmap(NULL, sizeof(**ret), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED)
                return CUDA_ERROR_OPERATING_SYSTEM;
        *ret = at;
        *ret_fd = TAKE_FD(fd);
        return CUDA_SUCCESS;
}

/* Until all questions are answered. False: the process has ended. */
static bool wait_for_answer(int pid, struct mailbox *mailbox)
{
        const struct timespec period = { .tv_nsec = 100000000 };

        for (;;) {
                uint32_t answered = mailbox->answered;

                if (answered == mailbox->asked)
                        return true;
                if (kill(pid, 0) < 0 && errno == ESRCH)
                        return false;
                (void)syscall(SYS_futex, &mailbox->answered, FUTEX_WAIT, answered, &period, NULL, 0);
        }
}

static CUresult ask(int pid, enum mailbox_question question)
{
        _cleanup_(unmapp) struct mailbox *mailbox = NULL;
        _cleanup_(closep) int fd = -1; /* the lock lasts as long as it is open */
        CUresult r = mailbox_map(pid, &fd, &mailbox);

        if (r != CUDA_SUCCESS)
                return r;
        if (flock(fd, LOCK_EX) < 0 || !wait_for_answer(pid, mailbox))
                return CUDA_ERROR_OPERATING_SYSTEM;
        mailbox->question = question;
        mailbox->asked++;
        (void)syscall(SYS_futex, &mailbox->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
        return wait_for_answer(pid, mailbox) ? (CUresult)mailbox->answer : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult CUDAAPI cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
        _cleanup_(unmapp) struct mailbox *mailbox = NULL;
        _cleanup_(closep) int fd = -1;
        CUresult r = state ? mailbox_map(pid, &fd, &mailbox) : CUDA_ERROR_INVALID_VALUE;

        if (r == CUDA_SUCCESS)
                *state = (CUprocessState)mailbox->state;
        return r;
}

/* No timeout is needed: what a call of the process waits for, it waits for without the lock. */
CUresult CUDAAPI cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
        (void)args;
        return ask(pid, MAILBOX_LOCK);
}

CUresult CUDAAPI cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
        (void)args;
        return ask(pid, MAILBOX_CHECKPOINT);
}

CUresult CUDAAPI cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
        (void)args;
        return ask(pid, MAILBOX_RESTORE);
}

CUresult CUDAAPI cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args)
{
        (void)args;
        return ask(pid, MAILBOX_UNLOCK);
}
