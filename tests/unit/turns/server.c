/* SPDX-License-Identifier: Apache-2.0 */
#include "turns/server.h"

#include <stdlib.h>
#include <string.h>

#define ON_CALL (300 * USEC)
#define OFF_EFFECT (400 * USEC)
#define OFF_CALL (600 * USEC)
#define SLICE_DRIVER (2 * MSEC)

uint32_t server_below(struct server *server, uint32_t bound)
{
        server->random = server->random * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)((server->random >> 32) * bound >> 32);
}

static nsec later(nsec a, nsec b)
{
        return a > b ? a : b;
}

static uint64_t job_of(const struct server *server, int tenant)
{
        const struct server_tenant *t = &server->tenants[tenant];

        return t->job ? t->job : (uint64_t)tenant + 1000;
}

static bool is_quiet(const struct server *server, const struct server_tenant *tenant)
{
        return tenant->is_idle || server->now < tenant->begins_at ||
               (server->now >= tenant->quiet_from && server->now < tenant->quiet_until);
}

/* ---- what ranks do --------------------------------------------------------------------------- */

static bool has_work(const struct server *server, const struct server_rank *rank)
{
        const struct server_tenant *tenant = &server->tenants[rank->tenant];

        if (!rank->is_there || (tenant->uses && !(tenant->uses & 1u << rank->device)))
                return false;
        return rank->left > 0 || rank->is_there_for_all;
}

static void step_begin(struct server *server, struct server_job *job)
{
        nsec skew = 0;

        for (int i = 0; i < job->n_ranks; i++) {
                struct server_rank *rank = &server->ranks[job->ranks[i]];
                const struct server_tenant *tenant = &server->tenants[rank->tenant];

                rank->is_there_for_all = false;
                rank->left = tenant->work + skew;
                job->meet_left = tenant->meet;
                skew += tenant->skew;
        }
}

/* The ranks of a job that work at all: whether all of them are in the collective, and whether all are on their devices.
 */
static void job_look(struct server *server, const struct server_job *job, bool *ret_are_there, bool *ret_are_on)
{
        *ret_are_there = *ret_are_on = true;
        for (int i = 0; i < job->n_ranks; i++) {
                const struct server_rank *rank = &server->ranks[job->ranks[i]];
                const struct server_tenant *tenant = &server->tenants[rank->tenant];

                if (tenant->uses && !(tenant->uses & 1u << rank->device))
                        continue;
                *ret_are_there &= rank->is_there_for_all;
                *ret_are_on &= rank->is_running;
        }
}

static void job_pass(struct server *server, struct server_job *job)
{
        const struct server_tenant *tenant = &server->tenants[job->first];
        bool are_there, are_on;

        if (job->resumes_at) {
                if (server->now < job->resumes_at || is_quiet(server, tenant))
                        return;
                job->resumes_at = 0;
                step_begin(server, job);
                return;
        }
        job_look(server, job, &are_there, &are_on);
        if (!are_there)
                return;
        if (are_on)
                job->meet_left -= TICK;
        if (job->meet_left > 0)
                return;
        server->tenants[job->first].n_steps++;
        for (int i = 0; i < job->n_ranks; i++)
                server->ranks[job->ranks[i]].is_there_for_all = false;
        job->resumes_at = server->now + TICK + tenant->gap;
        if (!tenant->gap && !is_quiet(server, tenant)) {
                job->resumes_at = 0;
                step_begin(server, job);
        }
}

static void note_half(struct server *server, struct server_job *job)
{
        bool has_on = false, has_off = false;

        for (int i = 0; i < job->n_ranks; i++) {
                const struct server_rank *rank = &server->ranks[job->ranks[i]];

                has_on |= rank->is_there && rank->is_enabled;
                has_off |= rank->is_there && !rank->is_enabled;
        }
        if (!has_on || !has_off)
                job->half_since = server->now;
        job->half_most = later(job->half_most, server->now - job->half_since);
}

/* ---- a device -------------------------------------------------------------------------------- */

static bool can_run(const struct server *server, int rank)
{
        return rank >= 0 && server->ranks[rank].is_enabled && has_work(server, &server->ranks[rank]);
}

static int next_rank(const struct server *server, const struct server_device *device)
{
        int from = 0;

        for (int k = 0; k < device->n; k++)
                if (device->ranks[k] == device->current)
                        from = k + 1;
        for (int k = 0; k < device->n; k++) {
                int rank = device->ranks[(from + k) % device->n];

                if (rank != device->current && can_run(server, rank))
                        return rank;
        }
        return -1;
}

