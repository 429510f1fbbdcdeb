/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory by the bare system call, of threads and of children that a bare system call made. */
#define _GNU_SOURCE
#include "kit.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct kit_rm rm;
static uint64_t got;

static int spelt(int fd, unsigned long request, void *block)
{
        return (int)syscall(SYS_ioctl, fd, request, block);
}

static void *take(void *unused)
{
        (void)unused;
        got += kit_rm_take(&rm, KIT_MEMORY + (uint32_t)got, 16, kit_quota_mib());
        return NULL;
}

int main(void)
{
        pthread_t thread;

        kit_rm_open(&rm);
        kit_ioctl = spelt;
        (void)take(NULL);
        if (pthread_create(&thread, NULL, take, NULL))
                kit_cannot("no thread");
        (void)pthread_join(thread, NULL);
        kit_hold(got);
        return 0;
}
