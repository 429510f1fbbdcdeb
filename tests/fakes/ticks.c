/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: the program gets a signal every $TICKS microseconds, whose handler restarts what it interrupts. */
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

static void on_tick(int number)
{
        (void)number;
}

__attribute__((constructor)) static void begin(void)
{
        const char *period = getenv("TICKS");
        struct sigaction action = { .sa_handler = on_tick, .sa_flags = SA_RESTART };
        struct itimerval every = { { 0, 0 }, { 0, 0 } };

        if (!period)
                return;
        every.it_interval.tv_usec = every.it_value.tv_usec = atoi(period);
        (void)sigaction(SIGALRM, &action, NULL);
        (void)setitimer(ITIMER_REAL, &every, NULL);
}
