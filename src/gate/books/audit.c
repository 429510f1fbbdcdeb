/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver counts, too: GET_PID_INFO says what the clients of this process hold. The ledger must not say less,
 * with what is borrowed, beside what the driver takes by itself, which is in the ledger and not in that figure
 * (own_of_class). It may say more: memory that only a UVM space, an export or a loan still holds, memory of another
 * tenant (--ipc=host), and that of a process that ended a moment ago are not in the driver's figure. What the driver
 * counts beyond the tolerance three times in a row is a hole in the ledger, and the tenant is ended: it holds memory
 * that is not charged.
 */
#include "gate/books.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <unistd.h>

enum {
        TOLERANCE = 2 * MIB,
        PER_MILLE = 1, /* or this part of the figure, if that is more */
        IN_A_ROW = 3,
};

static bytes tolerance(bytes figure)
{
        return figure / 1000 * PER_MILLE > TOLERANCE ? figure / 1000 * PER_MILLE : TOLERANCE;
}

/* The charges that the driver's figure covers; UINT64_MAX: some here are of another kind. */
static bytes covered(struct gate *gate, unsigned int device)
{
        LOCKED(&gate->ledger_lock);

        if (ledger_totals(gate->ledger).n_managed)
                return UINT64_MAX;
        return gate->lease->devices[device].quota.used - ledger_own(gate->ledger, device) +
               ledger_borrowed(gate->ledger, (int)device);
}

static bool is_serving(const struct gate *gate)
{
        for (size_t i = 0; i < GATE_LISTENERS_MAX; i++)
                if (gate->listeners[i].fd >= 0 && gate->listeners[i].reader.serving_since)
                        return true;
        return false;
}

/* One comparison. False: something moved meanwhile, or cannot be compared. */
static bool compare_figure(struct gate *gate, unsigned int device, bytes *ret_held, bytes *ret_figure)
{
        uint64_t n_performed = gate->n_performed;

        if (gate->moving.state == MOVE_LEAVING || gate->moving.state == MOVE_RETURNING)
                return false;
        *ret_held = covered(gate, device);
        if (*ret_held == UINT64_MAX || probe_figure(&gate->probe, gate->lease, device, getpid(), ret_figure) < 0)
                return false;
        return !is_serving(gate) && gate->n_performed == n_performed && covered(gate, device) == *ret_held;
}

static void note_figure(struct gate *gate, unsigned int device, bytes held, bytes figure)
{
        bytes under = figure > held ? figure - held : 0, over = held > figure ? held - figure : 0;
        char in_ledger[BYTES_TEXT], of_driver[BYTES_TEXT];

        gate->n_audits++;
        gate->audit_figure = figure;
        if (under > gate->audit_under)
                gate->audit_under = under;
        if (over > gate->audit_over)
                gate->audit_over = over;
        if (under <= tolerance(figure)) {
                gate->n_mismatches[device] = 0;
                return;
        }
        if (++gate->n_mismatches[device] < IN_A_ROW)
                return;
        gate_tell(gate, EVENT_AUDIT_MISMATCH, 0, "device %u: the driver counts %s, the ledger %s", device,
                  bytes_format(figure, of_driver), bytes_format(held, in_ledger));
        gate_kill(gate);
}

void audit_figures(struct gate *gate, nsec now)
{
        nsec period = gate->options.audit_period ? gate->options.audit_period : NSEC_PER_SEC;

        if (!gate->audited_at)
                gate->audited_at = now; /* the first after a period: a start is busy enough */
        if (now - gate->audited_at < period)
                return;
        gate->audited_at = now;
        for (unsigned int i = 0; i < gate->lease->n_devices; i++) {
                bytes held, figure;

                if (gate->lease->devices[i].is_granted && compare_figure(gate, i, &held, &figure))
                        note_figure(gate, i, held, figure);
        }
}
