/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <time.h>

static nsec read_clock(clockid_t id)
{
        struct timespec ts;

        (void)clock_gettime(id, &ts);
        return (nsec)ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

nsec clock_now(void)
{
        return read_clock(CLOCK_MONOTONIC);
}

nsec clock_realtime(void)
{
        return read_clock(CLOCK_REALTIME);
}

nsec clock_cpu(void)
{
        return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

nsec clock_cpus(void)
{
        return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}
