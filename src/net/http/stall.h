/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interrupts what a thread waits for: a timer that sends it a signal every 2 ms while it is in code of others which
 * must not wait.
 *
 *      stall_begin(&stall);
 *      n = recv(...);
 *      stall_end(&stall);
 *
 * libmicrohttpd receives by recv(2), so the kernel closes what came beside the bytes, in the thread that receives, and
 * such a close may wait for as long as the sender likes. A signal ends it where it can be interrupted: a connection
 * that lingers, not a file system that writes back. So this is for kernels that cannot refuse such descriptors
 * (net/socket.h).
 *
 * System calls may fail with EINTR in between. Threads: one.
 */
#pragma once

#include <stdbool.h>
#include <time.h>

struct MHD_Daemon;

/* Zero does nothing. */
struct stall {
        timer_t timer;
        bool is_there;
};

/* For the calling thread, which must not block SIGALRM; the signal is this file's from here on. 0; -errno. */
int stall_open(struct stall *ret);
void stall_close(struct stall *stall);

void stall_begin(const struct stall *stall);
void stall_end(const struct stall *stall);

/* Lets a server do what it can without waiting. */
void stall_pump(const struct stall *stall, struct MHD_Daemon *daemon);

/* Stops the server, then closes the stall. */
void stall_stop(struct stall *stall, struct MHD_Daemon *daemon);
