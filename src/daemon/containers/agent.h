/* SPDX-License-Identifier: Apache-2.0 */
/* Container runtimes send notify descriptors to seccomp.sock. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

struct ucred;
void agent_accept(struct daemon *daemon, int fd, const struct ucred *peer); /* a connection; takes fd over */
void agent_tick(struct daemon *daemon, nsec now);
void agent_close(struct daemon *daemon);
