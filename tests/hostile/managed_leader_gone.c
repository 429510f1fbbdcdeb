/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory of a process whose main thread has ended: /proc/PID/maps is empty then, and says nothing of what is
 * mapped. */
#include "kit.h"

#include <pthread.h>
#include <stdlib.h>

static void *rest(void *unused)
{
        uint64_t got;

        (void)unused;
        kit_join();
        kit_let_it_settle(); /* the main thread is gone by now */
        got = kit_take_managed(64, kit_quota_mib());
        if (!got)
                kit_cannot("no driver calls without a main thread");
        kit_let_it_settle();
        got += kit_take_managed(64, kit_quota_mib());
        kit_let_it_settle();
        got += kit_take_device(64, kit_quota_mib());
        kit_hold(got);
        exit(0);
}

int main(void)
{
        pthread_t thread;

        kit_start();
        if (pthread_create(&thread, NULL, rest, NULL))
                kit_cannot("no thread");
        pthread_exit(NULL);
}
