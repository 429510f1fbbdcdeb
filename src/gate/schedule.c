/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPFIFO_SCHEDULE of a group or a channel: from there on it may run.
 *
 *      S1  What is scheduled already is not scheduled again, and nothing is unscheduled: answered OK, not made. The
 *          reconciler enables channels. A tenant that repeated the call without end while its turns came and went
 *          stopped its own work and its neighbour's for as long as it did so (tests/gpu/cheat.c, H200, 580.159.04).
 *      S2  What is scheduled while the desired state is "disabled" is disabled (channel_control_follow).
 *
 * A group is scheduled with the channels that it has; later ones need a call of their own.
 */
#include "gate/act.h"
#include "gate/books.h"
#include "gate/perform.h"

#include "rm/numbers.h"

enum need {
        NEEDED,
        NOT_NEEDED, /* S1 */
        NOT_OURS,   /* a second handle of a group or channel, say: its owner could not be followed */
};

static bool is_scheduled(const struct group *group, const struct channel *channel)
{
        return channel->is_scheduled || (group && group->is_scheduled && channel->is.order < group->scheduled_until);
}

static enum need group_need(const struct channels *channels, const struct group *group)
{
        if (!group || group->is_lent)
                return NOT_OURS;
        if (!group->is_scheduled)
                return NEEDED;
        for (size_t i = 0; i < channels->n; i++) {
                const struct gate_channel *is = &channels->items[i].is;

                if (is->client == group->client && is->group == group->handle &&
                    !is_scheduled(group, &channels->items[i]))
                        return NEEDED;
        }
        return NOT_NEEDED;
}

static enum need need_of(struct channels *channels, const struct ledger_object *object)
{
        LOCKED(&channels->lock);
        const struct channel *one = channels_find(channels, object->client, object->handle);

        if (object->class_number == RM_CLASS_GROUP)
                return group_need(channels, channels_group(channels, object->client, object->handle));
        if (!one)
                return NOT_OURS;
        return is_scheduled(channels_group(channels, object->client, object->parent), one) ? NOT_NEEDED : NEEDED;
}

/* Of a group: with the channels that had come when the call was made. The device. */
static int mark_scheduled(struct channels *channels, const struct ledger_object *object, uint32_t until)
{
        bool is_group = object->class_number == RM_CLASS_GROUP;
        LOCKED(&channels->lock);
        struct group *group = channels_group(channels, object->client, is_group ? object->handle : object->parent);
        struct channel *one = channels_find(channels, object->client, object->handle);

        if (group)
                group->is_scheduled = true;
        if (group && is_group)
                group->scheduled_until = until;
        if (one)
                one->is_scheduled = true;
        return group ? group->device : one ? (int)one->is.device : -1;
}

static uint32_t channels_ever(struct channels *channels)
{
        LOCKED(&channels->lock);

        return channels->n_ever;
}

int serve_schedule(struct request *request)
{
        struct gate *gate = request->gate;
        bool is_enable = request->params_size && request->params[0];
        uint32_t until = channels_ever(&gate->channels);
        struct ledger_object object = { 0 };
        enum need need;
        int device, r;

        (void)object_get(gate, request->call.client, request->call.object, &object);
        need = need_of(&gate->channels, &object);
        if (need == NOT_OURS)
                return answer(request, RM_STATUS_NOT_SUPPORTED);
        if (!is_enable || need == NOT_NEEDED)
                return answer(request, RM_STATUS_OK);
        r = perform(request);
        if (!request_is_done(request, r))
                return reply(request, r);
        device = mark_scheduled(&gate->channels, &object, until);
        channel_control_follow(gate, device, object.client,
                               object.class_number == RM_CLASS_GROUP ? object.handle : object.parent);
        return reply(request, r);
}
