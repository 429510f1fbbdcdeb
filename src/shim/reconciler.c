#include "shim/reconciler.h"

#include <sys/prctl.h>

#define ROUND (250 * NSEC_PER_MSEC)
#define SILENT (BOARD_SILENT_MSEC * NSEC_PER_MSEC)

/* Nobody wishes: S2, S3. Before the first beat there is nothing to follow. */
static bool is_alone(const struct steward *steward, nsec now)
{
        nsec beat = steward->board->beat;

        return steward->is_orphan || !beat || now - beat > SILENT;
}

/* A daemon that has just begun to beat is followed at once, also before this thread has noticed. */
struct gate_wish steward_wish(const struct steward *steward, unsigned int device)
{
        const struct board_device *on = &steward->board->devices[device];

        if (on->is_let_on && is_alone(steward, clock_now()))
                return (struct gate_wish){ 0 };
        return (struct gate_wish){ .is_off = on->is_off, .slice = on->slice };
}

/* ---- off and on ---------------------------------------------------------------------------------- */

/* A daemon that died may have written «on» and not made the call: so the call is made whatever the board says. */
static void let_on(struct steward *steward, unsigned int device)
{
        struct board_device *on = &steward->board->devices[device];

        on->is_let_on = 1;
        (void)gate_off(steward->gate, device, false);
}

/* The daemon beats again: what it wished meanwhile holds. S4 */
static void follow_again(struct steward *steward, unsigned int device)
{
        struct board_device *on = &steward->board->devices[device];
        bool is_off;

        on->is_let_on = 0;
        do {
                is_off = on->is_off;
                if (is_off)
                        (void)gate_off(steward->gate, device, true);
        } while (is_off && !on->is_off && gate_off(steward->gate, device, false) == 0 && on->is_off);
}

static void set_slice(struct steward *steward, unsigned int device)
{
        struct board_device *on = &steward->board->devices[device];
        nsec slice = steward_wish(steward, device).slice;

        on->n_slice_failed = gate_slice(steward->gate, device, slice);
        on->slice_set = slice;
        steward->devices[device].retry_at = on->n_slice_failed ? clock_now() + ROUND : 0;
}

/* A tenant that hides its descriptor makes the search for it long: it is not searched at each turn. */
static bool is_retry_due(const struct steward *steward, unsigned int device)
{
        nsec at = steward->devices[device].retry_at;

        return at && clock_now() >= at;
}

/* ---- signs of work ------------------------------------------------------------------------------- */

static void look(struct steward *steward, unsigned int device, nsec now)
{
        struct board_device *on = &steward->board->devices[device];
        struct gate_signs signs;

        gate_look(steward->gate, device, &signs);
        on->can_watch = signs.can_watch;
        on->n_pending = signs.n_pending;
        if (signs.has_moved)
                on->launched_at = now;
        on->looked_at = now;
        steward->devices[device].looked_at = now;
}

/* When to look next; a device that nobody watches is looked at once more only to give back what was mapped. */
static nsec look_if_due(struct steward *steward, unsigned int device, bool is_alone_now)
{
        nsec now = clock_now(), period = is_alone_now ? 0 : (nsec)steward->board->devices[device].watch;
        nsec due = steward->devices[device].looked_at + period;

        if (gate_look_is_stale(steward->gate) || (period > 0 && now >= due)) {
                look(steward, device, now);
                due = now + period;
        }
        return period > 0 ? due : now + ROUND;
}

/* ---- the thread ---------------------------------------------------------------------------------- */

/* One device. When to be back. */
static nsec attend(struct steward *steward, unsigned int device, bool is_alone_now, bool has_changed)
{
        struct board_device *on = &steward->board->devices[device];

        if (is_alone_now && !on->is_let_on)
                let_on(steward, device);
        else if (!is_alone_now && on->is_let_on)
                follow_again(steward, device);
        if (has_changed || is_retry_due(steward, device) || on->slice_set != steward_wish(steward, device).slice)
                set_slice(steward, device);
        return look_if_due(steward, device, is_alone_now);
}

/* S2. The board is ours alone until another daemon has mapped it, and that waits for has_let_on. */
static void forget_wishes(struct steward *steward)
{
        struct board *board = steward->board;

        board->beat = 0;
        for (unsigned int i = 0; i < board->n_devices; i++) {
                board->devices[i].is_off = 0;
                board->devices[i].slice = 0;
                board->devices[i].watch = 0;
        }
}

static nsec attend_all(struct steward *steward)
{
        bool is_alone_now = is_alone(steward, clock_now()), has_changed = atomic_exchange(&steward->has_changed, false);
        bool is_undoing = steward->is_orphan && !steward->has_let_on;
        nsec back = clock_now() + ROUND, one;

        if (is_undoing)
                forget_wishes(steward);
        for (unsigned int i = 0; i < steward->lease->n_devices; i++) {
                if (!steward->lease->devices[i].is_granted)
                        continue;
                if (is_undoing)
                        steward->board->devices[i].is_let_on = 0; /* let on anew, though it was silent before */
                one = attend(steward, i, is_alone_now, has_changed);
                back = one < back ? one : back;
        }
        if (is_undoing)
                steward->has_let_on = true;
        return back;
}

static void *serve(void *context)
{
        struct steward *steward = context;

        (void)prctl(PR_SET_NAME, "steward");
        while (!steward->is_ending) {
                uint32_t seen = steward->board->wish;
                nsec back = attend_all(steward), now = clock_now();

                if (back > now)
                        (void)board_wish_wait(steward->board, seen, back - now);
        }
        return NULL;
}

int steward_start(struct steward *steward)
{
        int r = pthread_create(&steward->thread, NULL, serve, steward);

        if (r)
                steward->thread = 0;
        return -r;
}

void steward_wake(struct steward *steward)
{
        board_wish_tell(steward->board);
}

void steward_stop(struct steward *steward)
{
        if (!steward->thread)
                return;
        steward->is_ending = true;
        steward_wake(steward);
        (void)pthread_join(steward->thread, NULL);
        steward->thread = 0;
}
