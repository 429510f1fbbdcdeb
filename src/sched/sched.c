/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's side of the scheduler: events, tenants, figures, start and stop. */
#include "sched/inside.h"

#include "sched/together.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>

/* ---- events ---------------------------------------------------------------------------------- */

void sched_event_put(struct sched *sched, enum sched_event_kind kind, uint64_t tenant, int64_t detail)
{
        uint64_t one = 1;

        if (sched->n_events == SCHED_EVENTS) {
                memmove(&sched->events[0], &sched->events[1], (SCHED_EVENTS - 1) * sizeof(sched->events[0]));
                sched->n_events--;
        }
        sched->events[sched->n_events++] =
                (struct sched_event){ .kind = kind, .at = clock_now(), .tenant = tenant, .detail = detail };
        (void)!write(sched->ready, &one, sizeof(one));
}

int sched_fd(const struct sched *sched)
{
        return sched->ready;
}

size_t sched_events(struct sched *sched, struct sched_event *ret, size_t n_room)
{
        LOCKED(&sched->lock);
        size_t n = sched->n_events < n_room ? sched->n_events : n_room;
        uint64_t ignored;

        memcpy(ret, sched->events, n * sizeof(*ret));
        memmove(&sched->events[0], &sched->events[n], (sched->n_events - n) * sizeof(sched->events[0]));
        sched->n_events -= n;
        if (!sched->n_events)
                (void)!read(sched->ready, &ignored, sizeof(ignored));
        return n;
}

const char *sched_event_name(enum sched_event_kind kind)
{
        static const char *const names[SCHED_N_EVENTS] = {
                [SCHED_METER_LOST] = "METER_LOST_RECORDS",
                [SCHED_NO_METER] = "NO_METER",
                [SCHED_DEVICE_LOST] = "DEVICE_LOST",
                [SCHED_NOT_SWITCHED] = "TENANT_NOT_SWITCHED",
                [SCHED_SWITCHED] = "TENANT_SWITCHED",
                [SCHED_UNKNOWN] = "UNKNOWN_CONTEXT",
                [SCHED_LATE] = "GOAL_MISSED",
        };

        return kind < SCHED_N_EVENTS ? names[kind] : "?";
}

void sched_device_lost(struct sched *sched)
{
        together_leave(sched); /* the gangs go on without it */
        LOCKED(&sched->lock);

        sched->state.is_lost = true;
        sched->is_occupied = false;
        sched->resident = NULL;
        sched->team = NULL;
        for (size_t i = 0; i < sched->n_tenants; i++)
                sched->tenants[i]->device->is_disabled = 0;
        sched_event_put(sched, SCHED_DEVICE_LOST, 0, 0);
}

/* ---- tenants --------------------------------------------------------------------------------- */

struct sched_entity *sched_entity_find(struct sched *sched, uint64_t id)
{
        for (size_t i = 0; i < sched->n_tenants; i++)
                if (sched->tenants[i]->id == id)
                        return sched->tenants[i];
        return NULL;
}

struct sched_entity *sched_entity_free(struct sched_entity *tenant)
{
        if (!tenant)
                return NULL;
        free(tenant->channels.list);
        free(tenant->channels.engines);
        free(tenant->channels.orders);
        engines_done(tenant);
        free(tenant);
        return NULL;
}

static void tenant_freep(struct sched_entity **tenant)
{
        (void)sched_entity_free(*tenant);
}

static struct sched_entity *tenant_new(const struct sched *sched, const struct sched_tenant *from)
{
        struct sched_entity *tenant = calloc(1, sizeof(*tenant));

        if (!tenant)
                return NULL;
        *tenant = (struct sched_entity){ .id = from->id,
                                         .gang = from->gang,
                                         .control = from->control,
                                         .device = &from->control->devices[sched->state.device],
                                         .share = from->share,
                                         .cap = from->cap,
                                         .class = from->class,
                                         .goal = from->goal,
                                         .kick_after = KICK_FIRST };
        idle_init(&tenant->quiet.idle);
        tenant->closed = tenant->used = tenant->billed = tenant->device->used;
        for (size_t i = 0; i < SCHED_TICKS; i++)
                tenant->billed_at[i] = tenant->billed;
        /* As an earlier daemon left it: what is disabled stays so until this one enables it. */
        tenant->is_disabled = tenant->device->is_disabled;
        engines_adopt(sched, tenant);
        return tenant;
}

