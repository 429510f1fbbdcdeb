/* SPDX-License-Identifier: Apache-2.0 */
/* From a request to a lease, or a refusal. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

/* Leases what `owner` asks for and adds the tenant to the table. container: which it is; NULL: none. 0; -ENOSPC,
 * -EEXIST, -EINVAL, -ENODEV, -EPERM, -ENOMEM, with a line that names the next step. */
int admit(struct daemon *daemon, const struct message_request *request, uid_t owner,
          const struct message_container *container, struct tenant **ret, struct err *err);

/* Withdraws the lease of a tenant that never started. */
void admit_undo(struct daemon *daemon, struct tenant *tenant);
