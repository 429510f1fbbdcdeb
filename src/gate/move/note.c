/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How movable memory was made, kept with the ledger's objects and mappings (lease/moves.h), and what must not move.
 * Only a gate with a copier keeps any of it.
 */
#include "gate/act.h"
#include "gate/move/inside.h"
#include "gate/move/move.h"

#include "rm/numbers.h"

#include <string.h>

enum {
        SIZE_AT = 64,       /* of class 0x40: what the driver gave */
        MAP_OFFSET_AT = 16, /* of UVM_MAP_EXTERNAL */
        ATTRIBUTES_AT = 24, /* the first one's */
        NAMED_MAX = 1024,   /* bytes of parameters in which handles are sought */
};

void move_note_object(const struct request *request, uint32_t handle)
{
        struct move_recipe recipe = { .process = request->process->id,
                                      .theirs = request->theirs,
                                      .size = rm_get64(request->params, request->params_size, SIZE_AT),
                                      .params_size = request->params_size };

        if (!request->gate->options.copier || request->call.kind != RM_ALLOC ||
            request->params_size > sizeof(recipe.params))
                return;
        memcpy(recipe.params, request->was_params, request->params_size);
        ledger_recipe_set(request->gate->ledger, request->call.client, handle, &recipe, sizeof(recipe));
}

void move_note_map(const struct request *request, uint64_t where)
{
        const struct rm_call *call = &request->call;
        struct move_map_recipe recipe = { .offset = rm_get64(request->block, call->block_size, MAP_OFFSET_AT) };

        if (!request->gate->options.copier || !where) /* 0: in several devices' page tables */
                return;
        memcpy(recipe.attributes, request->block + ATTRIBUTES_AT, sizeof(recipe.attributes));
        ledger_map_recipe_set(request->gate->ledger, request->space, call->base, where, &recipe, sizeof(recipe));
}

void move_pin(struct gate *gate, uint32_t client, uint32_t object)
{
        if (!gate->options.copier)
                return;
        LOCKED(&gate->ledger_lock);
        ledger_pin(gate->ledger, client, object);
}

/* Each word that is a handle of a memory's: what is not meant as one stays for nothing, and no more. */
void move_pin_named(const struct request *request)
{
        uint32_t size = request->params_size < NAMED_MAX ? request->params_size : NAMED_MAX;

        if (!request->gate->options.copier)
                return;
        LOCKED(&request->gate->ledger_lock);
        for (uint32_t at = 0; at + 4 <= size; at += 4) {
                uint32_t word = rm_get32(request->params, size, at);

                if (word)
                        ledger_pin(request->gate->ledger, request->call.client, word);
        }
}
