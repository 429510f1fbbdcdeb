/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the gate's files other processes have open, as far as /proc tells. Threads: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sought {
        uint64_t number;
        int fd; /* ours */
        bool is_open;
};

/* Which files a table of descriptors in /proc but our own has, or what a call under way or another kernel object may
 * hold hides: is_open is true then, and when in doubt. Without tasks a look that comes to no end is no doubt: it is not
 * open then. Their order changes. Looks at every process once: not for the path of a call. */
void files_open_elsewhere(struct sought *sought, size_t n, bool has_tasks);
