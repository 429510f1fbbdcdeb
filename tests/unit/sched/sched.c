/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler against a simulated device, with a policy that the test scripts: the device must follow the orders, and
 * what it did must be attributed to the right tenant.
 */
#include "fake_tenants.h"

#include "turns/engines.h"

#include <pthread.h>

enum {
        TENANTS = 200,
        IDS = TENANTS + 1,
        WINDOW = 32, /* rounds that are judged together */
};

/* ---- the policy ------------------------------------------------------------------------------ */

struct turns {
        int unused;
};

static pthread_mutex_t script_lock = PTHREAD_MUTEX_INITIALIZER;
static struct turns the_turns;
static struct {
        struct turns_order orders[IDS];
        struct turns_tenant seen[IDS];
        enum turns_work works[IDS]; /* of the latest view, in its order */
        _Atomic bool is_contradicted, is_engine_off;
        _Atomic nsec every;
        _Atomic uint64_t n;
} script;

int turns_new(const struct turns_settings *settings, struct turns **ret)
{
        (void)settings;
        *ret = &the_turns;
        return 0;
}

struct turns *turns_free(struct turns *turns)
{
        (void)turns;
        return NULL;
}

nsec turns_next(struct turns *turns, const struct turns_view *view, struct turns_order *ret_orders)
{
        (void)turns;
        pthread_mutex_lock(&script_lock);
        for (size_t i = 0; i < view->n_tenants; i++) {
                ret_orders[i] = script.orders[view->tenants[i].id];
                script.seen[view->tenants[i].id] = view->tenants[i];
                script.works[i] = view->tenants[i].work;
        }
        script.n++;
        pthread_mutex_unlock(&script_lock);
        return view->now + script.every;
}

enum turns_work turns_work(const struct turns *turns, size_t i)
{
        (void)turns;
        return script.is_contradicted ? TURNS_WORK_NONE : script.works[i];
}

int engine_turns_new(const struct turns_settings *settings, struct engine_turns **ret)
{
        (void)settings, (void)ret;
        return 0;
}

struct engine_turns *engine_turns_free(struct engine_turns *turns)
{
        (void)turns;
        return NULL;
}

nsec engine_turns_next(struct engine_turns *turns, nsec now, const struct engine_tenant *tenants, size_t n,
                       bool *ret_is_disabled)
{
        (void)turns, (void)tenants;
        for (size_t i = 0; i < n; i++)
                ret_is_disabled[i] = script.is_engine_off;
        return now + script.every;
}

/* Without gangs only turns_next is called. */
void turns_look(struct turns *turns, const struct turns_view *view, struct turns_sign *ret_signs)
{
        (void)turns, (void)view, (void)ret_signs;
        abort();
}

nsec turns_decide(struct turns *turns, const struct turns_view *view, const struct turns_gang_order *gangs,
                  struct turns_order *ret_orders)
{
        (void)turns, (void)view, (void)gangs, (void)ret_orders;
        abort();
}

bool turns_rest(const struct turns *turns, nsec *ret_always_on)
{
        (void)turns, (void)ret_always_on;
        abort();
}

enum turns_policy turns_policy_in_force(const struct turns_settings *settings)
{
        return settings->policy;
}

nsec turns_period(const struct turns_settings *settings)
{
        return settings->period;
}

static void order(struct sched *sched, uint64_t id, bool is_disabled)
{
        _Atomic uint64_t n;

        pthread_mutex_lock(&script_lock);
        script.orders[id].is_disabled = is_disabled;
        n = script.n;
        pthread_mutex_unlock(&script_lock);
        sched_wake(sched);
        while (script.n < n + 2) /* one pass may have begun before */
                (void)usleep(200);
}

static void gentle(uint64_t id, bool is_gentle)
{
        pthread_mutex_lock(&script_lock);
        script.orders[id].is_gentle = is_gentle;
        pthread_mutex_unlock(&script_lock);
}

static struct turns_tenant seen(uint64_t id)
{
        struct turns_tenant tenant;

