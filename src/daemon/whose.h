/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a process on a device is that no shim vouches for, as it is seen from outside:
 *      of a tenant without a shim  it has the tenancy's usage segment mapped: then it has a slot and counts itself;
 *                                  else it descends from the tenancy's `run`, or has its directory mounted: the library
 *                                  is missing
 *      unmanaged                   everything else
 *
 * Thread: the loop, which waits for 20 ms at most.
 */
#pragma once

#include <sys/types.h>

struct daemon;
struct tenant;

enum whose {
        COUNTS_ITSELF,
        UNCOUNTED,     /* *ret_tenant: NULL if it is no tenant's */
        NOT_LOOKED_AT, /* for a while: nothing is known */
};

enum whose whose_is(const struct daemon *daemon, pid_t process, const struct tenant **ret_tenant);
