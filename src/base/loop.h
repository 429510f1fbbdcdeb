/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop over descriptors and timers, for the daemon and the device plugin. A callback may drop any source: its own,
 * and another of the same round.
 *
 * Threads: one.
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;

/* Embedded in its owner; must be dropped before it is freed. */
struct loop_source {
        int fd; /* borrowed */
        void (*ready)(struct loop_source *source, uint32_t events);
        void *context;
        bool is_added;
};

struct loop_timer {
        nsec at, period; /* clock_now; period 0: once */
        void (*due)(struct loop_timer *timer);
        void *context;
        struct loop_timer *next;
        bool is_added;
};

int loop_new(struct loop **ret);
struct loop *loop_free(struct loop *loop); /* NULL is fine; sources and timers are left as they are */

/* events: EPOLLIN, EPOLLOUT; EPOLLHUP and EPOLLERR come by themselves. 0; -errno. */
int loop_add(struct loop *loop, struct loop_source *source, uint32_t events);
/* SIGINT and SIGTERM, which are blocked from here on, make source->fd ready; it is the caller's. Before any thread
 * starts. 0; -errno. */
int loop_add_end(struct loop *loop, struct loop_source *source);
void loop_drop(struct loop *loop, struct loop_source *source); /* fine if it is not there */

/* First after `delay`. A timer that is there already is moved. A period that was missed is not made up for. */
void loop_timer_set(struct loop *loop, struct loop_timer *timer, nsec delay, nsec period);
void loop_timer_drop(struct loop *loop, struct loop_timer *timer);

/* Until loop_stop; may be run again. 0; -errno. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);
