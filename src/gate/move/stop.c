/* SPDX-License-Identifier: Apache-2.0 */
/* Stillness: no call is under way, and no channel is enabled: T1, T2. And how a way is said to have failed. */
#include "gate/books.h"
#include "gate/move/inside.h"

#include "base/clock.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STILL_WAIT (5 * NSEC_PER_SEC)   /* for calls that are under way */
#define STEERED_WAIT (2 * NSEC_PER_SEC) /* for the scheduler to have the channels off */

enum {
        MOMENT_MS = 1,
};

/* ---- what became of it ----------------------------------------------------------------------------------- */

bool move_fail(struct gate_moved *ret, enum gate_move_outcome outcome, const char *format, ...)
{
        va_list list;

        ret->outcome = outcome;
        va_start(list, format);
        (void)vsnprintf(ret->text, sizeof(ret->text), format, list);
        va_end(list);
        return false;
}

/* ---- stillness: T1, T2 ----------------------------------------------------------------------------------- */

/* From here on no call is made, and none is under way. */
bool move_calls_stop(struct gate *gate, uint32_t state, struct gate_moved *ret)
{
        uint32_t was = gate->moving.state;
        nsec until = clock_now() + STILL_WAIT;

        move_state_set(gate, state);
        while (gate->moving.n_inside) {
                if (clock_now() >= until) {
                        move_state_set(gate, was);
                        return move_fail(ret, GATE_MOVE_AS_BEFORE, "a driver call of it has not ended in %d s",
                                         (int)(STILL_WAIT / NSEC_PER_SEC));
                }
                (void)poll(NULL, 0, MOMENT_MS);
        }
        return true;
}

bool move_is_granted(const struct gate *gate, unsigned int device)
{
        return gate->lease->devices[device].is_granted;
}

static bool is_desired_off(const struct gate *gate)
{
        for (unsigned int i = 0; i < gate->lease->n_devices; i++)
                if (move_is_granted(gate, i) && !gate->options.desired(gate->options.node_context, i).is_disabled)
                        return false;
        return true;
}

/* Whoever switches the channels besides has them off first, and leaves them so. */
static bool scheduler_wait(struct gate *gate, struct gate_moved *ret)
{
        nsec until = clock_now() + STEERED_WAIT;

        while (!is_desired_off(gate)) {
                if (clock_now() >= until)
                        return move_fail(ret, GATE_MOVE_AS_BEFORE, "the scheduler has not taken it off its devices");
                (void)poll(NULL, 0, MOMENT_MS);
        }
        return true;
}

/* Once each, as they were disabled: the driver counts (gpu/control.c), and what a scheduler has disabled it enables by
 * itself. Each that has died meanwhile has left one that nobody else undoes. Where there is none any more, what one has
 * left is undone, too. */
void move_channels_on(struct gate *gate)
{
        struct moving *moving = &gate->moving;

        {
                LOCKED(&moving->switch_lock);
                moving->is_off = false; /* first: nothing is owed from here on */
                for (unsigned int i = 0; i < gate->lease->n_devices; i++)
                        for (unsigned int n = atomic_exchange(&moving->n_owed[i], 0) + (moving->off_on >> i & 1); n;
                             n--)
                                (void)channels_switch(gate, i, false);
                moving->off_on = 0;
        }
        for (unsigned int i = 0; i < gate->lease->n_devices; i++)
                if (move_is_granted(gate, i) &&
                    (!gate->options.desired || !gate->options.desired(gate->options.node_context, i).is_disabled))
                        (void)gate_channels_set(gate, i, false);
}

/* Whoever has looked before this is done with his calls. *ret_device: of what failed. 0; -errno. */
static int all_off(struct gate *gate, unsigned int *ret_device)
{
        struct moving *moving = &gate->moving;
        LOCKED(&moving->switch_lock);

        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++)
                moving->n_owed[i] = 0;
        moving->is_off = true;
        moving->off_on = 0;
        for (unsigned int i = 0; i < gate->lease->n_devices; i++) {
                int r;

                if (!move_is_granted(gate, i))
                        continue;
                r = channels_switch(gate, i, true);
                moving->off_on |= 1u << i; /* also if it failed: some may be off */
                *ret_device = i;
                if (r < 0)
                        return r;
        }
        return 0;
}

bool move_channels_off(struct gate *gate, bool is_steered, struct gate_moved *ret)
{
        unsigned int device = 0;
        int r;

        if (is_steered && gate->options.desired && !scheduler_wait(gate, ret))
                return false;
        r = all_off(gate, &device);
        if (r == 0)
                return true;
        move_channels_on(gate);
        return move_fail(ret, GATE_MOVE_AS_BEFORE, "its channels on device %u cannot be disabled: %s", device,
                         strerror(-r));
}
