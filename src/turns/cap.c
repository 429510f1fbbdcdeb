/*
 * Caps: no tenant is metered more than its cap over any second, whatever else is decided.
 *
 *      C1  a bucket makes it even: tokens come at the rate of the cap, and a tenant that is on pays for its time.
 *          Without tokens it is off until the bucket is full, so that a tenant alone on the device is on and off
 *          in pulses of some milliseconds;
 *      C2  a look at the last second makes it strict: a second may begin and end anywhere, and then holds one
 *          pulse more than the rate says.
 *
 * Both take the worst of what the meter has not said yet, and MARGIN for the calls that switch it off.
 * Nothing is known of the time before a tenant's seat: it counts as unused.
 */
#include "turns/inside.h"

#define SECOND NSEC_PER_SEC
#define MARGIN (2 * NSEC_PER_MSEC)      /* of a second: what may be had after the order to stop */
#define LEAD (700 * NSEC_PER_USEC)      /* from the order until the device has stopped (docs/time.md) */
#define PULSE_LEAST (5 * NSEC_PER_MSEC) /* to be on, or off: a pulse costs 0.9 ms of calls */
#define POINT_LEAST (4500 * NSEC_PER_USEC)

/* ---- the last second ------------------------------------------------------------------------- */

static struct usage_point *point(struct usage *usage, unsigned int i)
{
        return &usage->points[(usage->first + i) % N_SAMPLES];
}

/* A point that is nearly where the last was takes its place, so N_SAMPLES points hold more than a second. */
static void usage_put(struct usage *usage, nsec at, nsec used)
{
        if (usage->n && at <= point(usage, usage->n - 1)->at)
                return;
        if (usage->n > 1 && at - point(usage, usage->n - 2)->at < POINT_LEAST)
                usage->n--;
        if (usage->n == N_SAMPLES) {
                usage->first = (usage->first + 1) % N_SAMPLES;
                usage->n--;
        }
        *point(usage, usage->n++) = (struct usage_point){ at, used };
}

/* The least that it can have used until `at`: between two points it was on all the time just before the later. */
static nsec usage_at(struct usage *usage, nsec at)
{
        while (usage->n > 1 && point(usage, 1)->at <= at) {
                usage->first = (usage->first + 1) % N_SAMPLES;
                usage->n--;
        }
        if (!usage->n)
                return 0;
        if (usage->n == 1 || at < point(usage, 0)->at)
                return point(usage, 0)->used;
        return most(point(usage, 0)->used, point(usage, 1)->used - (point(usage, 1)->at - at));
}

/* ---- the bucket ------------------------------------------------------------------------------ */

static uint32_t rate_of(const struct turns_tenant *tenant)
{
        uint32_t rate = tenant->cap * (PPM / TURNS_WHOLE), margin = 2 * PPM / 1000;

        return rate > 2 * margin ? rate - margin : rate / 2;
}

/* Tokens of a pulse: on for size / (1 - rate), off for size / rate. */
static nsec bucket_size(uint32_t rate)
{
        nsec cycle = PULSE_LEAST * PPM / (rate < PPM / 2 ? rate : PPM - rate);

        cycle = least(most(cycle, 20 * NSEC_PER_MSEC), 250 * NSEC_PER_MSEC);
        return part(part(cycle, rate), PPM - rate);
}

/* What it can have had at most until now. */
static nsec worst(const struct turns *turns, const struct seat *seat, const struct turns_tenant *tenant)
{
        nsec unseen = turns->now - turns->metered_until;

        if (!seat->is_on && seat->on_since + LEAD < turns->metered_until)
                return seat->counted;
        if (!tenant->is_resident && unseen < LATE)
                return seat->counted;
        if (seat->is_on)
                unseen = least(unseen, turns->now - seat->on_since);
        return seat->counted + unseen;
}

static void refill(struct turns *turns, struct seat *seat, uint32_t rate)
{
        nsec size = bucket_size(rate), had = part(turns->now - turns->before, rate);

        seat->tokens = seat->is_new ? size : least(seat->tokens + had - seat->spent, size);
        seat->tokens = most(seat->tokens, -part(SECOND, rate));
}

static void limit(struct turns *turns, struct seat *seat, const struct turns_tenant *tenant)
{
        uint32_t rate = rate_of(tenant);
        nsec second = part(SECOND, tenant->cap * (PPM / TURNS_WHOLE)) - MARGIN, had, left;

        refill(turns, seat, rate);
        usage_put(&seat->usage, turns->metered_until, seat->counted);
        had = worst(turns, seat, tenant) - usage_at(&seat->usage, turns->now - SECOND);
        left = least(seat->tokens, second - had);

        if (seat->is_blocked) /* C1 until it is full, C2 until there is room for a pulse */
                seat->is_blocked = seat->tokens < bucket_size(rate) || second - had < bucket_size(rate);
        else
                seat->is_blocked = left <= LEAD;
        if (seat->is_blocked)
                wake_at(turns, turns->now + most((bucket_size(rate) - seat->tokens) * PPM / rate, NSEC_PER_MSEC));
        else if (seat->is_on)
                wake_at(turns, turns->now + left - LEAD);
}

void cap_update(struct turns *turns, const struct turns_view *view)
{
        for (size_t i = 0; i < turns->n; i++) {
                struct seat *seat = &turns->seats[i];

                if (!view->tenants[i].cap)
                        seat->is_blocked = true;
                else if (view->tenants[i].cap < TURNS_WHOLE)
                        limit(turns, seat, &view->tenants[i]);
                else
                        seat->is_blocked = false;
        }
}
