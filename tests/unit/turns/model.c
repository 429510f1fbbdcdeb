/* SPDX-License-Identifier: Apache-2.0 */
#include "turns/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SWITCH_COST (85 * USEC)
#define RAMP (130 * USEC)      /* work that is lost after a switch */
#define RAMP_WHOLE (60 * USEC) /* the same, of a context that had drained: the default's rows in latency.txt */
#define DISTURBED (215 * USEC) /* what a preemption takes from another: turns of 20 ms, docs/time.md */
#define ON_CALL (300 * USEC)
#define OFF_CALL (600 * USEC)
#define OFF_EFFECT (420 * USEC)
#define CALL_MORE (55 * USEC)  /* per further tenant */
#define SERVER_GAP (15 * USEC) /* from an answer to the next launch */
#define SLICE_DELAY (1000 * USEC)
#define SLICE_DRIVER (2048 * USEC)
#define BESIDE 1400 /* permille: two ResNet-50 of batch 1 by MPS on an H200, docs/modes.md */

uint32_t model_below(struct model *model, uint32_t bound)
{
        model->random = model->random * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)((model->random >> 32) * bound >> 32);
}

/* Between a half and one and a half of it. */
static nsec about(struct model *model, nsec span)
{
        return span / 2 + span * model_below(model, 1000) / 1000;
}

/* Between arrivals that know nothing of each other. */
static nsec until_next(struct model *model, nsec gap)
{
        nsec span = gap / 20;

        while (model_below(model, 10))
                span += gap / 10;
        return span;
}

static nsec earlier(nsec a, nsec b)
{
        return a < b ? a : b;
}

static nsec later(nsec a, nsec b)
{
        return a > b ? a : b;
}

static struct model_tenant *owner(struct model *model, int context)
{
        return &model->tenants[model->contexts[context].tenant];
}

static bool lives(const struct model *model, const struct model_tenant *tenant)
{
        return tenant->begins_at <= model->now && (!tenant->ends_at || model->now < tenant->ends_at);
}

static int team_of(const struct model *model, int context)
{
        return model->tenants[model->contexts[context].tenant].team;
}

/* They are on the device together: to it they are one. */
static bool is_one(const struct model *model, int a, int b)
{
        return a == b || (team_of(model, a) && team_of(model, a) == team_of(model, b));
}

/* ---- the meter ------------------------------------------------------------------------------- */

static void record(struct model *model, int context, bool is_on)
{
        model->records[model->n_records++ % MODEL_RECORDS] = (struct model_record){ model->now, context, is_on };
        assert(model->n_records - model->n_read < MODEL_RECORDS);
}

static void read_record_of_team(struct model_team *team, const struct model_record *record)
{
        if (record->is_on) {
                team->resident_since = team->started_at = record->at;
                team->n_starts++;
        } else {
                team->metered += record->at - team->resident_since;
                team->stopped_at = record->at;
        }
        team->is_resident = record->is_on;
}

static void read_record(struct model *model, const struct model_record *record)
{
        struct model_tenant *tenant = owner(model, record->context);

        if (tenant->team) {
                read_record_of_team(&model->teams[tenant->team], record);
                return;
        }
        if (record->is_on) {
                if (!tenant->n_resident++)
                        tenant->resident_since = record->at;
                tenant->started_at = record->at;
                tenant->n_starts++;
        } else if (!--tenant->n_resident) {
                tenant->metered += record->at - tenant->resident_since;
                tenant->stopped_at = record->at;
        }
}

static nsec meter_read(struct model *model)
{
        nsec until = later(model->now - (model->options.meter_delay ? model->options.meter_delay : 300 * USEC), 0);

        while (model->n_read < model->n_records && model->records[model->n_read % MODEL_RECORDS].at <= until)
                read_record(model, &model->records[model->n_read++ % MODEL_RECORDS]);
        return until;
}

/* ---- what tenants do ------------------------------------------------------------------------- */

