/* SPDX-License-Identifier: Apache-2.0 */
/* The way out and the way back: move.h has the rules, calls.c the driver's calls. */
#include "gate/books.h"
#include "gate/move/inside.h"
#include "gate/move/move.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "rm/numbers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
        PLACE = 4096, /* memories begin at multiples of it in host memory */
};

bool gate_is_moved(const struct gate *gate)
{
        return gate->moving.state != MOVE_HERE;
}

/* ---- the plan -------------------------------------------------------------------------------------------- */

void moving_done(struct moving *moving)
{
        ledger_plan_done(&moving->plan);
        free(moving->parts);
        free(moving->clients);
        free(moving->spaces);
        moving->parts = NULL;
        moving->clients = NULL;
        moving->spaces = NULL;
        moving->n_clients = moving->n_spaces = 0;
}

static void client_note(struct moving *moving, uint32_t client)
{
        for (size_t i = 0; i < moving->n_clients; i++)
                if (moving->clients[i] == client)
                        return;
        moving->clients[moving->n_clients++] = client;
}

static void space_note(struct moving *moving, uint64_t space)
{
        for (size_t i = 0; i < moving->n_spaces; i++)
                if (moving->spaces[i] == space)
                        return;
        moving->spaces[moving->n_spaces++] = space;
}

/* Places in host memory, by device one behind another; *ret_sizes: how much of each. */
static int parts_place(struct gate *gate, bytes ret_sizes[static LEASE_DEVICES_MAX])
{
        struct moving *moving = &gate->moving;
        const struct ledger_plan *plan = &moving->plan;

        moving->parts = calloc(plan->n + 1, sizeof(*moving->parts));
        moving->clients = calloc(plan->n + 1, sizeof(*moving->clients));
        moving->spaces = calloc(plan->n_maps + 1, sizeof(*moving->spaces));
        if (!moving->parts || !moving->clients || !moving->spaces)
                return -ENOMEM;
        for (size_t i = 0; i < plan->n; i++) {
                const struct move_recipe *recipe =
                        (const struct move_recipe *)(const void *)plan->moves[i].object.recipe.data;
                int device = plan->moves[i].object.object.device;

                if (device < 0 || device >= LEASE_DEVICES_MAX || recipe->size > plan->moves[i].size)
                        return -EIO;
                moving->parts[i] = (struct move_part){ .device = (unsigned int)device,
                                                       .host = ret_sizes[device],
                                                       .piece.size = recipe->size };
                ret_sizes[device] += (recipe->size + PLACE - 1) / PLACE * PLACE;
                client_note(moving, plan->moves[i].object.object.client);
        }
        for (size_t i = 0; i < plan->n_maps; i++)
                space_note(moving, plan->maps[i].space);
        return 0;
}

static bytes stays_of(const struct ledger_plan *plan, enum ledger_stay *ret_most)
{
        bytes sum = 0;

        *ret_most = 0;
        for (unsigned int i = 0; i < LEDGER_N_STAYS; i++) {
                sum += plan->stays[i].size;
                if (plan->stays[i].size > plan->stays[*ret_most].size)
                        *ret_most = i;
        }
        return sum;
}

/* What can move, and whether that is enough. */
static bool plan_make(struct gate *gate, unsigned int part, bytes sizes[static LEASE_DEVICES_MAX],
                      struct gate_moved *ret)
{
        struct ledger_plan *plan = &gate->moving.plan;
        enum ledger_stay why;
        int r;

