/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a step is, and how long a round may be. A synchronous tenant launches, waits, and launches again: whoever waits
 * for its answer waits for its turn too. A tenant with a deep queue does not care when it has its time.
 *
 *      S1  The records say it best. Of tenants that work beside each other, one that drains its queue gives the rest of
 *          its slice away: it is synchronous, and an interval is a step. So it is while all are always-on, and at each
 *          handover, where a step is about twice what was left of it at a random moment.
 *      S2  The rings say it, too, while an entity is on the device, and has been for LEARN, so that what was launched
 *          before is taken. None that waits is a tenant that drains, and a deep queue never shows it. Work that waits
 *          says little: the ring entry of a graph may be taken only when most of the graph is done. Without records a
 *          step is about twice the mean of what was computed since the latest launch, to a millisecond.
 *      S3  A synchronous entity waits for the others' turns for BOUND or STEPS of its own at most, whichever is more.
 *          The round is as short as the most sensitive entity needs; without one it is the period.
 *      S4  Each entity has TURN_ROOM of a round in the mean, whatever that makes of S3: a handover loses 0.2 ms of work
 *          and 0.9 ms of calls.
 *      S5  A part of a round shorter than TURN_SHORT is saved up for a later one. What is owed changes a turn by a
 *          quarter: one that has had too much is slowed, not stopped. Who waits for nothing gives back a handover and
 *          a half at least: it has that much more than its turn, and a quarter of a short one is less.
 *      S6  A synchronous entity is taken off without preemption in a short round: it ends by itself within a step, and
 *          a preemption would take the next one off the device, too (0.2 ms more of work; docs/time.md).
 *
 *      S7  An entity with a goal (turns.h) waits for what the goal leaves beside its step and the handover, and a third
 *          less: a turn may be a quarter longer (S5). A round for it has TURNS_GOAL_ROOM for each, and is never rounded
 *          up. It is sensitive whatever is known of its work.
 *      S8  A deep queue is off within a slice, too, after a handover without preemption, and a slice in short rounds is
 *          a few steps: once taken for synchronous, it would stay so, and with a slice as long as a round keep all
 *          others off. Who has not shown a drained queue for DEEP looks is taken off by preemption, and the rings
 *          alone say what it is.
 *
 *      S9  A team (teams.h) is as sensitive as its most sensitive mate. Its mates work at once, so it as a whole
 *          may never drain; one that has drained at a look is enough. A deep queue beside that is one all the same
 *      S10 A step is what it was: one that goes on for two of them by the rings, or one and a half after a handover, is
 *          none that can be waited for, and all that is known is forgotten. That it is synchronous is known again after
 *          two looks, its step only by the records (S1), so until then its turns end by preemption. A tenant that first
 *          shows short steps and then has kernels of a second gains nothing.
 *
 *      S11 Who makes its steps longer bit by bit is followed, and is taken off by preemption as soon as they are longer
 *          than the records could have shown.
 *
 * Where launches cannot be seen (an entity that is idle within its short turns would not be found), the meter is late,
 * or class batch says that waiting does not matter, nobody is sensitive.
 */
#include "turns/inside.h"

#define LEARN (2 * NSEC_PER_MSEC)
#define BOUND (5 * NSEC_PER_MSEC)
#define STEPS 3
#define TURN_ROOM (4 * NSEC_PER_MSEC)
#define HANDOVER NSEC_PER_MSEC          /* what a wait is longer than the turns in it: calls, and a switch */
#define ROUNDS_OF (100 * NSEC_PER_MSEC) /* that many hold whole rounds: R1 */
#define SLICE_LEAST (2 * NSEC_PER_MSEC) /* the driver's own, before that */
#define AT_ONCE (60 * NSEC_PER_USEC)    /* nothing was left of its step */
#define ON_CALL (300 * NSEC_PER_USEC)   /* until an entity may come on */

enum {
        SURE = 64,
        SYNCHRONOUS = 32,
        NOT_SYNCHRONOUS = 16,
        /* what a look or a handover says for it, or against it */
        IS_DRAINED = 16,
        IS_PENDING = -1,
        HAS_DRAINED = 16,
        HAS_NOT_DRAINED = -24,
        IS_LONGER = -SURE,

        DEEP = 16, /* looks in a row at which work waited */

        MEAN_OF = 8,
        BESIDE = 3, /* intervals that say something */
};