static void launch(struct model *model, struct model_context *context)
{
        struct model_tenant *tenant = &model->tenants[context->tenant];

        if (!context->left)
                context->launched = model->now;
        context->is_taken = false;
        tenant->launched_at = model->now;
        context->next = NEVER;
        switch (tenant->kind) {
        case IDLE:
                break;
        case DEEP:
        case ENDLESS:
                context->left = NEVER;
                break;
        case SYNC:
        case SERVER:
                context->left = tenant->work;
                break;
        case ON_OFF:
                context->left = about(model, tenant->work);
                break;
        case LIAR:
        case PERIODIC:
                context->left += tenant->work;
                context->next = model->now + tenant->gap;
                break;
        case AT_RANDOM:
                context->left += tenant->work;
                context->next = model->now + until_next(model, tenant->gap);
                break;
        }
}

/* A service takes the next of its requests when it has answered the one before. */
static void server_finish(struct model *model, struct model_context *context)
{
        context->launched = context->due[context->first_due++ % MODEL_QUEUE];
        if (--context->n_due)
                context->next = model->now + SERVER_GAP;
}

static void arrive(struct model *model, struct model_context *context)
{
        if (context->n_due < MODEL_QUEUE) /* else it is refused */
                context->due[(context->first_due + context->n_due++) % MODEL_QUEUE] = model->now;
        if (context->n_due == 1 && !context->left)
                context->next = model->now;
        context->arrives = model->now + until_next(model, model->tenants[context->tenant].gap);
}

static void finish(struct model *model, struct model_context *context)
{
        struct model_tenant *tenant = &model->tenants[context->tenant];

        if (tenant->kind == SERVER)
                server_finish(model, context);
        tenant->n_late += tenant->goal && model->now - context->launched > tenant->goal;
        if (tenant->n_requests < (nsec)tenant->n_room)
                tenant->latencies[tenant->n_requests++] = model->now - context->launched;
        if (tenant->kind == SYNC)
                context->next = model->now + tenant->gap;
        else if (tenant->kind == ON_OFF)
                context->next = model->now + about(model, tenant->gap);
}

/* ---- the device ------------------------------------------------------------------------------ */

static bool can_run(struct model *model, int i)
{
        const struct model_context *context = &model->contexts[i];

        return context->left && context->is_on && lives(model, owner(model, i));
}

static int next_context(struct model *model)
{
        int start = model->n_active;

        for (int k = 1; k <= model->n_contexts; k++) {
                int i = (start + k) % model->n_contexts;

                if (can_run(model, i) && (model->current < 0 || !is_one(model, i, model->current)))
                        return i;
        }
        return -1;
}

static void device_off(struct model *model)
{
        struct model_context *context = model->current >= 0 ? &model->contexts[model->current] : NULL;

        if (context) {
                record(model, model->current, false);
                context->is_whole = !context->left;
                for (int i = 0; i < model->n_contexts; i++)
                        if (is_one(model, i, model->current)) {
                                model->contexts[i].is_on &= !model->contexts[i].is_leaving;
                                model->contexts[i].is_leaving = false;
                        }
        }
        model->current = -1;
}

static nsec slice_of(struct model *model, int context)
{
        nsec slice = owner(model, context)->slice;

        return slice ? slice : SLICE_DRIVER;
}

static void device_on(struct model *model)
{
        int context = model->incoming;

        model->incoming = -1;
        if (!model->contexts[context].is_on || !lives(model, owner(model, context)))
                return;
        model->current = context;
        model->contexts[context].ramp = model->contexts[context].is_whole ? RAMP_WHOLE : RAMP;
        model->slice_end = model->now + slice_of(model, context);
        record(model, context, true);
}

static void add_span(int32_t *curve, nsec from, nsec until)
{
        while (from < until) {
                nsec end = earlier(until, (from / MSEC + 1) * MSEC);

                curve[from / MSEC] += (int32_t)((end - from) / USEC);
                from = end;
        }
}

/* How fast those work that are on the device, in permille. */
static nsec rate_of(struct model *model)
{
        nsec n = 0;

        for (int i = 0; i < model->n_contexts; i++)
                n += is_one(model, i, model->current) && can_run(model, i);
        return n > 1 ? BESIDE / n : 1000;
}

static void work(struct model *model, int i, nsec span)
{
        struct model_context *context = &model->contexts[i];

        context->is_taken = true;
        owner(model, i)->done += earlier(span, context->left);
        if (context->left != NEVER)
                context->left -= earlier(span, context->left);
}

