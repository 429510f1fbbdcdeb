/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time model: which group runs on one engine of a device, and until when.
 *
 * Channels (run_queue) belong to channel groups. Groups with work take turns: each keeps the engine
 * for its timeslice, then the next one is switched in, which costs `switch_cost`; work is preempted
 * in the middle and continues later. A group without work gives up the rest of its slice. Within a
 * group work runs in the order of submission, one piece after the other; within a channel always.
 *
 * What was measured on an H200 (docs/gpu.md 3, 4) and is kept here:
 *      R1  a group alone on the engine stays resident without events, idle or not; its slice is
 *          renewed, so a group that comes later waits for the rest of one;
 *      R2  a new timeslice counts at once, also downward; slice 0 is "off";
 *      R3  a disabled channel is preempted at once; a group with all channels disabled leaves the
 *          engine. Disables are counted: one that was disabled twice, by whomever, runs when it was enabled twice.
 *          To enable one that is enabled counts for nothing (H100, 580.159.04, tests/gpu/movefacts.c).
 *          One that is disabled without preemption (onlySched) ends what it has begun, until its slice ends, and does
 *          not return;
 *      R4  a group that was never scheduled does not run;
 *      R5  work that comes onto the engine needs `ramp` longer, each time: a switch costs more than the gap that its
 *          records show (0.215 ms in all, of which 0.085 are the gap; docs/time.md).
 * And what no measurement is needed for:
 *      R6  no two devices keep the same time: a slice of 1024 us on one is `late` us longer on another. Without that
 *          two that are out of step stay so for ever, and work of both that must be on together never is.
 *
 * Pure: time is a parameter. The caller owns all structs; the list links them. Every call that
 * takes `now` first lets time pass until then. `now` never goes back.
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUN_NEVER INT64_MAX

struct run_work {
        struct run_work *next;
        nsec left;      /* what it still needs */
        uint64_t order; /* of submission, in the whole list */
        bool is_taken;  /* it has begun */
};

struct run_queue {
        struct run_queue *next; /* in its group */
        struct run_group *group;
        struct run_work *head, *tail;
        unsigned int n_disabled; /* R3 */
        bool is_disabled;        /* it is not 0 */
        bool is_retired;         /* its head may end, while its group is on */
};

struct run_group {
        struct run_group *next; /* in the list, in a ring of order of arrival */
        struct runlist *list;
        struct run_queue *queues;
        nsec slice;
        nsec active; /* time that its work has had */
        bool is_scheduled;
};

/* Called while time passes; `at` is when it happens. They may submit work, but remove nothing. */
struct run_ops {
        bool (*is_ready)(void *context, const struct run_work *work);   /* may it start? */
        void (*taken)(void *context, struct run_queue *queue, nsec at); /* the engine begins with the head; or NULL */
        void (*done)(void *context, struct run_queue *queue, struct run_work *work, nsec at);
        void (*on)(void *context, struct run_group *group, nsec at);
        void (*off)(void *context, struct run_group *group, nsec at);
};

struct runlist {
        const struct run_ops *ops;
        void *context;
        nsec switch_cost, ramp;
        nsec late; /* R6; 0 to 64 */
        nsec now;
        struct run_group *groups;
        struct run_group *current;  /* resident; NULL: none, or a switch is under way */
        struct run_group *incoming; /* resident from switch_until on */
        struct run_group *last;     /* had the latest turn; NULL or in the list */
        nsec switch_until, slice_end;
        uint64_t n_submitted;
        uint64_t n_switches;
        bool is_stuck; /* a fault: nothing moves */
};

void runlist_init(struct runlist *list, const struct run_ops *ops, void *context, nsec switch_cost, nsec now);

void runlist_add_group(struct runlist *list, struct run_group *group, nsec slice);
void runlist_remove_group(struct runlist *list, struct run_group *group, nsec now); /* has no queues */
void runlist_move_group(struct runlist *list, struct run_group *group, nsec now); /* to another list, queues and all */
void runlist_add_queue(struct run_group *group, struct run_queue *queue);

/* The work that was left, a list by next; it is the caller's again. */
struct run_work *runlist_remove_queue(struct run_queue *queue, nsec now);

void runlist_submit(struct run_queue *queue, struct run_work *work, nsec duration, nsec now);
void runlist_set_slice(struct run_group *group, nsec slice, nsec now);
void runlist_set_disabled(struct run_queue *queue, bool is_disabled, nsec now);
void runlist_retire(struct run_queue *queue, nsec now); /* R3 */
void runlist_schedule(struct run_group *group, nsec now);
void runlist_preempt(struct run_group *group, nsec now); /* its slice is over, if it is on and others wait */

void runlist_advance(struct runlist *list, nsec now);

/* What the engine works on at list->now; NULL: nothing, or a switch is under way. */
const struct run_work *runlist_running(const struct runlist *list);

/* When something will happen without another call: at or after list->now, or RUN_NEVER. */
nsec runlist_next(const struct runlist *list);
