/* From a request to a lease, or a refusal. */
#pragma once

#include "daemon/state/daemon.h"

/* A lease for a request by `owner`, taken into the table. 0; -errno for the peer: ENOSPC, EEXIST, EINVAL, ENODEV, EPERM,
 * with a line that says the next step. */
int admit(struct daemon *daemon, const struct message_request *request, uid_t owner, struct tenant **ret,
          struct err *err);

/* The lease of one whose command never ran returns. */
void admit_undo(struct daemon *daemon, struct tenant *tenant);
