#include "sched/inside.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>

/* ---- events ---------------------------------------------------------------------------------- */

void pace_say(struct pace *pace, enum pace_event_kind kind, uint64_t tenant, int64_t detail)
{
        uint64_t one = 1;

        if (pace->n_events == PACE_EVENTS) {
                memmove(&pace->events[0], &pace->events[1], (PACE_EVENTS - 1) * sizeof(pace->events[0]));
                pace->n_events--;
        }
        pace->events[pace->n_events++] =
                (struct pace_event){ .kind = kind, .at = clock_now(), .tenant = tenant, .detail = detail };
        (void)!write(pace->ready, &one, sizeof(one));
}

int pace_fd(const struct pace *pace)
{
        return pace->ready;
}

size_t pace_events(struct pace *pace, struct pace_event *ret, size_t n_room)
{
        LOCKED(&pace->lock);
        size_t n = pace->n_events < n_room ? pace->n_events : n_room;
        uint64_t ignored;

        memcpy(ret, pace->events, n * sizeof(*ret));
        memmove(&pace->events[0], &pace->events[n], (pace->n_events - n) * sizeof(pace->events[0]));
        pace->n_events -= n;
        if (!pace->n_events)
                (void)!read(pace->ready, &ignored, sizeof(ignored));
        return n;
}

const char *pace_event_name(enum pace_event_kind kind)
{
        static const char *const names[PACE_N_EVENTS] = {
                [PACE_METER_LOST] = "METER_LOST_RECORDS", [PACE_NO_METER] = "NO_METER",
                [PACE_DEVICE_LOST] = "DEVICE_LOST",       [PACE_NOT_SWITCHED] = "TENANT_NOT_SWITCHED",
                [PACE_SWITCHED] = "TENANT_SWITCHED",
        };

        return kind < PACE_N_EVENTS ? names[kind] : "?";
}

void pace_lost(struct pace *pace)
{
        LOCKED(&pace->lock);

        pace->state.is_lost = true;
        pace->is_taken = false;
        pace->resident = NULL;
        for (size_t i = 0; i < pace->n_tenants; i++)
                pace->tenants[i]->device->is_off = 0;
        pace_say(pace, PACE_DEVICE_LOST, 0, 0);
}

/* ---- tenants --------------------------------------------------------------------------------- */

struct tenant *pace_find(struct pace *pace, uint64_t id)
{
        for (size_t i = 0; i < pace->n_tenants; i++)
                if (pace->tenants[i]->id == id)
                        return pace->tenants[i];
        return NULL;
}

static struct tenant *tenant_free(struct tenant *tenant)
{
        if (tenant)
                free(tenant->channels.compute);
        free(tenant);
        return NULL;
}

static void tenant_freep(struct tenant **tenant)
{
        (void)tenant_free(*tenant);
}

static struct tenant *tenant_new(const struct pace *pace, const struct pace_tenant *from)
{
        struct tenant *tenant = calloc(1, sizeof(*tenant));

        if (!tenant)
                return NULL;
        *tenant = (struct tenant){ .id = from->id,
                                   .board = from->board,
                                   .device = &from->board->devices[pace->state.device],
                                   .share = from->share,
                                   .cap = from->cap,
                                   .class = from->class,
                                   .kick_after = KICK_FIRST };
        tenant->closed = tenant->used = tenant->billed = tenant->device->used;
        for (size_t i = 0; i < PACE_TICKS; i++)
                tenant->billed_at[i] = tenant->billed;
        /* Of a daemon that is no more: what it left off is off until we have said otherwise. */
        tenant->is_off = tenant->device->is_off;
        return tenant;
}

