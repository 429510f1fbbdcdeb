/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/idle.h"

#define BIN_FIRST (4 * NSEC_PER_MSEC)
#define LEARN_MAX 8 /* kicks that a forecast is the mean of, about: a tenant that changes is known soon */

static unsigned int bin_of(nsec since_sign)
{
        unsigned int bin = 0;

        for (nsec end = BIN_FIRST; since_sign >= end && bin + 1 < IDLE_BINS; end *= 2)
                bin++;
        return bin;
}

static nsec bin_end(unsigned int bin)
{
        return bin + 1 < IDLE_BINS ? BIN_FIRST << bin : INT64_MAX;
}

void idle_init(struct idle *idle)
{
        *idle = (struct idle){ .every = IDLE_EVERY_FIRST };
        for (unsigned int i = 0; i < IDLE_BINS; i++)
                idle->at_work[i] = 1;
}

void idle_quiet(struct idle *idle, nsec from, nsec until)
{
        while (from < until) {
                unsigned int bin = bin_of(from);
                nsec end = bin_end(bin) < until ? bin_end(bin) : until;

                idle->forgiven += (nsec)((double)(end - from) * (1 - idle->at_work[bin]));
                from = end;
        }
}

bool idle_draw(const struct idle *idle, nsec span, uint32_t dice)
{
        span = span < IDLE_SPAN_MAX ? span : IDLE_SPAN_MAX;
        return !idle->is_asked && (double)dice * (double)idle->every < (double)span * ((double)UINT32_MAX + 1);
}

void idle_ask(struct idle *idle, nsec since_sign)
{
        idle->is_asked = true;
        idle->asked = since_sign;
        idle->speaks = idle->every;
}

/* I2. One that is unsure corrects nothing. It does teach, a little, that the tenant works: so a tenant that launches at
 * each kick is forgiven less and less, and one that happened to is not charged for it. */
void idle_answer(struct idle *idle, enum idle_answer answer)
{
        unsigned int bin = bin_of(idle->asked), n = idle->n[bin];
        double *at_work = &idle->at_work[bin], found = answer == IDLE_NOBODY ? 0 : 1;
        bool is_surprise = found - *at_work > 0.5;

        idle->is_asked = false;
        if (answer == IDLE_VOID)
                return;
        if (answer == IDLE_UNSURE) {
                *at_work += (1 - *at_work) / (2 * LEARN_MAX);
                return;
        }
        idle->forgiven -= (nsec)((double)idle->speaks * (found - *at_work));
        idle->n[bin] = n < LEARN_MAX ? n + 1 : n;
        *at_work += (found - *at_work) / idle->n[bin];
        if (answer == IDLE_NOBODY || is_surprise)
                idle->every = IDLE_EVERY_FIRST;
        else if (idle->every < IDLE_EVERY_LAST)
                idle->every += IDLE_EVERY_FIRST;
}
