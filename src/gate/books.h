/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handlers need of the world beyond their call: the ledger's agreement with the driver and the address
 * spaces (sweep.c, spaces.c, audit.c), and the tenant's channels (channel_control.c, demand.c).
 */
#pragma once

#include "gate/request.h"

/* gate_settle, unless that was done a moment ago. */
bool settle_lately(struct gate *gate);
bool has_managed(struct gate *gate);

/* A process ended a moment ago, and what it held may still be in the ledger. */
bool has_late(struct gate *gate);

/* mappings.c: a thread that has made or failed to make its mapping; what it was let through for must be all that it
 * made. */
void mapping_check(struct gate *gate, const struct mapping_call *call);
void mappings_check(struct gate *gate);               /* those on their way */
void mappings_check_due(struct gate *gate, nsec now); /* if it is time */

/* Whether it lies over so many ranges, or is one of so many on their way (it counts already), that looking at them
 * would take too long: not to be let through. */
bool mapping_is_wide(struct gate *gate, const struct mapping_call *call);

/* Whether UVM has something there that is in no ledger, before it is mapped: a range that libcuda made without a call
 * that is seen (policy/caught.c C2), of which nobody could tell afterwards that it is not what was mapped. */
bool mapping_is_over_ranges(struct gate *gate, const struct mapping_call *call);

/* The next addresses of a space from *base on for which nothing is charged. False: none before `end`. */
bool space_gap_next(struct gate *gate, uint64_t space, uint64_t *base, uint64_t end, uint64_t *ret_length);

bool has_files(struct gate *gate); /* VA spaces or exports */

/* Managed ranges that UVM no longer has are not charged any more. True: one is left that the driver could not be asked
 * about yet, or there was no time for all (W5 of sweep.c). */
bool sweep_all_managed(struct gate *gate);

/* One of them, which was read at `before`; asker: the thread that waits for the answer. True: to be asked again. */
bool sweep_range(struct gate *gate, pid_t asker, uint32_t owner, uint64_t base, uint64_t length, nsec before);

/* For so long at most the driver is asked about ranges at once. */
#define SWEEP_MOST (50 * NSEC_PER_MSEC)

/* The mapping is about to be let through: what was charged at its addresses and is gone comes back first, since the
 * driver tells addresses only, and not which of two charges is for what it has there. */
void managed_make_way(struct request *request, const struct mapping_call *mapping);

/* spaces.c: whether anything is left in a range of addresses, in any space of the tenant. */
enum answer {
        RANGE_GONE,
        RANGE_THERE,
        RANGE_LATER, /* a mapping may be on its way: not asked */
};
enum answer spaces_ask(struct gate *gate, pid_t asker, uint64_t base, uint64_t length); /* 0: no thread waits for it */
enum answer space_ask(struct gate *gate, pid_t asker, const struct file *space, uint64_t base, uint64_t length);
void spaces_clean(struct gate *gate);  /* of ranges of processes that have exited */
void settle_spaces(struct gate *gate); /* lets go of those that nobody has, and nothing is in */

/* A process has ended; its descriptors were closed before that became visible. True: some of its clients are still
 * there, because others have their descriptors, or the driver is taking them down. */
bool sweep_ended(struct gate *gate, pid_t process);

/* So long after an end the driver may be taking down what the process had. */
#define SWEEP_LATE NSEC_PER_SEC

/* job/loans.c: loans of borrowers that are gone end with their open files. */
void settle_loans(struct gate *gate);

/* Compares the ledger with the driver's figure when it is time. */
void audit_figures(struct gate *gate, nsec now);

/* books/channel_parts.c: before the call, room for one more of this class. RM_STATUS_OK, or the answer. */
uint32_t channel_control_reserve(struct request *request);

/* After it. begun: with the client's lock held, object NULL: the driver refused; placed: without it. */
void channel_control_begun(struct request *request, const struct ledger_object *object);
void channel_control_placed(struct request *request, const struct ledger_object *object);

/* lent.c: a second handle of the MPS server's group. Room for it: RM_STATUS_OK, or the answer; and it is there. */
uint32_t lent_reserve(struct request *request);
void lent_put(struct request *request, const struct ledger_object *object);

/* All of the tenant's on the device, by one call: the driver counts. 0; -errno. */
int channels_switch(struct gate *gate, unsigned int device, bool is_disabled);

/* A group may run from now on: if the desired state is "disabled", it is disabled when this returns. */
void channel_control_follow(struct gate *gate, int device, uint32_t client, uint32_t group);

/* books/kept.c: a client was made on the request's file. */
void makers_note(const struct request *request);

/* Objects have gone; class_number of what was freed, or RM_CLASS_CLIENT. */
void channel_control_gone(struct gate *gate, uint32_t class_number, uint32_t client, uint32_t handle);

/* Of the thread that reads signs: a channel of any device that is off has work that was put since. */
bool demand_is_wanted(const struct demand *demand);

void demand_done(struct demand *demand, struct probe *probe);
