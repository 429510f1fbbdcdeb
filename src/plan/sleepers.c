/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many sleepers fit beside what a plan has: tenants that are suspended almost always. Asleep they take host memory
 * only, so their number is bounded by that of each server; to wake, one needs room on its device beside all that is
 * planned there. A device whose mode has no place for one that comes and goes takes none.
 */
#include "plan/plan.h"

static bool takes_sleepers(const struct plan_device *device)
{
        const struct plan_others *others = &device->others;

        if (others->is_lost || (others->way && others->way != PLAN_TIME))
                return false;
        return !device->n_seats || device->mode == PLAN_TURNS || device->mode == PLAN_SLICES ||
               device->mode == PLAN_SUSPEND;
}

/* A device that the plan does not need has no figure of its own. */
static bytes free_of(const struct plan *plan, const struct plan_device *device)
{
        bytes kept = (bytes)plan->facts.reserve * MIB + device->others.memory;

        if (device->n_seats)
                return device->memory_free;
        return device->model->memory > kept ? device->model->memory - kept : 0;
}

struct plan_rare plan_rare_on(const struct plan *plan, const struct plan_device *device)
{
        struct plan_rare rare = { 0 };

        for (size_t i = 0; i < device->n_seats; i++) {
                const struct plan_service *service = &plan->services[device->seats[i].service];

                if (!plan_is_sleeper(service)) {
                        rare.awake += service->memory;
                        continue;
                }
                rare.n++;
                rare.sum += service->memory;
                if (service->memory > rare.largest)
                        rare.largest = service->memory;
        }
        return rare;
}

/* Before one comes back another one leaves, at worst the largest. */
const struct plan_service *plan_wakes_late(const struct plan *plan, const struct plan_device *device, double *ret)
{
        bytes largest = plan_rare_on(plan, device).largest;

        for (size_t i = 0; i < device->n_seats; i++) {
                const struct plan_service *service = &plan->services[device->seats[i].service];

                *ret = (double)(largest + service->memory) / (plan->facts.suspend_rate * 1e9);
                if (plan_is_sleeper(service) && *ret * 1e9 > (double)service->wake)
                        return service;
        }
        return NULL;
}

/* What the plan's own sleepers have there when all of them sleep. */
static bytes asleep_on(const struct plan *plan, const struct plan_device *device)
{
        return device->mode == PLAN_SUSPEND ? plan_rare_on(plan, device).sum : 0;
}

bytes plan_asleep(const struct plan *plan, unsigned int server, size_t but)
{
        bytes sum = 0;

        for (size_t i = 0; i < plan->n_devices; i++)
                if (i != but && plan->devices[i].server == server)
                        sum += asleep_on(plan, &plan->devices[i]);
        return sum;
}

static unsigned int at_most(bytes n, unsigned int most)
{
        return n < most ? (unsigned int)n : most;
}

static void count_server(struct plan *plan, size_t first)
{
        struct plan_sleepers *sleepers = &plan->sleepers;
        bytes host = sleepers->host;
        unsigned int seats = 0, n;

        for (size_t i = first; i < plan->n_devices; i++) {
                const struct plan_device *device = &plan->devices[i];
                bytes asleep, room = free_of(plan, device) / sleepers->memory;
                unsigned int left = PLAN_SEATS_MAX - (unsigned int)device->n_seats;

                if (device->server != plan->devices[first].server)
                        continue;
                asleep = asleep_on(plan, device);
                host = host > asleep ? host - asleep : 0;
                if (!takes_sleepers(device) || !room)
                        continue;
                seats += left;
                sleepers->n_awake += at_most(room, left);
                sleepers->n_devices++;
        }
        n = at_most(host / sleepers->memory, seats);
        sleepers->is_host_full |= n < seats;
        sleepers->n += n;
}

void plan_count_sleepers(struct plan *plan)
{
        struct plan_sleepers *sleepers = &plan->sleepers;

        *sleepers = (struct plan_sleepers){ .memory = sleepers->memory, .host = sleepers->host };
        for (size_t i = 0; i < plan->n_devices; i++) {
                bool is_first = true;

                for (size_t k = 0; k < i; k++)
                        is_first &= plan->devices[k].server != plan->devices[i].server;
                if (is_first)
                        count_server(plan, i);
        }
        if (sleepers->n_awake > sleepers->n)
                sleepers->n_awake = sleepers->n;
}
