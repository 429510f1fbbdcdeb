/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of the time that a tenant was on the device without a sign of work is not billed. Pure.
 *
 * The rings of a tenant say when it launched, not when a kernel ended: "no sign for 20 ms" may be idleness or a long
 * kernel. Only a kick tells them apart: who works is back on the device at once. So kicks are drawn at random moments
 * of quiet time, one in `every` on average, and each speaks for that much of it:
 *
 *      I1  quiet time is forgiven by what earlier kicks found that long after a sign (`at_work`; at first 1: nothing);
 *      I2  the next kick there corrects that by `every` times what it was wrong by, before it is learned from.
 *
 * Whatever a tenant does, and whatever was learned, what is forgiven is so right on average: a kick cannot be foreseen
 * (Horvitz and Thompson's estimator, with the forecast as a control variate). The forecast only keeps the sum steady.
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

enum {
        IDLE_BINS = 12, /* of time since the latest sign: below 4 ms, 8 ms, ... */
};

#define IDLE_EVERY_FIRST (100 * NSEC_PER_MSEC) /* quiet time for a kick: it costs a millisecond of work */
#define IDLE_EVERY_LAST (3200 * NSEC_PER_MSEC)
#define IDLE_SPAN_MAX (10 * NSEC_PER_MSEC) /* that one draw speaks for: what is longer ago is not as now */

enum idle_answer {
        IDLE_NOBODY, /* the device did not take it on again: it had been idle */
        IDLE_WORK,   /* it was back without a launch: it had been at work */
        IDLE_UNSURE, /* it was back at once, and launched: either */
        IDLE_VOID,   /* it may not have been there for another reason: nothing is learned */
};

struct idle {
        nsec forgiven;             /* of its quiet time; may fall, below 0 too */
        double at_work[IDLE_BINS]; /* part of quiet time in which it was at work, as far as is known */
        unsigned int n[IDLE_BINS]; /* kicks that this is from */
        nsec every;

        bool is_asked;      /* a kick has no answer yet */
        nsec asked, speaks; /* how long after the latest sign it came; for how much quiet time it speaks */
};

void idle_init(struct idle *idle);
/* It was quiet from `from` to `until`, counted from its latest sign of work. */
void idle_quiet(struct idle *idle, nsec from, nsec until);
/* Whether to kick it now, as it is quiet, `span` after the last draw. dice: any number, each as likely. */
bool idle_draw(const struct idle *idle, nsec span, uint32_t dice);
void idle_ask(struct idle *idle, nsec since_sign); /* a kick is made */
void idle_answer(struct idle *idle, enum idle_answer answer);
