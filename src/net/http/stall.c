/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http/stall.h"

#include <errno.h>
#include <microhttpd.h>
#include <signal.h>
#include <unistd.h>

enum {
        PERIOD_NSEC = 2 * 1000 * 1000, /* each of 64 connections may stall once in a pass */
        PUMP_MAX = 32,
};

static void on_alarm(int signal)
{
        (void)signal; /* that it came is all */
}

int stall_open(struct stall *ret)
{
        const struct sigaction action = { .sa_handler = on_alarm }; /* without SA_RESTART */
        struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM };
        struct stall stall = { .is_there = true };

        event._sigev_un._tid = gettid();
        if (sigaction(SIGALRM, &action, NULL) < 0 || timer_create(CLOCK_MONOTONIC, &event, &stall.timer) < 0)
                return -errno;
        *ret = stall;
        return 0;
}

void stall_close(struct stall *stall)
{
        if (stall->is_there)
                (void)timer_delete(stall->timer);
        stall->is_there = false;
}

void stall_begin(const struct stall *stall)
{
        const struct timespec period = { .tv_nsec = PERIOD_NSEC };

        if (stall->is_there)
                (void)timer_settime(stall->timer, 0, &(struct itimerspec){ period, period }, NULL);
}

void stall_end(const struct stall *stall)
{
        if (stall->is_there)
                (void)timer_settime(stall->timer, 0, &(struct itimerspec){ 0 }, NULL);
}

void stall_pump(const struct stall *stall, struct MHD_Daemon *daemon)
{
        MHD_UNSIGNED_LONG_LONG timeout;
        int n = 0;

        stall_begin(stall);
        do
                (void)MHD_run(daemon);
        while (MHD_get_timeout(daemon, &timeout) == MHD_YES && timeout == 0 && n++ < PUMP_MAX);
        stall_end(stall);
}

void stall_stop(struct stall *stall, struct MHD_Daemon *daemon)
{
        stall_begin(stall);
        MHD_stop_daemon(daemon);
        stall_close(stall);
}