/* Whose time it is. */
static struct model_tenant *first_of(struct model *model, int context)
{
        for (int i = 0; i < model->n_contexts; i++)
                if (is_one(model, i, context))
                        return owner(model, i);
        return NULL;
}

/* Time passes until then, in which nothing begins or ends. */
static void pass(struct model *model, nsec until)
{
        struct model_context *context = model->current >= 0 ? &model->contexts[model->current] : NULL;
        nsec span = until - model->now, ramp;
        bool worked[MODEL_CONTEXTS] = { false };

        for (int i = 0; i < model->n_contexts; i++)
                if (model->contexts[i].left && lives(model, owner(model, i)))
                        add_span(owner(model, i)->wanted, model->now, until);
        if (context) {
                nsec rate = rate_of(model);

                add_span(first_of(model, model->current)->had, model->now, until);
                ramp = earlier(context->ramp, span);
                context->ramp -= ramp;
                span = (span - ramp) * rate / 1000;
                for (int i = 0; i < model->n_contexts; i++)
                        worked[i] = is_one(model, i, model->current) && model->contexts[i].left &&
                                    (i == model->current || can_run(model, i));
                for (int i = 0; i < model->n_contexts; i++)
                        if (worked[i])
                                work(model, i, span);
        }
        model->now = until;
        for (int i = 0; i < model->n_contexts; i++)
                if (worked[i] && !model->contexts[i].left)
                        finish(model, &model->contexts[i]);
}

/* The next of those that are on the device ends a step. */
static nsec next_end(struct model *model)
{
        nsec rate = rate_of(model), at = NEVER;

        for (int i = 0; i < model->n_contexts; i++) {
                nsec left = model->contexts[i].left;

                if (is_one(model, i, model->current) && left && left != NEVER)
                        at = earlier(at, model->now + model->contexts[model->current].ramp +
                                                 (left * 1000 + rate - 1) / rate);
        }
        return at;
}

/* When something happens by itself. */
static nsec next_event(struct model *model, nsec until, bool is_contended)
{
        nsec at = until;

        for (int i = 0; i < model->n_contexts; i++)
                at = earlier(at, later(earlier(model->contexts[i].next, model->contexts[i].arrives), model->now));
        for (int i = 0; i < model->n_tenants; i++) {
                if (model->tenants[i].begins_at > model->now)
                        at = earlier(at, model->tenants[i].begins_at);
                if (model->tenants[i].ends_at > model->now)
                        at = earlier(at, model->tenants[i].ends_at);
        }
        if (model->options.watch)
                at = earlier(at, model->watch_at);
        if (model->incoming >= 0)
                return earlier(at, model->switch_until);
        if (model->current < 0)
                return at;
        if (is_contended)
                at = earlier(at, later(model->slice_end, model->now));
        return earlier(at, next_end(model));
}

static void launch_all(struct model *model)
{
        for (int i = 0; i < model->n_contexts; i++)
                if (model->contexts[i].arrives <= model->now)
                        arrive(model, &model->contexts[i]);
        for (int i = 0; i < model->n_contexts; i++)
                if (model->contexts[i].next <= model->now) {
                        if (lives(model, owner(model, i)))
                                launch(model, &model->contexts[i]);
                        else
                                model->contexts[i].next = NEVER;
                }
}

static bool shows_late(const struct model_tenant *tenant, const struct model_context *context)
{
        return tenant->is_graph && context->left > tenant->work / 10;
}

static bool knows_pending(struct model *model, int tenant)
{
        for (int i = 0; i < model->n_contexts; i++) {
                const struct model_context *context = &model->contexts[i];

                if (context->tenant == tenant && model->tenants[tenant].kind == LIAR)
                        return true;
                if (context->tenant == tenant && context->left &&
                    (!context->is_taken || shows_late(&model->tenants[tenant], context) ||
                     model->tenants[tenant].kind == DEEP || model->tenants[tenant].kind == ON_OFF))
                        return true;
        }
        return false;
}

