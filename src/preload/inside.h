/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libsublet.so: the gate's decision inside a program, for places where no supervisor can be.
 *
 * libcuda reaches the driver through libc's ioctl. The library interposes ioctl, makes a gate request of the call and
 * gives it to the gate's own serve_request (gate/act.c): the same decoding, rules, ledger and views. What the gate does
 * across a process boundary is done in place here (stubs.c): memory is copied within the process, and a descriptor is
 * the program's own. A quota is the tenant's, over all its processes (quota.c, on the shared usage segment).
 *      H1  without a sound lease descriptor and usage segment no driver call is made: EPERM;
 *      H2  signals are blocked while a lock is held, so a signal handler may make driver calls;
 *      H3  all mutable state is in memory that a fork empties (heap.h): a child begins with an empty ledger and with
 *          none of its parent's driver clients (CUDA allows a forked child none either);
 *      H4  one line on stderr is printed when H1 applies or an SM partition cannot be had, and nothing else; the
 *          library never exits; errno is the kernel's;
 *      H5  what the program closes leaves the ledger once the driver has let it go (descriptors.c).
 * The library guards against accidents, not against an enemy: a program can make system calls itself (docs/preload.md).
 */
#pragma once

#include "gate/act.h"
#include "gate/books.h"
#include "gate/perform.h"
#include "preload/usage_segment.h"

#include <signal.h>

#define EXPORTED __attribute__((visibility("default")))

enum {
        PRELOAD_FILES_MAX = 1024, /* driver descriptors of a process */
};

/* A driver descriptor that the program has used. Descriptors of one struct file share a number. */
struct preload_file {
        int fd;
        uint64_t number;
};

/* A driver client lives as long as the file on which it was made. */
struct preload_client {
        uint32_t client;
        uint64_t number;
};

struct preload {
        atomic_int phase; /* state.c; 0: a new process */
        pid_t pid;        /* a child of vfork has our memory, but not our descriptors */
        bool is_sim;
        uint32_t uvm_major;
        struct lease lease;
        struct usage_segment_handle usage;
        struct gate gate;
        struct process process;

        struct lock lock; /* guards what follows */
        struct worker *workers;
        struct preload_file files[PRELOAD_FILES_MAX];
        atomic_size_t n_files;
        uint64_t last_number;
        struct preload_client *clients;
        size_t n_clients, n_clients_room;
        atomic_size_t n_managed;
        _Atomic uintptr_t managed_from, managed_to; /* all managed ranges lie within */
};

/* state.c. This process's state, made at the first call. NULL: fail closed; the reason has been printed. */
struct preload *preload_get(void);

/* The same if it exists already. NULL also in a child of vfork. */
struct preload *preload_peek(void);

/* Prints one line on stderr: "sublet: WHAT: WHY". The caller has blocked signals. */
void preload_warn(const char *what, const char *why);

/* Between the two no signal handler runs and the thread is not cancelled; errno is kept. */
struct preload_guard {
        sigset_t signals;
        int cancel, saved;
};
struct preload_guard preload_enter(void);
void preload_leave(struct preload_guard *guard);

/* The kind of node behind a descriptor; *ret_minor is set for RM_NODE_DEVICE. */
enum rm_node preload_node(int fd, uint32_t *ret_minor);

/* stubs.c */
extern const struct gate_host preload_host;

/* descriptors.c. The number of the file behind a descriptor; files_number makes one. 0: there is no room. */
uint64_t files_number(struct preload *preload, int fd);
uint64_t files_lookup(struct preload *preload, int fd); /* 0: none */

/* state.c: the latest result of preload_get, for functions whose signature has no room for it (lease/quota.h). */
extern struct preload *preload_here;
