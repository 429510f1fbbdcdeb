/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that wait until the tenant's memory is back, or has gone: for minutes, perhaps, and as many as the tenant has
 * threads. So none of them has a thread of ours. What waits is the notification: the kernel keeps it until somebody
 * answers, and its call is looked at anew when it may be made (G1: it is copied anew, too).
 *
 *      W1  a call that waits holds nothing that another could want, a thread and a descriptor among it;
 *      W2  all that wait are looked at about as often as a few would be: the gate's processor is not the tenant's;
 *      W3  one whose caller has gone is forgotten, and one that has waited for too long is answered.
 *
 * They wait by listener, and with its lock. The watcher looks; the listener's threads take those that are ready.
 */
#pragma once

#include "gate/request.h"

void waiting_init(struct notify_listener *listener);

/* A thread's call for which wait_ask has answered GATE_WAITS, after it has been served so far. False: no memory. */
bool waiting_put(struct worker *worker);

/* With the reader's mutex: the call that has been ready for longest is the thread's now. False: none is. */
bool waiting_take(struct worker *worker);

/* The watcher's. True: some are ready, and a thread should take them. */
bool waiting_look(struct notify_listener *listener);

/* Nobody is there who could want an answer. */
void waiting_drop(struct notify_listener *listener);
