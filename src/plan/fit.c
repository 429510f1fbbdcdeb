/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device, one set of replicas, one mode: do they fit, and what does each get?
 *
 * The estimate of a p99 is that of a queue in front of a server: a request takes `time` stretched by what the
 * mode leaves, and waits behind others of its own service. It is rough on purpose and errs on the slow side.
 */
#include "plan/plan.h"

#include "base/cleanup.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct fit {
        const struct plan *plan;
        struct plan_device *device;
        double need[PLAN_SEATS_MAX]; /* of the device's time, at the busiest */
        double sum;
};

#define NEVER ((nsec)1 << 60)

static bool no(struct plan_device *device, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool no(struct plan_device *device, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        (void)vsnprintf(device->reason, sizeof(device->reason), format, args);
        va_end(args);
        return false;
}

static const struct plan_service *service_of(const struct fit *fit, size_t i)
{
        return &fit->plan->services[fit->device->seats[i].service];
}

static double factor_of(enum plan_burst burst)
{
        return burst == PLAN_BURSTY ? 2.0 : burst == PLAN_STEADY ? 1.2 : 1.0;
}

static double least(double a, double b)
{
        return a < b ? a : b;
}

/* The part of a device that a service takes at its busiest; batch work takes what is left. */
static double need_of(const struct plan_service *service)
{
        double need = service->load * (service->time ? factor_of(service->burst) : 1.0);

        return need > service->load ? least(need, service->load > 0.95 ? service->load : 0.95) : need;
}

/* p99 of requests that take `time` on a server which is busy `load` of the time. */
static nsec p99(double time, double load, enum plan_burst burst)
{
        double spread = burst == PLAN_BURSTY ? 3.0 : 1.0, wait = 4.6 * spread * time * load / (2 * (1 - load));

        return load < 1.0 && time + wait < (double)NEVER ? (nsec)(time + wait) : NEVER;
}

static bool meets(const struct fit *fit, size_t i)
{
        const struct plan_service *service = service_of(fit, i);

        return !service->goal || fit->device->seats[i].p99 <= service->goal;
}

static bool all_meet(struct fit *fit, const char *how)
{
        for (size_t i = 0; i < fit->device->n_seats; i++)
                if (!meets(fit, i)) {
                        const struct plan_service *service = service_of(fit, i);
                        double is = (double)fit->device->seats[i].p99 / 1e6, goal = (double)service->goal / 1e6;

                        if (fit->device->seats[i].p99 == NEVER)
                                return no(fit->device, "%s gets too little time %s to keep up with its requests",
                                          service->name, how);
                        return no(fit->device, "%s would answer in %.1f ms (p99) %s, and its goal is %.1f ms",
                                  service->name, is, how, goal);
                }
        return true;
}

/* ---- memory and trust ------------------------------------------------------------------------ */

static bool memory_fits(struct fit *fit, bytes wanted)
{
        bytes kept = (bytes)fit->plan->facts.reserve * MIB + fit->device->others.memory;
        bytes has = fit->device->model->memory > kept ? fit->device->model->memory - kept : 0;
        char text[2][BYTES_TEXT];

        if (wanted > has)
                return no(fit->device, "%s of memory are wanted%s and the %s has %s%s", bytes_format(wanted, text[0]),
                          fit->device->n_seats > 1 ? ", with those who are there," : "", fit->device->model->name,
                          bytes_format(has, text[1]), fit->device->others.memory ? " that others have not leased" : "");
        fit->device->memory_free = has - wanted;
        return true;
}

static bytes memory_sum(const struct fit *fit)
{
        bytes sum = 0;

        for (size_t i = 0; i < fit->device->n_seats; i++)
                sum += service_of(fit, i)->memory;
        return sum;
}

static bool none_untrusted(struct fit *fit)
{
        for (size_t i = 0; i < fit->device->n_seats; i++)
                if (service_of(fit, i)->trust == PLAN_UNTRUSTED)
                        return no(fit->device, "%s is untrusted and needs hardware of its own",
                                  service_of(fit, i)->name);
        return true;
}

static bool one_team(struct fit *fit)
{
        const struct plan_service *first = service_of(fit, 0);

        for (size_t i = 0; i < fit->device->n_seats; i++)
                if (service_of(fit, i)->trust != PLAN_TEAM || strcmp(service_of(fit, i)->team, first->team) != 0)
                        return no(fit->device, "MPS clients fall together, and %s and %s are not of one team",
                                  first->name, service_of(fit, i)->name);
        return true;
}

static double whole_of(const struct fit *fit)
{
        return 1 - (double)fit->device->others.share / 1000;
}

/* Shares in proportion to what each needs at its busiest; they add up to the time that is not promised to others. */
static void share_out(struct fit *fit)
{
        for (size_t i = 0; i < fit->device->n_seats; i++) {
                double part = fit->sum > 0 ? fit->need[i] / fit->sum : 1.0 / (double)fit->device->n_seats;

                fit->device->seats[i].share = (unsigned int)(1000 * whole_of(fit) * part);
                if (!fit->device->seats[i].share)
                        fit->device->seats[i].share = 1;
        }
}

static bool time_fits(struct fit *fit, double most, const char *how)
{
        double has = most - (1 - whole_of(fit));

        if (fit->sum > has)
                return no(fit->device, "%.0f %% of a device's time are needed at the busiest, and %s leaves %.0f %%",
                          100 * fit->sum, how, 100 * has);
        fit->device->time_free = has - fit->sum;
        share_out(fit);
        return true;
}

/* ---- the modes ------------------------------------------------------------------------------- */

static bool fit_whole(struct fit *fit)
{
        struct plan_device *device = fit->device;
        const struct plan_service *service = service_of(fit, 0);

        if (device->n_seats != 1)
                return no(device, "it would not be alone");
        if (!memory_fits(fit, service->memory))
                return false;
        if (service->time && service->load > fit->plan->facts.busy_most)
                return no(device, "a replica of %s is busy %.0f %% of the time: more replicas are needed",
                          service->name, 100 * service->load);
        device->seats[0].share = 1000;
        device->seats[0].p99 = service->time ? p99((double)service->time, service->load, service->burst) : 0;
        device->time_free = 1 - least(1, fit->need[0]);
        if (!all_meet(fit, "alone on a device"))
                return false;
        (void)snprintf(device->reason, sizeof(device->reason),
                       "%s is alone here: nothing else that is asked for may or can sit beside it", service->name);
        return true;
}

/* In turns: a latency tenant waits only for other latency tenants; the others wait for their window. */
static void estimate_turns(struct fit *fit, double loss)
{
        struct plan_device *device = fit->device;
        double window = fit->plan->facts.window * 1e6, urgent = 0;

        for (size_t i = 0; i < device->n_seats; i++)
                urgent += device->seats[i].is_latency ? service_of(fit, i)->load : 0;
        for (size_t i = 0; i < device->n_seats; i++) {
                const struct plan_service *service = service_of(fit, i);
                struct plan_seat *seat = &device->seats[i];
                double share = (double)seat->share / 1000 * (1 - loss), time = (double)service->time;

                if (!service->time)
                        continue;
                if (seat->is_latency)
                        seat->p99 = p99(time, urgent, service->burst) + (nsec)(fit->plan->facts.latency_wait * 1e6);
                else if (share <= service->load)
                        seat->p99 = NEVER;
                else /* its window comes once in a period that has a window for each */
                        seat->p99 = p99(time / share, service->load / share, service->burst) +
                                    (nsec)(window * (double)(device->n_seats - 1));
        }
}

/* A service that misses its goal in a window gets class latency, the tightest goal first. */
static void classify(struct fit *fit, double loss)
{
        struct plan_device *device = fit->device;

        for (size_t round = 0; round <= device->n_seats; round++) {
                size_t tightest = device->n_seats;

                estimate_turns(fit, loss);
                for (size_t i = 0; i < device->n_seats; i++)
                        if (!meets(fit, i) && !device->seats[i].is_latency &&
                            (tightest == device->n_seats || service_of(fit, i)->goal < service_of(fit, tightest)->goal))
                                tightest = i;
                if (tightest == device->n_seats)
                        return;
                device->seats[tightest].is_latency = true;
        }
}

static size_t count_latency(const struct plan_device *device)
{
        size_t n = 0;

        for (size_t i = 0; i < device->n_seats; i++)
                n += device->seats[i].is_latency;
        return n;
}

static bool fit_turns(struct fit *fit)
{
        double loss = fit->plan->facts.turn_loss;

        if (!none_untrusted(fit) || !memory_fits(fit, memory_sum(fit)) ||
            !time_fits(fit, least(1 - loss, fit->plan->facts.busy_most), "taking turns"))
                return false;
        classify(fit, loss);
        if (!all_meet(fit, "taking turns"))
                return false;
        (void)snprintf(fit->device->reason, sizeof(fit->device->reason),
                       "memory is kept apart and time is shared exactly, %.0f %% of it is still free; %s",
                       100 * fit->device->time_free,
                       count_latency(fit->device) ? "the service with the tightest goal goes first" :
                                                    "every goal is met within a window of its own");
        return true;
}

/* Batch work, and at most one service with a goal beside it: the device's own scheduler does it. */
static bool fit_slices(struct fit *fit)
{
        struct plan_device *device = fit->device;
        size_t n_goals = 0;

        for (size_t i = 0; i < device->n_seats; i++) {
                device->seats[i].is_batch = !service_of(fit, i)->time;
                device->seats[i].is_latency = service_of(fit, i)->time != 0;
                n_goals += device->seats[i].is_latency;
        }
        if (n_goals > 1 || n_goals == device->n_seats)
                return no(device, "slices serve batch work and one service with requests");
        if (!none_untrusted(fit) || !memory_fits(fit, memory_sum(fit)))
                return false;
        if (!time_fits(fit, 1 - (n_goals ? 0 : fit->plan->facts.slice_loss), "slicing time"))
                return false;
        estimate_turns(fit, fit->plan->facts.slice_loss);
        if (!all_meet(fit, "beside batch work"))
                return false;
        (void)snprintf(device->reason, sizeof(device->reason),
                       n_goals ? "batch work fills what the service leaves and gives way within a slice" :
                                 "only batch work: the device's own time slices share it without software in the way");
        return true;
}

static bool fit_spatial(struct fit *fit)
{
        struct plan_device *device = fit->device;
        double gain = fit->plan->facts.spatial_gain;

        if (!one_team(fit) || !memory_fits(fit, memory_sum(fit)) ||
            !time_fits(fit, gain * fit->plan->facts.busy_most, "running side by side"))
                return false;
        for (size_t i = 0; i < device->n_seats; i++) {
                const struct plan_service *service = service_of(fit, i);
                double others = least(1, fit->sum - fit->need[i]), slower = 1 + others * (2 / gain - 1);

                device->seats[i].share = 1000;
                if (service->time)
                        device->seats[i].p99 =
                                p99((double)service->time * slower, service->load * slower, service->burst);
        }
        if (!all_meet(fit, "side by side"))
                return false;
        (void)snprintf(
                device->reason, sizeof(device->reason),
                "one team's kernels run side by side (MPS), which does %.0f %% of what one alone would; they share "
                "one fault: a crash of one ends all",
                100 * gain);
        return true;
}

/* Compute slices by memory slices, as the device cuts them. */
static const struct {
        unsigned int compute, memory;
} profiles[] = { { 1, 1 }, { 1, 2 }, { 2, 2 }, { 3, 4 }, { 4, 4 }, { 7, 8 } };

static bool seat_instance(struct fit *fit, size_t i)
{
        const struct plan_service *service = service_of(fit, i);
        struct plan_seat *seat = &fit->device->seats[i];

        for (size_t p = 0; p < ARRAY_SIZE(profiles); p++) {
                double part = profiles[p].compute / 7.0 * fit->plan->facts.mig_efficiency;

                if (service->memory > profiles[p].memory * fit->device->model->mig_slice || fit->need[i] > part)
                        continue;
                seat->compute = profiles[p].compute;
                seat->memory = profiles[p].memory;
                seat->share = 1000;
                seat->p99 = service->time ? p99((double)service->time / part, service->load / part, service->burst) : 0;
                if (meets(fit, i))
                        return true;
        }
        return no(fit->device, "no MIG instance of a %s holds %s and meets its goal", fit->device->model->name,
                  service->name);
}

static bool fit_mig(struct fit *fit)
{
        struct plan_device *device = fit->device;
        unsigned int compute = 0, memory = 0;

        if (!device->model->has_mig)
                return no(device, "a %s cannot be cut into instances (MIG), and %s is untrusted or needs one",
                          device->model->name, service_of(fit, 0)->name);
        for (size_t i = 0; i < device->n_seats; i++) {
                if (!seat_instance(fit, i))
                        return false;
                compute += device->seats[i].compute;
                memory += device->seats[i].memory;
        }
        if (compute > 7 || memory > 8)
                return no(device, "the instances would need %u of 7 compute and %u of 8 memory slices", compute,
                          memory);
        device->memory_free = (8 - memory) * device->model->mig_slice;
        device->time_free = (7 - compute) / 7.0;
        (void)snprintf(device->reason, sizeof(device->reason),
                       "hardware of their own (MIG): memory bandwidth and faults stay apart, for untrusted services "
                       "and fixed speed");
        return true;
}

/* As the daemon promises it: all of them may be asleep. */
static bool host_fits(const struct fit *fit, bytes sum)
{
        bytes others = plan_asleep(fit->plan, fit->device->server, fit->device->at), host = fit->plan->host;
        char wanted[BYTES_TEXT], there[BYTES_TEXT];

        fit->device->lacks_host = host && sum + others > host;
        return !fit->device->lacks_host ||
               no(fit->device, "suspended, these would need %s of host memory, and the server has %s left for it",
                  bytes_format(sum, wanted), bytes_format(others < host ? host - others : 0, there));
}

/* The rare ones take turns in memory, too: there is room for those awake and for the largest that sleeps. */
static bool fit_suspend(struct fit *fit)
{
        struct plan_device *device = fit->device;
        struct plan_rare sleepers = plan_rare_on(fit->plan, device);
        const struct plan_service *late;
        char host[BYTES_TEXT];
        double wake;

        if (sleepers.n < 2)
                return no(device, "fewer than two of these are rare and may wait to be woken");
        if ((late = plan_wakes_late(fit->plan, device, &wake)))
                return no(device,
                          "%s would take %.1f s to wake, with another one that leaves for it, and may take %.1f s",
                          late->name, wake, (double)late->wake / 1e9);
        if (!none_untrusted(fit) || !memory_fits(fit, sleepers.awake + sleepers.largest) ||
            !time_fits(fit, least(1 - fit->plan->facts.turn_loss, fit->plan->facts.busy_most), "taking turns"))
                return false;
        classify(fit, fit->plan->facts.turn_loss);
        if (!all_meet(fit, "once awake") || !host_fits(fit, sleepers.sum))
                return false;
        (void)snprintf(
                device->reason, sizeof(device->reason),
                "%zu rare services do not fit at once: those idle are suspended, in up to %s of host memory, and "
                "woken within the time they allow",
                sleepers.n, bytes_format(sleepers.sum, host));
        return true;
}

/* Beside others only in their mode, and never beside them on instances: only the daemon knows which are free. */
static bool has_room_for(struct plan_device *device)
{
        const struct plan_others *others = &device->others;

        if (others->is_lost)
                return no(device, "the device is lost");
        if (others->way && (others->way != plan_way_of(device->mode) || others->way == PLAN_INSTANCES))
                return no(device, "others share it already, by --mode %s", plan_way_name(others->way));
        if (others->way && device->mode == PLAN_WHOLE)
                return no(device, "it would not be alone");
        return true;
}

/* P5. Devices take turns together; in other modes each goes its own way, and the parts would wait for each other. */
static bool may_have_parts(struct fit *fit)
{
        if (fit->device->mode == PLAN_WHOLE || fit->device->mode == PLAN_TURNS)
                return true;
        for (size_t i = 0; i < fit->device->n_seats; i++)
                if (service_of(fit, i)->gpus > 1)
                        return no(fit->device, "%s is on several devices, which take turns together",
                                  service_of(fit, i)->name);
        return true;
}

bool plan_fit(const struct plan *plan, struct plan_device *device, enum plan_mode mode)
{
        static bool (*const fits[PLAN_N_MODES])(struct fit * fit) = {
                [PLAN_WHOLE] = fit_whole,     [PLAN_TURNS] = fit_turns, [PLAN_SLICES] = fit_slices,
                [PLAN_SPATIAL] = fit_spatial, [PLAN_MIG] = fit_mig,     [PLAN_SUSPEND] = fit_suspend,
        };
        struct fit fit = { .plan = plan, .device = device };

        device->mode = mode;
        if (!has_room_for(device))
                return false;
        for (size_t i = 0; i < device->n_seats; i++) {
                device->seats[i] = (struct plan_seat){ .service = device->seats[i].service,
                                                       .replica = device->seats[i].replica,
                                                       .part = device->seats[i].part };
                fit.need[i] = need_of(service_of(&fit, i));
                fit.sum += fit.need[i];
        }
        return may_have_parts(&fit) && fits[mode](&fit);
}
