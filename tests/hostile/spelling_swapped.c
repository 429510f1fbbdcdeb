/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory by a number that another thread keeps moving between the driver's descriptor and other files, also
 * closed ones, while calls of every type are decided. By the bare system call: the simulator's library would take the
 * gate's refusal for a call that nobody answered. */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int number, ctl, other;

static int spelt(int fd, unsigned long request, void *block)
{
        static unsigned long turn;

        (void)fd;
        return (int)syscall(SYS_ioctl, number, (request & 0x3fff00ff) | turn++ % 256 << 8, block);
}

static void *move(void *unused)
{
        (void)unused;
        for (;;) {
                (void)dup2(ctl, number);
                (void)dup2(other, number);
                (void)close(number);
                (void)dup2(ctl, number);
        }
        return NULL;
}

int main(void)
{
        struct kit_rm rm;
        pthread_t thread;

        kit_rm_open(&rm);
        ctl = rm.ctl;
        other = open("/dev/zero", O_RDWR);
        number = fcntl(ctl, F_DUPFD, 200);
        if (pthread_create(&thread, NULL, move, NULL))
                kit_cannot("no thread");
        kit_ioctl = spelt;
        kit_hold(kit_rm_try(&rm, KIT_MEMORY, 16, 2 * kit_quota_mib(), 5000));
        exit(0);
}
