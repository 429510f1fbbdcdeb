/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants' shims: their start, their return to a new daemon, and the end of a tenancy (shims.c); the messages between
 * daemon and shim, docs/messages.md (shim_messages.c); helpers that suspend tenants (suspend/). Thread: the loop;
 * nothing waits.
 */
#pragma once

#include "daemon/state/daemon.h"

/* Starts the shim of an admitted tenant; the descriptors stay the caller's. run: its supervisor's socket; init: a pidfd
 * of its container's first process; -1: there is none. 0; -errno. */
int shims_start(struct daemon *daemon, struct tenant *tenant, int listener, int run, int init, int record,
                struct err *err);

/* A shim came back with its hello; the socket is taken over on success. 0; -EPROTO; -errno. */
int shims_return(struct daemon *daemon, struct message *hello, int socket, pid_t process);

void shims_tick(struct daemon *daemon);    /* ten times a second: the time limits of awaited shims */
void shims_settle(struct daemon *daemon);  /* ends the tenancies whose shims have already sent their last message */
void shims_reap(struct daemon *daemon);    /* on SIGCHLD */
void shims_recover(struct daemon *daemon); /* awaits the shims that the store knows */
void shims_leave(struct daemon *daemon);   /* the daemon ends and drops its tenants; the shims go on */

/* Whether its shim has gone without that having been heard of: then the tenancy ends here, and the tenant is freed. */
bool shims_notice(struct daemon *daemon, struct tenant *tenant);

/* Numbers a tenancy that has no number yet: the store's next, else one by the clock. */
void shims_number(struct daemon *daemon, struct tenant *tenant);
void shims_finish(struct daemon *daemon, struct tenant *tenant); /* the end of a tenancy; the tenant is freed */

/* The tenant's socket: takes it over on success and waits for messages with `ready`, whose context is the tenant. 0;
 * -errno. */
int shims_connect(struct tenant *tenant, int socket, void (*ready)(struct loop_source *source, uint32_t events));
void shims_disconnect(struct tenant *tenant);

/* ---- messages */

enum {
        SHIMS_E_LATER = 1, /* the shim cannot be reached now */
};

int shims_set(
        struct tenant *tenant); /* sends the lease; the answer carries tenant->set_asked. 0; -errno: nothing was sent */
int shims_end(struct tenant *tenant);                /* 0; -errno */
int shims_join(struct tenant *tenant, int listener); /* one more filter, borrowed. 0; SHIMS_E_LATER; -errno */
void shims_send_event(struct tenant *tenant, const struct event *event);

/* Acts on a message from the tenant's shim. 0; -EPROTO: the connection is of no use any more; -errno. */
int shims_handle(struct daemon *daemon, struct tenant *tenant, struct message *message);

/* ---- suspend.c: suspends tenants and brings them back */

enum {
        SUSPEND_SEC = 300, /* until a helper is killed */
};

/* Asks for one or the other; what has to be done is done later. 0; -EBUSY, -ENOTSUP: it is refused, untouched. */
int suspend_ask(struct daemon *daemon, struct tenant *tenant, bool suspends, uid_t user, struct err *err);

/* The tenant's shim has come to this daemon: goes on with what the one before had begun. */
void suspend_take(struct daemon *daemon, struct tenant *tenant);

void suspend_reap(struct daemon *daemon, pid_t process, int status); /* does nothing if it was no helper */
void suspend_moved(struct daemon *daemon, struct tenant *tenant, const json_t *body); /* its shim has answered */
void suspend_tick(struct daemon *daemon); /* kills helpers whose time is over */

/* suspend/stranded.c: its shim has died, and with it the way back: ends the processes that were suspended, or on their
 * way. How many. */
unsigned int suspend_strand(struct tenant *tenant);
void suspend_leave(struct tenant *tenant); /* the tenant goes, or the daemon */

/* By ourselves, from running or suspended. cause: a part of the event's line, such as "for a driver call". */
void suspend_move(struct daemon *daemon, struct tenant *tenant, bool suspends, const char *cause);

/* 0; -ENOTSUP, -EBUSY: a tenant that cannot be suspended now, whatever the driver says. */
int suspend_check(const struct tenant *tenant, struct err *err);

/* ---- suspend/swapped.c: what of it is in host memory (tenant_swapped) */

/* Before its memory begins to move. */
void swapped_note(struct tenant *tenant);

/* Processes that have ended have nothing there any more; to be called now and then. */
void swapped_tick(struct tenant *tenant, nsec now);

/* ---- suspend/room.c: host memory that is ready before a tenant leaves its device */

void room_look(struct daemon *daemon);
bytes room_ready(const struct tenant *tenant); /* that its shim may keep while nothing is in it */

/* ---- suspend/sleep.c: suspends who is idle, and wakes who must not stay suspended */

/* Whether a lease may have a time of sleep. 0; -EINVAL. */
int sleep_check(const struct message_lease *lease, struct err *err);

/* Somebody wakes the tenant when there is work for it. It is believed for a while: SLEEP_WAKER_SEC. */
enum { SLEEP_WAKER_SEC = 10 };
void sleep_waker(struct tenant *tenant);
bool sleep_has_waker(const struct daemon *daemon, const struct tenant *tenant); /* or it wakes by itself */
bool sleep_is_for_itself(const struct tenant *tenant); /* it is put to sleep because it would wake by itself */

/* The daemon before this one has suspended the tenant, perhaps because it was idle. */
void sleep_take(struct tenant *tenant);

/* Its user asks for what has happened to it by itself: from here on it stays suspended. */
void sleep_keep(struct tenant *tenant);

void sleep_look(struct daemon *daemon);

/* What a tenant that runs has done, as far as is seen. */
void sleep_signs(const struct daemon *daemon, const struct tenant *tenant, struct sleeper_view *ret);

/* ---- suspend/swap.c: who of the tenants with --swap is on the device */

/* Whether a lease may have --swap. 0; -EINVAL. */
int swap_check(const struct daemon *daemon, const struct message_lease *lease, struct err *err);

void swap_look(struct daemon *daemon);

void swap_ask(struct tenant *tenant);  /* one that is suspended is to come in, as soon as there is room */
void swap_keep(struct tenant *tenant); /* its user wants it to stay out */
bool swap_is_asked(const struct tenant *tenant);

/* Its user has suspended it, and its work and calls, which its gate sees, bring it in no more than they would if it
 * were suspended by checkpoint. */
bool swap_is_kept_out(const struct tenant *tenant);

/* What a move out and back costs of so much. */
nsec swap_move_cost(const struct daemon *daemon, const struct tenant *tenant, bytes size);

/* What came of a way; swap_failed: it is where it was. */
void swap_moved(struct tenant *tenant, bool is_out, bool by_copies, nsec took, bytes moved);
void swap_failed(struct tenant *tenant, bool is_out);

/* Why one that is to come in is not in yet; NULL: it is, or is not to come in. */
const char *swap_waits_for(const struct tenant *tenant);
