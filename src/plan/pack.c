/* SPDX-License-Identifier: Apache-2.0 */
/* Largest first, each where it leaves the least over; the mode with the fewest drawbacks that fits. */
#include "plan/plan.h"

#include "base/cleanup.h"
#include "near/near.h"

#include <stdio.h>
#include <string.h>

const struct plan_facts plan_facts = {
#define FACT(name, value, unit, meaning, source) .name = (value),
#include "plan/facts.def"
#undef FACT
};

/* In this order: isolation without loss; faster but with a common fault; not changeable while it runs; with waiting. */
static bool best_mode(const struct plan *plan, struct plan_device *device)
{
        static const enum plan_mode order[] = { PLAN_WHOLE,   PLAN_SLICES, PLAN_TURNS,
                                                PLAN_SPATIAL, PLAN_MIG,    PLAN_SUSPEND };
        char reason[PLAN_TEXT] = "";

        for (size_t i = 0; i < ARRAY_SIZE(order); i++) {
                if (plan_fit(plan, device, order[i]))
                        return true;
                /* the useful reason is why turns do not fit; for one replica alone, why the whole device does not;
                 * or that it is host memory only that is missing */
                if (order[i] == (device->n_seats > 1 || device->others.way ? PLAN_TURNS : PLAN_WHOLE) ||
                    device->lacks_host)
                        memcpy(reason, device->reason, sizeof(reason));
        }
        memcpy(device->reason, reason, sizeof(reason));
        return false;
}

static bool try_seat(const struct plan *plan, const struct plan_device *on, const struct plan_seat *seat,
                     struct plan_device *ret)
{
        *ret = *on;
        if (ret->n_seats == PLAN_SEATS_MAX) {
                (void)snprintf(ret->reason, sizeof(ret->reason), "%d replicas are on it already", PLAN_SEATS_MAX);
                return false;
        }
        ret->seats[ret->n_seats++] = *seat;
        return best_mode(plan, ret);
}

static void leave(struct plan *plan, const struct plan_seat *seat, const char *reason)
{
        struct plan_left *left;

        if (plan->n_left == PLAN_REPLICAS_MAX)
                return;
        left = &plan->left[plan->n_left++];
        *left = (struct plan_left){ .service = seat->service, .replica = seat->replica };
        (void)snprintf(left->reason, sizeof(left->reason), "%s", reason);
}

/* The open device that has least memory over afterwards; an unopened one only if no open one can. */
static void place(struct plan *plan, const struct plan_seat *seat)
{
        struct plan_device tried, best;
        size_t at = plan->n_devices;
        char reason[PLAN_TEXT] = "there is no device";

        for (int opened = 1; opened >= 0 && at == plan->n_devices; opened--)
                for (size_t i = 0; i < plan->n_devices; i++) {
                        if ((plan->devices[i].n_seats > 0) != opened)
                                continue;
                        if (!try_seat(plan, &plan->devices[i], seat, &tried)) {
                                memcpy(reason, tried.reason, sizeof(reason));
                                continue;
                        }
                        if (at < plan->n_devices && tried.memory_free >= best.memory_free)
                                continue;
                        at = i;
                        best = tried;
                }
        if (at < plan->n_devices) {
                plan->devices[at] = best;
                return;
        }
        leave(plan, seat, reason);
}

/* ---- several devices (P5) -------------------------------------------------------------------- */

unsigned int plan_parts(const struct plan_service *service)
{
        return service->gpus > 1 ? service->gpus : 1;
}

/* A part on each of the devices, or on none. */
static bool take_devices(struct plan *plan, const struct plan_seat *seat, uint64_t devices)
{
        struct plan_seat part = *seat;
        struct plan_device tried;

        for (uint64_t left = devices; left; left &= left - 1)
                if (!try_seat(plan, &plan->devices[__builtin_ctzll(left)], seat, &tried))
                        return false;
        for (uint64_t left = devices; left; left &= left - 1, part.part++)
                if (try_seat(plan, &plan->devices[__builtin_ctzll(left)], &part, &tried))
                        plan->devices[__builtin_ctzll(left)] = tried;
        return true;
}

/* The devices of a server that can take a part. */
struct site {
        struct near_device devices[NEAR_DEVICES];
        unsigned char at[NEAR_DEVICES]; /* in the plan */
        size_t n;
};

/* Open devices before others, and of them those that have least memory over afterwards. */
static void look_at_server(const struct plan *plan, unsigned int server, const struct plan_seat *seat,
                           struct site *site, char reason[static PLAN_TEXT])
{
        struct plan_device tried;

        site->n = 0;
        for (size_t i = 0; i < plan->n_devices && site->n < NEAR_DEVICES; i++) {
                if (plan->devices[i].server != server)
                        continue;
                if (!try_seat(plan, &plan->devices[i], seat, &tried)) {
                        memcpy(reason, tried.reason, PLAN_TEXT);
                        continue;
                }
                site->at[site->n] = (unsigned char)i;
                site->devices[site->n++].cost =
                        (int64_t)(tried.memory_free / MIB) + (plan->devices[i].n_seats ? 0 : INT64_C(1) << 40);
        }
        for (size_t i = 0; i < site->n; i++) {
                site->devices[i].links = 0;
                site->devices[i].numa = 0;
                for (size_t k = 0; k < site->n; k++)
                        site->devices[i].links |= (uint32_t)(plan->devices[site->at[i]].nvlink >> site->at[k] & 1) << k;
        }
}