/* As a shim does, every so often: what is launched is seen then. */
static void rings_watch(struct model *model)
{
        if (!model->options.watch || model->now < model->watch_at)
                return;
        for (int i = 0; i < model->n_tenants; i++) {
                struct model_tenant *tenant = &model->tenants[i];

                if (tenant->launched_at > tenant->watched_at || tenant->kind == DEEP)
                        tenant->seen_launched_at = model->now;
                tenant->seen_pending = knows_pending(model, i);
                tenant->watched_at = model->now;
        }
        model->watch_at = model->now + model->options.watch * (900 + model_below(model, 200)) / 1000;
}

/* A team stays on as long as one mate has work. */
static void pass_on(struct model *model)
{
        int from = model->current;

        if (from < 0 || can_run(model, from))
                return;
        for (int i = 0; i < model->n_contexts; i++)
                if (is_one(model, i, from) && can_run(model, i)) {
                        model->current = i;
                        model->contexts[i].ramp = model->contexts[from].ramp;
                        model->contexts[from].ramp = 0;
                        return;
                }
}

static void advance(struct model *model, nsec until)
{
        for (;;) {
                int other;

                launch_all(model);
                rings_watch(model);
                if (model->incoming >= 0 && model->now >= model->switch_until)
                        device_on(model);
                pass_on(model);
                if (model->current >= 0 &&
                    (!model->contexts[model->current].is_on || !lives(model, owner(model, model->current))))
                        device_off(model);
                other = next_context(model);
                if (model->incoming < 0 && other >= 0 &&
                    (model->current < 0 || !can_run(model, model->current) || model->now >= model->slice_end)) {
                        device_off(model);
                        model->incoming = model->n_active = other;
                        model->switch_until = model->now + SWITCH_COST;
                        model->n_switches++;
                } else if (model->current >= 0 && other < 0 && model->now >= model->slice_end) {
                        model->slice_end = model->now + slice_of(model, model->current);
                }
                if (model->now >= until)
                        return;
                pass(model, next_event(model, until, other >= 0));
        }
}

/* ---- the scheduler -------------------------------------------------------------------------------- */

static nsec call_cost(struct model *model, nsec cost)
{
        if (!model->options.is_rough)
                return cost;
        if (!model_below(model, 50))
                cost += model_below(model, 4000) * USEC;
        return cost + cost * model_below(model, 500) / 1000;
}

static struct turns_tenant look_at(struct model *model, int i, nsec until)
{
        const struct model_tenant *tenant = &model->tenants[i];
        struct turns_tenant view = {
                .id = (uint64_t)i + 1,
                .team = tenant->team ? MODEL_TENANTS + (uint64_t)tenant->team : 0,
                .share = tenant->share,
                .cap = tenant->cap ? tenant->cap : TURNS_WHOLE,
                .class = tenant->class,
                .goal = tenant->goal,
                .used = tenant->metered + (tenant->n_resident ? until - tenant->resident_since : 0),
                .started_at = tenant->started_at,
                .stopped_at = tenant->stopped_at,
                .n_starts = tenant->n_starts,
                .is_resident = tenant->n_resident > 0,
                .n_groups = (unsigned int)tenant->n_contexts,
        };

        if (model->options.has_signal) {
                view.work = knows_pending(model, i) ? TURNS_WORK_PENDING : TURNS_WORK_NONE;
                view.launched_at = tenant->launched_at;
                view.watched_at = model->now;
                if (tenant->kind == DEEP && (tenant->n_resident || model->teams[tenant->team].is_resident))
                        view.launched_at = model->now;
        }
        if (model->options.has_signal && model->options.watch) {
                view.work = tenant->seen_pending ? TURNS_WORK_PENDING : TURNS_WORK_NONE;
                view.launched_at = tenant->seen_launched_at;
                view.watched_at = tenant->watched_at;
        }
        return view;
}

static bool is_of(const struct model *model, int context, int tenant)
{
        int team = model->tenants[tenant].team;

        return model->contexts[context].tenant == tenant || (team && team_of(model, context) == team);
}