        {
                LOCKED(&gate->ledger_lock);
                r = ledger_plan(gate->ledger, &gate->lease->host, plan);
        }
        if (r < 0)
                return move_fail(ret, GATE_MOVE_AS_BEFORE, "no memory for a plan");
        ret->stays = stays_of(plan, &why);
        if (gate->moving.has_attached)
                return move_fail(ret, GATE_MOVE_CANNOT, "it attaches memory to addresses of the fabric");
        if (plan->n_ranges && gate->moving.may_stay)
                return move_fail(ret, GATE_MOVE_CANNOT,
                                 "it has asked for managed memory that stays on a device, duplicated or in a group");
        if (!(plan->n + plan->n_ranges) ||
            (plan->size + plan->managed) / 1000 * (1000 - part) < ret->stays / 1000 * part) {
                char moves[BYTES_TEXT], stays[BYTES_TEXT];

                return move_fail(ret, GATE_MOVE_CANNOT, "%s of it can move, %s cannot: most of that is %s",
                                 bytes_format(plan->size + plan->managed, moves), bytes_format(ret->stays, stays),
                                 ledger_stay_name(why));
        }
        r = parts_place(gate, sizes);
        return r == 0 || move_fail(ret, GATE_MOVE_AS_BEFORE, "a plan: %s", strerror(-r));
}

/* ---- host memory and engines ----------------------------------------------------------------------------- */

static void copiers_end(struct gate *gate, bool is_kept)
{
        const struct gate_copier *copier = gate->options.copier;

        for (unsigned int i = 0; i < gate->lease->n_devices; i++)
                if (move_is_granted(gate, i))
                        copier->end(copier->context, i, is_kept);
}

static bool copiers_begin(struct gate *gate, const bytes sizes[static LEASE_DEVICES_MAX], struct gate_moved *ret)
{
        const struct gate_copier *copier = gate->options.copier;
        char size[BYTES_TEXT];

        for (unsigned int i = 0; i < gate->lease->n_devices; i++) {
                int r = sizes[i] ? copier->begin(copier->context, i, sizes[i]) : 0;

                if (r < 0)
                        return move_fail(ret, r == -ENOTSUP ? GATE_MOVE_CANNOT : GATE_MOVE_AS_BEFORE,
                                         "an engine of device %u and %s of host memory: %s", i,
                                         bytes_format(sizes[i], size), strerror(-r));
        }
        return true;
}

static void sizes_of(const struct gate *gate, bytes ret[static LEASE_DEVICES_MAX])
{
        const struct moving *moving = &gate->moving;

        for (size_t i = 0; i < moving->plan.n; i++) {
                const struct move_part *part = &moving->parts[i];

                if (!part->is_gone && ret[part->device] < part->host + part->piece.size)
                        ret[part->device] = part->host + part->piece.size;
        }
}

/* All copies of one way, and their end: T3. */
static bool copy_all(struct gate *gate, bool is_out, struct gate_moved *ret)
{
        const struct gate_copier *copier = gate->options.copier;
        struct moving *moving = &gate->moving;
        size_t n = 0;
        int r = 0;

        for (; n < moving->plan.n && r == 0 && !gate->is_empty; n++) {
                const struct ledger_object *object = &moving->plan.moves[n].object.object;
                struct move_part *part = &moving->parts[n];

                part->piece.handle = 0;
                if (part->is_gone)
                        continue;
                r = copier->take(copier->context, part->device, object->client, object->handle, &part->piece);
                if (r == 0)
                        r = copier->copy(copier->context, part->device, is_out, &part->piece, part->host);
                if (r < 0 && !probe_client(&gate->probe, object->client)) {
                        part->is_gone = true;
                        r = 0;
                }
        }
        for (unsigned int i = 0; i < gate->lease->n_devices; i++)
                if (move_is_granted(gate, i) && r == 0)
                        r = copier->wait(copier->context, i);
        if (gate->is_empty)
                r = -ECANCELED; /* nobody is there who could want it */
        while (n-- > 0) {
                const struct move_part *part = &moving->parts[n];

                if (part->piece.handle && copier->give(copier->context, part->device, &part->piece) < 0 && is_out &&
                    r == 0)
                        r = -EBUSY; /* what has another handle would not leave */
        }
        return r == 0 || move_fail(ret, GATE_MOVE_AS_BEFORE, "copying %s: %s", is_out ? "out" : "back",
                                   r == -ENOMEM ? "the host has no memory for it" : strerror(-r));
}

/* ---- the way out ----------------------------------------------------------------------------------------- */

