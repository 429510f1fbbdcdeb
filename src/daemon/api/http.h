/*
 * The API on its sockets: libmicrohttpd, driven by our loop (no threads of its own).
 *
 * Who asks is known by the credentials of the unix socket's peer, never by what a request says. The TCP
 * listener answers GETs only, as if root had asked, to whoever reaches it: off by default.
 */
#pragma once

#include "daemon/state/daemon.h"

/* Opens DIR/sublet.sock, and settings.listen if that is set. 0; -errno. */
int http_open(struct daemon *daemon, struct http **ret, struct err *err);
struct http *http_close(struct http *http); /* NULL is fine */

/* Something has happened that somebody may wait for. NULL is fine; cheap, may be called from within an answer. */
void http_wake(struct http *http);
