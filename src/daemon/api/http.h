/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API on its sockets: libmicrohttpd, driven by our loop, without threads of its own.
 *
 * A caller is identified by the credentials of the Unix socket's peer, never by the request. The TCP listener answers
 * GET only, with what root may see, to anyone who can reach it: it is off by default.
 */
#pragma once

#include "daemon/state/daemon.h"

/* Opens DIR/sublet.sock, and settings.listen if that is set. 0; -errno. */
int http_open(struct daemon *daemon, struct http **ret, struct err *err);
struct http *http_close(struct http *http); /* NULL is fine */

/* Something has happened that a call may wait for. NULL is fine; cheap, may be called from within an answer. */
void http_wake(struct http *http);
