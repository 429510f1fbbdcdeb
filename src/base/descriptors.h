/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of this process, of which there are only so many. Whoever keeps one for others for long gives it back if
 * it is one of the last: those are for what must not fail.
 *
 *      fd = fcntl(theirs, F_DUPFD_CLOEXEC, 0);
 *      if (fd >= 0 && descriptors_are_few(fd)) ...        close it, and refuse
 *
 * Threads: any.
 */
#pragma once

#include <stdbool.h>

/* As many as the user may have. What is started later inherits it: a program of others wants its own limit back. */
void descriptors_raise(void);

/* fd, which the kernel has just given out, is one of the last: all lower numbers are in use. Those are a quarter, or
 * 512 where that is less. */
bool descriptors_are_few(int fd);
