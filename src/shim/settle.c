/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/settle.h"

#include <poll.h>

enum {
        WATCHER_MS = 50, /* for the gate's watcher to do it */
        SCAN_MS = 5,     /* between two scans */
};

#define SETTLE_MAX (5 * NSEC_PER_SEC)

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
        nsec deadline = clock_now() + SETTLE_MAX;

        watcher_wait(lease);
        while ((gate_settle(gate) || holds_memory(lease)) && clock_now() < deadline)
                (void)poll(NULL, 0, SCAN_MS);
        for (unsigned int i = 0; i < lease->n_devices; i++)
                if (lease->devices[i].quota.used)
                        gate_report_leftover(gate, i);
}