int pace_add(struct pace *pace, const struct pace_tenant *from)
{
        _cleanup_(tenant_freep) struct tenant *tenant = tenant_new(pace, from);

        if (!tenant)
                return -ENOMEM;
        {
                LOCKED(&pace->lock);
                if (pace_find(pace, from->id))
                        return -EEXIST;
                if (pace->n_tenants == TURNS_TENANTS_MAX)
                        return -ENOSPC;
                tally_channels(pace, tenant);
                tenant->must_kick = tenant->channels.n_compute > 0; /* it may be on the device, and nobody says so */
                pace->tenants[pace->n_tenants++] = tenant;
                tenant = NULL;
        }
        pace_wake(pace);
        return 0;
}

/* What was switched off is let on when the thread comes to it. */
static void part(struct pace *pace, struct tenant *tenant)
{
        struct farewell *farewell;
        size_t n;

        tenant->device->is_off = 0;
        tenant->device->slice = 0;
        tenant->device->watch = 0;
        board_wish_tell(tenant->board);
        tally_channels(pace, tenant);
        n = tenant->channels.n_compute;
        farewell = tenant->is_off || tenant->is_in_call ?
                           malloc(sizeof(*farewell) + n * sizeof(farewell->channels[0])) :
                           NULL;
        if (!farewell)
                return;
        *farewell = (struct farewell){ .next = pace->farewells, .n = n };
        if (n)
                memcpy(farewell->channels, tenant->channels.compute, n * sizeof(farewell->channels[0]));
        pace->farewells = farewell;
}

static void leave(struct pace *pace, struct tenant *tenant)
{
        size_t i = 0;

        tally_forget(pace, tenant);
        if (pace->resident == tenant) {
                pace->resident = NULL;
                pace->is_taken = false;
        }
        while (pace->tenants[i] != tenant)
                i++;
        pace->tenants[i] = pace->tenants[--pace->n_tenants];
}

int pace_remove(struct pace *pace, uint64_t id, nsec *ret_used)
{
        struct tenant *tenant;

        {
                LOCKED(&pace->lock);
                tenant = pace_find(pace, id);
                if (!tenant)
                        return -ENOENT;
                part(pace, tenant);
                leave(pace, tenant);
        }
        if (ret_used)
                *ret_used = tenant->billed;
        (void)tenant_free(tenant);
        pace_wake(pace);
        return 0;
}

int pace_change(struct pace *pace, uint64_t id, permille share, permille cap, enum turns_class class)
{
        {
                LOCKED(&pace->lock);
                struct tenant *tenant = pace_find(pace, id);

                if (!tenant)
                        return -ENOENT;
                tenant->share = share;
                tenant->cap = cap;
                tenant->class = class;
        }
        pace_wake(pace);
        return 0;
}

void pace_set(struct pace *pace, const struct turns_settings *turns)
{
        {
                LOCKED(&pace->lock);
                pace->settings.turns = pace->state.turns = *turns;
                pace->has_new_settings = true;
        }
        pace_wake(pace);
}

void pace_wake(struct pace *pace)
{
        uint64_t one = 1;

        (void)!write(pace->wake, &one, sizeof(one));
}

/* ---- looking --------------------------------------------------------------------------------- */

static void row_of(const struct pace *pace, const struct tenant *tenant, struct pace_row *ret)
{
        bool is_resident = pace->is_taken && pace->resident == tenant;

        *ret = (struct pace_row){ .id = tenant->id,
                                  .share = tenant->share,
                                  .cap = tenant->cap,
                                  .class = tenant->class,
                                  .used = tenant->billed,
                                  .started_at = tenant->started_at,
                                  .slice = tenant->device->slice,
                                  .n_turns = tenant->n_turns,
                                  .is_resident = is_resident,
                                  .is_off = tenant->is_off,
                                  .wants = tenant->wants,
                                  .is_waiting = tenant->wants && !is_resident,
                                  .has_failed = tenant->has_failed };
        tally_rates(pace, tenant, ret);
}