static void device_choose(struct server *server, struct server_device *device)
{
        int other;

        if (device->incoming >= 0) { /* the switch has taken a tick */
                struct server_rank *rank = &server->ranks[device->incoming];

                device->current = device->incoming;
                device->incoming = -1;
                rank->started_at = server->now;
                rank->n_starts++;
                device->ramp_until = server->now + TICK;
                device->slice_end = server->now + (rank->slice ? rank->slice : SLICE_DRIVER);
        }
        if (device->current >= 0 && !server->ranks[device->current].is_enabled)
                device->current = -1;
        other = next_rank(server, device);
        if (other < 0 || (can_run(server, device->current) && server->now < device->slice_end))
                return;
        device->current = -1;
        device->incoming = other;
        server->n_switches++;
}

static void device_pass(struct server *server, unsigned int d)
{
        struct server_device *device = &server->devices[d];
        bool single_wants = false;

        device_choose(server, device);
        for (int k = 0; k < device->n; k++) {
                struct server_rank *rank = &server->ranks[device->ranks[k]];
                const struct server_tenant *tenant = &server->tenants[rank->tenant];
                bool is_single = !(tenant->devices & (tenant->devices - 1)) && !tenant->job;

                rank->is_running = false;
                if (has_work(server, rank)) {
                        rank->wanted[server->now / MSEC] += TICK / USEC;
                        single_wants |= is_single && !tenant->cap;
                }
        }
        if (single_wants && !can_run(server, device->current))
                device->wasted += TICK;
        if (device->current >= 0) {
                struct server_rank *rank = &server->ranks[device->current];

                rank->used += TICK;
                rank->had[server->now / MSEC] += TICK / USEC;
                rank->is_running = server->now >= device->ramp_until;
                if (!rank->is_running || rank->left <= 0)
                        return;
                rank->left -= TICK;
                if (rank->left <= 0)
                        rank->is_there_for_all = true;
        }
}

/* ---- its scheduling thread ------------------------------------------------------------------- */

static size_t build_view(struct server *server, const struct server_device *device, struct turns_tenant *ret, int *who)
{
        size_t n = 0;

        for (int k = 0; k < device->n; k++) {
                const struct server_rank *rank = &server->ranks[device->ranks[k]];
                const struct server_tenant *tenant = &server->tenants[rank->tenant];
                bool is_alone = !(tenant->devices & (tenant->devices - 1)) && !tenant->job;

                if (!rank->is_there)
                        continue;
                who[n] = device->ranks[k];
                ret[n++] = (struct turns_tenant){ .id = (uint64_t)rank->tenant + 1,
                                                  .gang = is_alone ? 0 : job_of(server, rank->tenant),
                                                  .share = tenant->share,
                                                  .cap = tenant->cap ? tenant->cap : TURNS_WHOLE,
                                                  .class = tenant->class,
                                                  .used = rank->used,
                                                  .started_at = rank->started_at,
                                                  .is_resident = device->current == device->ranks[k],
                                                  .n_starts = rank->n_starts,
                                                  .n_groups = 1 };
                if (tenant->lies & 1u << rank->device) {
                        ret[n - 1].work = TURNS_WORK_PENDING;
                        ret[n - 1].launched_at = ret[n - 1].watched_at = server->now;
                }
        }
        return n;
}

static nsec call_cost(struct server *server, nsec cost)
{
        if (server->is_rough && !server_below(server, 50))
                cost += server_below(server, 40) * TICK;
        return cost;
}

static void calls_begin(struct server *server, struct server_device *device, const struct turns_order *orders,
                        const int *who, size_t n)
{
        bool has_on = false, has_off = false;

        for (size_t i = 0; i < n; i++) {
                struct server_rank *rank = &server->ranks[who[i]];

                rank->slice = orders[i].slice;
                rank->must_enable = !orders[i].is_disabled && !rank->is_enabled;
                rank->must_disable = orders[i].is_disabled && rank->is_enabled;
                has_on |= rank->must_enable;
                has_off |= rank->must_disable;
        }
        device->on_done = server->now + (has_on ? call_cost(server, ON_CALL) : 0);
        device->busy_until = device->on_done + (has_off ? call_cost(server, OFF_CALL) : 0);
        device->off_done = later(device->busy_until - (OFF_CALL - OFF_EFFECT), device->on_done);
}

static void calls_pass(struct server *server, struct server_device *device)
{
        for (int k = 0; k < device->n; k++) {
                struct server_rank *rank = &server->ranks[device->ranks[k]];

                if (rank->must_enable && server->now >= device->on_done) {
                        rank->is_enabled = true;
                        rank->must_enable = false;
                }
                if (rank->must_disable && server->now >= device->off_done)
                        rank->is_enabled = rank->must_disable = false;
        }
}

