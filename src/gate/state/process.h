/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a tenant, as the gate meets them.
 *
 * A notification names a thread. Memory is read by thread id; descriptors need the process, which is found in /proc
 * and believed for a short time only (processes_forget_threads, ten times a second): a thread id comes back for
 * another process only after all the others have been given out. Then the kernel is asked whether the thread is still
 * that process's, which takes a tenth of what /proc takes; a thread that is met for the first time is probably of the
 * process that was met last. A process is known until its pidfd says that it has ended.
 *
 * Threads: all functions from any thread. A process that was got is valid until it is put back.
 */
#pragma once

#include "base/lock.h"
#include "base/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct process {
        pid_t id; /* tgid, in our pid namespace */
        int pidfd;
        uint64_t began;      /* process_began; 0: not known */
        unsigned int n_refs; /* one of the table, one per got */
        bool is_dead;
};

struct processes {
        struct lock lock;
        struct map by_thread; /* thread id -> struct process; entries may be stale */
        struct map fresh;     /* those of by_thread that are believed */
        struct map by_id;
        pid_t latest; /* in by_id, perhaps */
        int epoll;    /* readable when a process ends */
};

int processes_init(struct processes *processes); /* -errno */
void processes_done(struct processes *processes);

/* Whether the thread that was named is still the one that was meant, in its system call: its number is its own then. */
struct process_caller {
        bool (*is_there)(const void *context);
        const void *context;
};

/*
 * The process of a thread. A process that is met for the first time is added only while the caller is there: by then a
 * number may be another process's, which must not be taken for the tenant's. 0; -ESRCH; -EMFILE: no
 * descriptor is left to know one more by; -errno. Give it back with process_put.
 */
int process_get(struct processes *processes, pid_t thread, const struct process_caller *caller, struct process **ret);

/* Whether the process has not ended and the thread is one of its own: the numbers of both may be used again. */
bool process_has_thread(const struct process *process, pid_t thread);

/* A process that is known. 0; -ESRCH: it is not, or not any more. */
int process_find(struct processes *processes, pid_t id, struct process **ret);
void process_put(struct processes *processes, struct process *process);

/* Which thread is whose is asked anew from here on. */
void processes_forget_threads(struct processes *processes);

/* One process that has ended since it was met, or 0. It is forgotten. Does not block. */
pid_t processes_reap(struct processes *processes);

/* A process has ended and is not reaped yet: true before its parent hears of it. */
bool processes_have_ended(struct processes *processes);
/* SIGKILL, by pidfd: the number may be another process's by now. */
void processes_kill(struct processes *processes, pid_t id); /* if it is one that we know */
void processes_kill_all(struct processes *processes);
bool processes_know(struct processes *processes, pid_t id);

ssize_t processes_list(struct processes *processes, pid_t **ret); /* how many; the list is the caller's; -ENOMEM */
size_t processes_count(struct processes *processes);
uint64_t processes_began(struct processes *processes, pid_t id); /* as process_began; 0: it is not known */

/* Whether a descriptor may be one of the driver's, by its name in /proc: what surely is not need not be taken. */
bool process_fd_may_be_node(pid_t process, const char *number);

/* Whether a thread waits for something that is no system call of that number, or is gone: one that it was in is over.
 * False when in doubt, as for a thread that is on a processor. */
bool process_is_elsewhere(pid_t thread, long number);

/* A file of /proc/ID as text. How many bytes; -errno. */
ssize_t process_text(pid_t id, const char *file, char *text, size_t size);

/*
 * What a thread of the process has at a descriptor number, as a descriptor of ours: in its own table, which need not be
 * its process's, and also when the main thread has ended. Or -errno; -EOPNOTSUPP: the kernel can only look into the
 * main thread's (before Linux 6.9).
 */
int process_fd(const struct process *process, pid_t thread, int fd);

/* It is closed. What is not the driver's, by a thread that may wait: close(2) of a file that the tenant chose takes as
 * long as the tenant likes (base/descriptors.h), and the one that was asked for is not always the one that came. */
void process_fd_put(int fd, bool is_drivers);

/* Copies `n` pieces between a thread's memory and ours, which are as long. 0; -EFAULT: not all of it; -errno. */
int process_read(pid_t thread, const struct iovec *ours, const struct iovec *theirs, size_t n);
int process_write(pid_t thread, const struct iovec *ours, const struct iovec *theirs, size_t n);