static void evidence(struct entity *entity, int weight)
{
        entity->drained += weight;
        if (entity->drained > SURE)
                entity->drained = SURE;
        if (entity->drained < 0)
                entity->drained = 0;
        if (entity->drained >= SYNCHRONOUS)
                entity->is_synchronous = true;
        else if (entity->drained <= NOT_SYNCHRONOUS)
                entity->is_synchronous = entity->has_step = false;
}

/* ---- by the records -------------------------------------------------------------------------- */

nsec steps_slice_in_force(const struct turns *turns, const struct entity *entity)
{
        return turns->now - entity->sliced_at < SLICED ? nsec_min(entity->slice, SLICE_LEAST) : entity->slice;
}

/* An interval that a slice has ended says nothing of a step. The pieces of a step that is cut in two are longer than
 * half a slice in the mean. */
static bool is_cut(const struct turns *turns, const struct entity *entity, nsec interval)
{
        return interval > steps_slice_in_force(turns, entity) / 2;
}

/* Intervals that have ended, while others worked beside it. */
static void beside_look(const struct turns *turns, struct entity *entity, const struct turns_tenant *tenant,
                        nsec spent_by_all, bool is_idle)
{
        nsec open = tenant->is_resident ? nsec_max(turns->metered_until - entity->started_at, 0) : 0;
        nsec ended = entity->counted - open, interval;
        uint64_t n = entity->n_starts ? entity->n_starts - tenant->is_resident : 0;

        if (entity->is_time_sliced || entity->gang_state != TURNS_GANG_NONE || !entity->is_enabled ||
            entity->switched_at > turns->before || turns->now - turns->metered_until > LATE ||
            (spent_by_all <= entity->spent && open > entity->slice) || ended < entity->beside || n < entity->n_beside) {
                entity->beside = ended;
                entity->n_beside = n;
                return;
        }
        if (n - entity->n_beside < BESIDE)
                return;
        interval = (ended - entity->beside) / (nsec)(n - entity->n_beside);
        entity->beside = ended;
        entity->n_beside = n;
        if (is_cut(turns, entity, interval)) {
                if (!is_idle && !tenant->has_waiter) /* else it stayed on after its step; S9 */
                        evidence(entity, HAS_NOT_DRAINED);
                return;
        }
        entity->half_step = nsec_max(interval - SWITCH / 2, 0) / 2;
        evidence(entity, SURE);
        entity->has_step = true;
}

/* How long after the call the next one came on: the rest of a step. */
void steps_watch_handover(struct turns *turns, const struct turns_view *view)
{
        const struct turns_tenant *next;
        struct entity *before;
        nsec most, rest;

        if (turns->given_by == NOBODY || turns->holder == NOBODY)
                return;
        before = &turns->entities[turns->given_by];
        next = &view->tenants[turns->holder];
        most = ON_CALL + 4 * before->half_step + NSEC_PER_MSEC;
        rest = next->started_at - turns->hold_from - ON_CALL;
        if (next->started_at < turns->hold_from && turns->metered_until < turns->hold_from + most)
                return;
        turns->given_by = NOBODY;
        if (!steps_is_gentle(turns, before))
                return;
        if (next->started_at < turns->hold_from || rest > most) {
                if (turns->entities[turns->holder].work == TURNS_WORK_PENDING)
                        evidence(before, IS_LONGER);
                return;
        }
        if (turns->is_awaited && rest > 3 * before->half_step + NSEC_PER_MSEC / 2) { /* S10 */
                evidence(before, IS_LONGER);
                return;
        }
        evidence(before, HAS_DRAINED);
        if (rest > AT_ONCE) /* else it was idle */
                before->half_step += (rest - before->half_step) / MEAN_OF / 2;
}

/* ---- by the rings ---------------------------------------------------------------------------- */

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

/* S10. Nothing waits, and what was launched last is still at work: two steps of it, and what a look is late. */
static bool is_longer(const struct entity *entity, const struct turns_tenant *tenant, nsec span)
{
        return entity->has_step && tenant->work == TURNS_WORK_NONE && span > 4 * entity->half_step + LEARN;
}

static void ring_look(struct turns *turns, struct entity *entity, const struct turns_tenant *tenant)
{
        nsec span = since_launch(turns, entity, tenant), on = nsec_max(entity->switched_at, entity->started_at);
        bool is_pending = tenant->work == TURNS_WORK_PENDING && !tenant->has_waiter; /* S9 */

        if (tenant->work == TURNS_WORK_UNKNOWN || !entity->is_enabled || !tenant->is_resident ||
            turns->now - on < LEARN || turns->now - entity->looked_at < LEARN / 2)
                return; /* S2 */
        entity->looked_at = turns->now;
        if (is_longer(entity, tenant, span)) {
                evidence(entity, IS_LONGER);
                return;
        }
        entity->n_pending = tenant->work == TURNS_WORK_PENDING ? entity->n_pending + 1 : 0;
        evidence(entity, is_pending ? IS_PENDING : IS_DRAINED);
        if (!entity->has_step)
                entity->half_step += (span - entity->half_step) / MEAN_OF;
}

