/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a suspended tenant has in host memory instead of on its devices: what its ledger had when the suspension began,
 * less what it has now. It stands in the control block, for the next daemon.
 *
 *      W1  only a tenant that is suspended, or on its way back, has any;
 *      W2  what was of a process that has ended meanwhile is nowhere; by copies its shim keeps all until the tenant is
 *          back. The books have what that process had on the device for a while yet, or no more, so from then on only
 *          the others' rows count; they are up to a second old, and are waited for.
 */
#include "daemon/state/tenants.h"

#include "base/process.h"
#include "daemon/state/shims.h"
#include "daemon/state/suspend/by_shim.h"

#define LOOK_EACH NSEC_PER_SEC         /* at the processes of a tenant */
#define LOOK_LATER (60 * NSEC_PER_SEC) /* at those of one that does not let itself be looked at */

static bytes less(bytes from, bytes what)
{
        return from > what ? from - what : 0;
}

/* W1 */
static bool is_away(const struct tenant *tenant)
{
        enum suspension_state state = tenant->suspension.state;

        return state == SUSPENSION_SUSPENDED || state == SUSPENSION_RESUMING || state == SUSPENSION_REVERTING;
}

/* Which of those that were suspended; n: none of them. */
static uint32_t process_find(const struct control_suspension *suspension, int32_t process)
{
        uint32_t n = suspension->n, k = 0;

        while (k < n && suspension->processes[k] != process)
                k++;
        return k;
}

void swapped_note(struct tenant *tenant)
{
        const struct control_suspension *suspension = control_block_suspension(tenant->control);
        struct control_before *before = control_block_before(tenant->control);
        const struct control_process *process = tenant->control->processes;
        bool is_end = false;

        if (!before)
                return;
        tenant->suspension.has_ended = false;
        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++)
                before->held[i] = tenant_has(tenant, i) ? tenant_held(tenant, i) : 0;
        for (size_t i = 0; i < CONTROL_BLOCK_PROCESSES; i++) {
                uint32_t at, device;

                before->rows[i].held = 0;
                is_end |= !process[i].id;
                at = is_end ? suspension->n : process_find(suspension, process[i].id);
                device = process[i].device;
                if (at == suspension->n || device >= LEASE_DEVICES_MAX)
                        continue;
                before->rows[i].process = at;
                before->rows[i].device = device;
                before->rows[i].held = (bytes)process[i].held;
        }
}

static bool has_ended(struct tenant *tenant, uint32_t at, nsec now)
{
        const struct control_began *began = control_block_began(tenant->control);
        pid_t process = control_block_suspension(tenant->control)->processes[at];
        enum process_answer answer = process_ask(process, began->suspended[at]);

        if (answer == PROCESS_UNKNOWN)
                tenant->suspension.looked_at = now + LOOK_LATER;
        return answer == PROCESS_GONE;
}

void swapped_tick(struct tenant *tenant, nsec now)
{
        struct control_before *before = control_block_before(tenant->control);
        bool ended[CONTROL_BLOCK_PROCESSES];
        uint32_t n;

        if (!before || !is_away(tenant)) {
                tenant->suspension.away_at = 0;
                return;
        }
        if (!tenant->suspension.away_at)
                tenant->suspension.away_at = now;
        if (by_shim_is_so(tenant) || tenant->control->listed_at <= tenant->suspension.away_at ||
            now - tenant->suspension.looked_at < LOOK_EACH)
                return;
        tenant->suspension.looked_at = now;
        n = control_block_suspension(tenant->control)->n;
        for (uint32_t k = 0; k < n && k < CONTROL_BLOCK_PROCESSES; k++) {
                ended[k] = has_ended(tenant, k, now);
                tenant->suspension.has_ended |= ended[k];
        }
        for (size_t i = 0; i < CONTROL_BLOCK_PROCESSES; i++) {
                struct control_before_row *row = &before->rows[i];

                if (row->process < n && row->process < CONTROL_BLOCK_PROCESSES && ended[row->process])
                        row->held = 0;
        }
}

/* What a process has now. */
static bytes held_by(const struct tenant *tenant, uint32_t device, int32_t process)
{
        const struct control_process *row = tenant->control->processes;

        for (size_t i = 0; i < CONTROL_BLOCK_PROCESSES && row[i].id; i++)
                if (row[i].id == process && row[i].device == device)
                        return (bytes)row[i].held;
        return 0;
}

/* Of those that have not ended. */
static bytes swapped_of_rows(const struct tenant *tenant, unsigned int device)
{
        const struct control_before_row *row = control_block_before(tenant->control)->rows;
        const struct control_suspension *suspension = control_block_suspension(tenant->control);
        bytes sum = 0;

        for (size_t i = 0; i < CONTROL_BLOCK_PROCESSES; i++)
                if (row[i].held && row[i].device == device && row[i].process < CONTROL_BLOCK_PROCESSES)
                        sum += less(row[i].held, held_by(tenant, device, suspension->processes[row[i].process]));
        return sum;
}

bytes tenant_swapped(const struct tenant *tenant, unsigned int device)
{
        const struct control_before *before = control_block_before(tenant->control);

        if (!before || !is_away(tenant) || device >= LEASE_DEVICES_MAX || !tenant_has(tenant, device))
                return 0;
        return tenant->suspension.has_ended ? swapped_of_rows(tenant, device) :
                                              less(before->held[device], tenant_held(tenant, device));
}

bytes tenant_swapped_all(const struct tenant *tenant)
{
        bytes sum = 0;

        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++)
                sum += tenant_swapped(tenant, i);
        return sum;
}
