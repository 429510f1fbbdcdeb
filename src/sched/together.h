/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the schedulers of all devices share: which gangs are on (turns/gangs.h). Nobody leads. Each thread tells what
 * its device has seen, asks for the decision, and follows it; the first that comes to the end of a turn decides for
 * all, and wakes those that would sleep on. The ends of turns are known beforehand, so mostly all wake by their own
 * clocks.
 *
 *      together_new(&settings, &together);          before the first sched_start, which gets it in its settings
 *      together_free(together);                     after the last sched_stop
 *
 * A device whose thread waits for the driver does not hold up the others: the rank there follows when the call returns,
 * or its shim enables it when the daemon has died. LOCK_GANGS is held across gangs_next (some 10 us) and wake-ups.
 */
#pragma once

#include "turns/gangs.h"

struct sched;
struct together;

int together_new(const struct turns_settings *settings, struct together **ret); /* -ENOMEM */
struct together *together_free(struct together *together);                      /* NULL is fine */

/* By a thread of a scheduler, under its LOCK_SCHED: its orders, and when to be asked again. Without gangs in the view
 * this is turns_next. */
nsec together_decide(struct sched *sched, const struct turns_view *view, struct turns_order *ret_orders);

/* The device takes part no more: it is lost, or its scheduler ends. */
void together_leave(struct sched *sched);
