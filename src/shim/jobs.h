/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shims of one job ask each other for loans (gate/gate.h): whose is that client, or that descriptor?
 *
 * Each has a socket in DIR/jobs, which only the daemon's user can reach; its name begins with a number of the job. What
 * a job is, is compared again with each question: owner, namespace and name (docs/time.md). No daemon is asked.
 *      J1  what cannot be asked, or is not answered in time, is not lent;
 *      J2  a borrower that hangs up has returned nothing: its loans end as gate_borrower_gone says;
 *      J3  a thread that answers never asks, so two shims that ask each other do not wait for ever.
 *
 * Threads: one of our own answers, and notices who is gone; the gate's threads ask, one at a time.
 */
#pragma once

#include "base/lock.h"
#include "gate/gate.h"

#include <pthread.h>
#include <stdatomic.h>

struct message_lease;

enum {
        JOBS_PEERS_MAX = 256,
};

struct jobs {
        struct gate *gate;
        const struct message_lease *lease; /* whose owner, namespace and job never change */
        const char *dir;
        char prefix[24], name[64]; /* of the sockets of the job, and of ours */
        int listener, wake;        /* -1: not open */
        pthread_t thread;
        atomic_bool is_ending, has_thread;
        atomic_bool is_lender_lost; /* the tenant is to be ended */

        /* The thread's: who borrows. */
        struct jobs_borrower {
                int fd;
                uint32_t number;
        } borrowers[JOBS_PEERS_MAX];
        size_t n_borrowers;
        uint32_t last_borrower;

        struct lock ask_lock; /* LOCK_BORROW: one question at a time */
        int64_t serial;       /* ask_lock */

        struct lock peers_lock; /* LOCK_TALK, a leaf: the rest */
        struct jobs_lender {
                int fd; /* -1: free; closed under both locks */
                uint32_t number;
                bool is_lost;
                char name[64];
        } lenders[JOBS_PEERS_MAX];
        uint32_t last_lender;
        uint64_t *returns; /* loans of which the lender is not told yet */
        size_t n_returns, n_returns_room;
};

/* Whether the lease is of a job that lends and borrows. */
bool jobs_has(const struct message_lease *lease);

/* Before the gate is made: its options are `ask`, `stands` and `give_back` below. Without a socket nothing is lent, and
 * that is said on stderr. */
void jobs_init(struct jobs *jobs, const char *dir, const struct message_lease *lease);
void jobs_start(struct jobs *jobs, struct gate *gate);
void jobs_stop(struct jobs *jobs); /* tells the lenders first what was returned; before gate_free */

/* ---- asking (jobs_ask.c); as in struct gate_options ---- */

int jobs_borrow(struct jobs *jobs, const struct gate_loan_ask *ask, struct gate_loan *ret);
bool jobs_stands(struct jobs *jobs, uint64_t loan);
void jobs_give_back(struct jobs *jobs, uint64_t loan);

/* For the thread. False: some could not be sent yet. */
bool jobs_returns_send(struct jobs *jobs);

/* Lenders that are connected, at most n; their number and descriptor. How many. */
struct jobs_watched {
        int fd;
        uint32_t number;
};
size_t jobs_lenders(struct jobs *jobs, struct jobs_watched *ret, size_t n);
void jobs_lender_lost(struct jobs *jobs, uint32_t number);
pid_t jobs_lender_shim(struct jobs *jobs, uint32_t number); /* its process; 0: it is not connected */
