/* SPDX-License-Identifier: Apache-2.0 */
/* What tenants with --swap are promised: A4 and A5 of tenants.h. */
#include "daemon/state/tenants.h"

#include "base/err.h"

#include <errno.h>

#define DRIVER_KEEPS (16 * MIB) /* of a suspended process; nothing on an H100, 11 MiB of the simulator's */

bool swap_is_out(const struct tenant *tenant)
{
        if (tenant->state == TENANT_RUNNING)
                return tenant->suspension.state == SUSPENSION_SUSPENDED;
        return tenant->state != TENANT_AWAITED; /* it begins so */
}

bytes swap_promised(const struct tenant *tenant, unsigned int device)
{
        bytes has;

        if (!tenant_has(tenant, device))
                return 0;
        has = tenant_held(tenant, device) + tenant_swapped(tenant, device);
        if (tenant->is_kept)
                return tenant_held(tenant, device);
        return has > tenant->lease.devices[device].quota ? has : tenant->lease.devices[device].quota;
}

bytes swap_left(const struct tenant *tenant, unsigned int device)
{
        bytes left = tenant_has(tenant, device) ? tenant_held(tenant, device) : 0;

        return left > DRIVER_KEEPS ? left : 0;
}

bytes swap_room(const struct tenants *tenants, unsigned int device, const struct tenant *but)
{
        bytes sum = tenants->kept[device], total = tenants->totals[device];

        for (const struct tenant *t = tenants->first; t; t = t->next)
                if (t != but && !tenant_swaps(t))
                        sum += swap_promised(t, device);
        return sum < total ? total - sum : 0;
}

static bytes all_in(const struct tenants *tenants, unsigned int device, const struct tenant *but)
{
        bytes sum = 0;

        for (const struct tenant *t = tenants->first; t; t = t->next)
                if (t != but && tenant_swaps(t))
                        sum += swap_is_out(t) ? swap_left(t, device) : swap_promised(t, device);
        return sum;
}

bytes swap_set_aside(const struct tenants *tenants, unsigned int device, const struct tenant *but)
{
        bytes most = all_in(tenants, device, but);

        for (const struct tenant *t = tenants->first; t; t = t->next)
                if (t != but && tenant_swaps(t) && swap_promised(t, device) > most)
                        most = swap_promised(t, device);
        return most;
}

int swap_fit_device(const struct tenants *tenants, unsigned int device, const struct message_lease *lease,
                    const struct tenant *but, struct err *err)
{
        bytes quota = lease->devices[device].quota, room = swap_room(tenants, device, but), in;
        char wanted[BYTES_TEXT], left[BYTES_TEXT];

        if (quota > room)
                return err_say(err, TENANTS_E_NO_ROOM,
                               "%s of memory on device %u do not fit: at most %s are there beside the leases without "
                               "--swap; ask for less, or shrink or end one of those ('sublet ps', 'sublet set')",
                               bytes_format(quota, wanted), device, bytes_format(room, left));
        in = but && !swap_is_out(but) ? all_in(tenants, device, but) : 0;
        if (in + quota > room)
                return err_say(err, TENANTS_E_NO_ROOM,
                               "%s of memory on device %u do not fit beside those that are on it now: at most %s; ask "
                               "for less, or suspend it first ('sublet suspend')",
                               bytes_format(quota, wanted), device, bytes_format(in < room ? room - in : 0, left));
        return 0;
}

/* ---- the host ---------------------------------------------------------------------------------------- */

static void add(struct swapper_host *host, const struct message_lease *lease)
{
        bytes sizes[LEASE_DEVICES_MAX];

        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++)
                sizes[i] = lease->devices[i].is_granted ? lease->devices[i].quota : 0;
        swapper_host_add(host, sizes);
}

