/* SPDX-License-Identifier: Apache-2.0 */
#include "base/descriptors.h"

#include <sys/resource.h>

enum {
        KEPT_BACK = 512,
        KEPT_PART = 4, /* at most one in so many */
};

void descriptors_raise(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return;
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* The kernel gives out the lowest number that is free. */
bool descriptors_are_few(int fd)
{
        struct rlimit limit;
        rlim_t kept;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return true;
        kept = limit.rlim_cur / KEPT_PART < KEPT_BACK ? limit.rlim_cur / KEPT_PART : KEPT_BACK;
        return (rlim_t)fd >= limit.rlim_cur - kept;
}
