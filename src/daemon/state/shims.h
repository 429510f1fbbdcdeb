/* The conversation with each tenant's shim. Thread: the loop. */
#pragma once

#include "daemon/state/daemon.h"

/* Starts the keeper of an admitted tenant; the descriptors stay the caller's. run: its supervisor's socket; init: a pidfd of
 * its container's first process; -1: there is none. 0; -errno. */
int keepers_start(struct daemon *daemon, struct tenant *tenant, int listener, int run, int init, struct err *err);

/* A keeper came back: its hello, and the socket, which is taken over on success. 0; -EPROTO. */
int keepers_return(struct daemon *daemon, struct message *hello, int socket, pid_t process);

/* Tells the keeper new quotas: its answer will have tenant->set_asked as its serial. 0; -errno (nothing was sent). */
int keepers_set(struct tenant *tenant);
int keepers_end(struct tenant *tenant); /* 0; -errno */

enum {
        KEEPERS_E_LATER = 1, /* it cannot be reached now */
};

/* Gives the keeper one more filter of its tenant's; the descriptor stays the caller's. 0; KEEPERS_E_LATER; -errno. */
int keepers_join(struct tenant *tenant, int listener);
void keepers_tell(struct tenant *tenant, const struct event *event);
void keepers_tick(struct daemon *daemon);    /* looks after those who are awaited */
void keepers_settle(struct daemon *daemon);  /* ends the tenancies whose keepers have said that they ended */
void keepers_reap(struct daemon *daemon);    /* on SIGCHLD */
void keepers_recover(struct daemon *daemon); /* awaits those whom the store knows */
void keepers_leave(struct daemon *daemon);   /* lets go of all: the daemon ends, they do not */

/* A number for a tenancy that has none yet: the store's, or one that none had before. */
void keepers_number(struct daemon *daemon, struct tenant *tenant);
void keepers_finish(struct daemon *daemon, struct tenant *tenant); /* the end of a tenancy: it is freed */
