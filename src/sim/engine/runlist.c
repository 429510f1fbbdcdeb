/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/engine/runlist.h"

#include "sim/list.h"

void runlist_init(struct runlist *list, const struct run_ops *ops, void *context, nsec switch_cost, nsec now)
{
        *list = (struct runlist){ .ops = ops, .context = context, .switch_cost = switch_cost, .now = now };
}

/* ---- what could run ------------------------------------------------------------------------ */

/* R3 */
static bool is_off(const struct run_queue *queue)
{
        bool may_end = queue->is_retired && queue->group->list->current == queue->group && queue->head &&
                       queue->head->is_taken;

        return queue->is_disabled && !may_end;
}

static bool can_be_on(const struct run_group *group)
{
        if (!group->slice || !group->is_scheduled) /* R2, R4 */
                return false;
        for (const struct run_queue *queue = group->queues; queue; queue = queue->next)
                if (!is_off(queue))
                        return true;
        return false; /* R3 */
}

/* The queue whose head is next in the group; NULL: nothing to do. */
static struct run_queue *queue_next(const struct run_group *group)
{
        const struct runlist *list = group->list;
        struct run_queue *best = NULL;

        if (!can_be_on(group))
                return NULL;
        for (struct run_queue *queue = group->queues; queue; queue = queue->next) {
                if (is_off(queue) || !queue->head || !list->ops->is_ready(list->context, queue->head))
                        continue;
                if (!best || queue->head->order < best->head->order)
                        best = queue;
        }
        return best;
}

/* The next group after the latest one that has work and is not the resident one. */
static struct run_group *group_next(const struct runlist *list)
{
        struct run_group *start = list->last ? list->last->next : list->groups;
        struct run_group *group = start ? start : list->groups;

        for (struct run_group *first = group; group;) {
                if (group != list->current && queue_next(group))
                        return group;
                group = group->next ? group->next : list->groups;
                if (group == first)
                        break;
        }
        return NULL;
}

/* R6 */
static nsec slice_of(const struct runlist *list, const struct run_group *group)
{
        return group->slice + group->slice * list->late / 1024;
}

/* ---- time passes --------------------------------------------------------------------------- */

static void switch_off(struct runlist *list)
{
        struct run_group *group = list->current;

        list->current = NULL;
        for (struct run_queue *queue = group ? group->queues : NULL; queue; queue = queue->next)
                queue->is_retired = false;
        if (group)
                list->ops->off(list->context, group, list->now);
}

/* The first switch of an unused engine has nothing to save. */
static void switch_begin(struct runlist *list, struct run_group *group)
{
        list->switch_until = list->now + (list->last ? list->switch_cost : 0);
        switch_off(list);
        list->incoming = group;
        list->last = group;
        list->n_switches++;
}

static void switch_end(struct runlist *list)
{
        struct run_queue *queue = queue_next(list->incoming);

        if (queue)
                queue->head->left += list->ramp; /* R5 */
        list->current = list->incoming;
        list->incoming = NULL;
        list->now = list->switch_until;
        list->slice_end = list->now + slice_of(list, list->current);
        list->ops->on(list->context, list->current, list->now);
}

static void work_done(struct runlist *list, struct run_queue *queue)
{
        struct run_work *work = queue->head;

        queue->head = work->next;
        if (!queue->head)
                queue->tail = NULL;
        work->next = NULL;
        list->ops->done(list->context, queue, work, list->now);
}

static nsec earlier(nsec a, nsec b)
{
        return a < b ? a : b;
}

/* Lets the resident group work, at most until `now`. False: now is reached. */
static bool queue_run(struct runlist *list, struct run_queue *queue, bool is_contended, nsec now)
{
        struct run_work *work = queue->head;
        nsec until = earlier(now, list->now + work->left), slice = slice_of(list, list->current);

        if (!work->is_taken && list->ops->taken)
                list->ops->taken(list->context, queue, list->now);
        work->is_taken = true;
        if (is_contended)
                until = earlier(until, list->slice_end);
        else if (list->slice_end <= until) /* R1 */
                list->slice_end += ((until - list->slice_end) / slice + 1) * slice;
        work->left -= until - list->now;
        list->current->active += until - list->now;
        list->now = until;
        if (work->left)
                return until < now || (is_contended && until == list->slice_end);
        work_done(list, queue);
        return true;
}

/* One thing happens. False: nothing more does until `now`. */
static bool runlist_step(struct runlist *list, nsec now)
{
        struct run_queue *queue;
        struct run_group *other;

        if (list->is_stuck)
                return false;
        if (list->incoming) {
                if (list->switch_until > now)
                        return false;
                switch_end(list);
                return true;
        }
        if (list->current && !can_be_on(list->current)) {
                switch_off(list);
                return true;
        }
        queue = list->current ? queue_next(list->current) : NULL;
        other = group_next(list);
        if (queue && (!other || list->now < list->slice_end))
                return queue_run(list, queue, other != NULL, now);
        if (!other)
                return false;
        switch_begin(list, other);
        return true;
}

