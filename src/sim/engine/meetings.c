/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work of several devices that waits for each other, as an all-reduce does.
 *
 * A meeting has as many members as its ranks. The k-th launch of a channel under a name joins the k-th meeting of that
 * name. A member keeps its device busy from the moment it is on: it spins. The meeting itself goes on only while all
 * its members are on their devices; when it has had its time, all are done at once. Members that are never on together
 * never end, and neither does a meeting of which a member was stopped.
 *
 * The run lists are pure and know nothing of each other: while there is a meeting, all of them pass time in steps
 * between which nobody comes on or goes off.
 */
#include "sim/server/machine.h"

#include <errno.h>
#include <stdlib.h>

struct meeting {
        struct meeting *next;
        uint64_t name;
        uint32_t n, n_here;
        nsec left; /* of the time that it needs with all members on */
        bool is_broken;
        struct channel *channels[MEETING_MAX];
        struct work *members[MEETING_MAX];
};

static bool has_channel(const struct meeting *meeting, const struct channel *channel)
{
        for (uint32_t i = 0; i < meeting->n; i++)
                if (meeting->channels[i] == channel)
                        return true;
        return false;
}

/* The oldest one of the name that the channel is not a member of; a new one goes to the end. */
static struct meeting *meeting_for(struct machine *machine, const struct channel *channel, uint64_t name, uint32_t n)
{
        struct meeting **at = &machine->meetings;

        for (; *at; at = &(*at)->next)
                if ((*at)->name == name && (*at)->n == n && (*at)->n_here < n && !has_channel(*at, channel))
                        return *at;
        *at = calloc(1, sizeof(**at));
        if (*at)
                **at = (struct meeting){ .name = name, .n = n };
        return *at;
}

int meeting_join(struct machine *machine, struct channel *channel, struct work *work, uint64_t name, uint32_t n,
                 nsec duration)
{
        struct meeting *meeting;

        if (!n || n > MEETING_MAX)
                return -EINVAL;
        meeting = meeting_for(machine, channel, name, n);
        if (!meeting)
                return -ENOMEM;
        meeting->channels[meeting->n_here] = channel;
        meeting->members[meeting->n_here++] = work;
        if (duration > meeting->left)
                meeting->left = duration;
        work->meeting = meeting;
        return 0;
}

static void meeting_free(struct machine *machine, struct meeting *meeting)
{
        struct meeting **at = &machine->meetings;

        while (*at != meeting)
                at = &(*at)->next;
        *at = meeting->next;
        free(meeting);
}

/* The work ends: because the meeting is over, or because its channel is. */
void meeting_leave(struct machine *machine, struct work *work)
{
        struct meeting *meeting = work->meeting;
        bool is_left = false;

        if (!meeting)
                return;
        work->meeting = NULL;
        meeting->is_broken |= meeting->left > 0;
        for (uint32_t i = 0; i < meeting->n; i++) {
                if (meeting->members[i] == work)
                        meeting->members[i] = NULL;
                is_left |= meeting->members[i] != NULL;
        }
        if (!is_left)
                meeting_free(machine, meeting);
}

static bool is_on(const struct meeting *meeting)
{
        if (meeting->is_broken || meeting->n_here < meeting->n)
                return false;
        for (uint32_t i = 0; i < meeting->n; i++)
                if (!meeting->members[i] ||
                    runlist_running(meeting->channels[i]->group->run.list) != &meeting->members[i]->run)
                        return false;
        return true;
}

static void engines_advance(struct machine *machine, nsec now)
{
        for (unsigned int i = 0; i < machine->options.n_gpus; i++)
                for (size_t k = 0; k < ENGINES; k++)
                        runlist_advance(&machine->gpus[i].engines[k], now);
}

/* The next moment at which a device may change what it runs, or a meeting is over; after `at`, `now` at most. */
static nsec next_step(const struct machine *machine, nsec at)
{
        nsec next = machine->now;

        for (unsigned int i = 0; i < machine->options.n_gpus; i++)
                for (size_t k = 0; k < ENGINES; k++) {
                        nsec due = runlist_next(&machine->gpus[i].engines[k]);

                        next = due < next ? due : next;
                }
        for (const struct meeting *m = machine->meetings; m; m = m->next)
                if (is_on(m) && m->left < next - at)
                        next = at + m->left;
        return next > at ? next : at + 1;
}

/* Its members end where they are: on their devices. */
static void meeting_end(struct meeting *meeting)
{
        meeting->left = 0;
        for (uint32_t i = 0; i < meeting->n; i++)
                meeting->members[i]->run.left = 0;
}

static void step(struct machine *machine, nsec at, nsec next)
{
        bool is_over = false;

        for (struct meeting *m = machine->meetings; m; m = m->next) {
                if (!is_on(m))
                        continue;
                m->left -= next - at;
                is_over |= m->left <= 0;
        }
        engines_advance(machine, next);
        for (struct meeting *m = machine->meetings; is_over && m; m = m->next)
                if (m->n_here == m->n && m->left <= 0 && !m->is_broken && m->members[0])
                        meeting_end(m);
        if (is_over)
                engines_advance(machine, next);
}

nsec meetings_advance(struct machine *machine)
{
        nsec next = RUN_NEVER;

        while (machine->meetings && machine->met_at < machine->now) {
                nsec at = machine->met_at;

                engines_advance(machine, at);
                machine->met_at = next_step(machine, at);
                step(machine, at, machine->met_at);
        }
        machine->met_at = machine->now;
        for (const struct meeting *m = machine->meetings; m; m = m->next)
                if (is_on(m) && machine->now + m->left < next)
                        next = machine->now + m->left;
        return next;
}

void meetings_done(struct machine *machine)
{
        while (machine->meetings)
                meeting_free(machine, machine->meetings);
}
