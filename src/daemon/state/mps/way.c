/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/mps/way.h"

#include <stddef.h>

const char *way_choose(const struct way_view *view)
{
        if (view->has_goal)
                return "its goal of latency is kept by turns";
        if (view->has_job)
                return "tenants of a job come on together, by turns";
        if (view->n_devices != 1)
                return "a group is for one device";
        if (view->is_suspended_at_times)
                return "a client of an MPS server cannot be suspended";
        if (!view->has_program)
                return "there is no nvidia-cuda-mps-control in the daemon's PATH";
        if (view->class == TURNS_LATENCY && view->has_batch_mate)
                return "its group has batch work, whose kernels its own would wait for side by side";
        if (view->class == TURNS_BATCH && view->has_latency_mate)
                return "its kernels would keep a service of class latency of its group waiting side by side";
        return NULL;
}