size_t pace_read(struct pace *pace, struct pace_device *ret, struct pace_row *rows, size_t n_room)
{
        LOCKED(&pace->lock);
        size_t n = 0;

        if (ret) {
                *ret = pace->state;
                ret->n_tenants = (unsigned int)pace->n_tenants;
                tally_device(pace, ret);
        }
        for (; rows && n < n_room && n < pace->n_tenants; n++)
                row_of(pace, pace->tenants[n], &rows[n]);
        return n;
}

bool pace_resident(struct pace *pace, uint64_t *ret_tenant, nsec *ret_since)
{
        LOCKED(&pace->lock);

        if (!pace->is_taken)
                return false;
        *ret_tenant = pace->resident ? pace->resident->id : 0;
        *ret_since = pace->taken_at;
        return true;
}

struct trace *pace_trace(struct pace *pace)
{
        return pace->trace;
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct pace *pace_free(struct pace *pace)
{
        while (pace->n_tenants)
                (void)tenant_free(pace->tenants[--pace->n_tenants]);
        while (pace->farewells) {
                struct farewell *farewell = pace->farewells;

                pace->farewells = farewell->next;
                free(farewell);
        }
        (void)meter_close(pace->meter);
        (void)gpu_client_close(pace->client);
        (void)turns_free(pace->turns);
        (void)trace_free(pace->trace);
        map_done(&pace->contexts);
        lock_done(&pace->lock);
        closep(&pace->wake);
        closep(&pace->ready);
        free(pace->records);
        free(pace->rows);
        free(pace->list);
        free(pace);
        return NULL;
}

static int make_room(struct pace *pace)
{
        int r = trace_new(TRACE_SPANS, &pace->trace);

        pace->records = calloc(PACE_RECORDS, sizeof(*pace->records));
        pace->rows = calloc(BOARD_CHANNELS, sizeof(*pace->rows));
        pace->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        pace->ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (r < 0 || !pace->records || !pace->rows)
                return -ENOMEM;
        if (pace->wake < 0 || pace->ready < 0)
                return -errno;
        return turns_new(&pace->settings.turns, &pace->turns);
}

/* Without a meter tenants run as the driver's default has it, and the operator is told. */
static int open_device(struct pace *pace, unsigned int device)
{
        int r = gpu_client_open(pace->backend, device, &pace->client);

        if (r < 0)
                return r;
        r = meter_open(pace->client, &pace->meter);
        pace->state.has_meter = !r;
        if (r < 0) {
                pace_say(pace, PACE_NO_METER, 0, r);
                pace->settings.turns.policy = TURNS_POLICY_NONE;
                turns_set(pace->turns, &pace->settings.turns);
        }
        return 0;
}

/* Signals are the loop's. */
static int start_thread(struct pace *pace)
{
        sigset_t all, before;
        int r;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        r = pthread_create(&pace->thread, NULL, pace_run, pace);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -r;
}

int pace_start(const struct gpu_backend *backend, unsigned int device, const struct pace_settings *settings,
               struct pace **ret, struct err *err)
{
        struct pace *pace = calloc(1, sizeof(*pace));
        int r;

        if (!pace)
                return err_set(err, -ENOMEM, "pacing device %u", device);
        pace->backend = backend;
        pace->settings = *settings;
        pace->wake = pace->ready = -1;
        pace->state.device = device;
        pace->state.turns = settings->turns;
        lock_init(&pace->lock, LOCK_PACE);
        r = make_room(pace);
        if (!r)
                r = open_device(pace, device);
        if (!r)
                r = start_thread(pace);
        if (r < 0) {
                (void)pace_free(pace);
                return err_set(err, r, "pacing device %u", device);
        }
        *ret = pace;
        return 0;
}

struct pace *pace_stop(struct pace *pace)
{
        if (!pace)
                return NULL;
        {
                LOCKED(&pace->lock);
                pace->is_over = true;
        }
        pace_wake(pace);
        (void)pthread_join(pace->thread, NULL);
        return pace_free(pace);
}