static bool give_all(struct gate *gate, const struct move_files *files, struct gate_moved *ret)
{
        struct moving *moving = &gate->moving;

        for (size_t i = 0; i < moving->plan.n; i++) {
                const struct ledger_object *object = &moving->plan.moves[i].object.object;
                uint32_t status = move_give(gate, files, &moving->plan.moves[i], &moving->parts[i]);

                if (status != RM_STATUS_OK)
                        return move_fail(ret, GATE_MOVE_AS_BEFORE,
                                         "making memory 0x%x of client 0x%x again: status 0x%x", object->handle,
                                         object->client, status);
        }
        return true;
}

static bool take_all(struct gate *gate, const struct move_files *files, struct gate_moved *ret)
{
        struct moving *moving = &gate->moving;

        for (size_t i = 0; i < moving->plan.n; i++) {
                const struct ledger_object *object = &moving->plan.moves[i].object.object;
                uint32_t status = move_take(gate, files, &moving->plan.moves[i], &moving->parts[i]);

                if (status != RM_STATUS_OK)
                        return move_fail(ret, GATE_MOVE_AS_BEFORE,
                                         "taking memory 0x%x of client 0x%x away: status 0x%x", object->handle,
                                         object->client, status);
        }
        return true;
}

/* What was taken comes back: all contents are in host memory, T3. What could not be freed still has its own. */
static void out_revert(struct gate *gate, const struct move_files *files, struct gate_moved *ret)
{
        struct gate_moved back = { 0 };

        if (!give_all(gate, files, &back) || !copy_all(gate, false, &back)) {
                ret->outcome = GATE_MOVE_LOST;
                (void)snprintf(ret->text + strlen(ret->text), sizeof(ret->text) - strlen(ret->text), "; %s", back.text);
        }
}

/* Copies, then unmaps and frees. Managed memory loses nothing by leaving, and goes between the two. */
static bool out_move(struct gate *gate, const bytes sizes[static LEASE_DEVICES_MAX], struct gate_moved *ret)
{
        _cleanup_(move_files_done) struct move_files files = { 0 };
        nsec at = clock_now();

        if (move_files_open(gate, &files) < 0)
                return move_fail(ret, GATE_MOVE_AS_BEFORE, "a descriptor of a client of its cannot be found");
        if (!copiers_begin(gate, sizes, ret))
                return false;
        ret->prepared = clock_now() - at;
        at = clock_now();
        if (!copy_all(gate, true, ret) || !move_ranges_leave(gate, ret))
                return false;
        ret->copied = clock_now() - at;
        at = clock_now();
        if (!take_all(gate, &files, ret)) {
                out_revert(gate, &files, ret);
                return false;
        }
        move_ranges_charge(gate, true);
        ret->changed = clock_now() - at;
        ret->size = gate->moving.plan.size + gate->moving.plan.managed;
        ret->n = gate->moving.plan.n + gate->moving.plan.n_ranges;
        return true;
}

/* T4. True: it has been, and nothing is done. */
static bool is_lost(struct gate *gate, struct gate_moved *ret)
{
        gate->moving.is_at_work = true;
        *ret = (struct gate_moved){ .outcome = GATE_MOVE_DONE };
        if (gate->moving.is_lost)
                (void)move_fail(ret, GATE_MOVE_LOST, "%s", gate->moving.lost);
        return gate->moving.is_lost;
}

static void lost_note(struct gate *gate, const struct gate_moved *ret)
{
        if (ret->outcome != GATE_MOVE_LOST)
                return;
        gate->moving.is_lost = true;
        memcpy(gate->moving.lost, ret->text, sizeof(gate->moving.lost));
}

/* Of memory that is lost the state is that it is away: its calls wait for their end, and its channels stay off. */
void gate_move_out(struct gate *gate, bool is_steered, unsigned int part, struct gate_moved *ret)
{
        bytes sizes[LEASE_DEVICES_MAX] = { 0 };
        bool is_out;

        if (is_lost(gate, ret) || gate->moving.state == MOVE_AWAY || !move_calls_stop(gate, MOVE_LEAVING, ret))
                return;
        is_out = plan_make(gate, part, sizes, ret) && move_channels_off(gate, is_steered, ret);
        if (is_out) {
                is_out = out_move(gate, sizes, ret) || ret->outcome == GATE_MOVE_LOST;
                copiers_end(gate, true);
                if (!is_out)
                        move_channels_on(gate);
        }
        if (!is_out)
                moving_done(&gate->moving);
        lost_note(gate, ret);
        move_state_set(gate, is_out ? MOVE_AWAY : MOVE_HERE);
}

