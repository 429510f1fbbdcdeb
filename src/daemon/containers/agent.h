/* The socket to which container runtimes send notify descriptors. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

struct ucred;
void agent_accept(struct daemon *daemon, int fd, const struct ucred *who); /* at seccomp.sock; fd is taken over */
void agent_tick(struct daemon *daemon);
void agent_close(struct daemon *daemon);
