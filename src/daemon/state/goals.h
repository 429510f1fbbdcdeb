/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which goals (--latency) are promised: those that the policy can keep (turns/turns.h, turns_goal_least) beside what is
 * promised already. A lease without a goal is refused, too, if a goal of another were not kept beside it.
 */
#pragma once

#include "daemon/state/tenants.h"

struct daemon;
struct err;

/* Whether such a lease may have a goal at all. 0; -EINVAL, with the next step in err. */
int goals_check(const struct daemon *daemon, const struct message_lease *lease, struct err *err);

/* The name of a tenant for a user, who may not be told those of others. */
const char *goals_whom(const struct tenant *tenant, uid_t user);

/* After the return of a tenant, known by its shim: a daemon with other options may not give what the one before has
 * promised. Then an event says so. */
void goals_recheck(struct daemon *daemon, pid_t shim);

/* tenants_fit, and all goals of its devices are kept once the lease is there. 0; as tenants_fit. */
int goals_fit(const struct tenants *tenants, const struct message_lease *lease, const struct tenant *but,
              struct err *err);
