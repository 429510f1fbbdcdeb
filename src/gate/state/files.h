/*
 * Which struct file of the driver is behind a descriptor: a number that stays the same however the tenant dups, sends
 * or closes its descriptors.
 *
 * UVM VA spaces and exported memory live as long as their struct file, and no query tells. So the gate keeps one
 * duplicate of each, recognises others by kcmp(2), and closes its own when no process has one any more; that ends the
 * space, and only then do its charges return.
 * Invariant: a file that is here is open.
 *
 * Threads: any.
 */
#pragma once

#include "base/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
        FILE_MAPPERS = 16,
};

struct file {
        uint64_t number;             /* from 1, never reused */
        int fd;                      /* ours */
        unsigned int n_users;        /* calls in progress on fd; it is not closed meanwhile */
        pid_t mappers[FILE_MAPPERS]; /* processes that have mapped it: a mapping holds a file, too */
        unsigned int n_mappers;      /* more than FILE_MAPPERS: some were not noted */
        bool is_space;               /* a UVM VA space; else an export */
        uint64_t inode;              /* of the node by which the tenant opened it */
};

struct files {
        struct lock lock;
        struct file *items;
        size_t n, n_room;
        uint64_t last;
};

void files_init(struct files *files);
void files_done(struct files *files);

/* The number of the file behind fd, or 0. */
uint64_t files_find(struct files *files, int fd);

/*
 * The space behind a process's descriptor number, without duplicating the descriptor. On success *ret_fd is ours and
 * open until files_unuse. False: no space that we know.
 */
bool files_use(struct files *files, pid_t process, int theirs, int *ret_fd, uint64_t *ret_number);
void files_unuse(struct files *files, uint64_t number);

/* Keeps fd (a duplicate is taken) unless its file is known. The number; 0: no memory. */
uint64_t files_keep(struct files *files, int fd, bool is_space);

/* The process maps the space. Forks do not inherit such mappings (VM_DONTCOPY, uvm.c, 535 to 595). */
void files_mapped(struct files *files, uint64_t number, pid_t process);

/* A file that no process but us has open or, by `is_mapped`, mapped: closed here, and its number given. 0: none.
 * Looks through /proc: not for the path of a call. has_tasks: tasks are left under the tenant's filter. */
uint64_t files_drop_unused(struct files *files, bool has_tasks, bool (*is_mapped)(struct files *files, pid_t process),
                           bool *ret_is_space);

/* A line of /proc/PID/maps: whether it is a range of one of the spaces, whatever the tenant calls the node. UVM's
 * ranges have their address as their offset, and the inode is the node's own, also in a container's /dev. */
bool files_have_range(struct files *files, const char *line);

size_t files_count(struct files *files);
