/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the desired state true; see reconciler.h. */
#include "shim/reconciler.h"

#include "gate/move/move.h"

#include <sys/prctl.h>

#define ROUND (250 * NSEC_PER_MSEC)
#define LOOK (5 * NSEC_PER_MSEC) /* for work on channels that are off, while memory is away */
#define SILENT (CONTROL_BLOCK_SILENT_MSEC * NSEC_PER_MSEC)

/* No daemon maintains the desired state: S2, S3, or none has sent a heartbeat yet. */
static bool is_alone(const struct reconciler *reconciler, nsec now)
{
        nsec heartbeat = reconciler->control->heartbeat;

        return reconciler->is_orphan || !heartbeat || now - heartbeat > SILENT;
}

/* A new daemon's desired state applies from its first heartbeat on, also before the reconciler has noticed. */
struct gate_desired reconciler_desired(const struct reconciler *reconciler, unsigned int device)
{
        const struct control_device *on = &reconciler->control->devices[device];

        if (on->is_reenabled && is_alone(reconciler, clock_now()))
                return (struct gate_desired){ 0 };
        return (struct gate_desired){ .is_disabled = on->is_disabled, .slice = on->slice };
}

/* A daemon that died may have written "enabled" without making the call, so the call is made whatever is written. */
static void desired_override(struct reconciler *reconciler, unsigned int device)
{
        struct control_device *on = &reconciler->control->devices[device];

        on->is_reenabled = 1;
        (void)gate_channels_set(reconciler->gate, device, false);
}

/* The heartbeat is back: the present desired state applies. S4 */
static void desired_resume(struct reconciler *reconciler, unsigned int device)
{
        struct control_device *on = &reconciler->control->devices[device];
        bool is_disabled;

        do {
                is_disabled = on->is_disabled;
                if (is_disabled)
                        (void)gate_channels_set(reconciler->gate, device, true);
        } while (is_disabled && !on->is_disabled && gate_channels_set(reconciler->gate, device, false) == 0 &&
                 on->is_disabled);
        on->is_reenabled = 0; /* the daemon's own calls for these channels may begin: sched/orders.c, is_due */
}

static void set_slice(struct reconciler *reconciler, unsigned int device)
{
        struct control_device *on = &reconciler->control->devices[device];
        nsec slice = reconciler_desired(reconciler, device).slice;

        on->n_slice_failed = gate_timeslice_set(reconciler->gate, device, slice);
        on->slice_set = slice;
        reconciler->devices[device].retry_at = on->n_slice_failed ? clock_now() + ROUND : 0;
}

/* A tenant that hides its descriptor makes the search for it long, so the search is not repeated in each pass. */
static bool is_retry_due(const struct reconciler *reconciler, unsigned int device)
{
        nsec at = reconciler->devices[device].retry_at;

        return at && clock_now() >= at;
}

static void engine_publish(struct control_engine *on, const struct gate_engine_signs *signs, nsec now)
{
        on->n_pending = signs->n_pending;
        on->n_unseen = signs->n_unseen;
        if (signs->has_moved)
                on->launched_at = now;
}

static void signs_poll(struct reconciler *reconciler, unsigned int device, nsec now)
{
        struct control_device *on = &reconciler->control->devices[device];
        struct gate_signs signs;

        gate_signs_read(reconciler->gate, device, &signs);
        on->can_watch = signs.can_watch;
        on->n_pending = signs.n_pending;
        if (signs.has_moved)
                on->launched_at = now;
        for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++)
                engine_publish(control_block_engine(reconciler->control, device, engine), &signs.engines[engine], now);
        control_block_quiet_put(reconciler->control, device, signs.has_moved || signs.n_pending, on->checked_at, now);
        on->checked_at = now;
        reconciler->devices[device].checked_at = now;
}

/* Returns when to be back. A device without `watch` is polled once more only to release what was mapped. */
static nsec signs_poll_if_due(struct reconciler *reconciler, unsigned int device, bool is_alone_now)
{
        nsec now = clock_now(), period = is_alone_now ? 0 : (nsec)reconciler->control->devices[device].watch;
        nsec due = reconciler->devices[device].checked_at + period;

        if (gate_signs_are_stale(reconciler->gate) || (period > 0 && now >= due)) {
                signs_poll(reconciler, device, now);
                due = now + period;
        }
        return period > 0 ? due : now + ROUND;
}