        pthread_mutex_lock(&script_lock);
        tenant = script.seen[id];
        pthread_mutex_unlock(&script_lock);
        return tenant;
}

/* The meter's records are read some time after the work, later still on a busy machine. */
static nsec wait_for_used(struct sched *sched, uint64_t id, nsec at_least)
{
        nsec until = clock_now() + 10 * NSEC_PER_SEC;

        while (row_of(sched, id).used < at_least && clock_now() < until)
                (void)usleep(1000);
        return row_of(sched, id).used;
}

static void wait_for_resident(struct sched *sched, uint64_t id)
{
        nsec until = clock_now() + 10 * NSEC_PER_SEC;

        while (!row_of(sched, id).is_resident && clock_now() < until)
                (void)usleep(200);
}

static struct sched *sched_of_rig(const struct rig *rig)
{
        memset(&script, 0, sizeof(script));
        script.every = NSEC_PER_MSEC;
        return fake_sched(rig, TURNS_POLICY_TURNS);
}

/* ---- what it promises ------------------------------------------------------------------------ */

static void time_is_attributed_to_the_right_tenant(void **state)
{
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct fake_tenant a, b;
        struct sched_device device;
        nsec used, began = clock_now();

        fake_tenant_begin(&a, rig, 1);
        fake_tenant_begin(&b, rig, 2);
        join(sched, &a);
        join(sched, &b);
        launch(&a, 60000);
        launch(&b, 20000);
        assert_int_equal(finish(&a, 5000), 0);
        assert_int_equal(finish(&b, 5000), 0);
        launch(&a, 1000); /* b's interval is over then */
        assert_int_equal(finish(&a, 5000), 0);
        used = wait_for_used(sched, 2, 19 * NSEC_PER_MSEC);
        assert_true(used >= 19 * NSEC_PER_MSEC); /* its work, and idle time until a ran */
        assert_true(wait_for_used(sched, 1, 61 * NSEC_PER_MSEC) >= 61 * NSEC_PER_MSEC);
        assert_true(row_of(sched, 1).used + row_of(sched, 2).used <= clock_now() - began); /* nothing twice */
        assert_int_equal(b.control->devices[0].used, used);
        assert_true(sched_read(sched, &device, NULL, 0) == 0 && device.n_switches > 10 && device.n_lost == 0);
        assert_true(device.has_meter && !device.foreign);
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
        fake_tenant_end(&b);
}

static void a_disabled_tenant_does_not_run_and_its_control_block_says_so(void **state)
{
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct fake_tenant a;

        fake_tenant_begin(&a, rig, 1);
        join(sched, &a);
        order(sched, 1, true);
        assert_int_equal(a.control->devices[0].is_disabled, 1);
        launch(&a, 1000);
        assert_int_equal(finish(&a, 50), -ETIMEDOUT);
        assert_true(row_of(sched, 1).is_disabled);
        order(sched, 1, false);
        assert_int_equal(finish(&a, 1000), 0);
        assert_int_equal(a.control->devices[0].is_disabled, 0);
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
}

static void a_tenant_that_may_end_its_work_ends_it_and_one_that_may_not_stops(void **state)
{
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct fake_tenant a;

        fake_tenant_begin(&a, rig, 1);
        join(sched, &a);
        gentle(1, true);
        launch(&a, 200000);
        wait_for_resident(sched, 1); /* what the device has not begun may not end */
        order(sched, 1, true);
        assert_int_equal(finish(&a, 5000), 0);
        launch(&a, 1000);
        assert_int_equal(finish(&a, 50), -ETIMEDOUT);
        order(sched, 1, false);
        assert_int_equal(finish(&a, 1000), 0);
        launch(&a, 400000);
        wait_for_resident(sched, 1);
        order(sched, 1, true);
        gentle(1, false);
        order(sched, 1, true);
        assert_int_equal(finish(&a, 1000), -ETIMEDOUT);
        order(sched, 1, false);
        assert_int_equal(finish(&a, 1000), 0);
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
}

