/* SPDX-License-Identifier: Apache-2.0 */
#include "turns/waits.h"

#include "turns/inside.h"

#include <string.h>

#define LEAST (64 * NSEC_PER_USEC)

/* The longest wait of a bucket. */
static nsec bucket_most(unsigned int bucket)
{
        return (LEAST << bucket / 4) * (5 + bucket % 4) / 4;
}

static unsigned int bucket_of(nsec wait)
{
        unsigned int bucket = 0;

        while (bucket < WAITS_BUCKETS - 1 && bucket_most(bucket) < wait)
                bucket++;
        return bucket;
}

static void span_turn(struct waits *waits, nsec now)
{
        if (now - waits->span_from < WAITS_SPAN)
                return;
        waits->span_from = now;
        waits->span = !waits->span;
        memset(&waits->spans[waits->span], 0, sizeof(waits->spans[waits->span]));
        waits->spans[waits->span].computed_from = waits->computed;
}

/* The majority of a sequence, in one pass (Boyer and Moore). */
static void suspect_watch(struct waits *waits, uint64_t resident, nsec passed)
{
        if (resident == waits->suspect)
                waits->suspect_for += passed;
        else if (waits->suspect_for >= passed)
                waits->suspect_for -= passed;
        else {
                waits->suspect = resident;
                waits->suspect_for = passed - waits->suspect_for;
        }
}

static bool wait_end(struct waits *waits, const struct turns_tenant *tenant)
{
        nsec wait = tenant->started_at - waits->since;

        waits->since = 0;
        waits->spans[waits->span].counts[bucket_of(wait)]++;
        waits->longest = nsec_max(waits->longest, wait);
        if (!tenant->goal || wait + waits->step <= tenant->goal)
                return false;
        waits->n_late++;
        waits->late_by = waits->suspect;
        waits->latest_late = wait + waits->step;
        return true;
}

/* A tenant that has nothing to do stays on the device until another comes. */
static bool is_idle(const struct waits *waits, const struct turns_tenant *tenant, nsec now)
{
        return tenant->is_resident && tenant->work == TURNS_WORK_NONE && waits->step &&
               now - nsec_max(tenant->launched_at, tenant->started_at) > waits->step + NSEC_PER_MSEC;
}

bool waits_look(struct waits *waits, const struct turns_tenant *tenant, uint64_t resident, nsec now, nsec step)
{
        nsec before = waits->before;
        bool is_late = false;

        waits->before = now;
        if (step)
                waits->step = step;
        if (!before) {
                waits->span_from = now;
                waits->used = tenant->used;
        }
        if (!is_idle(waits, tenant, now))
                waits->computed += tenant->used - waits->used;
        waits->used = tenant->used;
        span_turn(waits, now);
        if (waits->since && tenant->started_at >= waits->since)
                is_late = wait_end(waits, tenant);
        if (tenant->is_resident || tenant->work != TURNS_WORK_PENDING || !before)
                waits->since = 0;
        else if (!waits->since) {
                waits->since = nsec_max(tenant->launched_at, before);
                waits->suspect = resident;
                waits->suspect_for = 0;
        } else
                suspect_watch(waits, resident, now - before);
        return is_late;
}

/* What all but `left` steps take at most. */
static nsec at_most(const struct waits *waits, uint64_t left)
{
        for (unsigned int bucket = WAITS_BUCKETS; bucket-- > 0;) {
                uint64_t n = (uint64_t)waits->spans[0].counts[bucket] + waits->spans[1].counts[bucket];

                if (n > left)
                        return waits->step + bucket_most(bucket);
                left -= n;
        }
        return waits->step;
}

void waits_read(const struct waits *waits, struct waits_report *ret)
{
        nsec from = waits->spans[!waits->span].computed_from; /* 0, before there was one */
        uint64_t n_waits = 0;

        *ret = (struct waits_report){ .n_late = waits->n_late,
                                      .late_by = waits->late_by,
                                      .latest_late = waits->latest_late };
        if (!waits->step)
                return;
        for (unsigned int i = 0; i < WAITS_BUCKETS; i++)
                n_waits += (uint64_t)waits->spans[0].counts[i] + waits->spans[1].counts[i];
        ret->n_steps = (uint64_t)((waits->computed - from) / waits->step);
        if (ret->n_steps < n_waits)
                ret->n_steps = n_waits;
        ret->longest = waits->longest + waits->step;
        ret->p50 = nsec_min(at_most(waits, ret->n_steps / 2), ret->longest); /* a bucket's end may lie beyond it */
        ret->p99 = nsec_min(at_most(waits, ret->n_steps / 100), ret->longest);
}
