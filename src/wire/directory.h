/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of the daemon's sockets. A user who may write to it could replace our sockets. */
#pragma once

struct err;

/* Whether only root, we and our group may write to it. 0; -errno: -ENOTDIR, -EPERM, or that of stat(2). */
int directory_check(const char *dir, struct err *err);
