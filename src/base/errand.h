/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that may wait for something that others control, on a thread that may be left behind.
 *
 *      E1  whoever asks waits for as long as the work goes on, ten times `patience` at most. Work that waits for a
 *          file, lock or peer has `patience`; work that only lacks a processor is not taken for such;
 *      E2  at most 16 of a process are left behind at a time; then none is begun, and nobody waits;
 *      E3  who is left behind has its context to itself, so it changes nothing that others look at.
 *
 * Threads: any. The work inherits the privileges of who asks. What is left behind ends with the process, if not before.
 */
#pragma once

#include "base/clock.h"

enum {
        ERRAND_DONE,
        ERRAND_E_LATE, /* it was left behind, or not begun: nothing is known */
};

/* Does work(context). The context, from malloc, is the caller's again on ERRAND_DONE; otherwise it is freed when nobody
 * needs it any more. */
int errand_run(void (*work)(void *context), void *context, nsec patience);