/* What a set of devices costs: pairs that are apart first. */
struct bill {
        unsigned int apart;
        int64_t cost;
        uint64_t devices; /* 0: there are too few */
};

static struct bill bill_of(const struct site *site, unsigned int count)
{
        const struct near_view view = { site->devices, site->n, (uint32_t)((UINT64_C(1) << site->n) - 1), count };
        uint32_t sets[NEAR_DEVICES];
        struct bill bill = { 0 };

        if (!near_pick(&view, sets))
                return bill;
        bill.apart = near_apart(site->devices, site->n, sets[0]);
        for (uint32_t left = sets[0]; left; left &= left - 1) {
                bill.cost += site->devices[__builtin_ctz(left)].cost;
                bill.devices |= UINT64_C(1) << site->at[__builtin_ctz(left)];
        }
        return bill;
}

static void place_several(struct plan *plan, const struct plan_seat *seat, unsigned int count)
{
        char reason[PLAN_TEXT] = "", why[PLAN_TEXT];
        struct bill best = { 0 };
        size_t most = 0;

        for (size_t i = 0; i < plan->n_devices; i++) {
                struct site site;
                struct bill bill;

                if (i && plan->devices[i].server == plan->devices[i - 1].server)
                        continue;
                look_at_server(plan, plan->devices[i].server, seat, &site, reason);
                most = site.n > most ? site.n : most;
                bill = bill_of(&site, count);
                if (bill.devices &&
                    (!best.devices || bill.apart < best.apart || (bill.apart == best.apart && bill.cost < best.cost)))
                        best = bill;
        }
        if (best.devices && take_devices(plan, seat, best.devices))
                return;
        (void)snprintf(why, sizeof(why), "%u devices of one server are needed, and %zu can take it%s%.120s", count,
                       most, *reason ? "; one of the others: " : "", reason);
        leave(plan, seat, why);
}

/* ---- the order ------------------------------------------------------------------------------- */

/* The hardest to place first: untrusted, then on many devices, then large, then with a tight goal. */
static bool is_before(const struct plan_service *a, const struct plan_service *b)
{
        if ((a->trust == PLAN_UNTRUSTED) != (b->trust == PLAN_UNTRUSTED))
                return a->trust == PLAN_UNTRUSTED;
        if (plan_parts(a) != plan_parts(b))
                return plan_parts(a) > plan_parts(b);
        if (a->memory != b->memory)
                return a->memory > b->memory;
        return a->goal && (!b->goal || a->goal < b->goal);
}

static void put_in_order(const struct plan *plan, unsigned int order[static PLAN_SERVICES_MAX])
{
        for (unsigned int i = 0; i < plan->n_services; i++) {
                unsigned int at = i;

                for (; at && is_before(&plan->services[i], &plan->services[order[at - 1]]); at--)
                        order[at] = order[at - 1];
                order[at] = i;
        }
}

static bool has_seat(const struct plan_device *device, const struct plan_seat *seat)
{
        for (size_t i = 0; i < device->n_seats; i++)
                if (device->seats[i].service == seat->service && device->seats[i].replica == seat->replica)
                        return true;
        return false;
}

static uint64_t pinned_to(const struct plan *plan, const struct plan_seat *seat)
{
        for (size_t i = 0; i < plan->n_pins; i++)
                if (plan->pins[i].service == seat->service && plan->pins[i].replica == seat->replica)
                        return plan->pins[i].devices;
        return 0;
}

/* First those that run, where they run; then the others, wherever there is room. */
static void place_in_turn(struct plan *plan, const struct plan_seat *seat, bool is_pinned)
{
        uint64_t devices = pinned_to(plan, seat);
        unsigned int count = plan_parts(&plan->services[seat->service]);
        bool is_there = devices && has_seat(&plan->devices[__builtin_ctzll(devices)], seat);

        if (is_pinned && (unsigned int)__builtin_popcountll(devices) == count)
                (void)take_devices(plan, seat, devices);
        else if (!is_pinned && !is_there && count > 1)
                place_several(plan, seat, count);
        else if (!is_pinned && !is_there)
                place(plan, seat);
}

void plan_make(struct plan *plan)
{
        unsigned int order[PLAN_SERVICES_MAX] = { 0 };

        plan->n_left = 0;
        for (size_t i = 0; i < plan->n_devices; i++)
                plan->devices[i] = (struct plan_device){ .at = i,
                                                         .model = plan->devices[i].model,
                                                         .others = plan->devices[i].others,
                                                         .server = plan->devices[i].server,
                                                         .nvlink = plan->devices[i].nvlink };
        put_in_order(plan, order);
        for (int is_pinned = 1; is_pinned >= 0; is_pinned--)
                for (size_t i = 0; i < plan->n_services; i++)
                        for (unsigned int replica = 0; replica < plan->services[order[i]].count; replica++)
                                place_in_turn(plan, &(struct plan_seat){ .service = order[i], .replica = replica },
                                              is_pinned);
}
