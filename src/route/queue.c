/* SPDX-License-Identifier: Apache-2.0 */
#include "route/queue.h"

static bool is_impatient(const struct queue_item *item, nsec now)
{
        return now - item->arrived > (item->due - item->arrived) / 2;
}

bool queue_before(const struct queue_item *a, const struct queue_item *b, nsec now)
{
        bool impatient = is_impatient(a, now);

        if (a->priority != b->priority)
                return a->priority > b->priority;
        if (impatient != is_impatient(b, now))
                return impatient;
        if (impatient && a->due != b->due)
                return a->due < b->due;
        if (!impatient && a->cached_permille / 250 != b->cached_permille / 250)
                return a->cached_permille > b->cached_permille;
        return a->arrived < b->arrived;
}

enum queue_verdict queue_admit(size_t n_held, size_t bound, const struct queue_item *item,
                               const struct queue_item *last)
{
        if (n_held < bound)
                return QUEUE_ADMIT;
        return last && item->priority > last->priority ? QUEUE_DISPLACE : QUEUE_REFUSE;
}

unsigned int queue_retry_after(double work, double rate)
{
        double seconds = rate > 0 ? work / rate : 0;

        return seconds <= 1 ? 1 : seconds >= 120 ? 120 : (unsigned int)seconds;
}
