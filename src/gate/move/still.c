/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls while memory moves: T1. A call that is made is counted; whoever moves says so first and then waits until none
 * is, so each sees the other. A call that waits holds nothing, and is no reader (G4). It sleeps until the state
 * changes, and looks now and then whether its caller is there still.
 */
#include "gate/act.h"
#include "gate/move/inside.h"
#include "gate/move/move.h"

#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOK (500 * NSEC_PER_MSEC)

static void futex(_Atomic uint32_t *word, int what, uint32_t value, const struct timespec *timeout)
{
        (void)syscall(SYS_futex, word, what | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
}

void move_state_set(struct gate *gate, uint32_t state)
{
        gate->moving.state = state;
        futex(&gate->moving.state, FUTEX_WAKE, INT_MAX, NULL);
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

        if (request->node == RM_NODE_UVM)
                return has_space(moving, request->space);
        if (!has_client(moving, call->client) && !has_client(moving, call->source_client))
                return false;
        return call->kind != RM_CONTROL || is_away(request->gate, call->client, call->object);
}

static void say_waits(const struct request *request, bool begins)
{
        const struct gate_options *options = &request->gate->options;

        if (options->waits)
                options->waits(options->node_context, request->process->id, begins);
}

/* Until the state is another. */
static int wait_while(struct request *request, uint32_t state, nsec until)
{
        struct gate *gate = request->gate;
        int r = 0;

        gate->host->reader_release(request->worker);
        if (state == MOVE_AWAY)
                say_waits(request, true);
        while (r == 0 && gate->moving.state == state) {
                nsec left = until - clock_now(), most = left < LOOK ? left : LOOK;
                struct timespec span = { most / NSEC_PER_SEC, most % NSEC_PER_SEC };

                if (gate->is_ending || !gate->host->is_awaited(request))
                        r = -EINTR;
                else if (left <= 0)
                        r = -ETIMEDOUT;
                else
                        futex(&gate->moving.state, FUTEX_WAIT, state, &span);
        }
        if (state == MOVE_AWAY)
                say_waits(request, false);
        return r;
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
        nsec most = gate->options.wait_most ? gate->options.wait_most : GATE_WAIT_MOST, until = 0;

        if (!gate->options.copier || is_not_made(request))
                return 0;
        for (;;) {
                uint32_t state;
                int r;

                moving->n_inside++;
                state = moving->state;
                if (state == MOVE_HERE ||
                    (state == MOVE_AWAY && !needs_away(request) && !gate_takes_memory(&request->verdict))) {
                        request->is_inside = true;
                        return 0;
                }
                moving->n_inside--;
                until = until ? until : clock_now() + most;
                r = wait_while(request, state, until);
                if (r == -ETIMEDOUT)
                        gate_tell(gate, EVENT_NOT_WOKEN, request->process->id, "%s 0x%x: it has waited for too long",
                                  rm_kind_name(request->call.kind), request->call.class_or_cmd);
                if (r < 0)
                        return r;
        }
}

void move_leave(struct request *request)
{
        if (request->is_inside)
                request->gate->moving.n_inside--;
        request->is_inside = false;
}
