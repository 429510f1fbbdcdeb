/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the filter catches, as data: the same rules are loaded by us (filter.c) and written into the profile with
 * which a container runtime loads them (oci/profile.c). F1 to F3 of filter.h.
 */
#pragma once

#include "rm/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* An ioctl is caught if the low 32 bits of its request, under the mask, are the value. */
struct caught {
        uint32_t mask, value;
};

enum {
        CAUGHT_MAX = 256, /* twice what the largest release needs; a test counts */

        /* F3. MAP_ANONYMOUS has no file; offset 0 can be no UVM range, as address 0 is none. */
        CAUGHT_MMAP_MASK = MAP_SHARED | MAP_ANONYMOUS,
        CAUGHT_MMAP_FLAGS = MAP_SHARED,
        CAUGHT_MMAP_OFFSET = 4096, /* and beyond */
};

/* How many there are, each once: a runtime refuses a rule that it has. */
size_t caught_requests(struct caught ret[static CAUGHT_MAX]);

/* Whether the driver would take the request on any of its nodes, a tenant may use it or not. One that it would refuse
 * may go on in the tenant where it was meant for another file, whatever that file has become by then. */
bool caught_is_drivers(const struct rm_layout *layout, uint32_t request);