/* Returns when to be back. */
static nsec device_reconcile(struct reconciler *reconciler, unsigned int device, bool is_alone_now, bool has_changed)
{
        struct control_device *on = &reconciler->control->devices[device];

        if (is_alone_now && !on->is_reenabled)
                desired_override(reconciler, device);
        else if (!is_alone_now && on->is_reenabled)
                desired_resume(reconciler, device);
        if (has_changed || is_retry_due(reconciler, device) ||
            on->slice_set != reconciler_desired(reconciler, device).slice)
                set_slice(reconciler, device);
        return signs_poll_if_due(reconciler, device, is_alone_now);
}

/* S2. No other daemon has mapped the control block yet: the main thread reconnects only after has_undone. */
static void desired_undo(struct reconciler *reconciler)
{
        struct control_block *control = reconciler->control;

        control->heartbeat = 0;
        for (unsigned int i = 0; i < control->n_devices; i++) {
                control->devices[i].is_disabled = 0;
                control->devices[i].slice = 0;
                control->devices[i].watch = 0;
                for (enum rm_engine engine = 1; engine < RM_N_ENGINES; engine++)
                        control_block_engine(control, i, engine)->is_disabled = 0;
        }
}

static nsec devices_reconcile(struct reconciler *reconciler)
{
        bool is_alone_now = is_alone(reconciler, clock_now()),
             has_changed = atomic_exchange(&reconciler->has_changed, false);
        bool is_undoing = reconciler->is_orphan && !reconciler->has_undone;
        nsec back = clock_now() + ROUND, one;

        if (is_undoing)
                desired_undo(reconciler);
        for (unsigned int i = 0; i < reconciler->lease->n_devices; i++) {
                if (!reconciler->lease->devices[i].is_granted)
                        continue;
                if (is_undoing)
                        reconciler->control->devices[i].is_reenabled = 0; /* enable once more */
                one = device_reconcile(reconciler, i, is_alone_now, has_changed);
                back = one < back ? one : back;
        }
        if (is_undoing)
                reconciler->has_undone = true;
        return back;
}

/* A channel that is off has work: the daemon learns it as it learns of a call that waits. Returns when to be back. */
static nsec wanted_look(struct reconciler *reconciler, nsec back)
{
        struct control_waiting *waiting = &reconciler->control->waiting;
        bool is_wanted =
                gate_is_moved(reconciler->gate) && (reconciler->is_wanted || gate_move_is_wanted(reconciler->gate));
        nsec soon = clock_now() + LOOK;

        if (is_wanted && !reconciler->is_wanted)
                waiting->process = 0; /* of whichever */
        if (is_wanted != reconciler->is_wanted)
                waiting->n += is_wanted ? 1 : UINT32_MAX;
        reconciler->is_wanted = is_wanted;
        return gate_is_moved(reconciler->gate) && soon < back ? soon : back;
}

static void *reconciler_run(void *context)
{
        struct reconciler *reconciler = context;

        (void)prctl(PR_SET_NAME, "steward");
        while (!reconciler->is_ending) {
                uint32_t seen = reconciler->control->desired;
                nsec back = wanted_look(reconciler, devices_reconcile(reconciler)), now = clock_now();

                if (back > now)
                        (void)control_block_wait(reconciler->control, seen, back - now);
        }
        return NULL;
}

int reconciler_start(struct reconciler *reconciler)
{
        int r = pthread_create(&reconciler->thread, NULL, reconciler_run, reconciler);

        if (r)
                reconciler->thread = 0;
        return -r;
}

void reconciler_stop(struct reconciler *reconciler)
{
        if (!reconciler->thread)
                return;
        reconciler->is_ending = true;
        control_block_notify(reconciler->control);
        (void)pthread_join(reconciler->thread, NULL);
        reconciler->thread = 0;
}