/* lease: one more, or NULL. */
static bytes needed(const struct tenants *tenants, const struct message_lease *lease, const struct tenant *but)
{
        bytes rooms[LEASE_DEVICES_MAX] = { 0 };
        struct swapper_host host = { 0 };

        for (const struct tenant *t = tenants->first; t; t = t->next)
                if (t != but && tenant_swaps(t))
                        add(&host, &t->lease);
        if (lease && lease->swap)
                add(&host, lease);
        for (unsigned int i = 0; i < tenants->n_devices; i++) {
                bytes firm = lease && !lease->swap && lease->devices[i].is_granted ? lease->devices[i].quota : 0;

                firm = firm > tenants->kept[i] ? firm - tenants->kept[i] : 0; /* it may be one that is kept for */
                rooms[i] = swap_room(tenants, i, but);
                rooms[i] = firm < rooms[i] ? rooms[i] - firm : 0;
        }
        return swapper_host_needed(&host, rooms, tenants->n_devices);
}

static bytes used_by(const struct tenant *tenant)
{
        if (tenant->is_kept)
                return 0;
        return tenant->suspension.state == SUSPENSION_SUSPENDING ? tenant->suspension.held : tenant_swapped_all(tenant);
}

bytes swap_host_used(const struct tenants *tenants)
{
        bytes sum = 0;

        for (const struct tenant *t = tenants->first; t; t = t->next)
                sum += used_by(t);
        return sum;
}

/* What those with --swap may need is in `needed`. */
static bytes used_by_others(const struct tenants *tenants)
{
        bytes sum = 0;

        for (const struct tenant *t = tenants->first; t; t = t->next)
                sum += tenant_swaps(t) ? 0 : used_by(t);
        return sum;
}

int swap_fit_host(const struct tenants *tenants, const struct message_lease *lease, const struct tenant *but,
                  struct err *err)
{
        bytes needs = needed(tenants, lease, but), others = used_by_others(tenants);
        char wanted[BYTES_TEXT], there[BYTES_TEXT];

        /* Of a daemon before that had more, what asks for no more than it had goes on. */
        if (!tenants->swap || !needs || needs + others <= tenants->swap || needs <= needed(tenants, NULL, NULL))
                return 0;
        return err_say(err, TENANTS_E_NO_ROOM,
                       "device and host do not hold that together: tenants with --swap could then need %s of host "
                       "memory, and there are %s ('sublet daemon --swap'); ask for less, or end a tenant ('sublet ps')",
                       bytes_format(needs, wanted),
                       bytes_format(others < tenants->swap ? tenants->swap - others : 0, there));
}

int swap_fit_bound(const struct message_lease *lease, struct err *err)
{
        char quota[BYTES_TEXT], bound[BYTES_TEXT];
        bytes sum = 0;

        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++)
                sum += lease->devices[i].is_granted ? lease->devices[i].quota : 0;
        if (!lease->swap || !lease->host_swap || lease->host_swap >= sum)
                return 0;
        return err_say(err, -EINVAL,
                       "a tenant with --swap leaves for others with all that it has: of %s it may not have %s only in "
                       "host memory (host-swap)",
                       bytes_format(sum, quota), bytes_format(lease->host_swap, bound));
}

int swap_fit_suspended(const struct tenants *tenants, const struct tenant *tenant, struct err *err)
{
        bytes kept = needed(tenants, NULL, NULL) + used_by_others(tenants), used = swap_host_used(tenants), held = 0,
              free;
        char wanted[BYTES_TEXT], left[BYTES_TEXT];

        for (unsigned int i = 0; i < tenants->n_devices; i++)
                held += tenant_has(tenant, i) ? tenant_held(tenant, i) : 0;
        if (tenant->lease.host_swap && held > tenant->lease.host_swap)
                return err_say(err, -ENOSPC,
                               "'%s' holds %s, and may have %s in host memory (--host-swap): give it more ('sublet "
                               "set %s host-swap=SIZE')",
                               tenant->lease.tenant, bytes_format(held, wanted),
                               bytes_format(tenant->lease.host_swap, left), tenant->lease.tenant);
        if (!tenants->swap)
                return 0;
        if (!tenant_swaps(tenant) && kept > used)
                used = kept;
        free = used < tenants->swap ? tenants->swap - used : 0;
        if (held <= free)
                return 0;
        return err_say(err, -ENOSPC,
                       "'%s' holds %s, and host memory for suspended tenants has room for %s ('sublet daemon --swap'): "
                       "resume or end one of those that are suspended ('sublet ps')",
                       tenant->lease.tenant, bytes_format(held, wanted), bytes_format(free, left));
}