/* The daemon's loop begins it, and may be late. */
static void the_heartbeat_goes_on_with_the_scheduler_and_begins_without_it(void **state)
{
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct fake_tenant a;
        nsec now;

        fake_tenant_begin(&a, rig, 1);
        a.control->heartbeat = 0;
        join(sched, &a);
        order(sched, 1, false);
        assert_true(a.control->heartbeat == 0);
        now = clock_now();
        a.control->heartbeat = 1;
        order(sched, 1, false);
        assert_true(a.control->heartbeat >= now);
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
}

/* Off is every channel; and the meter's records of such a group are the tenant's. */
static void a_group_that_says_it_copies_is_disabled_and_metered_like_any(void **state)
{
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct fake_tenant a, b;

        fake_tenant_begin(&a, rig, 1);
        fake_tenant_begin(&b, rig, 2);
        assert_int_equal(control_block_channel_put(a.control, &(struct control_channel){ .client = a.rig.client,
                                                                                         .handle = CHANNEL,
                                                                                         .group = GROUP,
                                                                                         .cid = a.cid,
                                                                                         .order = 1 }),
                         0);
        join(sched, &a);
        join(sched, &b);
        order(sched, 1, true);
        launch(&a, 20000);
        assert_int_equal(finish(&a, 50), -ETIMEDOUT);
        order(sched, 1, false);
        assert_int_equal(finish(&a, 1000), 0);
        launch(&b, 1000);
        assert_int_equal(finish(&b, 1000), 0);
        assert_in_range(wait_for_used(sched, 1, 19 * NSEC_PER_MSEC), 19 * NSEC_PER_MSEC, 500 * NSEC_PER_MSEC);
        assert_int_equal(seen(1).n_groups, 0);
        assert_int_equal(seen(2).n_groups, 1);
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
        fake_tenant_end(&b);
}

static void wait_for_engine(struct sched *sched, bool is_disabled)
{
        nsec until = clock_now() + 10 * NSEC_PER_SEC;

        script.is_engine_off = is_disabled;
        while (row_of(sched, 1).engines[RM_ENGINE_COPY].is_disabled != is_disabled && clock_now() < until)
                (void)usleep(1000);
        assert_int_equal(row_of(sched, 1).engines[RM_ENGINE_COPY].is_disabled, is_disabled);
        (void)usleep(20000); /* the call is made after it is noted */
}

/* The driver counts how often a channel was disabled, and enabling one costs as many calls. */
static void channels_of_an_engine_that_is_off_go_off_once_whatever_comes_and_goes(void **state)
{
        enum { CHANGES = 40 };
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct control_channel copies, other = { .handle = 0x7777, .engine = RM_ENGINE_COPY, .order = 100 };
        struct fake_tenant a;

        fake_tenant_begin(&a, rig, 1);
        copies = (struct control_channel){ .client = a.rig.client,
                                           .handle = CHANNEL,
                                           .group = GROUP,
                                           .cid = a.cid,
                                           .engine = RM_ENGINE_COPY,
                                           .order = 1 };
        control_block_channel_drop(a.control, a.rig.client, CHANNEL);
        assert_int_equal(control_block_channel_put(a.control, &copies), 0);
        control_block_engine(a.control, 0, RM_ENGINE_COPY)->n_unseen = 1; /* wants, and no nudge */
        join(sched, &a);
        wait_for_engine(sched, true);
        for (int i = 0; i < CHANGES; i++) {
                other.order++;
                other.client = a.rig.client;
                assert_int_equal(control_block_channel_put(a.control, &other), 0);
                order(sched, 1, false);
                control_block_channel_drop(a.control, other.client, other.handle);
                order(sched, 1, false);
        }
        launch(&a, 1000);
        assert_int_equal(finish(&a, 50), -ETIMEDOUT);
        wait_for_engine(sched, false);
        assert_int_equal(finish(&a, 2000), 0);
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
}

/* Likewise, and a client counts to 16 (gpu/control.c). First an engine that goes off while the tenant is on; then one
 * that does while it is off. */
