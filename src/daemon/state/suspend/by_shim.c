/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/suspend/by_shim.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
        /* Per mille of what a tenant has allocated that can move by copies, below which the driver's way is gone. */
        PART_LEAST = 750,
};

bool by_shim_is_tried(const struct daemon *daemon, const struct tenant *tenant)
{
        const struct message_lease *lease = &tenant->lease;

        if (lease->job[0] || lease->ipc_host) /* others hold memory of it that its gate would take for its own */
                return false;
        return daemon->settings.suspend_by != SUSPEND_BY_CHECKPOINT && control_block_move(tenant->control) &&
               !message_lease_is_mig(lease); /* an engine would have to be of its instance */
}

bool by_shim_is_so(const struct tenant *tenant)
{
        const struct control_move *move = control_block_move(tenant->control);

        return move && move->by_shim;
}

static void schedulers_wake(struct daemon *daemon, const struct tenant *tenant)
{
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                if (daemon->devices[i].sched && tenant_has(tenant, i))
                        sched_wake(daemon->devices[i].sched);
}

/* Whether a scheduler switches its channels: daemon_schedule. */
static bool is_steered(const struct daemon *daemon, const struct tenant *tenant)
{
        bool is_any = false;

        if (message_lease_is_spatial(&tenant->lease) || message_lease_is_mig(&tenant->lease))
                return false;
        for (unsigned int i = 0; i < daemon->n_devices; i++)
                is_any |= daemon->devices[i].sched && tenant_has(tenant, i);
        return is_any;
}

int by_shim_start(struct daemon *daemon, struct tenant *tenant, bool suspends)
{
        struct control_move *move = control_block_move(tenant->control);
        uint64_t serial = (uint64_t)clock_now(); /* K3 */
        json_t *body = message_new("move");
        int r;

        move->by_shim = 1;
        move->is_held = 1;
        schedulers_wake(daemon, tenant);
        (void)json_object_set_new(body, "serial", json_integer((json_int_t)serial));
        (void)json_object_set_new(body, "out", json_boolean(suspends));
        (void)json_object_set_new(body, "steered", json_boolean(is_steered(daemon, tenant)));
        (void)json_object_set_new(body, "part",
                                  json_integer(daemon->settings.suspend_by == SUSPEND_BY_COPIES ? 0 : PART_LEAST));
        r = tenant->source.fd < 0 ? -ENOTCONN : message_send(tenant->source.fd, body, NULL, 0);
        if (tenant->source.fd < 0)
                json_decref(body);
        if (r != MESSAGE_OK)
                return r < 0 ? r : -EAGAIN;
        tenant->suspension.serial = serial;
        tenant->suspension.is_moving = true;
        return 0;
}

enum suspension_input by_shim_outcome(const char *outcome)
{
        if (!strcmp(outcome, "done"))
                return SUSPENSION_IS_DONE;
        if (!strcmp(outcome, "lost"))
                return SUSPENSION_IS_LOST;
        return strcmp(outcome, "gone") ? SUSPENSION_AS_BEFORE : SUSPENSION_IS_GONE;
}

void by_shim_how(const json_t *body, char *text)
{
        int64_t size = message_number(body, "bytes", 0), copied = message_number(body, "copied_us", 0);
        double rate = copied ? (double)size / (double)copied / 1e3 : 0.0; /* bytes a us: a thousandth of GB/s */
        char stays[BYTES_TEXT];

        (void)snprintf(
                text, BY_SHIM_HOW, "; copies: %.0f ms before, %.1f GB/s in %.0f ms, %lld pieces in %.0f ms, %s stay",
                (double)message_number(body, "prepared_us", 0) / 1e3, rate, (double)copied / 1e3,
                (long long)message_number(body, "pieces", 0), (double)message_number(body, "changed_us", 0) / 1e3,
                bytes_format((bytes)message_number(body, "stays", 0), stays));
        if (!size)
                *text = '\0';
}

void by_shim_end(struct daemon *daemon, struct tenant *tenant)
{
        struct control_move *move = control_block_move(tenant->control);

        if (!move || !move->by_shim)
                return;
        move->by_shim = 0;
        move->is_held = tenant->is_kept;
        schedulers_wake(daemon, tenant);
}

void by_shim_hold_kept(struct daemon *daemon, struct tenant *tenant)
{
        struct control_move *move = control_block_move(tenant->control);

        if (!move || move->by_shim)
                return;
        move->is_held = tenant->is_kept;
        schedulers_wake(daemon, tenant);
}
