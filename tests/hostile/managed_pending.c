/* SPDX-License-Identifier: Apache-2.0 */
/* Hundreds of threads that map an ordinary file where managed memory could lie, and never make another call or wait for
 * anything, and many VA spaces: what each came to must be asked of each space, again and again, and meanwhile nobody
 * looks at a mapping that matters. */
#define _GNU_SOURCE
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
        UVM_INITIALIZE = 0x30000001,
        SPACES = 50,
        THREADS = 300,
};

#define BASE 0x2e0000000000u
#define APART (64 * MIB)

static int file;
static _Atomic unsigned int n_done, n_refused;
static atomic_bool is_over;

static void *map_and_stay(void *context)
{
        uint64_t at = BASE + (uint64_t)(uintptr_t)context * APART;
        const struct sched_param idle = { 0 };

        if (mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)at) == MAP_FAILED && errno == ENOMEM)
                n_refused++;
        n_done++;
        (void)sched_setscheduler(0, SCHED_IDLE, &idle); /* whoever has more to do comes first */
        while (!is_over) /* on a processor, or in the queue for one: it might be in its call still */
                ;
        for (;;)
                (void)pause();
        return NULL;
}

static unsigned int spaces_make(void)
{
        unsigned int n = 0;

        for (int i = 0; i < SPACES; i++) {
                unsigned char block[40] = { 0 };
                int uvm = open("/dev/nvidia-uvm", O_RDWR | O_CLOEXEC);

                n += uvm >= 0 && kit_ioctl(uvm, UVM_INITIALIZE, block) == 0;
        }
        return n;
}

int main(void)
{
        uint64_t got = 0;
        pthread_t thread;

        kit_start();
        file = memfd_create("file", 0);
        printf("spaces=%u\n", spaces_make());
        for (uintptr_t i = 0; i < THREADS; i++)
                if (pthread_create(&thread, NULL, map_and_stay, (void *)i))
                        kit_cannot("no more threads");
        while (n_done < THREADS)
                (void)usleep(1000);
        printf("refused=%u\n", n_refused);
        is_over = true;
        for (int i = 0; i < 4 && got < 2 * kit_quota_mib(); i++) {
                got += kit_take_managed(64, 2 * kit_quota_mib());
                kit_let_it_settle();
        }
        kit_hold(got);
        return 0;
}