static void switch_tenant(struct model *model, int tenant, bool is_disabled, bool is_gentle)
{
        model->tenants[tenant].is_disabled = is_disabled;
        for (int i = 0; i < model->n_contexts; i++)
                if (model->contexts[i].tenant == tenant) {
                        model->contexts[i].is_leaving =
                                is_disabled && is_gentle && model->current >= 0 && is_one(model, i, model->current);
                        model->contexts[i].is_on = !is_disabled || model->contexts[i].is_leaving;
                }
        if (is_disabled && !is_gentle && model->current >= 0 && !is_of(model, model->current, tenant))
                model->contexts[model->current].ramp += DISTURBED;
}

/* One call for all that change in this direction. */
static void switch_all(struct model *model, const int *who, const struct turns_order *orders, int n, bool is_disabled)
{
        nsec cost = is_disabled ? OFF_CALL : ON_CALL, n_changed = 0;

        for (int i = 0; i < n; i++)
                n_changed += orders[i].is_disabled == is_disabled && model->tenants[who[i]].is_disabled != is_disabled;
        if (!n_changed)
                return;
        model->n_calls++;
        cost = call_cost(model, cost + (n_changed - 1) * CALL_MORE);
        advance(model, model->now + (is_disabled ? cost - (OFF_CALL - OFF_EFFECT) : cost));
        for (int i = 0; i < n; i++)
                if (orders[i].is_disabled == is_disabled && model->tenants[who[i]].is_disabled != is_disabled)
                        switch_tenant(model, who[i], is_disabled, orders[i].is_gentle);
        if (is_disabled)
                advance(model, model->now + (OFF_CALL - OFF_EFFECT));
}

static void waits_watch(struct model *model, struct turns_tenant *seen, const int *who, nsec *wake)
{
        const struct teams *teams = &model->folded;
        uint64_t resident = 0;

        for (size_t i = 0; i < teams->n_folded; i++)
                if (seen[i].is_resident)
                        resident = seen[i].id;
        for (size_t i = 0; i < teams->n_folded; i++)
                if (seen[i].goal) {
                        seen[i].work = turns_work(model->turns, teams->entity_of[i]);
                        (void)waits_look(&model->tenants[who[i]].waits, &seen[i], resident, model->now,
                                         turns_step(model->turns, teams->entity_of[i]));
                        *wake = earlier(*wake, model->now + 2 * MSEC);
                }
}

static size_t teams_meter(const struct model *model, nsec until, struct teams_meter ret[static MODEL_TEAMS])
{
        for (int i = 1; i <= MODEL_TEAMS; i++) {
                const struct model_team *team = &model->teams[i];

                ret[i - 1] = (struct teams_meter){
                        .id = MODEL_TENANTS + (uint64_t)i,
                        .used = team->metered + (team->is_resident ? until - team->resident_since : 0),
                        .started_at = team->started_at,
                        .stopped_at = team->stopped_at,
                        .n_starts = team->n_starts,
                        .is_resident = team->is_resident,
                        .n_groups = 1,
                };
        }
        return MODEL_TEAMS;
}

static nsec decide(struct model *model)
{
        struct turns_tenant seen[MODEL_TENANTS];
        struct turns_order folded[MODEL_TENANTS], orders[MODEL_TENANTS];
        struct teams_meter meters[MODEL_TEAMS];
        int who[MODEL_TENANTS], n = 0;
        nsec until = meter_read(model), wake;

        for (int i = 0; i < model->n_tenants; i++)
                if (lives(model, &model->tenants[i])) {
                        seen[n] = look_at(model, i, until);
                        who[n++] = i;
                }
        teams_fold(
                &(struct turns_view){
                        .now = model->now, .metered_until = until, .tenants = seen, .n_tenants = (size_t)n },
                meters, teams_meter(model, until, meters), &model->folded);
        wake = turns_next(model->turns, &model->folded.view, folded);
        teams_unfold(&model->folded, folded, orders);
        model->n_decisions++;
        waits_watch(model, seen, who, &wake);
        for (int i = 0; i < n; i++)
                if (model->tenants[who[i]].slice != orders[i].slice) {
                        model->tenants[who[i]].slice = orders[i].slice;
                        model->slices_set++;
                }
        switch_all(model, who, orders, n, model->options.disables_first);
        switch_all(model, who, orders, n, !model->options.disables_first);
        return wake;
}