static void decide(struct server *server, unsigned int d)
{
        struct server_device *device = &server->devices[d];
        struct turns_tenant tenants[SERVER_TENANTS];
        struct turns_sign signs[SERVER_TENANTS];
        struct turns_gang_order gangs[SERVER_TENANTS];
        struct turns_order orders[SERVER_TENANTS];
        int who[SERVER_TENANTS];
        struct turns_view view = { .now = server->now, .metered_until = server->now, .tenants = tenants };
        struct gangs_rest rest;
        uint32_t changed;

        view.n_tenants = build_view(server, device, tenants, who);
        turns_look(device->turns, &view, signs);
        rest.is_wanted = turns_rest(device->turns, &rest.always_on);
        gangs_tell(server->gangs, d, &view, signs, &rest);
        changed = gangs_next(server->gangs, server->now) & ~(1u << d);
        gangs_orders(server->gangs, d, &view, gangs);
        device->wake_at = turns_decide(device->turns, &view, gangs, orders);
        if (gangs_wake(server->gangs, d) < device->wake_at)
                device->wake_at = gangs_wake(server->gangs, d);
        calls_begin(server, device, orders, who, view.n_tenants);
        for (unsigned int k = 0; k < server->n_devices; k++)
                if (changed & 1u << k)
                        server->devices[k].wake_at = server->now;
        server->n_passes++;
}

void server_run(struct server *server, nsec until)
{
        for (; server->now < until; server->now += TICK) {
                for (int i = 0; i < server->n_ranks; i++)
                        if (!server->ranks[i].is_there &&
                            server->tenants[server->ranks[i].tenant].begins_at <= server->now) {
                                server->ranks[i].is_there = true;
                                server->devices[server->ranks[i].device].wake_at = server->now;
                        }
                for (unsigned int d = 0; d < server->n_devices; d++) {
                        struct server_device *device = &server->devices[d];

                        calls_pass(server, device);
                        if (server->now >= device->wake_at && server->now >= device->busy_until)
                                decide(server, d);
                }
                for (unsigned int d = 0; d < server->n_devices; d++)
                        device_pass(server, d);
                for (int i = 0; i < server->n_jobs; i++) {
                        job_pass(server, &server->jobs[i]);
                        note_half(server, &server->jobs[i]);
                }
        }
}

/* ---- set-up and results ---------------------------------------------------------------------- */

void server_init(struct server *server, unsigned int n_devices, const struct turns_settings *settings)
{
        memset(server, 0, sizeof(*server));
        server->n_devices = n_devices;
        server->now = 10 * TICK;
        server->random = 12345;
        if (gangs_new(settings, &server->gangs) < 0)
                abort();
        for (unsigned int d = 0; d < n_devices; d++) {
                server->devices[d].current = server->devices[d].incoming = -1;
                if (turns_new(settings, &server->devices[d].turns) < 0)
                        abort();
        }
}

static struct server_job *job_for(struct server *server, int tenant)
{
        for (int k = 0; k < server->n_jobs; k++)
                if (server->jobs[k].id == job_of(server, tenant))
                        return &server->jobs[k];
        server->jobs[server->n_jobs] =
                (struct server_job){ .id = job_of(server, tenant),
                                     .first = tenant,
                                     .resumes_at = later(server->tenants[tenant].begins_at, TICK) };
        return &server->jobs[server->n_jobs++];
}

int server_add(struct server *server, struct server_tenant tenant)
{
        int i = server->n_tenants++;
        struct server_job *job;

        server->tenants[i] = tenant;
        job = job_for(server, i);
        for (unsigned int d = 0; d < server->n_devices; d++)
                if (tenant.devices & 1u << d) {
                        server->devices[d].ranks[server->devices[d].n++] = server->n_ranks;
                        job->ranks[job->n_ranks++] = server->n_ranks;
                        server->ranks[server->n_ranks++] =
                                (struct server_rank){ .tenant = i, .device = d, .is_enabled = true };
                }
        return i;
}

void server_done(struct server *server)
{
        for (unsigned int d = 0; d < server->n_devices; d++)
                (void)turns_free(server->devices[d].turns);
        (void)gangs_free(server->gangs);
}

nsec server_had(const struct server *server, int tenant, unsigned int device, int from, int length)
{
        nsec sum = 0;

        for (int i = 0; i < server->n_ranks; i++)
                if (server->ranks[i].tenant == tenant && server->ranks[i].device == device)
                        for (int k = from; k < from + length; k++)
                                sum += server->ranks[i].had[k];
        return sum;
}

nsec server_half(const struct server *server, int tenant)
{
        for (int i = 0; i < server->n_jobs; i++)
                if (server->jobs[i].id == job_of(server, tenant))
                        return server->jobs[i].half_most;
        return 0;
}
