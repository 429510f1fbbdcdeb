#include "shim/settle.h"

#include <poll.h>

static bool holds_memory(const struct lease *lease)
{
        for (unsigned int i = 0; i < lease->n_devices; i++)
                if (lease->devices[i].quota.used)
                        return true;
        return lease->host.used != 0;
}

/* The gate's watcher is at it, and two who look through /proc only keep each other from it. */
static void watcher_wait(const struct lease *lease)
{
        for (int i = 0; i < 50 && holds_memory(lease); i++)
                (void)poll(NULL, 0, 1);
}

/* Teardown in the driver takes a moment. What a mapping held may be seen to be gone only after its client. */
void settle(struct gate *gate, const struct lease *lease)
{
        nsec deadline = clock_now() + 5 * NSEC_PER_SEC;

        watcher_wait(lease);
        while ((gate_settle(gate) || holds_memory(lease)) && clock_now() < deadline)
                (void)poll(NULL, 0, 5);
        for (unsigned int i = 0; i < lease->n_devices; i++)
                if (lease->devices[i].quota.used)
                        gate_report_leftover(gate, i);
}
