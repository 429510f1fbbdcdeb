/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says of a process, and this program as another one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Whether a thread of it has not ended; a main thread that has ended alone does not count. False: it has gone. */
bool process_is_alive(pid_t process);

/* When it began, in ticks since the machine did. With its number this names a process: a number is used again, but not
 * within a tick. 0: it has gone. */
uint64_t process_began(pid_t process);

/* Whether all of its users are that one, in no PID namespace below ours. What is not may have put its command line and
 * environment into memory that never comes: who reads these waits. */
bool process_is_near(pid_t process, uid_t user);

pid_t process_parent(pid_t process); /* -1: it has gone */

/* The path of a file that is given relative to the directory of this program. False: it cannot be read. */
bool process_beside(const char *relative, char *ret, size_t size);

/* The next line of a list of /proc. Whoever made the process chooses how long it is: what has no room is left out, and
 * is never taken for a line of its own. False: there is none. */
bool process_line(FILE *list, char *line, size_t size);

/* Starts this program again, with default signals, no input and no other descriptors. 0; -errno. */
int process_spawn_self(char *const *argv, int output, int errors, pid_t *ret);
