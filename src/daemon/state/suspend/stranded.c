/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A suspended tenant whose shim has died has no way back: its processes would wait for good, and are ended.
 */
#include "daemon/state/tenants.h"

#include "base/cleanup.h"
#include "base/process.h"
#include "daemon/state/shims.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A process is held before it is looked at: its number may be another's by now. */
static bool process_end(pid_t process, uint64_t began)
{
        _cleanup_(closep) int pidfd = (int)syscall(SYS_pidfd_open, process, 0);

        if (pidfd < 0 || !began || process_ask(process, began) != PROCESS_THERE)
                return false;
        return syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0;
}

unsigned int suspend_strand(struct tenant *tenant)
{
        const struct control_suspension *saved = control_block_suspension(tenant->control);
        const struct control_began *began = control_block_began(tenant->control);
        unsigned int n = 0;

        if (!began || tenant->suspension.state == SUSPENSION_RUNNING)
                return 0;
        for (uint32_t i = 0; i < saved->n && i < CONTROL_BLOCK_PROCESSES; i++)
                n += process_end(saved->processes[i], began->suspended[i]);
        return n;
}