static void an_engine_that_is_off_while_its_tenant_comes_and_goes_comes_back(void **state)
{
        enum { TURNS = 40 };
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct control_channel copies;
        struct fake_tenant a;

        fake_tenant_begin(&a, rig, 1);
        copies = (struct control_channel){ .client = a.rig.client,
                                           .handle = CHANNEL,
                                           .group = GROUP,
                                           .cid = a.cid,
                                           .engine = RM_ENGINE_COPY,
                                           .order = 1 };
        control_block_channel_drop(a.control, a.rig.client, CHANNEL);
        assert_int_equal(control_block_channel_put(a.control, &copies), 0);
        control_block_engine(a.control, 0, RM_ENGINE_COPY)->n_unseen = 1; /* wants, and no nudge */
        join(sched, &a);
        for (int is_off_before = 0; is_off_before < 2; is_off_before++) {
                order(sched, 1, is_off_before);
                wait_for_engine(sched, true);
                for (int i = 0; i < TURNS; i++) {
                        order(sched, 1, true);
                        order(sched, 1, false);
                }
                launch(&a, 1000);
                assert_int_equal(finish(&a, 50), -ETIMEDOUT);
                wait_for_engine(sched, false);
                assert_int_equal(finish(&a, 2000), 0);
        }
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
}

static void a_context_of_no_tenant_is_an_event_once(void **state)
{
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct sched_event events[4];
        struct pollfd poll_fd = { .fd = sched_fd(sched), .events = POLLIN };
        struct fake_tenant a, other;

        fake_tenant_begin(&a, rig, 1);
        fake_tenant_begin(&other, rig, 2);
        join(sched, &a);
        order(sched, 1, false);
        launch(&other, 20000);
        launch(&a, 20000);
        assert_int_equal(poll(&poll_fd, 1, 3000), 1);
        assert_int_equal(sched_events(sched, events, 4), 1);
        assert_int_equal(events[0].kind, SCHED_UNKNOWN);
        assert_int_equal(events[0].detail >> 32, getpid());
        assert_int_equal((uint32_t)events[0].detail, other.cid);
        assert_int_equal(finish(&other, 1000), 0);
        assert_int_equal(finish(&a, 1000), 0);
        (void)usleep(20000);
        assert_int_equal(sched_events(sched, events, 4), 0); /* they took turns, many times */
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
        fake_tenant_end(&other);
}

static void running_work_is_preempted(void **state)
{
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct fake_tenant a, b;

        fake_tenant_begin(&a, rig, 1);
        fake_tenant_begin(&b, rig, 2);
        join(sched, &a);
        join(sched, &b);
        launch(&a, 10000000); /* ten seconds */
        (void)usleep(10000);
        order(sched, 1, true);
        launch(&b, 1000);
        assert_int_equal(finish(&b, 1000), 0);
        assert_false(row_of(sched, 1).is_resident);
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
        fake_tenant_end(&b);
}

static void a_removed_tenant_is_enabled_and_so_are_all_at_the_end(void **state)
{
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct fake_tenant a, b;
        nsec used = -1;

        fake_tenant_begin(&a, rig, 1);
        fake_tenant_begin(&b, rig, 2);
        join(sched, &a);
        join(sched, &b);
        order(sched, 1, true);
        order(sched, 2, true);
        launch(&a, 1000);
        launch(&b, 1000);
        assert_int_equal(sched_remove(sched, 1, &used), 0);
        assert_int_equal(used, 0);
        assert_int_equal(sched_remove(sched, 1, NULL), -ENOENT);
        assert_int_equal(finish(&a, 1000), 0);
        assert_int_equal(finish(&b, 20), -ETIMEDOUT);
        assert_null(sched_stop(sched));
        assert_int_equal(finish(&b, 1000), 0);
        assert_int_equal(b.control->devices[0].is_disabled, 0);
        fake_tenant_end(&a);
        fake_tenant_end(&b);
}

