/* Tenants without a shim: their programs have libsublet.so inside. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

struct ucred;
#include "daemon/state/shims.h"

/* Gives an admitted tenant its lease descriptor and usage segment, and answers `socket` with them, which is taken over on success; where the
 * request names a place, they are made there, and the socket stays the caller's. 0; -errno. */
int preloads_start(struct daemon *daemon, struct tenant *tenant, const struct message_request *request, int socket,
                   struct err *err);

/* `sublet run` came back to a new daemon, with lease descriptor and usage segment of its tenancy. As preloads_start. */
int preloads_return(struct daemon *daemon, struct message *message, int socket, const struct ucred *who);

void preloads_tick(struct daemon *daemon);                           /* looks at their books */
void preloads_recover(struct daemon *daemon, struct tenant *tenant); /* one of the daemon before us */
int preloads_end(struct tenant *tenant);                             /* as shims_end, which it does, too */

bool preloads_resume(struct daemon *daemon, struct tenant *tenant); /* its gate has ended, the tenancy has not */