int sched_add(struct sched *sched, const struct sched_tenant *from)
{
        _cleanup_(tenant_freep) struct sched_entity *tenant = tenant_new(sched, from);

        if (!tenant)
                return -ENOMEM;
        {
                LOCKED(&sched->lock);
                if (sched_entity_find(sched, from->id))
                        return -EEXIST;
                if (sched->n_tenants == TURNS_TENANTS_MAX)
                        return -ENOSPC;
                if (team_join(sched, tenant, from->team) < 0)
                        return -ENOMEM;
                tally_channels(sched, tenant);
                tenant->must_kick = tenant->channels.n > 0; /* it may be on the device, and no record says so */
                tenant->is_doubted = tenant->must_kick;     /* as the daemon before left them */
                if (tenant->must_kick)
                        stall_expect(tenant);
                sched->tenants[sched->n_tenants++] = tenant;
                tenant = NULL;
        }
        sched_wake(sched);
        return 0;
}

static void tenant_release(struct sched *sched, struct sched_entity *tenant)
{
        tenant->device->is_disabled = 0;
        tenant->device->slice = 0;
        tenant->device->watch = 0;
        engines_release(sched, tenant);
        control_block_notify(tenant->control);
        tally_channels(sched, tenant);
}

static void tenant_unlink(struct sched *sched, struct sched_entity *tenant)
{
        size_t i = 0;

        tally_forget(sched, tenant);
        if (sched->resident == tenant) {
                if (sched->state.metered_until > sched->occupied_since)
                        team_off(tenant->team, sched->occupied_since, sched->state.metered_until, false);
                sched->resident = NULL;
                sched->is_occupied = false;
                sched->team = NULL;
        }
        team_part(sched, tenant);
        while (sched->tenants[i] != tenant)
                i++;
        sched->tenants[i] = sched->tenants[--sched->n_tenants];
}

int sched_remove(struct sched *sched, uint64_t id, nsec *ret_used)
{
        _cleanup_(tenant_freep) struct sched_entity *tenant = NULL;

        {
                LOCKED(&sched->lock);
                tenant = sched_entity_find(sched, id);
                if (!tenant)
                        return -ENOENT;
                tenant_release(sched, tenant);
                tenant_unlink(sched, tenant);
                if (ret_used)
                        *ret_used = tenant->billed;
                tenant->must_enable =
                        !control_block_is_held(tenant->control) &&
                        (tenant->is_disabled || tenant->is_retired || tenant->is_in_call || engines_are_off(tenant));
                tenant->next = sched->removed;
                sched->removed = TAKE(tenant);
        }
        sched_wake(sched);
        return 0;
}

int sched_change(struct sched *sched, uint64_t id, permille share, permille cap, enum turns_class class, nsec goal)
{
        {
                LOCKED(&sched->lock);
                struct sched_entity *tenant = sched_entity_find(sched, id);

                if (!tenant)
                        return -ENOENT;
                tenant->share = share;
                tenant->cap = cap;
                tenant->class = class;
                if (tenant->goal != goal)
                        tenant->waits = (struct waits){ 0 };
                tenant->goal = goal;
        }
        sched_wake(sched);
        return 0;
}

void sched_wake(struct sched *sched)
{
        uint64_t one = 1;

        (void)!write(sched->wake, &one, sizeof(one));
}

/* ---- figures ----------------------------------------------------------------------------------- */

static void row_fill(const struct sched *sched, const struct sched_entity *tenant, struct sched_row *ret)
{
        bool is_resident = sched->is_occupied && (sched->resident == tenant || team_is_at_work(sched, tenant));

        *ret = (struct sched_row){ .id = tenant->id,
                                   .used = tenant->billed,
                                   .is_resident = is_resident,
                                   .is_disabled = tenant->is_disabled,
                                   .wants = tenant->wants,
                                   .is_waiting = tenant->wants && !is_resident };
        if (tenant->goal)
                waits_read(&tenant->waits, &ret->waits);
        tally_rates(sched, tenant, ret);
}

size_t sched_read(struct sched *sched, struct sched_device *ret, struct sched_row *rows, size_t n_room)
{
        LOCKED(&sched->lock);
        size_t n = 0;

        if (ret) {
                *ret = sched->state;
                ret->n_tenants = (unsigned int)sched->n_tenants;
                tally_device(sched, ret);
        }
        for (; rows && n < n_room && n < sched->n_tenants; n++)
                row_fill(sched, sched->tenants[n], &rows[n]);
        return n;
}

