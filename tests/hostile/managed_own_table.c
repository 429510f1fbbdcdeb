/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory mapped by a thread whose table of descriptors is its own: under the number that the process has for
 * an ordinary file, the thread has UVM. */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static int number, uvm;
static uint64_t got;

static void *thread_main(void *unused)
{
        (void)unused;
        if (unshare(CLONE_FILES) < 0 || dup2(uvm, number) < 0)
                kit_cannot("no table of its own");
        for (int i = 0; i < 4; i++) {
                got += kit_map_managed(number, 64, kit_quota_mib());
                kit_let_it_settle();
        }
        return NULL;
}

int main(void)
{
        pthread_t thread;

        kit_start();
        uvm = kit_uvm();
        number = open("/dev/zero", O_RDWR);
        if (pthread_create(&thread, NULL, thread_main, NULL))
                kit_cannot("no thread");
        (void)pthread_join(thread, NULL);
        got += kit_take_device(64, 4 * kit_quota_mib());
        kit_hold(got);
        return 0;
}
