/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants without a shim: libsublet.so inside their programs keeps the quota. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

struct ucred;
struct usage_segment_totals;

/* Makes an admitted tenant's lease descriptor and usage segment and answers "granted". Where the request names a
 * directory they are made there, and the socket stays the caller's; else they go with the answer, and the socket is
 * taken over on success. 0; -errno. */
int preloads_start(struct daemon *daemon, struct tenant *tenant, const struct message_request *request, int socket,
                   struct err *err);

/* `sublet run` came back to a new daemon with both; answers "returned". The socket is taken over on success. 0;
 * -errno. */
int preloads_return(struct daemon *daemon, struct message *message, int socket, const struct ucred *peer);

/* Scans the tenant's usage segment. 0; -EAGAIN: not now, since that took long a while ago (E1); else as
 * usage_segment_scan. */
int preloads_look(struct tenant *tenant, struct usage_segment_totals *ret);

void preloads_tick(struct daemon *daemon);                           /* ten times a second: scans the usage segments */
void preloads_recover(struct daemon *daemon, struct tenant *tenant); /* a tenant that the store knows */
bool preloads_resume(struct daemon *daemon, struct tenant *tenant);  /* true: its shim has ended, the tenancy has not */
int preloads_end(struct tenant *tenant);                             /* ends a tenancy of any mode, as shims_end */
