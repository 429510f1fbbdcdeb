/* A keeper's state; between keeper.c and keeper_talk.c. */
#pragma once

#include "shim/shim.h"

#include "base/lock.h"
#include "gpu/backend.h"
#include "shim/reconciler.h"

struct keeper {
        const char *dir;
        struct message_lease terms; /* the main thread's */
        struct lease lease;
        struct gpu_backend backend;
        struct gate_driver driver;
        struct gate *gate;
        struct board *board;
        int board_fd;
        struct steward steward;
        int init;       /* a pidfd of the container's first process; -1: none */
        bool is_ending; /* all its processes are to end */

        atomic_bool is_dirty; /* the books on the board are not the latest */
        atomic_bool is_writing;

        struct lock talk_lock; /* LOCK_TALK: the sockets, and who was told what */
        int daemon, run;       /* -1: nobody is there */
        struct {
                nsec told_at;
                uint64_t n_untold;
        } events[GATE_N_EVENTS];
};

/* ---- keeper_talk.c ---- */

/* To both; a gate's event callback. Of one kind at most ten a second are told, with the count of the others. */
void talk_event(void *keeper, enum gate_event event, pid_t process, const char *detail);

void talk_failed(struct keeper *keeper, const char *text);

/* The first words to a daemon, with the board. True: it has them. */
bool talk_hello(struct keeper *keeper);

/* Tries keeper.sock once. True: a daemon is there again. */
bool talk_reconnect(struct keeper *keeper);

/* What waits on a socket; a socket that has hung up becomes -1. */
void talk_daemon(struct keeper *keeper);
void talk_run(struct keeper *keeper);

/* The tenant has ended: its account, to both. True: the daemon has it. */
bool talk_ended(struct keeper *keeper, nsec elapsed);

/* ---- keeper.c ---- */

void keeper_end_tenant(struct keeper *keeper);