/* A daemon that died had disabled the tenant and counted an hour. */
static void the_control_block_of_a_dead_daemon_is_continued(void **state)
{
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct fake_tenant a;

        fake_tenant_begin(&a, rig, 1);
        a.control->devices[0].used = 3600 * NSEC_PER_SEC;
        order(sched, 1, true);
        join(sched, &a);
        order(sched, 1, true);
        assert_null(sched_stop(sched));
        a.control->devices[0].is_disabled = 1;

        sched = sched_of_rig(rig);
        join(sched, &a);
        launch(&a, 5000);
        assert_int_equal(finish(&a, 1000), 0);
        assert_in_range(wait_for_used(sched, 1, 3600 * NSEC_PER_SEC + 4 * NSEC_PER_MSEC),
                        3600 * NSEC_PER_SEC + 4 * NSEC_PER_MSEC, 3601 * NSEC_PER_SEC);
        assert_true(row_of(sched, 1).granted < 200);
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
}

static void an_idle_tenant_alone_is_not_charged_for_ever(void **state)
{
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct fake_tenant a;
        nsec used;

        fake_tenant_begin(&a, rig, 1);
        join(sched, &a);
        launch(&a, 1000);
        assert_int_equal(finish(&a, 1000), 0);
        while (row_of(sched, 1).used < NSEC_PER_MSEC || row_of(sched, 1).is_resident)
                (void)usleep(1000);
        used = row_of(sched, 1).used;
        (void)usleep(100000);
        assert_int_equal(row_of(sched, 1).used, used);
        assert_false(row_of(sched, 1).is_resident);

        launch(&a, 600000); /* busy all the time, without a sign of it */
        assert_int_equal(finish(&a, 2000), 0);
        assert_true(wait_for_used(sched, 1, used + 598 * NSEC_PER_MSEC) >= used + 598 * NSEC_PER_MSEC);
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
}

/* A kernel of some milliseconds, and its tenant's shim checks for a time. What it was billed for that. */
static nsec watched_round(struct sched *sched, struct fake_tenant *tenant, int work_msec, int msec)
{
        struct control_device *device = &tenant->control->devices[0];
        nsec used = row_of(sched, tenant->id).used;

        launch(tenant, (uint64_t)work_msec * 1000);
        control_block_quiet_put(tenant->control, 0, true, device->checked_at, clock_now());
        device->launched_at = device->checked_at = clock_now();
        for (int i = 0; i < msec; i++) {
                device->checked_at = clock_now();
                (void)usleep(1000);
        }
        return row_of(sched, tenant->id).used - used;
}

/* Rounds until a window of them is billed for less than a third of its time, or for more than two thirds of its work.
 * Kicks come at random moments, a round may last longer on a busy machine, and a correction is billed in one: so
 * windows. */
static bool comes_to(struct sched *sched, struct fake_tenant *tenant, int work_msec, int msec, bool is_less)
{
        for (int window = 0; window < 8; window++) {
                nsec began = clock_now(), billed = 0;

                for (int i = 0; i < WINDOW; i++)
                        billed += watched_round(sched, tenant, work_msec, msec);
                if (is_less ? billed < (clock_now() - began) / 3 : billed > WINDOW * work_msec * NSEC_PER_MSEC * 2 / 3)
                        return true;
        }
        return false;
}

/* Where launches can be seen, pauses are not billed; a long kernel is. Where they cannot, all is, up to a kick. The
 * kernels are as long as the pauses were: what was learned of such a time is that it is idle, and kicks must find that
 * it no longer is. Of a time that no kick has asked about, all is billed anyhow. */
static void idle_time_is_distinguished_from_a_long_kernel(void **state)
{
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct fake_tenant a;

        fake_tenant_begin(&a, rig, 1);
        join(sched, &a);
        launch(&a, 5000);
        assert_true(wait_for_used(sched, 1, 90 * NSEC_PER_MSEC) >= 90 * NSEC_PER_MSEC);
        a.control->devices[0].can_watch = 1;
        assert_true(comes_to(sched, &a, 5, 50, true));
        assert_true(comes_to(sched, &a, 50, 50, false));
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
}

