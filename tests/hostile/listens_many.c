/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's list of events of the operating system, which is one for the machine and has no bound: the driver walks
 * all of it for each event of everybody, with interrupts off. "listening=N": how many numbers it took in all, by
 * clients that stay and by clients that end with their own file, while the file that listens stays. "again=1": when
 * that has gone, too, another may listen.
 */
#include "kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
        NR_ALLOC_EVENT = 0xce,
        EACH = 12000,
        TURNS = 5,
        MOST_FAILED = 100, /* in a row */
};

static bool listen_to(int ctl, uint32_t client, uint32_t number)
{
        unsigned char block[16] = { 0 };

        kit_put32(block, 0, client);
        kit_put32(block, 8, number);
        return kit_ioctl(ctl, _IOC(_IOC_READ | _IOC_WRITE, 'F', NR_ALLOC_EVENT, sizeof(block)), block) == 0 &&
               kit_get32(block, 12) == 0;
}

static unsigned int listen_to_many(int ctl, uint32_t client)
{
        unsigned int n = 0;

        for (uint32_t i = 0, n_failed = 0; i < EACH && n_failed < MOST_FAILED; i++) {
                bool is_done = listen_to(ctl, client, i);

                n += is_done;
                n_failed = is_done ? 0 : n_failed + 1;
        }
        return n;
}

int main(void)
{
        int ctl = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
        unsigned int n = 0;
        struct kit_rm rm;

        for (int turn = 0; turn < TURNS; turn++) {
                kit_rm_open(&rm);
                n += listen_to_many(ctl, rm.client);
                if (turn % 2)
                        continue;
                (void)close(rm.node);
                (void)close(rm.ctl);
                kit_let_it_settle();
        }
        printf("listening=%u\n", n);
        (void)close(ctl);
        kit_let_it_settle();
        kit_rm_open(&rm);
        printf("again=%d\n", listen_to(rm.ctl, rm.client, EACH));
        kit_hold(0);
        return 0;
}
