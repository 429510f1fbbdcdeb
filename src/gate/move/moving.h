/* SPDX-License-Identifier: Apache-2.0 */
/* What a gate knows of memory that is away, or on its way: move.h. Data only. */
#pragma once

#include "base/clock.h"
#include "base/lock.h"
#include "lease/moves.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What became of a way (move.h). */
enum gate_move_outcome {
        GATE_MOVE_DONE,
        GATE_MOVE_CANNOT,    /* on the way out: nothing was touched, and asking again will not help; text says why */
        GATE_MOVE_AS_BEFORE, /* text says why; all is as it was */
        GATE_MOVE_LOST,      /* text says why; memory is neither here nor there */
        GATE_MOVE_GONE,      /* no task is left that could want it: its tenant has ended, or is about to */
};

enum {
        GATE_MOVE_TEXT = 200,
};

struct gate_moved {
        enum gate_move_outcome outcome;
        bytes size;                     /* moved */
        size_t n;                       /* memories */
        bytes stays;                    /* what was allocated and does not move */
        nsec prepared, copied, changed; /* host memory and engine; copies; what was unmapped and freed, or made */
        char text[GATE_MOVE_TEXT];
};

/* A second handle of a memory, a copy engine's own (move.h). */
struct gate_piece {
        uint32_t handle;
        uint64_t at;
        bytes size;
};

enum move_state {
        MOVE_HERE,
        MOVE_LEAVING,
        MOVE_AWAY,
        MOVE_RETURNING,
};

struct move_part; /* move.c */

struct moving {
        struct lock switch_lock;       /* LOCK_SWITCH: is_off, and the calls that follow from it */
        _Atomic uint32_t state;        /* move_state_set */
        _Atomic unsigned int n_inside; /* calls under way */
        atomic_bool is_off;            /* T2 */
        atomic_bool is_at_work;        /* a way has begun, and its rest has not ended */
        atomic_bool has_worked;        /* the same, since the watcher looked last */
        bool is_lost;                  /* of the mover: a way has ended so, and nothing is moved any more; why: */
        char lost[GATE_MOVE_TEXT];
        atomic_bool has_attached; /* fabric objects of the flexible kind: what is attached to them comes off for good */
        atomic_bool may_stay; /* managed memory may be duplicated for its readers, or in a group that may not migrate */
        uint32_t off_on;      /* bits of devices on which the mover has disabled the channels */
        _Atomic unsigned int n_owed[LEASE_DEVICES_MAX]; /* calls that would have enabled them, and were not made: T2 */

        /* of the mover; of others, to read, while the state is MOVE_AWAY and they are counted in n_inside */
        struct ledger_plan plan;
        struct move_part *parts;
        uint32_t *clients;
        uint64_t *spaces;
        size_t n_clients, n_spaces;
};
