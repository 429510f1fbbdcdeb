/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which VA space of UVM is behind a descriptor: a number that stays the same however the tenant dups, sends or closes
 * its descriptors.
 *
 * A space lives as long as its open file, and no query tells. So the gate keeps one duplicate of each and recognises
 * others by kcmp(2). A space that no process has any more is emptied by calls on that duplicate (`release`), and
 * forgotten only when the driver has said that nothing is left in it: a descriptor that the scan of /proc does not see
 * holds nothing then. Invariant: a file that is here is open.
 *
 * Threads: any.
 */
#pragma once

#include "base/clock.h"
#include "base/lock.h"
#include "base/map.h"
#include "gate/state/elsewhere.h"
#include "gate/state/uvm_space.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
        FILE_MAPPERS = 16,
        FILE_DEVICES = 32, /* UVM_MAX_GPUS (uvm_processors.h, 525 to 595) */
        FILE_GROUPS =
                16384, /* range groups of a space; libcuda makes one per stream. Each is some 190 bytes of the host
                              * (measured, H100, 580.159.04: tests/gpu/sharedfacts.sh) */
        FILES_GROUPS = 131072, /* of all spaces */
};

struct file {
        uint64_t number;             /* from 1, never reused */
        int fd;                      /* ours */
        unsigned int n_users;        /* calls in progress on fd; it is not closed meanwhile */
        pid_t mappers[FILE_MAPPERS]; /* processes that have mapped it: a mapping holds a file, too */
        unsigned int n_mappers;      /* more than FILE_MAPPERS: some were not noted */
        nsec mapping_at;             /* when a mapping of it was let through last; 0: never */
        uint64_t inode;              /* of the node by which the tenant opened it */
        bool is_barred;              /* no device may join it any more */
        bool is_leaving;             /* it is being emptied: no call reaches it */
        unsigned int n_devices;      /* that it has, or had; by uuid */
        uint8_t devices[FILE_DEVICES][UVM_UUID_SIZE];
        unsigned int n_groups; /* range groups: what has begun, or is about to */
        struct map groups;     /* by UVM's number */
};

struct files {
        struct lock lock;
        struct file *items;
        size_t n, n_room;
        uint64_t last;
        unsigned int n_groups; /* of all that are here */
};

void files_init(struct files *files);
void files_done(struct files *files);

/* The number of the file behind fd, or 0; 0 also of one that is being emptied. */
uint64_t files_find(struct files *files, int fd);

/*
 * The space behind a descriptor number in a thread's table, without duplicating the descriptor. On success *ret_fd is
 * ours and open until files_unuse. False: no space that we know.
 */
bool files_use(struct files *files, pid_t thread, int theirs, int *ret_fd, uint64_t *ret_number);

/* The space with the lowest number above `after`, in use as by files_use: a copy. False: there is none. */
bool files_next(struct files *files, uint64_t after, struct file *ret);
void files_unuse(struct files *files, uint64_t number);

/* Keeps fd (a duplicate is taken) unless its file is known. The number; 0: no memory, or no descriptor. */
uint64_t files_keep(struct files *files, int fd);

/* A mapping of the space by a process is let through. Forks do not inherit such mappings (VM_DONTCOPY, uvm.c, 535 to
 * 595). */
void files_mapped(struct files *files, uint64_t number, pid_t process, nsec now);
nsec files_mapped_at(struct files *files, uint64_t number); /* the latest; 0: never */

/* A device of the space, by its uuid. False: the space is barred, or has no room for one more. */
bool files_join(struct files *files, uint64_t number, const uint8_t uuid[static UVM_UUID_SIZE]);

/* A range group of the space begins; false: there are FILE_GROUPS, or FILES_GROUPS in all, or no memory, or the space
 * is gone. Then UVM makes it, under a number of its own (group), or it ends at once (0). Each ends once. */
bool files_group_begin(struct files *files, uint64_t number);
void files_group_made(struct files *files, uint64_t number, uint64_t group);
void files_group_end(struct files *files, uint64_t number, uint64_t group);

/* From here on no device joins. A call that is on its way is told by files_join. */
void files_bar(struct files *files, uint64_t number);

struct files_release {
        void *context;

        /* Which of the spaces a process but us has open, as files_open_elsewhere. */
        void (*find_open)(struct sought *sought, size_t n, bool has_tasks);

        /* Whether a process maps one of the spaces, by files_have_range. True when in doubt. */
        bool (*is_mapped)(struct files *files, pid_t process);

        /* Empties a space by the driver's own calls, and the ledger with it. False: something may be left in it. */
        bool (*empty)(void *context, const struct file *file);
};

/* Closes the spaces that no process but us has open or mapped, once they are empty. Not for the path of a call. The
 * callbacks are called without the lock. has_tasks: tasks are left under the tenant's filter. */
void files_drop_unused(struct files *files, bool has_tasks, const struct files_release *release);

/* A line of /proc/PID/maps: whether it is a range of one of the spaces, whatever the tenant calls the node. UVM's
 * ranges have their address as their offset, and the inode is the node's own, also in a container's /dev. */
bool files_have_range(struct files *files, const char *line);

size_t files_count(struct files *files);
