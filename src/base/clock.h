/* SPDX-License-Identifier: Apache-2.0 */
/* The only place that asks the time. Everything else takes it as a parameter. */
#pragma once

#include <stdint.h>

typedef int64_t nsec; /* a span or a point in time, in nanoseconds */

#define NSEC_PER_USEC ((nsec)1000)
#define NSEC_PER_MSEC ((nsec)1000000)
#define NSEC_PER_SEC ((nsec)1000000000)

nsec clock_now(void);      /* monotonic; for spans */
nsec clock_realtime(void); /* since the epoch; for records that people read */
nsec clock_cpu(void);      /* what this thread has used of a processor */
nsec clock_cpus(void);     /* what this process has used of all processors */
