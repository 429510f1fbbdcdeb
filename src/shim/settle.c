/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/settle.h"

#include <poll.h>

enum {
        WATCHER_MS = 50, /* for the gate's watcher to do it */
        SCAN_MS = 5,     /* between two scans */
        SCANS_MIN = 100, /* on a machine so busy that fewer fit into SETTLE_MAX */
};

#define SETTLE_MAX (5 * NSEC_PER_SEC)
#define SETTLE_BUSY_MAX (30 * NSEC_PER_SEC)

static bool may_go_on(nsec began, unsigned int n_scans)
{
        nsec since = clock_now() - began;

        return since < SETTLE_MAX || (n_scans < SCANS_MIN && since < SETTLE_BUSY_MAX);
}

static bool holds_memory(const struct lease *lease)
{
        for (unsigned int i = 0; i < lease->n_devices; i++)
                if (lease->devices[i].quota.used)
                        return true;
        return lease->host.used != 0;
}

/* The gate's watcher settles too, and two scans of /proc only slow each other down. */
static void watcher_wait(const struct lease *lease)
{
        for (int i = 0; i < WATCHER_MS && holds_memory(lease); i++)
                (void)poll(NULL, 0, 1);
}

/* Teardown in the driver takes a moment. What a mapping held may disappear only after its client. */
void settle(struct gate *gate, const struct lease *lease)
{
        nsec began = clock_now();
        unsigned int n_scans = 0;
        pid_t holder;

        watcher_wait(lease);
        while ((gate_settle(gate) || holds_memory(lease)) && may_go_on(began, n_scans++))
                (void)poll(NULL, 0, SCAN_MS);
        if (!holds_memory(lease))
                return;
        holder = gate_kept_by(gate);
        for (unsigned int i = 0; i < lease->n_devices; i++)
                if (lease->devices[i].quota.used)
                        gate_report_leftover(gate, i, holder);
}

bool is_kept(struct gate *gate, const struct lease *lease)
{
        return holds_memory(lease) && gate_remains(gate) && holds_memory(lease);
}