void runlist_advance(struct runlist *list, nsec now)
{
        while (runlist_step(list, now))
                ;
        if (now > list->now)
                list->now = now;
}

const struct run_work *runlist_running(const struct runlist *list)
{
        const struct run_queue *queue = list->current && !list->is_stuck ? queue_next(list->current) : NULL;

        return queue ? queue->head : NULL;
}

nsec runlist_next(const struct runlist *list)
{
        const struct run_queue *queue = list->current ? queue_next(list->current) : NULL;
        bool is_contended = group_next(list) != NULL;

        if (list->is_stuck)
                return RUN_NEVER;
        if (list->incoming)
                return list->switch_until;
        if (!queue)
                return is_contended ? list->now : RUN_NEVER;
        return is_contended ? earlier(list->slice_end, list->now + queue->head->left) : list->now + queue->head->left;
}

/* ---- what callers change ------------------------------------------------------------------- */

static void list_append(struct runlist *list, struct run_group *group)
{
        struct run_group **at = &list->groups;

        while (*at)
                at = &(*at)->next;
        group->next = NULL;
        group->list = list;
        *at = group;
}

void runlist_add_group(struct runlist *list, struct run_group *group, nsec slice)
{
        *group = (struct run_group){ .slice = slice };
        list_append(list, group);
}

static struct run_group *group_before(const struct runlist *list, const struct run_group *group)
{
        struct run_group *before = list->groups;

        if (before == group)
                return NULL;
        while (before && before->next != group)
                before = before->next;
        return before;
}

void runlist_remove_group(struct runlist *list, struct run_group *group, nsec now)
{
        struct run_group *before = group_before(list, group);

        runlist_advance(list, now);
        if (list->current == group)
                switch_off(list);
        if (list->incoming == group)
                list->incoming = NULL;
        if (list->last == group)
                list->last = before ? before : group->next;
        if (before)
                before->next = group->next;
        else
                list->groups = group->next;
        group->list = NULL;
}

void runlist_move_group(struct runlist *list, struct run_group *group, nsec now)
{
        if (group->list == list)
                return;
        runlist_remove_group(group->list, group, now);
        runlist_advance(list, now);
        list_append(list, group);
        runlist_advance(list, now);
}

void runlist_add_queue(struct run_group *group, struct run_queue *queue)
{
        *queue = (struct run_queue){ .group = group, .next = group->queues };
        group->queues = queue;
}

struct run_work *runlist_remove_queue(struct run_queue *queue, nsec now)
{
        runlist_advance(queue->group->list, now);
        LIST_REMOVE(&queue->group->queues, queue);
        return queue->head;
}

void runlist_submit(struct run_queue *queue, struct run_work *work, nsec duration, nsec now)
{
        struct runlist *list = queue->group->list;

        runlist_advance(list, now);
        *work = (struct run_work){ .left = duration, .order = list->n_submitted++ };
        if (queue->tail)
                queue->tail->next = work;
        else
                queue->head = work;
        queue->tail = work;
        runlist_advance(list, now);
}

void runlist_set_slice(struct run_group *group, nsec slice, nsec now)
{
        struct runlist *list = group->list;
        nsec was;

        runlist_advance(list, now);
        was = slice_of(list, group);
        group->slice = slice;
        if (list->current == group)
                list->slice_end += slice_of(list, group) - was; /* R2 */
        runlist_advance(list, now);
}

void runlist_set_disabled(struct run_queue *queue, bool is_disabled, nsec now)
{
        runlist_advance(queue->group->list, now);
        if (is_disabled)
                queue->n_disabled++;
        else if (queue->n_disabled)
                queue->n_disabled--; /* R3 */
        queue->is_disabled = queue->n_disabled != 0;
        queue->is_retired = false;
        runlist_advance(queue->group->list, now);
}

void runlist_retire(struct run_queue *queue, nsec now)
{
        runlist_advance(queue->group->list, now);
        queue->is_retired = !queue->is_disabled;
        queue->n_disabled++;
        queue->is_disabled = true;
        runlist_advance(queue->group->list, now);
}

void runlist_preempt(struct run_group *group, nsec now)
{
        runlist_advance(group->list, now);
        if (group->list->current == group)
                group->list->slice_end = now;
        runlist_advance(group->list, now);
}

void runlist_schedule(struct run_group *group, nsec now)
{
        runlist_advance(group->list, now);
        group->is_scheduled = true;
        runlist_advance(group->list, now);
}
