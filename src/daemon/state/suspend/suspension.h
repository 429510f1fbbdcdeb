/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a tenant is suspended, and what follows when something happens to it. Pure: suspend.c acts.
 *
 *      running --ask--> suspending --done--> suspended --ask--> resuming --done--> running
 *
 *      U1  a failure goes back to where it came from: what cannot be suspended runs on, what cannot be resumed stays
 *          suspended;
 *      U2  where nobody knows how far it came (the helper was killed, or the daemon), the tenant is brought back to
 *          running, once (reverting). That works from everywhere: gpu/checkpoint.h, C1;
 *      U3  what can neither go on nor back is lost: its tenant is ended;
 *      U4  each end of a way has one event, and asking for what is so, or on its way, has none. Nor has the way of a
 *          tenant that ended meanwhile: its end is told anyway.
 */
#pragma once

#include "wire/control_block.h"

#include <assert.h>
#include <stdbool.h>

enum suspension_state { /* the numbers are in the control block, for a daemon of another release */
                        SUSPENSION_RUNNING = 0,
                        SUSPENSION_SUSPENDING = 1,
                        SUSPENSION_SUSPENDED = 2,
                        SUSPENSION_RESUMING = 3,
                        SUSPENSION_REVERTING = 4,
                        SUSPENSION_LOST = 5,
                        SUSPENSION_N_STATES,
};

static_assert((int)SUSPENSION_SUSPENDED == (int)CONTROL_SUSPENDED &&
                      (int)SUSPENSION_RESUMING == (int)CONTROL_RESUMING &&
                      (int)SUSPENSION_REVERTING == (int)CONTROL_REVERTING,
              "shims read them");

enum suspension_input {
        SUSPENSION_ASK_SUSPEND,
        SUSPENSION_ASK_RESUME,
        SUSPENSION_IS_DONE,   /* the helper's outcomes */
        SUSPENSION_AS_BEFORE, /* all are as they were when it began */
        SUSPENSION_IS_LOST,
        SUSPENSION_IS_GONE, /* no task of the tenant is left */
        SUSPENSION_DIED,    /* the helper was killed: by its time limit or anybody */
        SUSPENSION_TAKEN,   /* a new daemon has found it so */
        SUSPENSION_N_INPUTS,
};

enum suspension_act {
        SUSPENSION_DO_NOTHING,
        SUSPENSION_DO_SUSPEND, /* start a helper */
        SUSPENSION_DO_RESUME,
        SUSPENSION_DO_END, /* the tenant */
        SUSPENSION_REFUSE, /* it is on the other way: ask again later */
};

struct suspension_move {
        enum suspension_state to;
        enum suspension_act act;
        int event; /* -1: none */
};

struct suspension_move suspension_next(enum suspension_state state, enum suspension_input input);

/* It stays so until somebody asks. */
bool suspension_is_settled(enum suspension_state state);
