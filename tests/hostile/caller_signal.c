/* SPDX-License-Identifier: Apache-2.0 */
/* Video memory by calls from a signal handler, which interrupts other calls of the same thread. */
#include "kit.h"

#include <signal.h>
#include <sys/time.h>

static struct kit_rm rm;
static volatile sig_atomic_t refused;
static volatile uint64_t got;
static uint32_t handle = KIT_MEMORY;

static void take(int number)
{
        (void)number;
        if (got < 2 * kit_quota_mib() && kit_ok(kit_rm_memory(&rm, handle++, 16 * MIB)))
                got += 16;
        else
                refused++;
}

int main(void)
{
        const struct itimerval period = { { 0, 2000 }, { 0, 2000 } }, never = { 0 };
        struct sigaction action = { .sa_handler = take };
        struct kit_rm other;

        kit_rm_open(&rm);
        kit_rm_open(&other);
        (void)sigaction(SIGALRM, &action, NULL);
        (void)setitimer(ITIMER_REAL, &period, NULL);
        while (refused < 5)
                if (kit_ok(kit_rm_memory(&other, KIT_MEMORY, 2 * MIB)))
                        (void)kit_rm_free(&other, KIT_DEVICE, KIT_MEMORY);
        (void)setitimer(ITIMER_REAL, &never, NULL);
        kit_hold(got);
        return 0;
}
