/* Starts a tenant's command under the filter. */
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

struct err;

enum {
        SPAWN_OK,
        SPAWN_E_ENDED, /* the child ended before it could hand the listener over */
};

/*
 * Forks; the child puts the filter on itself, hands the listener over and executes argv[0] (looked
 * up in PATH). As root it keeps the capabilities that a container would have, no more: a tenant that
 * could trace its supervisor or load a module would be no tenant.
 *
 * death_signal: sent to the command, not to what it starts, when the calling thread ends; 0: none.
 * *ret_listener is the caller's. A command that cannot be executed makes the child exit with 127
 * (not found) or 126, after one line on stderr. SPAWN_OK; SPAWN_E_ENDED, with what a shell would call its
 * exit code in *ret_code; -errno.
 */
int spawn_tenant(char *const argv[], const struct sock_fprog *filter, int death_signal, pid_t *ret_child,
                 int *ret_listener, int *ret_code, struct err *err);

/* In the child, before it is the tenant's: what a container would have is what it has at most. */
void spawn_bound_capabilities(void);

/* Ends every process that is left below us (we are their subreaper) and waits for them. */
void spawn_end_all(void);
