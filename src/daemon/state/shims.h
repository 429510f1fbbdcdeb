/* The conversation with each tenant's shim. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

/* Starts the shim of an admitted tenant; the descriptors stay the caller's. run: its supervisor's socket; init: a pidfd of
 * its container's first process; -1: there is none. 0; -errno. */
int shims_start(struct daemon *daemon, struct tenant *tenant, int listener, int run, int init, struct err *err);

/* A shim came back: its hello, and the socket, which is taken over on success. 0; -EPROTO. */
int shims_return(struct daemon *daemon, struct message *hello, int socket, pid_t process);

/* Tells the shim new quotas: its answer will have tenant->set_asked as its serial. 0; -errno (nothing was sent). */
int shims_set(struct tenant *tenant);
int shims_end(struct tenant *tenant); /* 0; -errno */

enum {
        SHIMS_E_LATER = 1, /* it cannot be reached now */
};

/* Gives the shim one more filter of its tenant's; the descriptor stays the caller's. 0; SHIMS_E_LATER; -errno. */
int shims_join(struct tenant *tenant, int listener);
void shims_send_event(struct tenant *tenant, const struct event *event);
void shims_tick(struct daemon *daemon);    /* looks after those who are awaited */
void shims_settle(struct daemon *daemon);  /* ends the tenancies whose shims have said that they ended */
void shims_reap(struct daemon *daemon);    /* on SIGCHLD */
void shims_recover(struct daemon *daemon); /* awaits those whom the store knows */
void shims_leave(struct daemon *daemon);   /* lets go of all: the daemon ends, they do not */

/* A number for a tenancy that has none yet: the store's, or one that none had before. */
void shims_number(struct daemon *daemon, struct tenant *tenant);
void shims_finish(struct daemon *daemon, struct tenant *tenant); /* the end of a tenancy: it is freed */