void model_run(struct model *model)
{
        while (model->now < model->options.length) {
                nsec wake = decide(model);

                assert(wake > model->now - 20 * MSEC);
                if (model->options.is_rough && !model_below(model, 10))
                        wake = model->now + (wake - model->now) * model_below(model, 1000) / 1000;
                for (int i = 0; i < model->n_tenants; i++) /* a tenant that is added or removed wakes the scheduler */
                        if (model->tenants[i].begins_at > model->now)
                                wake = earlier(wake, model->tenants[i].begins_at);
                        else if (model->tenants[i].ends_at > model->now)
                                wake = earlier(wake, model->tenants[i].ends_at);
                advance(model, earlier(later(wake, model->now + 50 * USEC), model->options.length));
        }
}

/* ---- set-up and results ---------------------------------------------------------------------- */

void model_init(struct model *model, const struct model_options *options)
{
        struct turns_settings settings = { options->policy, options->period };

        memset(model, 0, sizeof(*model));
        model->options = *options;
        model->random = options->seed * 2654435761u + 12345;
        model->current = model->incoming = -1;
        model->now = USEC;
        if (turns_new(&settings, &model->turns) < 0)
                abort();
}

int model_add(struct model *model, struct model_tenant tenant)
{
        int i = model->n_tenants++, n = tenant.n_contexts ? tenant.n_contexts : 1;
        size_t msecs = (size_t)(model->options.length / MSEC) + 100;

        tenant.had = calloc(msecs, sizeof(*tenant.had));
        tenant.wanted = calloc(msecs, sizeof(*tenant.wanted));
        tenant.n_room = 20000;
        tenant.latencies = calloc(tenant.n_room, sizeof(*tenant.latencies));
        if (!tenant.had || !tenant.wanted || !tenant.latencies)
                abort();
        model->tenants[i] = tenant;
        for (int k = 0; k < n; k++) {
                nsec from = later(tenant.begins_at, model->now) + model_below(model, 3000) * USEC;

                model->contexts[model->n_contexts++] = (struct model_context){
                        .tenant = i,
                        .is_on = true,
                        .next = tenant.kind == SERVER ? NEVER : from,
                        .arrives = tenant.kind == SERVER ? from : NEVER,
                };
        }
        return i;
}

void model_done(struct model *model)
{
        for (int i = 0; i < model->n_tenants; i++) {
                free(model->tenants[i].had);
                free(model->tenants[i].wanted);
                free(model->tenants[i].latencies);
        }
        turns_free(model->turns);
}

static nsec sum_of(const int32_t *curve, int from, int length)
{
        nsec sum = 0;

        for (int i = from; i < from + length; i++)
                sum += curve[i];
        return sum;
}

nsec model_had(const struct model *model, int tenant, int from, int length)
{
        return sum_of(model->tenants[tenant].had, from, length);
}

nsec model_wanted(const struct model *model, int tenant, int from, int length)
{
        return sum_of(model->tenants[tenant].wanted, from, length);
}

nsec model_most_in_a_second(const struct model *model, int tenant)
{
        nsec most = 0;

        for (int t = 0; t + 1000 <= model->options.length / MSEC; t++)
                most = later(most, model_had(model, tenant, t, 1000));
        return most;
}

static int compare(const void *a, const void *b)
{
        nsec x = *(const nsec *)a, y = *(const nsec *)b;

        return (x > y) - (x < y);
}

nsec model_latency(const struct model *model, int tenant, int percent)
{
        const struct model_tenant *t = &model->tenants[tenant];

        qsort(t->latencies, (size_t)t->n_requests, sizeof(*t->latencies), compare);
        return t->n_requests ? t->latencies[t->n_requests * percent / 100] : 0;
}

nsec model_longest_wait(const struct model *model, int tenant, int from)
{
        const struct model_tenant *t = &model->tenants[tenant];
        nsec wait = 0, longest = 0;

        for (int i = from; i < model->options.length / MSEC; i++) {
                wait = t->wanted[i] >= 900 && !t->had[i] ? wait + 1 : 0;
                longest = later(longest, wait);
        }
        return longest;
}
