/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory by a thread whose table of descriptors is its own: under the number of the process's driver descriptor
 * it has another one, and the process has an ordinary file there in the end. */
#define _GNU_SOURCE
#include "kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <unistd.h>

static struct kit_rm process_rm;
static sem_t has_own, is_changed;
static uint64_t got;

static void *thread_main(void *unused)
{
        struct kit_rm rm;

        (void)unused;
        if (unshare(CLONE_FILES) < 0)
                kit_cannot("no table of its own");
        kit_rm_open(&rm);
        (void)dup2(rm.ctl, process_rm.ctl);
        rm.ctl = process_rm.ctl;
        (void)sem_post(&has_own);
        (void)sem_wait(&is_changed);
        got += kit_rm_take(&rm, KIT_MEMORY, 16, 2 * kit_quota_mib());
        kit_hold(got);
        return NULL;
}

int main(void)
{
        pthread_t thread;

        kit_rm_open(&process_rm);
        got = kit_rm_take(&process_rm, KIT_MEMORY, 16, kit_quota_mib() / 2);
        if (sem_init(&has_own, 0, 0) || sem_init(&is_changed, 0, 0) || pthread_create(&thread, NULL, thread_main, NULL))
                kit_cannot("no thread");
        (void)sem_wait(&has_own);
        (void)dup2(open("/dev/zero", O_RDWR), process_rm.ctl);
        (void)sem_post(&is_changed);
        (void)pthread_join(thread, NULL);
        return 0;
}