static void a_tenant_on_the_device_at_the_start_is_noticed(void **state)
{
        struct rig *rig = *state;
        struct fake_tenant a;
        struct sched *sched;
        nsec began;

        fake_tenant_begin(&a, rig, 1);
        began = clock_now();
        launch(&a, 60000000); /* a minute: it is there at each look */
        (void)usleep(10000);
        sched = sched_of_rig(rig);
        join(sched, &a);
        while (row_of(sched, 1).used < 50 * NSEC_PER_MSEC)
                (void)usleep(1000);
        assert_true(row_of(sched, 1).is_resident);
        assert_true(row_of(sched, 1).used <= clock_now() - began);
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
}

static void signs_of_work_reach_the_policy(void **state)
{
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct fake_tenant a;

        fake_tenant_begin(&a, rig, 1);
        join(sched, &a);
        order(sched, 1, true);
        assert_int_equal(seen(1).work, TURNS_WORK_UNKNOWN);
        assert_true(a.control->devices[0].watch > 0);
        a.control->devices[0].can_watch = 1;
        order(sched, 1, true);
        assert_int_equal(seen(1).work, TURNS_WORK_NONE);
        assert_false(row_of(sched, 1).is_waiting);
        a.control->devices[0].n_pending = 1;
        a.control->devices[0].launched_at = clock_now();
        order(sched, 1, true);
        assert_int_equal(seen(1).work, TURNS_WORK_PENDING);
        assert_int_equal(seen(1).launched_at, a.control->devices[0].launched_at);
        assert_true(row_of(sched, 1).is_waiting);
        script.is_contradicted = true;
        order(sched, 1, true);
        order(sched, 1, true);
        assert_false(row_of(sched, 1).is_waiting);
        assert_int_equal(seen(1).work, TURNS_WORK_PENDING); /* what the rings say now, each time */
        script.is_contradicted = false;
        assert_int_equal(sched_change(sched, 1, 300, 400, TURNS_LATENCY, 0), 0);
        order(sched, 1, true);
        assert_true(seen(1).share == 300 && seen(1).cap == 400 && seen(1).class == TURNS_LATENCY);
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
}

static void a_lost_device_is_reported_once_and_nothing_hangs(void **state)
{
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct sched_device device;
        struct sched_event events[4];
        struct pollfd poll_fd = { .fd = sched_fd(sched), .events = POLLIN };
        struct fake_tenant a;

        fake_tenant_begin(&a, rig, 1);
        join(sched, &a);
        order(sched, 1, true);
        rig_order(rig, "lost-gpu=0");
        assert_int_equal(poll(&poll_fd, 1, 3000), 1);
        assert_int_equal(sched_events(sched, events, 4), 1);
        assert_int_equal(events[0].kind, SCHED_DEVICE_LOST);
        assert_int_equal(poll(&poll_fd, 1, 100), 0);
        (void)sched_read(sched, &device, NULL, 0);
        assert_true(device.is_lost);
        assert_int_equal(a.control->devices[0].is_disabled, 0);
        assert_int_equal(sched_remove(sched, 1, NULL), 0);
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
}

static void lost_records_are_reported(void **state)
{
        struct rig *rig = *state;
        struct sched *sched = sched_of_rig(rig);
        struct sched_event event = { .kind = SCHED_N_EVENTS };
        struct fake_tenant a, b;

        fake_tenant_begin(&a, rig, 1);
        fake_tenant_begin(&b, rig, 2);
        join(sched, &a);
        join(sched, &b);
        rig_order(rig, "records-ring=1");
        for (int i = 0; i < 200 && !sched_events(sched, &event, 1); i++) {
                launch(&a, 3000);
                launch(&b, 3000);
                assert_int_equal(finish(&b, 1000), 0);
        }
        assert_int_equal(event.kind, SCHED_METER_LOST);
        assert_true(event.detail > 0);
        assert_null(sched_stop(sched));
        fake_tenant_end(&a);
        fake_tenant_end(&b);
}

