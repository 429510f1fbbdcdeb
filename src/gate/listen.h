/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that answer (listen.c), and the notify listeners that they answer (notify_listeners.c). */
#pragma once

#include "gate/request.h"

#include <poll.h>

/* The first thread of a listener. 0; -errno. */
int pool_start(struct notify_listener *listener);

/* The listener has hung up: its threads that wait are interrupted. True: none is left. */
bool pool_end(struct notify_listener *listener);

/* Takes the reader's part away from a thread whose call takes long. True while calls come in. */
bool reader_watch(struct notify_listener *listener);

/* Calls that have waited may be made (waiting.h): a thread takes them. */
void reader_rouse(struct notify_listener *listener);

void notify_listeners_init(struct gate *gate, int fd);
void notify_listeners_done(struct gate *gate);

/* The watcher's. What to poll: how many; and what that said: true when the last one has gone. */
size_t notify_listeners_poll(struct gate *gate, struct pollfd fds[static GATE_LISTENERS_MAX]);
bool notify_listeners_check(struct gate *gate, const struct pollfd *fds, size_t n);
bool notify_listeners_clear(struct gate *gate); /* threads and slots of those that have gone. True: call it again */

/* watch.c: the watcher's thread. */
void *gate_watch(void *gate);

/* host.h, reader_release */
void reader_release(struct worker *worker);
