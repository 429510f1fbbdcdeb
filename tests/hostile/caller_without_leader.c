/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory by calls of a process whose main thread has ended, with objects that it made before: taken, given back
 * and taken again. An honest program does so, too, and gets its quota. */
#include "kit.h"

#include <pthread.h>
#include <stdlib.h>

static struct kit_rm rm;

static void *rest(void *unused)
{
        uint64_t got;

        (void)unused;
        kit_let_it_settle(); /* the main thread is gone by now */
        got = kit_rm_take(&rm, KIT_MEMORY, 16, 2 * kit_quota_mib());
        for (uint64_t i = 0; i < got / 32; i++)
                (void)kit_rm_free(&rm, KIT_DEVICE, KIT_MEMORY + (uint32_t)i);
        kit_let_it_settle();
        got = got / 2 + kit_rm_take(&rm, KIT_MEMORY + 0x10000, 16, 2 * kit_quota_mib());
        kit_hold(got);
        exit(0);
}

int main(void)
{
        pthread_t thread;

        kit_rm_open(&rm);
        if (pthread_create(&thread, NULL, rest, NULL))
                kit_cannot("no thread");
        pthread_exit(NULL);
}
