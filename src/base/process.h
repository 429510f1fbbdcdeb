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

/* Whether a process is there that may be hostile: what /proc says of one (its stat, its maps) waits while it executes
 * another program, and an exec takes as long as whoever serves a file likes that it closes (FUSE). So it is asked by an
 * errand (errand.h), of which there are few: who was not told should not ask soon again. began: as process_began had
 * it; 0: not known. */
enum process_answer {
        PROCESS_GONE,
        PROCESS_THERE,
        PROCESS_UNKNOWN,
};
enum process_answer process_ask(pid_t process, uint64_t began);

/* Whether its main thread is on its way out, or has gone. What leads to a process by its number (/proc/PID/fd) is empty
 * from here on, while it counts as running until its last thread has ended. */
bool process_is_ending(pid_t process);

/* Whether all of its users are that one, in no PID namespace below ours. What is not may have put its command line and
 * environment into memory that never comes: who reads these waits. */
bool process_is_near(pid_t process, uid_t user);

pid_t process_parent(pid_t process); /* -1: it has gone */

/* The path of a file that is given relative to the directory of this program. False: it cannot be read. */
bool process_beside(const char *relative, char *ret, size_t size);

/* The next line of a list of /proc. Whoever made the process chooses how long it is: what has no room is left out, and
 * is never taken for a line of its own. False: there is none. */
bool process_line(FILE *list, char *line, size_t size);

/* ---- children -----------------------------------------------------------------------------------------------------
 *
 * A child gets a copy of its parent's table of descriptors, and closes what it is not to have. Where others send
 * descriptors (descriptors.h) that may be the last close of one, and wait as long as its sender likes, with the parent.
 * So a child made here never has them:
 *
 *      K1  it begins without a table of its own, and takes one that ends below a descriptor which was there before all
 *          that others sent (process_children_prepare); what it is to have comes to it in a message;
 *      K2  Linux before 6.12 copies the first 64 all the same. There descriptors_settle before a child is what is left.
 *
 * Default signals, none blocked. Threads: any; one child is made at a time.
 */
enum {
        PROCESS_FDS = 16,
        PROCESS_NOTHING = -1, /* in process_child.fds: closed */
        PROCESS_NULL = -2,    /* /dev/null, to read and write */
};

struct process_child {
        const char *program;                    /* a path; NULL: this program */
        char *const *argv, *const *environment; /* environment NULL: ours */
        int fds[PROCESS_FDS];                   /* what it has as 0, 1, ...: ours, borrowed */
        size_t n_fds;                           /* at least one */
        bool is_leader;                         /* of a session of its own */

        /* Either gives it a mount namespace of its own, where what is unmounted outside is unmounted too. Needs root.
         * NULL: none.
         *      root    a directory that is its root, with all that is mounted there; `program` and `covers` are in it.
         *      covers  a directory in whose place it finds an empty file system in memory, which nobody else sees. No
         *              link in it is followed. */
        const char *root, *covers;
};

/* Before others may send anything; again is fine. -errno: no descriptor is to be had. */
int process_children_prepare(void);

/* 0 when the program runs; -errno, also of its execve. */
int process_begin(const struct process_child *child, pid_t *ret);

/* Starts this program again, without input, with those as its output and errors. 0; -errno. */
int process_spawn_self(char *const *argv, int output, int errors, pid_t *ret);
