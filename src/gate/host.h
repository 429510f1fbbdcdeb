/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs between a gate in a supervisor and a gate inside the program (src/preload): how the tenant's memory
 * and descriptors are reached, and who else waits. supervisor.c fills one of these, preload/stubs.c the other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct file;
struct process;
struct sought; /* state/elsewhere.h */
struct request;
struct worker;

struct gate_host {
        /* Copies `n` pieces of the tenant's memory, each as long as ours. 0; -EFAULT: not all of it; -errno. */
        int (*read)(pid_t thread, const struct iovec *ours, const struct iovec *theirs, size_t n);
        int (*write)(pid_t thread, const struct iovec *ours, const struct iovec *theirs, size_t n);

        /* A descriptor of a thread of the process as one of ours, until it is put back. Or -errno. */
        int (*fd_get)(const struct process *process, pid_t thread, int theirs);
        void (*fd_put)(const struct gate *gate, int fd);

        /* Whether the tenant still waits for the answer. */
        bool (*is_awaited)(const struct request *request);

        /* Whether the number of the calling thread is still the tenant's: when a thread has been killed, another
         * program may have it. Before memory is written by that number, and after it was read by it once a call is
         * under way. */
        bool (*is_there)(const struct request *request);

        /* Lets another thread wait for notifications while this one makes a call that may take long (G4). */
        void (*reader_release)(struct worker *worker);

        /* Which files of spaces a process but us has open, or may have. A supervisor's alone: it looks through /proc.
         * has_tasks: as in files_drop_unused. */
        void (*find_open)(struct sought *sought, size_t n, bool has_tasks);
};
