/*
 * Classes by slices: a tenant that comes onto the device waits for the rest of another's slice.
 *
 *      normal   has slices of a millisecond while it takes turns: so long may a guest wait;
 *      latency  is a guest while it is within its share, and everybody else's slice is then tiny: it comes on
 *               within a switch. Its own slice is long, so it is not interrupted;
 *      batch    has a tiny slice always: it gives way to any guest.
 *
 * The groups of one tenant (several processes) share its turn by its own slices: those of such a tenant are longer.
 * Slices change only with the tenants and their classes, not with turns: setting one costs a call per group.
 */
#include "turns/inside.h"

/* Of class latency, and within its share. */
static bool is_hasty(const struct turns_tenant *tenant, const struct seat *seat)
{
        return tenant->class == TURNS_LATENCY && !seat->is_member && seat->debt <= seat->allowance;
}

static bool has_hasty(const struct turns *turns, const struct turns_view *view)
{
        for (size_t i = 0; i < turns->n; i++)
                if (is_hasty(&view->tenants[i], &turns->seats[i]))
                        return true;
        return false;
}

static nsec own_slice(const struct seat *seat)
{
        if (seat->n_groups > 1)
                return SLICE_SHARED;
        return seat->is_member ? SLICE_MEMBER : SLICE_GUEST;
}

/* Two of those that give way would cut each other into pieces shorter than a switch; one alone cannot. */
static nsec tiny_slice(const struct turns *turns, const struct turns_view *view)
{
        size_t n_guests = 0;
        bool has_members = false;

        for (size_t i = 0; i < turns->n; i++) {
                if (turns->seats[i].is_member)
                        has_members = true; /* of whom one at a time is on */
                else if (!is_hasty(&view->tenants[i], &turns->seats[i]))
                        n_guests++;
        }
        return n_guests + has_members <= 1 ? SLICE_INSTANT : SLICE_TINY;
}

void class_set(const struct turns *turns, const struct turns_view *view, struct turns_order *orders)
{
        bool is_hurried = has_hasty(turns, view);
        nsec tiny = tiny_slice(turns, view);

        for (size_t i = 0; i < turns->n; i++) {
                if (is_hasty(&view->tenants[i], &turns->seats[i]))
                        orders[i].slice = SLICE_LATENCY;
                else if (is_hurried || view->tenants[i].class == TURNS_BATCH)
                        orders[i].slice = turns->seats[i].n_groups > 1 ? SLICE_SHARED_TINY : tiny;
                else if (turns->policy != TURNS_POLICY_SLICES)
                        orders[i].slice = own_slice(&turns->seats[i]);
        }
}
