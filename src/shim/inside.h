/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a shim, shared by shim.c and talk.c. */
#pragma once

#include "shim/shim.h"

#include "base/lock.h"
#include "gpu/backend.h"
#include "shim/jobs.h"
#include "shim/mover.h"
#include "shim/reconciler.h"

struct shim {
        const char *dir;
        struct message_lease terms; /* of the main thread */
        struct lease lease;
        struct gpu_backend backend;
        struct gate_driver driver;
        struct gate *gate;
        struct control_block *control;
        int control_block_fd;
        struct reconciler reconciler;
        int init;                     /* a pidfd of the container's first process; -1: none */
        struct record_writer *writer; /* of `sublet run --record`; NULL: none */
        bool is_ending;               /* all its processes are being ended */
        struct jobs jobs;
        struct mover mover;
        bool owes_moved;   /* the latest way has ended, and the daemon has not been told */
        nsec published_at; /* publish */
        struct kept_look {
                nsec at; /* when the latest began; 0: none has */
                pthread_t thread;
                bool has_thread;
                pid_t found; /* by the thread, before */
                atomic_bool is_over;
        } kept;            /* publish_kept */
        bool is_away_told; /* talk_away */
        bool is_lent;      /* it has ended, and what it lent is not back */
        bool is_settled;   /* it has ended, and so has what it lent: its ledger is as empty as it gets by itself */

        atomic_bool is_dirty; /* the ledger in the control block is not the latest */
        atomic_bool is_writing;

        struct lock talk_lock; /* LOCK_TALK: the sockets and the events */
        int daemon, run;       /* -1: not connected */
        struct {
                nsec sent_at;
                uint64_t n_unsent;
        } events[EVENT_N];
};

/* ---- talk.c ---- */

/* To the daemon and to `sublet run`: the gate's event callback. Sends at most ten a second of one kind, with the number
 * of those that were not sent. */
void talk_event(void *shim, enum event_kind event, pid_t process, const char *detail);

void talk_failed(struct shim *shim, const char *text);

/* Sends hello and the control block to the daemon. False: it cannot be sent. */
bool talk_hello(struct shim *shim);

/* Tries keeper.sock once. True: a daemon has the hello. */
bool talk_reconnect(struct shim *shim);

/* To the daemon, if it is owed: how a way has ended that it asked for. One that does not read is told later. */
void talk_moved(struct shim *shim);

/* To `sublet run`, when it has changed: whether the tenant is suspended, or on its way. */
void talk_away(struct shim *shim);

/* Handle one message; a socket that has hung up becomes -1. */
void talk_daemon(struct shim *shim);
void talk_run(struct shim *shim);

/* The tenant has ended: sends its account to both. True: the daemon has it. */
bool talk_ended(struct shim *shim, nsec elapsed);

/* ---- publish.c ---- */

/* The main thread's. What the gate has counted; and processes and loans, at most once a second. */
void publish(struct shim *shim, const struct gate_stats *stats);
void publish_terms(struct shim *shim); /* on a new control block, before anybody is served */

/* The tenant has ended and memory of it has not: who has it. Looks again now and then, on a thread: on a large machine
 * a look takes seconds. publish_kept_end waits for it, before the gate goes. */
void publish_kept(struct shim *shim);
void publish_kept_end(struct shim *shim);

/* Of struct gate_options: the tenant's suspension as the daemon has it, and that a call waits because of it. */
bool publish_is_away(void *context, pid_t process);
void publish_waits(void *context, pid_t process, bool begins);

/* ---- shim.c ---- */

void shim_end_tenant(struct shim *shim);
