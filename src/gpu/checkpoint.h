/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's own checkpoints of processes: their memory to the host and the device's freed, and the way back. The
 * calls are libcuda's, of CUDA 12.8 and later; each process does its work itself, in a thread of its libcuda.
 *
 *      C1  what is done next follows from the states that the driver reports, so that whoever comes after one that
 *          was killed goes on where that one stopped, also if the process is still at what that one had asked for;
 *      C2  on the way out all processes are locked before the first gives up memory, on the way back all have their
 *          memory before the first goes on: those that work together stop and go on together;
 *      C3  a step that fails turns round: all go back to where they came from. What cannot go back either is lost.
 *      C4  the calls name a process by its number. So each is held by a pidfd and looked at before every call: one
 *          that has ended, or began at another time than it was said to, is gone, whoever has its number;
 *      C5  one that ends while it is moved is gone, too, and what fails because of that has not failed.
 *
 * The library stays loaded and may start threads: for a process that ends soon.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum checkpoint_state { /* the driver's numbers */
                        CHECKPOINT_RUNNING,
                        CHECKPOINT_LOCKED,
                        CHECKPOINT_OUT, /* its memory is in the host's */
                        CHECKPOINT_FAILED,
                        CHECKPOINT_GONE, /* ours: the process has ended */
};

enum checkpoint_step {
        CHECKPOINT_LOCK,
        CHECKPOINT_SAVE,
        CHECKPOINT_RESTORE,
        CHECKPOINT_UNLOCK,
        CHECKPOINT_N_STEPS,
};

enum checkpoint_outcome {
        CHECKPOINT_DONE,
        CHECKPOINT_AS_BEFORE = 3, /* text says why; all processes are as they were */
        CHECKPOINT_LOST = 4,      /* text says why; some are neither out nor running */
};

/* C2. The next step towards "all out" or "all running", and of which process. False: nothing is left to do. Pure. */
bool checkpoint_next(const enum checkpoint_state *states, size_t n, bool suspends, size_t *ret_process,
                     enum checkpoint_step *ret_step);

struct checkpoint_process {
        pid_t id;
        uint64_t began; /* process_began; 0: not known */
};

/* Moves all of them out of the device, or back. text: of at least CHECKPOINT_TEXT bytes; "" when done. */
enum { CHECKPOINT_TEXT = 240, CHECKPOINT_PROCESSES = 128 };
enum checkpoint_outcome checkpoint_move(const struct checkpoint_process *processes, size_t n, bool suspends,
                                        char *text);
