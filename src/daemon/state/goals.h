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

/* Whether all goals of the device are kept once the lease is there; `but` as for tenants_fit. 0; TENANTS_E_NO_ROOM. */
int goals_fit(const struct tenants *tenants, unsigned int device, const struct message_lease *lease,
              const struct tenant *but, struct err *err);
