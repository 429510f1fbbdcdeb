/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory through a descriptor number that another thread changes between UVM and an ordinary file while mmap
 * is decided. */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static int number, uvm, plain;

static void *swapper(void *unused)
{
        (void)unused;
        for (;;) {
                (void)dup2(uvm, number);
                (void)dup2(plain, number);
        }
        return NULL;
}

int main(void)
{
        enum { TRIES = 400 };
        pthread_t thread;
        uint64_t got = 0;

        kit_start();
        uvm = kit_uvm();
        plain = open("/dev/zero", O_RDWR);
        number = fcntl(plain, F_DUPFD_CLOEXEC, 200);
        if (pthread_create(&thread, NULL, swapper, NULL))
                kit_cannot("no thread");
        for (int i = 0; i < TRIES; i++, kit_map_at += 64 * MIB)
                got += kit_map_managed(number, 64, 64);
        kit_let_it_settle();
        got += kit_take_device(64, 4 * kit_quota_mib());
        kit_hold(got);
        _exit(0);
}
