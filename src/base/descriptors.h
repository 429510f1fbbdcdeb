/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of this process, of which there are only so many. Whoever keeps one for others for long gives it back if
 * it is one of the last: those are for what must not fail.
 *
 *      fd = fcntl(theirs, F_DUPFD_CLOEXEC, 0);
 *      if (fd >= 0 && descriptors_are_few(fd)) ...        close it, and refuse
 *
 * Threads: any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* As many as the user may have. What is started later inherits it: a program of others wants its own limit back. */
void descriptors_raise(void);

/* fd, which the kernel has just given out, is one of the last: all lower numbers are in use. Those are a quarter, or
 * 512 where that is less. */
bool descriptors_are_few(int fd);

/* ---- closing what others sent -------------------------------------------------------------------------------------
 *
 * close(2) waits for what the file waits for: a socket with SO_LINGER for its peer, a file of FUSE for its server, a
 * Unix socket for all that lies in it unread. Whoever sent the descriptor chose how long. So a descriptor that
 * others sent, or a socket into which they may send, is closed by a thread that may wait:
 *
 *      D1  descriptors_drop never waits for a file;
 *      D2  of one sender at most 384 threads wait, and 1024 in all; what is more stays open until one is free;
 *      D3  so whoever receives asks descriptors_are_late first, and takes nothing more from a sender that is: one
 *          message brings 253 at most, and each gets a thread.
 *
 * Not in a forked child: the threads are not there.
 */

/* Who sent: any number that the caller gives a sender. */
#define DESCRIPTORS_OURS 0         /* nobody in particular */
#define DESCRIPTORS_ALL UINT64_MAX /* in questions: all senders */

/* Takes fd over; -1 is fine. errno survives. */
void descriptors_drop(int fd, uint64_t sender);

/* Before a child is made that closes what it inherits: that waits for files, too, and who makes it waits for the child.
 * Returns when the child will have nothing of what was dropped, or after 20 ms. */
void descriptors_settle(void);

/* More of that sender's are on their way than a sender has who only ends connections (64); or of all together so many
 * that another message might get no threads. */
bool descriptors_are_late(uint64_t sender);

/* How many of the sender's cannot be closed: one of them takes longer than a second. *ret_sender, if it is asked for:
 * whose they are, of several the one with the most. */
unsigned int descriptors_stuck(uint64_t sender, uint64_t *ret_sender);

/* ---- plain files ---------------------------------------------------------------------------------------------------
 *
 * fd is a plain file of a file system that is mounted here and that no program serves (FUSE), so who closes it does not
 * wait. Another mount namespace's is not: its kind is not known. Asks the kernel only, never the file. */
bool descriptors_is_plain(int fd);
