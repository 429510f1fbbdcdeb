/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open files of the tenant that hold something by themselves, and whether the kernel still has them.
 *
 * A descriptor can be where no table of descriptors shows it: in flight in a socket, in a poll(2) of a thread that has
 * closed it, in a request of aio or io_uring. So /proc cannot say that nobody has an open file any more. The kernel
 * can: an entry of an epoll does not keep its file, and goes when the last reference to it goes, wherever that was. The
 * entries that are left are listed in /proc/self/fdinfo, which a process that nobody may trace can read of itself since
 * Linux 5.14. Source: eventpoll_release_file and ep_show_fdinfo, fs/eventpoll.c, Linux 3.8 to 6.18. The driver's nodes
 * but nvidia-uvm can be polled. Measured: tests/gpu/uvmfacts.c, H200, 580.159.04.
 *
 *      O1  a file is known by a number that is never used again;
 *      O2  we hold no reference to a file: whoever has the last one is not us;
 *      O3  an entry of an epoll is named by file and descriptor number; each file has a slot, a number of ours that
 *          something harmless occupies, so that no other thread can get it. The file is there only during a call here;
 *      O4  what cannot be told is open: the caller keeps its charge.
 *
 * Threads: any; one lock, of rank LOCK_PROCESSES, under which nothing blocks.
 */
#pragma once

#include "base/clock.h"
#include "base/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct open_file {
        uint64_t number;
        int slot;
        bool is_unnamed;
        nsec gone_at; /* when the kernel was first seen without it; 0: not yet */
};

struct open_files {
        struct lock lock;
        int epoll;
        uint64_t last; /* number given */
        struct open_file *items;
        size_t n, n_room;
};

int open_files_init(struct open_files *files); /* 0; -errno */
void open_files_done(struct open_files *files);

/* The number of the file behind a descriptor of ours, which stays the caller's; a new one if it is not known.
 * 0: no room, or a file that cannot be polled. */
uint64_t open_files_keep(struct open_files *files, int fd);

/* Another number for a file that may be known; it is never found by it. */
uint64_t open_files_add(struct open_files *files, int fd);

uint64_t open_files_find(struct open_files *files, int fd); /* 0: not known */

/* Whether the kernel still has the file of that number. False when in doubt: not for O4. */
bool open_files_has(struct open_files *files, uint64_t number);

size_t open_files_count(struct open_files *files);

/* Forgets the files that have been gone for `grace`, and writes at most n_room of their numbers to ret. The entry goes
 * a moment before the driver is told of the close. How many; n_room may mean more. *ret_is_closing: some have not been
 * gone for so long. */
size_t open_files_reap(struct open_files *files, nsec now, nsec grace, uint64_t *ret, size_t n_room,
                       bool *ret_is_closing);
