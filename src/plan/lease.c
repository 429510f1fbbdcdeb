/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/lease.h"

#include <stdio.h>

static bool is_timed(enum plan_mode mode)
{
        return mode == PLAN_TURNS || mode == PLAN_SLICES || mode == PLAN_SUSPEND;
}

void plan_lease_of(const struct plan *plan, size_t device, const struct plan_seat *seat, struct plan_lease *ret)
{
        const struct plan_service *service = &plan->services[seat->service];
        enum plan_mode mode = plan->devices[device].mode;

        *ret = (struct plan_lease){ .device = (unsigned int)device,
                                    .quota = (service->memory + MIB - 1) / MIB * MIB,
                                    .way = plan_way_of(mode),
                                    .has_share = is_timed(mode),
                                    .share = is_timed(mode) ? seat->share : 0,
                                    .class = "normal" };
        if (is_timed(mode))
                ret->class = seat->is_latency ? "latency" : seat->is_batch || !service->time ? "batch" : "normal";
        (void)snprintf(ret->name, sizeof(ret->name), "%s-%u", service->name, seat->replica + 1);
}

void plan_command(const struct plan_lease *lease, char ret[static PLAN_COMMAND])
{
        char more[80] = "";

        if (lease->has_share)
                (void)snprintf(more, sizeof(more), " --share %u.%u --class %s", lease->share / 10, lease->share % 10,
                               lease->class);
        else if (lease->way != PLAN_TIME)
                (void)snprintf(more, sizeof(more), " --mode %s", plan_way_name(lease->way));
        (void)snprintf(ret, PLAN_COMMAND, "sublet run --name %s --gpu %u --mem %lluM%s -- COMMAND", lease->name,
                       lease->device, (unsigned long long)(lease->quota / MIB), more);
}