bool sched_resident(struct sched *sched, uint64_t *ret_tenant, nsec *ret_since)
{
        LOCKED(&sched->lock);

        if (!sched->is_occupied)
                return false;
        *ret_tenant = sched->resident ? sched->resident->id : 0;
        for (size_t i = 0; i < sched->n_tenants && !*ret_tenant; i++)
                if (team_is_at_work(sched, sched->tenants[i]))
                        *ret_tenant = sched->tenants[i]->id;
        *ret_since = sched->occupied_since;
        return true;
}

size_t sched_engines_now(struct sched *sched, struct trace_span *spans, size_t n_room)
{
        LOCKED(&sched->lock);
        size_t n = 0;

        for (size_t i = 0; i < sched->n_tenants && n + RM_N_ENGINES <= n_room; i++)
                n += engines_open(sched->tenants[i], spans + n);
        return n;
}

struct trace *sched_trace(struct sched *sched)
{
        return sched->trace;
}

/* ---- start and stop ---------------------------------------------------------------------------- */

static struct sched *sched_free(struct sched *sched)
{
        while (sched->n_tenants) {
                struct sched_entity *tenant = sched->tenants[--sched->n_tenants];

                team_part(sched, tenant);
                (void)sched_entity_free(tenant);
        }
        while (sched->removed) {
                struct sched_entity *tenant = sched->removed;

                sched->removed = tenant->next;
                (void)sched_entity_free(tenant);
        }
        (void)meter_close(sched->meter);
        (void)gpu_client_close(sched->client);
        (void)turns_free(sched->turns);
        engines_free(sched);
        (void)trace_free(sched->trace);
        map_done(&sched->contexts);
        free(sched->gone);
        lock_done(&sched->lock);
        closep(&sched->wake);
        closep(&sched->ready);
        free(sched->records);
        free(sched->rows);
        free(sched->list);
        free(sched);
        return NULL;
}

static int make_room(struct sched *sched)
{
        int r = trace_new(TRACE_SPANS, &sched->trace);

        sched->records = calloc(SCHED_RECORDS, sizeof(*sched->records));
        sched->rows = calloc(CONTROL_BLOCK_CHANNELS, sizeof(*sched->rows));
        sched->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        sched->ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (r < 0 || !sched->records || !sched->rows)
                return -ENOMEM;
        if (sched->wake < 0 || sched->ready < 0)
                return -errno;
        return 0;
}

/* Without a meter, tenants run by the driver's default, and an event tells the operator. */
static int open_device(struct sched *sched, unsigned int device)
{
        int r = gpu_client_open(sched->backend, device, &sched->client);

        if (r < 0)
                return r;
        r = meter_open(sched->client, &sched->meter);
        sched->state.has_meter = !r;
        if (r < 0) {
                sched_event_put(sched, SCHED_NO_METER, 0, r);
                sched->settings.turns.policy = TURNS_POLICY_NONE;
                sched->settings.together = NULL;
        }
        return 0;
}

/* The daemon's loop handles signals, so the thread blocks them. */
static int start_thread(struct sched *sched)
{
        sigset_t all, before;
        int r;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&sched->thread, NULL, sched_run, sched);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -r;
}

int sched_start(const struct gpu_backend *backend, unsigned int device, const struct sched_settings *settings,
                struct sched **ret, struct err *err)
{
        struct sched *sched = calloc(1, sizeof(*sched));
        int r;

        if (!sched)
                return err_set(err, -ENOMEM, "scheduling device %u", device);
        sched->backend = backend;
        sched->settings = *settings;
        sched->wake = sched->ready = -1;
        sched->state.device = device;
        sched->state.turns = settings->turns;
        lock_init(&sched->lock, LOCK_SCHED);
        r = make_room(sched);
        if (!r)
                r = open_device(sched, device);
        if (!r)
                r = turns_new(&sched->settings.turns, &sched->turns); /* open_device may have changed the policy */
        if (!r)
                r = engines_new(sched);
        if (!r)
                r = start_thread(sched);
        if (r < 0) {
                (void)sched_free(sched);
                return err_set(err, r, "scheduling device %u", device);
        }
        *ret = sched;
        return 0;
}

struct sched *sched_stop(struct sched *sched)
{
        if (!sched)
                return NULL;
        {
                LOCKED(&sched->lock);
                sched->is_over = true;
        }
        sched_wake(sched);
        (void)pthread_join(sched->thread, NULL);
        return sched_free(sched);
}
