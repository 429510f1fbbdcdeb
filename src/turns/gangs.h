/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns taken together. A gang is what comes on and goes off at the same time on all its devices: a tenant that holds
 * several devices, or the tenants of a job. Its ranks wait for each other, so time that only some of them have is time
 * that all of them lose. One decision for all devices of the server says which gangs are on. What they leave, each
 * device divides among its other entities as if there were no gangs (turns.h). Pure: the time is a parameter.
 *
 *      gangs_new(&settings, &gangs);
 *      for each device, at any time:
 *              ... turns_look(turns, &view, signs) ...
 *              gangs_tell(gangs, device, &view, signs, &rest);  what this device has seen
 *              changed = gangs_next(gangs, now);                the decision, for all devices
 *              gangs_orders(gangs, device, &view, orders);      what it means for this one
 *              ... turns_decide(turns, &view, orders, ...) ...
 *              ... the other devices of `changed` are looked at at once, all others at gangs_wake ...
 *
 * The words: a rank is a gang's part on one device. A domain is a set of devices that time-sliced gangs connect; it
 * has rounds of its own, and devices without a gang are in none. A gang is always-on or time-sliced as a whole.
 *
 *      J1  No gang is half on. All its ranks are enabled, or all disabled; only the switch itself takes time.
 *      J2  A time-sliced gang has the same weight on each of its devices, the least that one of them gives it, and one
 *          turn a round for all of them: its weight's part of a period, and what it is owed.
 *      J3  The gang with the most devices comes first in a round, then the next whose devices are free, and so on. A
 *          gang with a turn to come takes its devices from any after it in this order. A round ends when each gang has
 *          had its turn, so nobody starves. Gangs of which each has its devices inside or outside of another's fit
 *          into a round whenever their shares do. Others need not: three gangs on devices 01, 12 and 20 get a third
 *          each, whatever was promised. Then the round is longer, and all of them get less, by their weights.
 *      J4  A gang wants the device as long as one rank does. A rank that waits for another on the device (it spins
 *          in a collective) is at work. When no rank was switched to since the turn began, the gang is idle: it
 *          becomes always-on, and its time is lent.
 *      J5  A rank that was not switched to while others were is asleep: it is enabled when the others are, but its
 *          device is lent to those that take turns on it, until it comes on. A tenant that was granted two devices and
 *          uses one takes no time of the other.
 *      J6  Devices on which nobody waits for a turn are lent to gangs: one for which all its devices are free is on
 *          beyond its turn.
 *      J7  A cap of one rank blocks all of them.
 *
 * The cost of a call is linear in the ranks of all gangs. Threads: none; a struct gangs belongs to its caller.
 */
#pragma once

#include "turns/turns.h"

enum {
        GANGS_DEVICES_MAX = 32,
        GANGS_MAX = TURNS_TENANTS_MAX,
};

struct gangs;

int gangs_new(const struct turns_settings *settings, struct gangs **ret); /* -ENOMEM */
struct gangs *gangs_free(struct gangs *gangs);                            /* NULL is fine */

/* What a device has seen: the view and the signs of turns_look, and turns_rest. A gang that is no longer in the view
 * has left the device. With a view of no tenants the device leaves all gangs. */
struct gangs_rest {
        bool is_wanted; /* by an entity that takes turns on this device */
        nsec always_on; /* used by always-on entities, ever */
};

void gangs_tell(struct gangs *gangs, unsigned int device, const struct turns_view *view, const struct turns_sign *signs,
                const struct gangs_rest *rest);

/* Decides. Returns the devices (bits) that are to be looked at at once: something has changed for them, and they would
 * not be looked at by themselves within 100 us. */
uint32_t gangs_next(struct gangs *gangs, nsec now);

/* One order per tenant of the view that was told last. */
void gangs_orders(struct gangs *gangs, unsigned int device, const struct turns_view *view,
                  struct turns_gang_order *ret_orders);

/* When this device is to be looked at again; INT64_MAX: its gangs want nothing. The device has been told then. */
nsec gangs_wake(struct gangs *gangs, unsigned int device);