nsec turns_step(const struct turns *turns, size_t i)
{
        return turns->entities[i].has_step ? 2 * turns->entities[i].half_step : 0;
}

/* ---- both ------------------------------------------------------------------------------------ */

/* Seldom changed: to set a slice is a call. */
static void step_slice_set(struct entity *entity)
{
        nsec step = 2 * entity->half_step;

        if (entity->step_slice >= step + step / 2 && entity->step_slice <= 6 * step)
                return;
        entity->step_slice = NSEC_PER_MSEC / 2;
        while (entity->step_slice < 2 * step && entity->step_slice < SLICE_STEP_MAX)
                entity->step_slice *= 2;
}

/* S7 */
static nsec goal_wait(const struct turns *turns, int entity, nsec goal)
{
        nsec steps = 2 * turns->entities[entity].half_step, longest = 0;

        for (int i = 0; i < (int)turns->n; i++)
                if (i != entity && turns->entities[i].has_step)
                        longest = nsec_max(longest, 2 * turns->entities[i].half_step);
        return nsec_max((goal - HANDOVER - steps - longest) / 3 * 2, NSEC_PER_MSEC);
}

void steps_look(struct turns *turns, const struct turns_view *view)
{
        nsec spent = 0;

        for (size_t i = 0; i < turns->n; i++)
                spent += turns->entities[i].spent;
        for (size_t i = 0; i < turns->n; i++) {
                struct entity *entity = &turns->entities[i];

                beside_look(turns, entity, &view->tenants[i], spent, bursts_is_idle(turns, view, (int)i));
                ring_look(turns, entity, &view->tenants[i]);
                entity->may_wait = INT64_MAX;
                entity->has_goal = view->tenants[i].goal > 0;
                if (view->tenants[i].goal)
                        entity->may_wait = goal_wait(turns, (int)i, view->tenants[i].goal);
                if (!entity->is_synchronous)
                        continue;
                if (entity->has_step)
                        step_slice_set(entity);
                if (!view->tenants[i].goal && view->tenants[i].class != TURNS_BATCH &&
                    view->tenants[i].work != TURNS_WORK_UNKNOWN)
                        entity->may_wait = nsec_max(BOUND, STEPS * 2 * entity->half_step); /* S3 */
        }
}

bool steps_is_gentle(const struct turns *turns, const struct entity *entity)
{
        return is_short_round(turns) && takes_turns_here(entity) && entity->has_step &&
               2 * entity->half_step <= SLICE_ALWAYS_ON && /* what the records can show: S11 */
               entity->n_pending < DEEP &&                 /* S8 */
               entity->rate_max == PPM;                    /* what goes on after its time may be more than a cap */
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
        nsec round = turns->period, goal_round = turns->period, n = 0;

        if (turns->now - turns->metered_until > LATE)
                return round;
        for (size_t i = 0; i < turns->n; i++) {
                const struct entity *entity = &turns->entities[i];

                if (entity->has_goal)
                        goal_round = nsec_min(goal_round, round_of(turns, entity));
                else
                        round = nsec_min(round, round_of(turns, entity));
                n += takes_part(entity);
        }
        round = nsec_max(round, n * TURN_ROOM);                 /* S4 */
        goal_round = nsec_max(goal_round, n * TURNS_GOAL_ROOM); /* S7 */
        if (goal_round < nsec_min(round, turns->period))
                return goal_round >= ROUNDS_OF ? goal_round : ROUNDS_OF / ((ROUNDS_OF + goal_round - 1) / goal_round);
        if (round >= turns->period || round >= ROUNDS_OF)
                return turns->period;
        return nsec_min(ROUNDS_OF / (ROUNDS_OF / round), turns->period);
}

/* S5 */
nsec steps_turn(const struct turns *turns, const struct entity *entity)
{
        nsec turn = part(turns->round, entity->weight), less;

        if (turns->round >= turns->period)
                return turn + entity->owed;
        less = entity->may_wait == INT64_MAX || entity->n_pending >= DEEP ? nsec_max(turn / 4, 3 * HANDOVER / 2) :
                                                                            turn / 4;
        return turn + nsec_min(nsec_max(entity->owed, -less), nsec_max(turn / 4, TURN_SHORT));
}
