/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the attacks on time share. An attack is a program of its own that computes all it can, and tries to do so while
 * it should be off: its channel groups say what they are not, come at the wrong moment, or are scheduled in other ways.
 *
 *      int main(void)
 *      {
 *              time_tricks.says = 9;           before the context is made
 *              time_start();
 *              time_compute();                 "computing", and kernels until a line comes on stdin, or 60 s
 *      }
 *
 * The script that started it judges by what an honest tenant gets beside it (tests/integration/daemon/attacks-time.bats
 * on the simulator, tests/gpu/hostile-time.sh on a device). Without a daemon it takes more than its share: that is its
 * positive control, since then the trick does not keep it from computing.
 *
 * The calls of libcuda pass through the ioctl() of this kit, so the program is linked with its symbols exported.
 */
#pragma once

#include "kit.h"

struct time_tricks {
        uint32_t says;       /* the engine that compute groups say they are on; 0: as libcuda has it */
        bool binds;          /* each group and channel is bound to the graphics engine before it is scheduled */
        bool singly;         /* channels are scheduled one by one, their group never */
        bool repeats;        /* a thread schedules all of them again and again */
        bool schedules_old;  /* a group is scheduled before its channels are there */
        bool schedules_each; /* and after each of them */
        bool hides_mode;     /* libcuda believes that it has said how its context is to be preempted */
        unsigned int times;  /* so many times longer kernels; 0: as they are */
};

extern struct time_tricks time_tricks;

/* kit_start, and what computing needs. */
void time_start(void);

/* The same in the current context, whatever it is: one more queue of kernels. */
void time_context(void);

void time_compute(void);

/* The same with steps that it waits for: a second of 0.4 ms, then kernels of 300 ms for four, and so on. */
void time_change(void);

/* Does not compute: writes GP_PUT of its compute channels without ringing a doorbell, so that work seems to wait. Else
 * as time_compute; ends the program if it has no such channels. */
void time_pretend(void);

/* Computes for so long without a word; how many kernels were done. */
unsigned long time_compute_for(unsigned int msec);
