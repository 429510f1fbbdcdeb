/* The directory of the daemon's sockets. Whoever may write to it could put another file, or a socket of their own,
 * in the place of ours. */
#pragma once

struct err;

/* Whether only root, we and our group may write to it. 0; -errno: -ENOTDIR, -EPERM, or that of stat(2). */
int directory_check(const char *dir, struct err *err);
