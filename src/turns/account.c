/*
 * The accounts: what each tenant has had, whom it owes and what it is owed.
 *
 * The meter is behind by up to some milliseconds, on some releases by a second. What is not metered yet is
 * predicted: the holder of that time had it. When the meter catches up, the difference is in `spent` (which
 * may be negative), so a wrong prediction is corrected and never counted twice.
 */
#include "turns/inside.h"

/* Adds what holders had between `from` and now. */
static void predict(struct turns *turns, nsec from)
{
        nsec until = turns->now;

        for (unsigned int i = turns->n_holds; i-- > 0 && until > from;) {
                const struct hold *hold = &turns->holds[i];
                nsec since = most(hold->from, from);

                if (hold->seat != NOBODY && until > since)
                        turns->seats[hold->seat].used += until - since;
                until = least(until, hold->from);
        }
}

static void note_starts(struct seat *seat, const struct turns_tenant *tenant)
{
        if (tenant->n_starts > seat->n_starts)
                seat->n_comings = (unsigned int)(tenant->n_starts - seat->n_starts);
        else
                seat->n_comings = tenant->started_at > seat->started_at;
        seat->n_starts = tenant->n_starts;
        seat->started_at = most(seat->started_at, tenant->started_at);
}

/* Of one step. */
struct turn_sums {
        nsec spent;
        nsec slices; /* of those who were on the device */
};

/* What a guest may have waited for others: at each coming a slice of everybody who was there too. */
static nsec waited(const struct turns *turns, const struct seat *seat, const struct turn_sums *sums)
{
        nsec passed = turns->now - turns->before, waited;

        if (seat->is_member || sums->spent <= seat->spent)
                return 0;
        waited = seat->n_comings * (sums->slices - (seat->n_comings ? slices_of(seat) : 0) + SWITCH);
        return least(waited, most(passed - seat->spent, 0));
}

/* A guest pays for its use beyond its share, and for having waited: a tenant that the holder's slices hold back
 * looks as if it wanted little. */
static void account_debt(struct turns *turns, struct seat *seat, const struct turn_sums *sums)
{
        nsec passed = turns->now - turns->before, wanted = seat->spent + waited(turns, seat, sums);

        if (sums->spent > seat->spent && wanted > passed / 10 * 9)
                seat->eager += passed;
        else if (passed > 0)
                seat->eager = 0;
        seat->debt += wanted - part(passed, seat->share);
        seat->debt = least(most(seat->debt, 0), 2 * seat->allowance);
}

/* Strict: owed is what is missing of the promise itself. What is not used is lost. */
static void account_promised(struct turns *turns)
{
        for (size_t i = 0; i < turns->n; i++) {
                struct seat *seat = &turns->seats[i];

                seat->owed += part(turns->now - turns->before, seat->share) - seat->spent;
                seat->owed = least(most(seat->owed, -turns->period), turns->period);
        }
}

static void account_owed(struct turns *turns)
{
        nsec spent = 0, weights = 0, bound = turns->period;

        for (size_t i = 0; i < turns->n; i++)
                if (turns->seats[i].is_member) {
                        spent += turns->seats[i].spent;
                        weights += turns->seats[i].weight;
                }
        for (size_t i = 0; i < turns->n; i++) {
                struct seat *seat = &turns->seats[i];

                if (!seat->is_member || !weights)
                        continue;
                seat->owed += spent * (nsec)seat->weight / weights - seat->spent;
                seat->owed = least(most(seat->owed, -bound), bound);
        }
}

void account_update(struct turns *turns, const struct turns_view *view)
{
        nsec until = least(view->metered_until, turns->now);
        struct turn_sums sums = { 0 };

        turns->metered_until = until;
        for (size_t i = 0; i < turns->n; i++) {
                struct seat *seat = &turns->seats[i];

                seat->spent = seat->used; /* of the call before */
                seat->counted = most(view->tenants[i].used, seat->counted);
                seat->used = seat->counted;
                note_starts(seat, &view->tenants[i]);
                seat->n_groups = view->tenants[i].n_groups ? view->tenants[i].n_groups : 1;
        }
        predict(turns, until);
        for (size_t i = 0; i < turns->n; i++) {
                struct seat *seat = &turns->seats[i];

                seat->spent = seat->used - seat->spent;
                sums.spent += seat->spent;
                if (seat->spent > 0 || seat->n_comings)
                        sums.slices += slices_of(seat);
        }
        for (size_t i = 0; i < turns->n; i++)
                account_debt(turns, &turns->seats[i], &sums);
        if (turns->policy == TURNS_POLICY_STRICT)
                account_promised(turns);
        else
                account_owed(turns);
}

void account_hold(struct turns *turns, int seat)
{
        if (turns->n_holds && turns->holds[turns->n_holds - 1].seat == seat)
                return;
        if (turns->n_holds == N_HOLDS) {
                for (unsigned int i = 1; i < N_HOLDS; i++)
                        turns->holds[i - 1] = turns->holds[i];
                turns->n_holds--;
        }
        turns->holds[turns->n_holds++] = (struct hold){ .from = turns->now, .seat = seat };
}
