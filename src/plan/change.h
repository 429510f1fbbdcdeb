/*
 * What the tenants of a daemon would have to change so that they are as planned, and changing it.
 *
 * A tenant's lease is changed as a whole or not at all. What cannot be changed while it runs (its device, the way in
 * which that is shared) and what does not run yet is said with the command, and left to whoever owns the processes.
 * What the plan says nothing of, such as a cap, stays.
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
        char what[PLAN_SAY];              /* "share 30% -> 50%"; for PLAN_MOVE why */
        bool is_done;
        char refusal[PLAN_SAY]; /* the daemon's, once it was asked */
};

struct plan_changes {
        struct plan_change rows[2 * PLAN_REPLICAS_MAX];
        size_t n;
};

/* Pure. Large: not for the stack. */
void plan_changes_find(const struct plan *plan, const struct plan_live *live, struct plan_changes *ret);

/* How many are to be other than they are. */
size_t plan_changes_count(const struct plan_changes *changes);

/*
 * Every PLAN_SET, in an order in which they fit beside each other. 0; -EBUSY: the daemon refused some, which their rows say; or why it could not be asked.
 */
int plan_changes_apply(struct ask *ask, struct plan_changes *changes, struct err *err);

void plan_changes_say(FILE *to, const struct plan_changes *changes, bool is_applied);
json_t *plan_changes_json(const struct plan_changes *changes); /* the caller's */
