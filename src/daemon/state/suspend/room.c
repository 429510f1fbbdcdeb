/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory that is made ready before a tenant leaves its device, because making it takes longer than the copy: which
 * shim keeps how much. Each has its own tenant's and nobody else's, so nothing that was one tenant's is ever given to
 * another one but by the kernel, cleared.
 *
 *      R1  what is in use and what is kept are together not more than `--swap` says. Without that nothing is kept;
 *      R2  what is in use comes first; then tenants with --swap, those that may be put to sleep, and those that have
 *          been suspended before. Others have none;
 *      R3  a tenant that is away is told nothing: what it needs is in use.
 */
#include "daemon/state/daemon.h"

#include "daemon/state/shims.h"
#include "daemon/state/suspend/by_shim.h"

#define LOOK_EACH NSEC_PER_SEC
#define STEP (256 * MIB) /* so that a tenant that takes a little more is not told each time */

enum likely { BY_SWAP, BY_SLEEP, BY_PAST, NOT_LIKELY };

/* One that copies could not move the last time would be moved by checkpoint again. */
static enum likely likely_of(const struct daemon *daemon, const struct tenant *tenant)
{
        if (clock_now() < tenant->suspension.no_copies_until || tenant->state != TENANT_RUNNING || !tenant->control ||
            tenant->suspension.state != SUSPENSION_RUNNING || !by_shim_is_tried(daemon, tenant))
                return NOT_LIKELY;
        if (tenant->lease.swap)
                return BY_SWAP;
        if (tenant->lease.sleep_after)
                return BY_SLEEP;
        return tenant->swap.out.took && tenant->swap.out.by_copies ? BY_PAST : NOT_LIKELY;
}

static bytes wanted(const struct daemon *daemon, const struct tenant *tenant)
{
        bytes held = 0;

        for (unsigned int i = 0; i < daemon->n_devices; i++)
                held += tenant_has(tenant, i) ? tenant_held(tenant, i) : 0;
        if (tenant->lease.host_swap && held > tenant->lease.host_swap)
                return 0; /* it would not be suspended */
        held = (held + STEP - 1) / STEP * STEP;
        return tenant->lease.host_swap && held > tenant->lease.host_swap ? tenant->lease.host_swap : held;
}

/* R3. One whose shim does not read is told with the next look. */
static void room_tell(struct tenant *tenant, bytes size)
{
        json_t *body;

        if (tenant->state != TENANT_RUNNING || !tenant->control || !control_block_move(tenant->control) ||
            tenant->suspension.state != SUSPENSION_RUNNING || tenant->source.fd < 0)
                return;
        if (tenant->room.is_told && tenant->room.told == size)
                return;
        body = message_new("room");
        (void)json_object_set_new(body, "bytes", json_integer((json_int_t)size));
        tenant->room.is_told = message_send(tenant->source.fd, body, NULL, 0) == MESSAGE_OK;
        tenant->room.told = size;
}

void room_look(struct daemon *daemon)
{
        bytes used = swap_host_used(&daemon->tenants), left;
        nsec now = clock_now();

        if (now - daemon->tenants.room_at < LOOK_EACH)
                return;
        daemon->tenants.room_at = now;
        left = daemon->tenants.swap > used ? daemon->tenants.swap - used : 0; /* R1 */
        for (enum likely likely = BY_SWAP; likely <= NOT_LIKELY; likely++)    /* R2 */
                for (struct tenant *t = daemon->tenants.first; t; t = t->next) {
                        bytes size = 0;

                        if (likely_of(daemon, t) != likely)
                                continue;
                        if (likely != NOT_LIKELY)
                                size = wanted(daemon, t);
                        size = size < left ? size : left;
                        left -= size;
                        room_tell(t, size);
                }
}

bytes room_ready(const struct tenant *tenant)
{
        return tenant->suspension.state == SUSPENSION_RUNNING && tenant->room.is_told ? tenant->room.told : 0;
}
