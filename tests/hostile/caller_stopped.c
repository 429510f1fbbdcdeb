/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that are stopped and go on all the time, in the midst of their calls (SIGSTOP, SIGCONT). */
#define _GNU_SOURCE
#include "kit.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
        CHILDREN = 4,
};

int main(void)
{
        struct {
                atomic_uint n_done;
                _Atomic uint64_t got;
        } *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pid_t children[CHILDREN];

        for (int i = 0; i < CHILDREN; i++)
                if ((children[i] = fork()) == 0) {
                        struct kit_rm rm;

                        kit_rm_open(&rm);
                        shared->got += kit_rm_take(&rm, KIT_MEMORY, 4, 2 * kit_quota_mib() / CHILDREN);
                        shared->n_done++;
                        kit_wait_for_end();
                }
        for (unsigned int n = 0; shared->n_done < CHILDREN && n < 20000; n++) {
                (void)kill(children[n % CHILDREN], SIGSTOP);
                (void)usleep(300);
                (void)kill(children[n % CHILDREN], SIGCONT);
                (void)usleep(100);
        }
        kit_hold(shared->got);
        return 0;
}
