/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls while memory moves: T1. A call that is made is counted; whoever moves says so first and then waits until none
 * is, so each sees the other. A call that may not be made waits until the state changes, without a thread (waiting.h).
 */
#include "gate/act.h"
#include "gate/move/inside.h"
#include "gate/move/move.h"

#include <sys/eventfd.h>

void move_state_set(struct gate *gate, uint32_t state)
{
        gate->moving.state = state;
        (void)eventfd_write(gate->wake, 1);
}

static bool has_client(const struct moving *moving, uint32_t client)
{
        for (size_t i = 0; i < moving->n_clients; i++)
                if (moving->clients[i] == client)
                        return true;
        return false;
}

static bool has_space(const struct moving *moving, uint64_t space)
{
        for (size_t i = 0; i < moving->n_spaces; i++)
                if (moving->spaces[i] == space)
                        return true;
        return false;
}

static bool is_away(struct gate *gate, uint32_t client, uint32_t object)
{
        LOCKED(&gate->ledger_lock);

        return ledger_is_away(gate->ledger, client, object);
}

/* Whether what the call is about may be away: a control of what is not is a question, all else changes something. */
static bool needs_away(const struct request *request)
{
        const struct moving *moving = &request->gate->moving;
        const struct rm_call *call = &request->call;

        if (request->node == RM_NODE_UVM) /* of managed memory in any: ranges.c */
                return has_space(moving, request->space) || (request->space && moving->plan.n_ranges);
        if (!has_client(moving, call->client) && !has_client(moving, call->source_client))
                return false;
        return call->kind != RM_CONTROL || is_away(request->gate, call->client, call->object);
}

/* Made by nobody, or by the tenant itself. */
static bool is_not_made(const struct request *request)
{
        enum gate_action action = request->verdict.action;

        return action == GATE_DENY || action == GATE_ACCEPT || action == GATE_CONTINUE;
}

int move_enter(struct request *request)
{
        struct gate *gate = request->gate;
        struct moving *moving = &gate->moving;
        uint32_t state;

        if (!gate->options.copier || is_not_made(request))
                return 0;
        moving->n_inside++;
        state = moving->state;
        if (state == MOVE_HERE ||
            (state == MOVE_AWAY && !needs_away(request) && !gate_takes_memory(&request->verdict))) {
                request->is_inside = true;
                return 0;
        }
        moving->n_inside--;
        return wait_ask(request,
                        &(struct gate_wait){ .is_for_memory = true, .is_said = state == MOVE_AWAY, .state = state });
}

void move_leave(struct request *request)
{
        if (request->is_inside)
                request->gate->moving.n_inside--;
        request->is_inside = false;
}
