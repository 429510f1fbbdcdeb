/*
 * libsublet.so: the gate's decision inside a program, where no supervisor can be.
 *
 * The idea. libcuda reaches the driver through libc's ioctl. Ours stands before it, makes a gate's request of the call
 * and gives it to the same serve_request as the gate (gate/act.c): the same decode, rules, ledger, views. What the gate
 * does across a process boundary is done here in place (stand.c): memory is copied within the process, a descriptor is
 * the program's own. Quotas are the tenant's, over all its processes (quota.c, on the usage segment).
 *      H1  without a page and a usage segment that are what they should be, no driver call is made: EPERM;
 *      H2  signals are blocked while we hold a lock, so a handler may make driver calls;
 *      H3  all that changes stands in memory that a fork empties (heap.h): a child begins with empty books, and with
 *          none of its parent's clients (CUDA allows a forked child none either);
 *      H4  nothing is printed but one line on stderr when H1 holds, or when an SM partition cannot be had; nothing exits;
 *          errno is the kernel's;
 *      H5  what the program closes is gone from the books when the driver has let it go (descriptors.c).
 * It guards against accidents, not against an enemy: a program can make system calls itself (docs/preload.md).
 */
#pragma once

#include "gate/request.h"
#include "preload/usage_segment.h"

#include <signal.h>
#include <sys/uio.h>

#define EXPORTED __attribute__((visibility("default")))

enum {
        PRELOAD_FILES_MAX = 1024, /* descriptors of the driver that a process has */
};

/* A descriptor of the driver that the program has used. Descriptors of one struct file have one number. */
struct preload_file {
        int fd;
        uint64_t number;
};

/* A client lives as long as the file it was made on. */
struct preload_client {
        uint32_t client;
        uint64_t number;
};

struct preload {
        atomic_int phase; /* 0: a new process */
        pid_t pid;        /* a child of vfork has our memory, but not our descriptors */
        bool is_sim;
        uint32_t uvm_major;
        struct lease lease;
        struct usage_segment_handle handle;
        struct gate gate;
        struct process process;

        struct lock lock; /* the rest */
        struct worker *workers;
        struct preload_file files[PRELOAD_FILES_MAX];
        atomic_size_t n_files;
        uint64_t last_number;
        struct preload_client *clients;
        size_t n_clients, n_clients_room;
        atomic_size_t n_managed;
        _Atomic uintptr_t managed_from, managed_to; /* all managed ranges lie within */
};

/* state.c: this process's; NULL: fail closed, and it has been said why. */
struct preload *preload_get(void);

/* The one of this process if there is one already. NULL also in a child of vfork. */
struct preload *preload_peek(void);

/* One line on stderr: "sublet: WHAT: WHY". Signals are blocked. */
void preload_warn(const char *what, const char *why);

/* Between them no handler runs and no thread is cancelled; errno survives. */
struct preload_guard {
        sigset_t signals;
        int cancel, saved;
};
struct preload_guard preload_enter(void);
void preload_leave(struct preload_guard *guard);

/* What is behind a descriptor; *ret_minor for RM_NODE_DEVICE. */
enum rm_node preload_node(int fd, uint32_t *ret_minor);

/* stand.c: what the gate's files call by other names here (meson.build). */
ssize_t stub_readv(pid_t thread, const struct iovec *ours, unsigned long n, const struct iovec *theirs,
                   unsigned long n_theirs, unsigned long flags);
ssize_t stub_writev(pid_t thread, const struct iovec *ours, unsigned long n, const struct iovec *theirs,
                    unsigned long n_theirs, unsigned long flags);
void stub_keep(int *fd);

/* descriptors.c. The number of the file; files_number makes one, 0: no room. */
uint64_t files_number(struct preload *preload, int fd);
uint64_t files_lookup(struct preload *preload, int fd); /* 0: none */

/* managed.c: they look at what the books know, and do nothing else if it knows none. */
int managed_map(struct preload *preload, int fd, void *address, size_t length, int prot, int flags, off_t offset,
                void **ret);
void managed_unmapped(struct preload *preload, uintptr_t base, size_t length);

/* state.c: what preload_get gave last, for functions whose contract has no room for it. */
extern struct preload *preload_here;
