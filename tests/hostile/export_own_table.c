/* SPDX-License-Identifier: Apache-2.0 */
/* Exported memory whose descriptor only a thread with a table of its own has. */
#define _GNU_SOURCE
#include "kit.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <unistd.h>

static sem_t ready;

static void *thread_main(void *unused)
{
        (void)unused;
        (void)unshare(CLONE_FILES); /* a copy of every descriptor */
        (void)sem_post(&ready);
        (void)sleep(60);
        return NULL;
}

static bool hide(int fd)
{
        pthread_t thread;

        (void)fd;
        if (pthread_create(&thread, NULL, thread_main, NULL))
                return false;
        return sem_wait(&ready) == 0;
}

int main(void)
{
        (void)sem_init(&ready, 0, 0);
        kit_start();
        kit_hold(kit_hide_exports(hide));
        _exit(0);
}
