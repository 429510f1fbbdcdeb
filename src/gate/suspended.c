/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that come while the tenant is suspended (docs/suspend.md). What its processes had is in host memory, and their
 * own CUDA calls wait in the driver's library, where nobody sees them. A process that begins meanwhile is seen: its
 * calls come here. Those that take memory of a device wait until what was there is back, because
 *      - memory that came in meanwhile would be missing when the tenant is resumed: its quota is for all of it;
 *      - that a call waits is the sign by which whoever can wakes the tenant (`waits`).
 * All others are answered as ever: a program that asks for the temperature wakes nobody.
 *
 * How they wait is in waiting.h: the driver's calls by which the tenant is resumed pass them.
 */
#include "gate/act.h"

#include "base/clock.h"

#include <errno.h>

static int refuse_to_wait(struct request *request, int error)
{
        gate_tell(request->gate, EVENT_NOT_WOKEN, request->process->id, "%s 0x%x: %s", rm_kind_name(request->call.kind),
                  request->call.class_or_cmd,
                  error == -EBUSY ? "too many calls wait already" : "it has waited for too long");
        return error;
}

int wait_ask(struct request *request, const struct gate_wait *what)
{
        const struct gate *gate = request->gate;
        struct gate_wait *wait = &request->worker->wait;
        nsec most = gate->options.wait_most ? gate->options.wait_most : GATE_WAIT_MOST;
        nsec until = wait->until ? wait->until : clock_now() + most;

        if (clock_now() >= until)
                return refuse_to_wait(request, -ETIMEDOUT);
        if (gate->n_waiting >= GATE_WAITING_MAX)
                return refuse_to_wait(request, -EBUSY);
        *wait = *what;
        wait->until = until;
        wait->process = request->process->id;
        return GATE_WAITS;
}

int wait_if_suspended(struct request *request)
{
        const struct gate_options *options = &request->gate->options;

        if (!options->is_away || !gate_takes_memory(&request->verdict) ||
            !options->is_away(options->node_context, request->process->id))
                return 0;
        return wait_ask(request, &(struct gate_wait){ .is_said = true });
}
