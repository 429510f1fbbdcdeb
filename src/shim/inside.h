/* A shim's state; between shim.c and shim_talk.c. */
#pragma once

#include "shim/shim.h"

#include "base/lock.h"
#include "gpu/backend.h"
#include "shim/reconciler.h"

struct shim {
        const char *dir;
        struct message_lease terms; /* the main thread's */
        struct lease lease;
        struct gpu_backend backend;
        struct gate_driver driver;
        struct gate *gate;
        struct control_block *control;
        int control_block_fd;
        struct reconciler reconciler;
        int init;       /* a pidfd of the container's first process; -1: none */
        bool is_ending; /* all its processes are to end */

        atomic_bool is_dirty; /* the books on the control block are not the latest */
        atomic_bool is_writing;

        struct lock talk_lock; /* LOCK_TALK: the sockets, and who was told what */
        int daemon, run;       /* -1: nobody is there */
        struct {
                nsec sent_at;
                uint64_t n_unsent;
        } events[EVENT_N];
};

/* ---- shim_talk.c ---- */

/* To both; a gate's event callback. Of one kind at most ten a second are told, with the count of the others. */
void talk_event(void *shim, enum event_kind event, pid_t process, const char *detail);

void talk_failed(struct shim *shim, const char *text);

/* The first words to a daemon, with the control block. True: it has them. */
bool talk_hello(struct shim *shim);

/* Tries keeper.sock once. True: a daemon is there again. */
bool talk_reconnect(struct shim *shim);

/* What waits on a socket; a socket that has hung up becomes -1. */
void talk_daemon(struct shim *shim);
void talk_run(struct shim *shim);

/* The tenant has ended: its account, to both. True: the daemon has it. */
bool talk_ended(struct shim *shim, nsec elapsed);

/* ---- shim.c ---- */

void shim_end_tenant(struct shim *shim);
