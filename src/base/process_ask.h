/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process is there, of one that may be hostile. What /proc says of a process waits while that executes
 * another program, and an exec takes as long as whoever serves a file likes that it closes (FUSE). So it is asked by an
 * errand (errand.h), of which there are few: who was not told should not ask soon again.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum process_answer {
        PROCESS_GONE,
        PROCESS_THERE,
        PROCESS_UNKNOWN,
};

/* began: when it did (process_began), so that its number is not another's by now; 0: not known. */
enum process_answer process_ask(pid_t process, uint64_t began);
