/* SPDX-License-Identifier: Apache-2.0 */
/* Inside gate/move: recipes, the calls by which a part is taken off its device and put back, and the mover's state. */
#pragma once

#include "gate/inside.h"

/* Of an object, as ledger_recipe_set has it. */
struct move_recipe {
        pid_t process; /* that made it, and its descriptor of the client: */
        int theirs;
        uint64_t size; /* what the driver gave */
        uint32_t params_size;
        uint8_t params[128]; /* as the tenant wrote them */
};

/* Of a mapping. */
struct move_map_recipe {
        uint64_t offset;
        uint8_t attributes[36]; /* uuid, kinds, access: for one device */
};

_Static_assert(sizeof(struct move_recipe) <= LEDGER_RECIPE_MAX, "a recipe is kept");

/* How far a memory is on its way: what stands before n_unmapped and n_overs_freed is gone. */
struct move_part {
        bytes host; /* its place in the room in host memory */
        unsigned int device;
        size_t n_unmapped; /* of its mappings */
        size_t n_overs_freed;
        bool is_freed;
        bool is_gone; /* it ended meanwhile: nothing is made again */
        struct gate_piece piece;
};

/* The tenant's files of its clients, as descriptors of ours, for as long as a move lasts. */
struct move_files {
        struct move_file {
                uint32_t client;
                int fd;
        } * items;
        size_t n;
};
void move_files_done(struct move_files *files);

/* Of each client of the plan's that is there still; parts of one that is not are gone. As long as a file is open its
 * client's number is nobody else's. 0; -ESRCH: one's cannot be found. */
int move_files_open(struct gate *gate, struct move_files *ret);

/* Takes the part off its device: unmaps and frees. Goes on where it stopped. RM_STATUS_OK; the driver's status. */
uint32_t move_take(struct gate *gate, const struct move_files *files, const struct ledger_move *move,
                   struct move_part *part);

/* The other way; the charge comes back first. What has ended meanwhile is gone, and no failure. */
uint32_t move_give(struct gate *gate, const struct move_files *files, const struct ledger_move *move,
                   struct move_part *part);

/* ---- ranges.c ----------------------------------------------------------------------------------------------- */

/* The plan's managed ranges go to the host. False: a part may have gone, which needs nothing to be undone. */
bool move_ranges_leave(struct gate *gate, struct gate_moved *ret);
void move_ranges_charge(struct gate *gate, bool leaves);

/* ---- still.c ------------------------------------------------------------------------------------------------ */

/* And wakes the calls that wait for another one. */
void move_state_set(struct gate *gate, uint32_t state);

/* ---- stop.c ------------------------------------------------------------------------------------------------- */

/* Says what became of the way; false. */
__attribute__((format(printf, 3, 4))) bool move_fail(struct gate_moved *ret, enum gate_move_outcome outcome,
                                                     const char *format, ...);
bool move_is_granted(const struct gate *gate, unsigned int device);

/* From here on no call is made, and none is under way. False: one does not end; the state is what it was. */
bool move_calls_stop(struct gate *gate, uint32_t state, struct gate_moved *ret);

/* Its channels on all its devices. False: they are enabled again. */
bool move_channels_off(struct gate *gate, bool is_steered, struct gate_moved *ret);
void move_channels_on(struct gate *gate);
