/*
 * GPU time: who may use a device from now until when. Pure: bytes and numbers in, bytes and numbers
 * out; the time is a parameter. One `struct turns` per device.
 *
 * The edge (sched/sched.c) brings a view: the tenants, what the meter counted for each, and what is
 * known of their work. A policy answers with an order per tenant: its slice, or off. The edge makes the
 * device follow the orders, and what the device then did is in the next view: the loop is closed there.
 *
 *      turns_new(&settings, &turns);
 *      for (;;) {
 *              ... view ...
 *              wake_at = turns_next(turns, &view, orders);
 *              ... apply orders; sleep until wake_at, or until a tenant comes, goes or changes ...
 *      }
 *
 * Promises (tests/unit/turns):
 *      T1  a tenant that wants is metered its share, measured over a second, whatever the others do;
 *      T2  no tenant is metered more than its cap over any second;
 *      T3  nobody who wants waits longer than three periods;
 *      T4  a share that is not wanted is lent, and is back within a period when it is wanted again;
 *      T5  every view yields orders: a tenant may come, go, or never end its kernel at any call.
 *
 * Threads: none; a struct turns is its caller's.
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t permille; /* of a device's time; 1000 is all of it */

enum {
        TURNS_TENANTS_MAX = 256, /* of one device */
        TURNS_WHOLE = 1000,      /* permille; a cap of this is no cap */
        TURNS_PPM = 1000,        /* parts per million in a permille */
};

/*
 * What each of `n` tenants that were promised no share gets, in parts per million of a device whose promises add up to
 * `promised`: an equal part of the rest, and at least one permille, so that nobody starves. Together with the promises this
 * may be more than the device; turns_next then scales all shares down.
 */
uint32_t turns_equal_part(permille promised, size_t n);

enum turns_class {
        TURNS_NORMAL,
        TURNS_LATENCY, /* comes onto the device at once while it is within its share */
        TURNS_BATCH,   /* gives way: throughput matters to it, waiting does not */
};

enum turns_work {
        TURNS_WORK_UNKNOWN, /* no signal: only the meter tells */
        TURNS_WORK_NONE,    /* all that was launched has been taken by the device, and nothing new came */
        TURNS_WORK_PENDING, /* launched and not yet taken by the device */
};

/* One tenant on this device, as the edge sees it. */
struct turns_tenant {
        uint64_t id;    /* the caller's; the same for the same tenant in every view, never reused */
        permille share; /* 0: none was promised; an equal part of what is not promised */
        permille cap;   /* TURNS_WHOLE: none; 0: never on */
        enum turns_class class;

        nsec used;         /* metered until view->metered_until, ever growing; an open interval counts */
        nsec started_at;   /* when the device last took it on; 0: never */
        bool is_resident;  /* it is on the device, as of the meter */
        uint64_t n_starts; /* how often the device took it on, ever; 0: not counted */

        unsigned int n_groups; /* channel groups for computing (a process has one); 0: not known, taken for one */

        enum turns_work work;
        nsec launched_at; /* when a launch was last seen; 0: never, or no signal */
};

struct turns_view {
        nsec now;
        nsec metered_until; /* records up to here have been read; <= now */
        const struct turns_tenant *tenants;
        size_t n_tenants; /* <= TURNS_TENANTS_MAX */
};

struct turns_order {
        bool is_disabled; /* its channels are kept off the device */
        nsec slice;       /* hardware timeslice while on; 0: the driver's own */
};

enum turns_policy {
        TURNS_POLICY_AUTO,   /* chosen per tenant mix, by docs/time.md */
        TURNS_POLICY_SLICES, /* weights to hardware timeslices; nobody is off, but for a cap */
        TURNS_POLICY_TURNS,  /* software windows; the share of an idle holder is lent */
        TURNS_POLICY_STRICT, /* software windows; nothing is lent */
        TURNS_POLICY_NONE,   /* the driver's default; metered only, caps are kept */
        TURNS_N_POLICIES,
};

struct turns_settings {
        enum turns_policy policy;
        nsec period; /* over which windows go round; 0: chosen from the tenants */
};

struct turns;

int turns_new(const struct turns_settings *settings, struct turns **ret); /* -ENOMEM */
struct turns *turns_free(struct turns *turns);                            /* NULL is fine */

/* Takes effect with the next turns_next. */
void turns_set(struct turns *turns, const struct turns_settings *settings);

/*
 * The orders from now on, one per tenant of the view, in its order. Returns when to be called again
 * at the latest; earlier calls do no harm.
 */
nsec turns_next(struct turns *turns, const struct turns_view *view, struct turns_order *ret_orders);

/* For people: "auto", "slices", "turns", "strict", "none". -EINVAL. */
int turns_policy_parse(const char *text, enum turns_policy *ret);
const char *turns_policy_name(enum turns_policy policy);
int turns_class_parse(const char *text, enum turns_class *ret); /* "latency", "normal", "batch" */
const char *turns_class_name(enum turns_class class);
