/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with a filter of its own, whose listener is its own, too: it answers that its driver calls go on. The
 * kernel gives a second listener to nobody who is under a gate; the filter alone allows everything.
 */
#define _GNU_SOURCE
#include "kit.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int listener = -1;

/* A thread without the filter: it was there before. */
static void *answerer(void *unused)
{
        (void)unused;
        for (;;) {
                struct seccomp_notif call = { 0 };
                struct seccomp_notif_resp answer = { .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };

                if (listener < 0)
                        (void)usleep(1000);
                else if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) == 0) {
                        answer.id = call.id;
                        (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
                }
        }
        return NULL;
}

static int install(unsigned int verdict, unsigned int flags)
{
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
                BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 'F' << 8, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, verdict),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

        return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

int main(void)
{
        pthread_t thread;
        struct kit_rm rm;

        kit_rm_open(&rm);
        if (pthread_create(&thread, NULL, answerer, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                kit_cannot("no thread");
        listener = install(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
        if (listener < 0 && install(SECCOMP_RET_ALLOW, 0) < 0)
                kit_cannot("no filter");
        printf("listener=%d\n", listener >= 0);
        kit_hold(kit_rm_take(&rm, KIT_MEMORY, 16, 2 * kit_quota_mib()));
        _exit(0);
}