/* One call for all of them, and little CPU time of the scheduler's. */
static void two_hundred_tenants_are_cheap(void **state)
{
        struct rig large, *rig = &large;
        struct sched *sched;
        static struct fake_tenant tenants[TENANTS];
        struct sched_device before, after;

        (void)state;
        rig_start(rig, 1, 100 * GIB);
        rig_begin(rig, 0);
        sched = sched_of_rig(rig);
        for (uint32_t i = 0; i < TENANTS; i++) {
                tenants[i] = (struct fake_tenant){ .rig = *rig, .id = i + 1 };
                tenants[i].cid = rig_channel(rig, GROUP + 0x1000 + i, CHANNEL + 0x2000 + i);
                fake_tenant_control_block(&tenants[i], rig->client);
                control_block_channel_drop(tenants[i].control, rig->client, CHANNEL);
                assert_int_equal(control_block_channel_put(tenants[i].control,
                                                           &(struct control_channel){ .client = rig->client,
                                                                                      .handle = CHANNEL + 0x2000 + i,
                                                                                      .group = GROUP + 0x1000 + i,
                                                                                      .cid = tenants[i].cid,
                                                                                      .is_compute = 1 }),
                                 0);
                join(sched, &tenants[i]);
        }
        script.every = 5 * NSEC_PER_MSEC;
        order(sched, 1, false);
        (void)sched_read(sched, &before, NULL, 0);
        pthread_mutex_lock(&script_lock);
        for (uint64_t i = 2; i <= TENANTS; i++)
                script.orders[i].is_disabled = true;
        pthread_mutex_unlock(&script_lock);
        order(sched, 1, false);
        (void)sched_read(sched, &after, NULL, 0);
        assert_in_range(after.n_calls - before.n_calls, 1, 4);
        (void)usleep(100000);
        (void)sched_read(sched, &before, NULL, 0);
        (void)usleep(1000000);
        (void)sched_read(sched, &after, NULL, 0);
        print_message("# 200 tenants, a pass every 5 ms: %.2f %% of a core\n",
                      (double)(after.cpu - before.cpu) / (double)(after.turned_at - before.turned_at) * 100);
        assert_null(sched_stop(sched));
        for (size_t i = 0; i < TENANTS; i++) {
                control_block_unmap(tenants[i].control);
                close(tenants[i].fd);
        }
        rig_end(rig);
        rig_stop(rig);
}

static void every_event_has_a_name(void **state)
{
        (void)state;
        for (enum sched_event_kind kind = 0; kind < SCHED_N_EVENTS; kind++)
                assert_string_not_equal(sched_event_name(kind), "?");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(time_is_attributed_to_the_right_tenant),
                RIG_TEST(a_disabled_tenant_does_not_run_and_its_control_block_says_so),
                RIG_TEST(a_tenant_that_may_end_its_work_ends_it_and_one_that_may_not_stops),
                RIG_TEST(the_heartbeat_goes_on_with_the_scheduler_and_begins_without_it),
                RIG_TEST(a_group_that_says_it_copies_is_disabled_and_metered_like_any),
                RIG_TEST(channels_of_an_engine_that_is_off_go_off_once_whatever_comes_and_goes),
                RIG_TEST(an_engine_that_is_off_while_its_tenant_comes_and_goes_comes_back),
                RIG_TEST(a_context_of_no_tenant_is_an_event_once),
                RIG_TEST(running_work_is_preempted),
                RIG_TEST(a_removed_tenant_is_enabled_and_so_are_all_at_the_end),
                RIG_TEST(the_control_block_of_a_dead_daemon_is_continued),
                RIG_TEST(an_idle_tenant_alone_is_not_charged_for_ever),
                RIG_TEST(idle_time_is_distinguished_from_a_long_kernel),
                RIG_TEST(a_tenant_on_the_device_at_the_start_is_noticed),
                RIG_TEST(signs_of_work_reach_the_policy),
                RIG_TEST(a_lost_device_is_reported_once_and_nothing_hangs),
                RIG_TEST(lost_records_are_reported),
                cmocka_unit_test(two_hundred_tenants_are_cheap),
                cmocka_unit_test(every_event_has_a_name),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
