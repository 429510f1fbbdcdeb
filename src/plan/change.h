/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The difference between the tenants of a daemon and a plan, and applying it.
 *
 * A tenant's lease changes as a whole or not at all. Two things are printed as commands for the owner of the processes:
 * what cannot change while a tenant runs (its device, and how that is shared), and what does not run yet. What the plan
 * does not mention, such as a cap, stays.
 */
#pragma once

#include "plan/lease.h"
#include "plan/live.h"

#include <stdio.h>

enum plan_action {
        PLAN_KEEP,
        PLAN_SET,
        PLAN_START,
        PLAN_MOVE,  /* end it and start it again, elsewhere or in another way */
        PLAN_EXTRA, /* a replica more than the file wants */
};

struct plan_change {
        enum plan_action action;
        struct plan_lease lease;
        const struct plan_tenant *tenant; /* of `live`; NULL: it does not run */
        char what[PLAN_TEXT];             /* "share 30% -> 50%"; for PLAN_MOVE why */
        bool is_done;
        char refusal[PLAN_TEXT]; /* the daemon's, once it was asked */
};

struct plan_changes {
        struct plan_change rows[2 * PLAN_REPLICAS_MAX];
        size_t n;
};

/* Pure. The result is too large for the stack. */
void plan_changes_find(const struct plan *plan, const struct plan_live *live, struct plan_changes *ret);

/* How many rows differ. */
size_t plan_changes_count(const struct plan_changes *changes);

/*
 * Applies every PLAN_SET, in an order in which they fit beside each other. 0; -EBUSY: the daemon refused some (see
 * their rows); other errors: the daemon could not be asked.
 */
int plan_changes_apply(struct ask *ask, struct plan_changes *changes, struct err *err);

void plan_changes_say(FILE *to, const struct plan_changes *changes, bool is_applied);
json_t *plan_changes_json(const struct plan_changes *changes); /* the caller's */
