/* SPDX-License-Identifier: Apache-2.0 */
/* Starts a tenant's command under the filter. */
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

struct err;

enum {
        SPAWN_OK,
        SPAWN_E_ENDED, /* the child ended before it could hand the listener over */
};

struct spawned {
        pid_t child;
        int listener;
        int executing; /* at its end when the command is executed; a byte if it cannot be */
};

/*
 * Forks; the child installs the filter on itself, hands the listener over and executes argv[0] (looked up in PATH). As
 * root it keeps the capabilities of a container and no more: a tenant that can trace its supervisor or load a module is
 * not limited by either.
 *
 * death_signal: sent to the command, but not to its children, when the calling thread ends; 0: none. ret's descriptors
 * are the caller's. If the command cannot be executed, the child exits with 127 (not found) or 126 after one line on
 * stderr. SPAWN_OK; SPAWN_E_ENDED, with the child's exit code, as a shell has it, in *ret_code; -errno.
 */
int spawn_tenant(char *const argv[], const struct sock_fprog *filter, int death_signal, struct spawned *ret,
                 int *ret_code, struct err *err);

/* In the child, before it becomes the tenant: bounds its capabilities to those of a container. */
void spawn_bound_capabilities(void);

/* In the child: executes argv[0]; on failure prints a line, sends a byte to `tell` (a socket; -1: to nobody) and
 * exits. */
_Noreturn void spawn_exec(char *const argv[], int tell);

/* Kills all descendants (this process is their subreaper) and waits for them, for some seconds at most. */
void spawn_end_all(void);
