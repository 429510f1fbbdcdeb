/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/lease.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool is_timed(enum plan_mode mode)
{
        return mode == PLAN_TURNS || mode == PLAN_SLICES || mode == PLAN_SUSPEND;
}

static void add_part(const struct plan *plan, size_t device, const struct plan_seat *seat, struct plan_lease *lease,
                     bool *is_latency)
{
        const bool is_first = !lease->devices;

        if (is_first)
                lease->device = (unsigned int)device;
        lease->devices |= UINT64_C(1) << device;
        if (!is_timed(plan->devices[device].mode))
                return;
        /* One share and one class for all of its devices: the least share, and urgent where one has to be. */
        if (!lease->has_share || seat->share < lease->share)
                lease->share = seat->share;
        lease->has_share = true;
        *is_latency |= seat->is_latency;
}

/* As the daemon takes it: letters, digits, '.', '_' and '-', the first a letter or digit. */
static void group_of(const char *team, char ret[static 64])
{
        (void)snprintf(ret, 64, "%s", isalnum((unsigned char)*team) ? team : "team");
        for (char *c = ret; *c; c++)
                if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
                        *c = '-';
}

void plan_lease_of(const struct plan *plan, size_t device, const struct plan_seat *seat, struct plan_lease *ret)
{
        const struct plan_service *service = &plan->services[seat->service];
        const bool has_parts = plan_parts(service) > 1;
        bool is_latency = false;

        *ret = (struct plan_lease){ .quota = (service->memory + MIB - 1) / MIB * MIB,
                                    .way = plan_way_of(plan->devices[device].mode),
                                    .class = "normal" };
        for (size_t i = has_parts ? 0 : device; i < (has_parts ? plan->n_devices : device + 1); i++)
                for (size_t k = 0; k < plan->devices[i].n_seats; k++) {
                        const struct plan_seat *one = &plan->devices[i].seats[k];

                        if (one->service == seat->service && one->replica == seat->replica)
                                add_part(plan, i, one, ret, &is_latency);
                }
        if (ret->way == PLAN_SPACE)
                group_of(service->team, ret->group);
        if (ret->has_share)
                ret->class = is_latency ? "latency" : seat->is_batch || !service->time ? "batch" : "normal";
        ret->swap = plan->devices[device].mode == PLAN_SUSPEND && plan_is_sleeper(service);
        (void)snprintf(ret->name, sizeof(ret->name), "%s-%u", service->name, seat->replica + 1);
}

void plan_gpus_format(uint64_t devices, char ret[static PLAN_GPUS])
{
        size_t n = 0;

        ret[0] = '\0';
        for (; devices && n + 4 < PLAN_GPUS; devices &= devices - 1)
                n += (size_t)snprintf(ret + n, PLAN_GPUS - n, "%s%d", n ? "," : "", __builtin_ctzll(devices));
}

void plan_command(const struct plan_lease *lease, char ret[static PLAN_COMMAND])
{
        char more[80] = "", gpus[PLAN_GPUS];

        if (lease->has_share)
                (void)snprintf(more, sizeof(more), " --share %u.%u --class %s", lease->share / 10, lease->share % 10,
                               lease->class);
        else if (lease->way != PLAN_TIME)
                (void)snprintf(more, sizeof(more), " --mode %s", plan_way_name(lease->way));
        plan_gpus_format(lease->devices, gpus);
        (void)snprintf(ret, PLAN_COMMAND, "sublet run --name %s --gpu %s --mem %lluM%s%s -- COMMAND", lease->name, gpus,
                       (unsigned long long)(lease->quota / MIB), more, lease->swap ? " --swap" : "");
}
