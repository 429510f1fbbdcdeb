/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a step is, and how long a round may be. A synchronous tenant launches, waits, and launches again: whoever waits
 * for its answer waits for its turn too. A tenant with a deep queue does not care when it has its time.
 *
 *      S1  Evidence is what the rings say while an entity is on the device, and has been for LEARN, so that what was
 *          launched before is taken: work that is still waiting there is a queue, none is a tenant that drains.
 *      S2  A look at a random moment finds a step half done. So a step is about twice the mean of what was computed
 *          since the latest launch. It is known to a millisecond: so often the rings are read.
 *      S3  A synchronous entity waits for the others' turns for BOUND or STEPS of its own at most, whichever is more.
 *          The round is as short as the most sensitive entity needs; without one it is the period.
 *      S4  Each entity has TURN_ROOM of a round in the mean, whatever that makes of S3: a handover loses 0.2 ms of work
 *          and 0.9 ms of calls.
 *      S5  A part of a round shorter than TURN_SHORT is saved up for a later one. What is owed changes a turn by a
 *          quarter: one that has had too much is slowed, not stopped.
 *
 * Where launches cannot be seen, the meter is late, or class batch says that waiting does not matter, nobody is
 * sensitive.
 */
#include "turns/inside.h"

#define LEARN (2 * NSEC_PER_MSEC)
#define BOUND (5 * NSEC_PER_MSEC)
#define STEPS 3
#define TURN_ROOM (4 * NSEC_PER_MSEC)
#define ROUNDS_OF (100 * NSEC_PER_MSEC) /* that many hold whole rounds: R1 */

enum {
        SURE = 16, /* looks that found it drained, less twice those that found a queue */
        SYNCHRONOUS = 8,
        NOT_SYNCHRONOUS = 4,
        MEAN_OF = 8, /* looks */
};

/* What it has computed since the launch that was seen last; a launch is seen later than it is made. */
static nsec since_launch(struct turns *turns, struct entity *entity, const struct turns_tenant *tenant)
{
        if (tenant->launched_at != entity->launched_at) {
                nsec ago = nsec_min(nsec_max(turns->now - tenant->launched_at, 0), nsec_max(entity->spent, 0));

                entity->launched_at = tenant->launched_at;
                entity->launch_used = entity->used - ago;
        }
        return nsec_max(entity->used - entity->launch_used, 0);
}

static void step_look(struct turns *turns, struct entity *entity, const struct turns_tenant *tenant)
{
        nsec span = since_launch(turns, entity, tenant), on = nsec_max(entity->switched_at, entity->started_at);

        if (tenant->work == TURNS_WORK_UNKNOWN)
                entity->drained = 0;
        if (tenant->work == TURNS_WORK_UNKNOWN || !entity->is_enabled || !tenant->is_resident ||
            turns->now - on < LEARN || turns->now - entity->looked_at < LEARN / 2)
                return; /* S1 */
        entity->looked_at = turns->now;
        if (tenant->work == TURNS_WORK_PENDING) {
                entity->drained = entity->drained > 2 ? entity->drained - 2 : 0;
        } else {
                entity->drained += entity->drained < SURE;
                entity->half_step += (span - entity->half_step) / MEAN_OF; /* S2 */
        }
        if (entity->drained >= SYNCHRONOUS)
                entity->is_synchronous = true;
        else if (entity->drained <= NOT_SYNCHRONOUS)
                entity->is_synchronous = false;
}

void steps_look(struct turns *turns, const struct turns_view *view)
{
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];

                step_look(turns, entity, &view->tenants[i]);
                entity->may_wait = INT64_MAX;
                if (entity->is_synchronous && view->tenants[i].class != TURNS_BATCH)
                        entity->may_wait = nsec_max(BOUND, STEPS * 2 * entity->half_step); /* S3 */
        }
}

static bool takes_part(const struct entity *entity)
{
        return takes_turns_here(entity) && !entity->is_blocked;
}

/* The longest round in which an entity waits for no more than it may. */
static nsec round_of(const struct turns *turns, const struct entity *entity)
{
        if (!takes_part(entity) || entity->may_wait >= turns->period || entity->weight >= PPM)
                return turns->period;
        return entity->may_wait * PPM / (PPM - entity->weight);
}

nsec steps_round(const struct turns *turns)
{
        nsec round = turns->period, least = 0;

        if (turns->now - turns->metered_until > LATE)
                return round;
        for (size_t i = 0; i < turns->n; i++) {
                round = nsec_min(round, round_of(turns, &turns->entities[i]));
                least += takes_part(&turns->entities[i]) ? TURN_ROOM : 0;
        }
        round = nsec_max(round, least); /* S4 */
        if (round >= turns->period || round >= ROUNDS_OF)
                return turns->period;
        return nsec_min(ROUNDS_OF / (ROUNDS_OF / round), turns->period);
}

/* S5 */
nsec steps_turn(const struct turns *turns, const struct entity *entity)
{
        nsec turn = part(turns->round, entity->weight);

        if (turns->round >= turns->period)
                return turn + entity->owed;
        return turn + nsec_min(nsec_max(entity->owed, -turn / 4), nsec_max(turn / 4, TURN_SHORT));
}
