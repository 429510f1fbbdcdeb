/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a goal (turns.h) is kept: what the steps of a tenant waited for the device, from what the scheduler sees anyway.
 * Pure; a struct waits belongs to its caller, all zero at first.
 *
 *      every look:     is_late = waits_look(&waits, &tenant, resident, now, turns_step(turns, i));
 *      a report:       waits_read(&waits, &report);
 *
 * A wait begins with a launch that the device does not take, and ends when the device switches to the tenant. A step
 * takes as long as it waits and computes. How many steps there were follows from what was computed and from what one
 * takes: those that follow each other in a turn are not seen, and none of them waits. What is not seen, either: waits
 * shorter than the time between two looks (they count as none), and what waits in the tenant's program before it is
 * launched.
 */
#pragma once

#include "turns/turns.h"

enum { WAITS_BUCKETS = 72 }; /* four for each doubling, from 64 us to 16 s */

#define WAITS_SPAN (30 * NSEC_PER_SEC) /* a report is of the latest one to two of these */

struct waits {
        nsec since;       /* its work waits since then; 0: it does not */
        nsec before;      /* the look before */
        nsec step;        /* the latest that was known */
        uint64_t suspect; /* whom it seems to wait for */
        nsec suspect_for;
        struct {
                uint32_t counts[WAITS_BUCKETS];
                nsec computed_from; /* at its beginning */
        } spans[2];
        unsigned int span;
        nsec span_from;
        nsec used, computed; /* metered at the latest look, ever; of that, as far as it was not idle */
        nsec longest;
        uint64_t n_late, late_by;
        nsec latest_late;
};

struct waits_report {
        uint64_t n_steps; /* about; of the latest half to whole minute. 0: not known what a step is */
        nsec p50, p99;    /* of those: wait and step */
        nsec longest;     /* since the beginning: one wait, and a step */
        uint64_t n_late;  /* since the beginning: steps that took longer than the goal at that time */
        uint64_t late_by; /* the tenant that was on the device for most of the latest such wait; 0: none */
        nsec latest_late; /* how long that step took */
};

/* resident: who is on the device as of the meter, 0: nobody that is known. step: turns_step; 0: not known. True: a step
 * has been later than the tenant's goal. */
bool waits_look(struct waits *waits, const struct turns_tenant *tenant, uint64_t resident, nsec now, nsec step);
void waits_read(const struct waits *waits, struct waits_report *ret);
