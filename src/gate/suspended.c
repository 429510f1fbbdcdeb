/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that come while the tenant is suspended (docs/suspend.md). What its processes had is in host memory, and their
 * own CUDA calls wait in the driver's library, where nobody sees them. A process that begins meanwhile is seen: its
 * calls come here. Those that take memory of a device wait until what was there is back, because
 *      W1  memory that came in meanwhile would be missing when the tenant is resumed: its quota is for all of it;
 *      W2  that a call waits is the sign by which whoever can wakes the tenant (`waits`).
 * All others are answered as ever: a program that asks for the temperature wakes nobody.
 *
 *      W3  a thread that waits here is no reader (G4), and half of all threads are left: the driver's calls by which
 *          the tenant is resumed pass them;
 *      W4  nothing is held meanwhile that another call of the tenant could want;
 *      W5  all that wait look about as often as a few would: the gate's processor is not the tenant's.
 */
#include "gate/act.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>

enum {
        LOOK_MSEC = 5,
        FEW = 8,
};

static bool is_away(const struct request *request)
{
        const struct gate_options *options = &request->gate->options;

        return options->is_away(options->node_context, request->process->id);
}

static void say_waits(const struct request *request, bool begins)
{
        const struct gate_options *options = &request->gate->options;

        if (options->waits)
                options->waits(options->node_context, request->process->id, begins);
}

/* Threads that wait do so in turns of a few milliseconds: a call may be taken back, and the gate may end. */
static int wait_until_back(const struct request *request)
{
        const struct gate *gate = request->gate;
        nsec most = gate->options.wait_most ? gate->options.wait_most : GATE_WAIT_MOST, until = clock_now() + most;

        while (is_away(request)) {
                if (gate->is_ending || !gate->host->is_awaited(request))
                        return -EINTR;
                if (clock_now() >= until)
                        return -ETIMEDOUT;
                (void)poll(NULL, 0, LOOK_MSEC * (1 + (int)gate->n_waiting / FEW)); /* W5 */
        }
        return 0;
}

int wait_if_suspended(struct request *request)
{
        struct gate *gate = request->gate;
        int r = -EBUSY;

        if (!gate->options.is_away || !gate_takes_memory(&request->verdict) || !is_away(request))
                return 0;
        gate->host->reader_release(request->worker);
        if (atomic_fetch_add(&gate->n_waiting, 1) < GATE_WAITING_MAX) {
                say_waits(request, true);
                r = wait_until_back(request);
                say_waits(request, false);
        }
        atomic_fetch_sub(&gate->n_waiting, 1);
        if (r == -ETIMEDOUT || r == -EBUSY)
                gate_tell(gate, EVENT_NOT_WOKEN, request->process->id, "%s 0x%x: %s", rm_kind_name(request->call.kind),
                          request->call.class_or_cmd,
                          r == -EBUSY ? "too many calls wait already" : "it has waited for too long");
        return r;
}
