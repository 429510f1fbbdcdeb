/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/checkpoint/checkpoint.h"

#include "base/cleanup.h"
#include "sim/cuda/checkpoint/contents.h"
#include "sim/cuda/checkpoint/mailbox.h"
#include "sim/cuda/state.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
        STACK_BYTES = 256 << 10,
};

static struct {
        int fd;
        struct mailbox *mailbox; /* NULL: it has not begun */
} service = { .fd = -1 };

/* What a process in each state may be asked, as the real library has it. */
static CUresult act(uint32_t question, uint32_t *state)
{
        CUresult r = CUDA_ERROR_ILLEGAL_STATE;

        if (question == MAILBOX_LOCK && *state == CU_PROCESS_STATE_RUNNING) {
                library_set_locked(true);
                *state = CU_PROCESS_STATE_LOCKED;
                r = CUDA_SUCCESS;
        } else if (question == MAILBOX_CHECKPOINT && *state == CU_PROCESS_STATE_LOCKED) {
                if ((r = contents_leave()) == CUDA_SUCCESS)
                        *state = CU_PROCESS_STATE_CHECKPOINTED;
        } else if (question == MAILBOX_RESTORE && *state == CU_PROCESS_STATE_CHECKPOINTED) {
                if ((r = contents_return()) == CUDA_SUCCESS)
                        *state = CU_PROCESS_STATE_LOCKED;
        } else if (question == MAILBOX_UNLOCK && *state == CU_PROCESS_STATE_LOCKED) {
                library_set_locked(false);
                *state = CU_PROCESS_STATE_RUNNING;
                r = CUDA_SUCCESS;
        }
        return r;
}

static void answer(struct mailbox *mailbox, uint32_t serial)
{
        uint32_t state = mailbox->state;

        {
                LOCKED_LIBRARY;
                mailbox->answer = act(mailbox->question, &state);
        }
        mailbox->state = state;
        mailbox->answered = serial;
        (void)syscall(SYS_futex, &mailbox->answered, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void *serve(void *argument)
{
        struct mailbox *mailbox = argument;

        library_be_insider();
        for (;;) {
                uint32_t asked = mailbox->asked;

                if (asked != mailbox->answered)
                        answer(mailbox, asked);
                else
                        (void)syscall(SYS_futex, &mailbox->asked, FUTEX_WAIT, asked, NULL, NULL, 0);
        }
        return NULL;
}

/* The program's signals are not for this thread. */
static int start_thread(struct mailbox *mailbox)
{
        pthread_attr_t attributes;
        sigset_t all, before;
        pthread_t thread;
        int r;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        (void)pthread_attr_init(&attributes);
        (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
        r = pthread_create(&thread, &attributes, serve, mailbox);
        (void)pthread_attr_destroy(&attributes);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return r;
}

void checkpoint_serve(void)
{
        _cleanup_(closep) int fd = memfd_create(MAILBOX_NAME, MFD_CLOEXEC);
        void *at = MAP_FAILED;

        if (fd >= 0 && ftruncate(fd, sizeof(struct mailbox)) == 0)
                at = mmap(NULL, sizeof(struct mailbox), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED)
                return;
        if (start_thread(at) != 0) {
                (void)munmap(at, sizeof(struct mailbox));
                return;
        }
        service.mailbox = at;
        service.fd = TAKE_FD(fd);
}

void checkpoint_forget(void)
{
        if (service.mailbox)
                (void)munmap(service.mailbox, sizeof(*service.mailbox));
        service.mailbox = NULL;
        closep(&service.fd);
}