/* ---- the way back ---------------------------------------------------------------------------------------- */

/* The copy is in the room until it has been made, so what fails may be tried again: what was made goes again. */
static bool in_move(struct gate *gate, struct gate_moved *ret)
{
        _cleanup_(move_files_done) struct move_files files = { 0 };
        bytes sizes[LEASE_DEVICES_MAX] = { 0 };
        struct gate_moved undone = { 0 };
        nsec at = clock_now();

        sizes_of(gate, sizes);
        if (move_files_open(gate, &files) < 0)
                return move_fail(ret, GATE_MOVE_AS_BEFORE, "a descriptor of a client of its cannot be found");
        if (!copiers_begin(gate, sizes, ret))
                return false;
        ret->prepared = clock_now() - at;
        at = clock_now();
        if (give_all(gate, &files, ret)) {
                ret->changed = clock_now() - at;
                at = clock_now();
                if (copy_all(gate, false, ret)) {
                        ret->copied = clock_now() - at;
                        return true;
                }
        }
        if (!take_all(gate, &files, &undone)) {
                ret->outcome = GATE_MOVE_LOST;
                (void)snprintf(ret->text + strlen(ret->text), sizeof(ret->text) - strlen(ret->text), "; %s",
                               undone.text);
        }
        return false;
}

void gate_move_in(struct gate *gate, struct gate_moved *ret)
{
        if (is_lost(gate, ret) || gate->moving.state == MOVE_HERE || !move_calls_stop(gate, MOVE_RETURNING, ret))
                return;
        move_ranges_charge(gate, false); /* from here on it may come to its device */
        if (!in_move(gate, ret)) {
                move_ranges_charge(gate, true);
                copiers_end(gate, true);
                lost_note(gate, ret);
                move_state_set(gate, MOVE_AWAY);
                return;
        }
        copiers_end(gate, true);
        ret->size = gate->moving.plan.size;
        ret->n = gate->moving.plan.n;
        moving_done(&gate->moving);
        move_channels_on(gate);
        move_state_set(gate, MOVE_HERE);
}

void gate_move_rest(struct gate *gate)
{
        if (gate->moving.state == MOVE_HERE)
                copiers_end(gate, false);
        gate->moving.has_worked = true;
        gate->moving.is_at_work = false;
}

/* Of what is held on a device, what copies would need room for: managed memory needs none. */
static bytes copied_of(struct gate *gate, unsigned int device)
{
        bytes held = gate_held(gate, device), managed;
        LOCKED(&gate->ledger_lock);

        managed = ledger_kinds(gate->ledger, &gate->lease->devices[device].quota, device).managed;
        return held > managed ? held - managed : 0;
}

void gate_move_ready(struct gate *gate, bytes most)
{
        const struct gate_copier *copier = gate->options.copier;

        gate->moving.is_at_work = true;
        for (unsigned int i = 0; i < gate->lease->n_devices && gate->moving.state == MOVE_HERE; i++) {
                bytes size = move_is_granted(gate, i) ? copied_of(gate, i) : 0;
                bool is_all = false;

                size = size < most ? size : most;
                most -= size;
                while (size && !is_all && !gate->is_empty && copier->ready(copier->context, i, size, &is_all) == 0)
                        ;
        }
        gate->moving.has_worked = true;
        gate->moving.is_at_work = false;
}

bool gate_move_is_wanted(struct gate *gate)
{
        struct gate_signs ignored;

        for (unsigned int i = 0; i < gate->lease->n_devices; i++)
                if (move_is_granted(gate, i))
                        gate_signs_read(gate, i, &ignored); /* maps what is new */
        return gate->moving.state == MOVE_AWAY && demand_is_wanted(&gate->demand);
}
