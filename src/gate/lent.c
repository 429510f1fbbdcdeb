/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group of the MPS server's, of which the tenant has a second handle: its channels there are steered as in a group of
 * its own. The group runs already, and so may whatever is made in it (placed_channel, channel_control.c).
 */
#include "gate/books.h"

uint32_t lent_reserve(struct request *request)
{
        return channels_reserve(&request->gate->channels, true) < 0 ? RM_STATUS_INSUFFICIENT_RESOURCES : RM_STATUS_OK;
}

void lent_put(struct request *request, const struct ledger_object *object)
{
        struct gate *gate = request->gate;
        LOCKED(&gate->channels.lock);
        struct group group = { .client = object->client,
                               .handle = object->handle,
                               .is_compute = true,
                               .is_lent = true,
                               .is_scheduled = true,
                               .device = object_device(gate, object->client, object->handle),
                               .process = request->process->id,
                               .theirs = request->theirs };

        channels_put_group(&gate->channels, &group);
}
