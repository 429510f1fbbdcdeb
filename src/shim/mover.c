/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mover.h"

#include "gpu/copy.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#define READY_STEP GIB

/* A killed program loses its files, and with them its memory, a moment before its gate hears of its end. */
#define GONE_BY (250 * NSEC_PER_MSEC)

/* ---- the copier ------------------------------------------------------------------------------------------ */

static int on_begin(void *context, unsigned int device, bytes size)
{
        struct mover *mover = context;
        int r = 0;

        mover->asked += size;
        if (mover->way.is_out && mover->way.bound && mover->asked > mover->way.bound)
                return -EDQUOT; /* it has taken more since the daemon looked */
        if (!mover->engines[device])
                r = gpu_copy_new(mover->backend, device, &mover->engines[device]);
        return r < 0 ? r : gpu_copy_begin(mover->engines[device], size);
}

static int on_take(void *context, unsigned int device, uint32_t client, uint32_t object, struct gate_piece *piece)
{
        struct gpu_copy_piece ours = { .size = piece->size };
        int r = gpu_copy_take(((struct mover *)context)->engines[device], client, object, &ours);

        if (r == 0)
                *piece = (struct gate_piece){ ours.handle, ours.at, ours.size };
        return r;
}

static int on_give(void *context, unsigned int device, const struct gate_piece *piece)
{
        return gpu_copy_give(((struct mover *)context)->engines[device],
                             &(struct gpu_copy_piece){ piece->handle, piece->at, piece->size });
}

static int on_copy(void *context, unsigned int device, bool is_out, const struct gate_piece *piece, bytes host)
{
        return gpu_copy_ask(((struct mover *)context)->engines[device], is_out,
                            &(struct gpu_copy_piece){ piece->handle, piece->at, piece->size }, host);
}

static int on_wait(void *context, unsigned int device)
{
        struct gpu_copy *engine = ((struct mover *)context)->engines[device];

        return engine ? gpu_copy_wait(engine) : 0;
}

/* Of all devices but one. */
static bytes rooms(const struct mover *mover, unsigned int but)
{
        bytes size = 0;

        for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++)
                if (i != but)
                        size += gpu_copy_room(mover->engines[i]);
        return size;
}

/* Nothing is in it. */
static void room_bound(struct mover *mover, unsigned int device)
{
        bytes others = rooms(mover, device), keep = mover->keep;

        gpu_copy_shrink(mover->engines[device], keep > others ? keep - others : 0);
        if (!gpu_copy_room(mover->engines[device]))
                mover->engines[device] = gpu_copy_free(mover->engines[device]);
}

static void on_end(void *context, unsigned int device, bool is_kept)
{
        struct mover *mover = context;

        if (!mover->engines[device])
                return;
        gpu_copy_end(mover->engines[device], true);
        if (!is_kept && gpu_copy_is_leaking(mover->engines[device])) /* room is made anew when the thread ends */
                mover->engines[device] = gpu_copy_free(mover->engines[device]);
        else if (!is_kept)
                room_bound(mover, device);
}

static int on_ready(void *context, unsigned int device, bytes size, bool *ret_is_all)
{
        struct mover *mover = context;
        bytes others = rooms(mover, device), most = mover->keep > others ? mover->keep - others : 0, has;
        int r = 0;

        size = size < most ? size : most;
        has = gpu_copy_room(mover->engines[device]);
        *ret_is_all = has >= size;
        if (*ret_is_all || mover->has_next)
                return *ret_is_all ? 0 : -ECANCELED;
        if (!mover->engines[device])
                r = gpu_copy_new(mover->backend, device, &mover->engines[device]);
        return r < 0 ? r : gpu_copy_ready(mover->engines[device], size - has < READY_STEP ? size : has + READY_STEP);
}

static int on_spare(void *context, bytes size)
{
        (void)context;
        return gpu_copy_spare(size);
}

/* ---- the thread ------------------------------------------------------------------------------------------ */

int mover_init(struct mover *mover, const struct gpu_backend *backend)
{
        *mover = (struct mover){ .backend = backend,
                                 .copier = { mover, on_begin, on_take, on_give, on_copy, on_wait, on_end, on_ready,
                                             on_spare } };
        mover->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return mover->done < 0 ? -errno : 0;
}

/* What failed because the program was killed is no failure of the way, and nobody has lost what it had. */
static bool is_gone(struct mover *mover)
{
        bool has_failed = mover->moved.outcome == GATE_MOVE_AS_BEFORE || mover->moved.outcome == GATE_MOVE_LOST;

        return has_failed && gate_wait(mover->gate, GONE_BY);
}

static void *move(void *context)
{
        struct mover *mover = context;

        (void)prctl(PR_SET_NAME, "mover");
        mover->asked = 0;
        if (mover->way.is_out)
                gate_move_out(mover->gate, mover->way.is_steered, mover->way.part, &mover->moved);
        else
                gate_move_in(mover->gate, &mover->moved);
        if (is_gone(mover))
                mover->moved.outcome = GATE_MOVE_GONE;
        if (mover->moved.outcome == GATE_MOVE_CANNOT)
                mover->keep = 0; /* whatever moves it now, its memory is not needed here besides */
        mover->has_answered = true;
        (void)eventfd_write(mover->done, 1);
        gate_move_rest(mover->gate);
        mover->is_over = true;
        (void)eventfd_write(mover->done, 1);
        return NULL;
}

static void *make_ready(void *context)
{
        struct mover *mover = context;

        (void)prctl(PR_SET_NAME, "mover");
        if (!gate_is_moved(mover->gate))
                for (unsigned int i = 0; i < LEASE_DEVICES_MAX; i++)
                        if (mover->engines[i])
                                room_bound(mover, i);
        gate_move_ready(mover->gate, mover->keep);
        mover->is_over = true;
        (void)eventfd_write(mover->done, 1);
        return NULL;
}

static void ready_start(struct mover *mover)
{
        if (!mover->is_ready_wanted || mover->has_thread || gate_is_moved(mover->gate))
                return;
        mover->is_ready_wanted = false;
        mover->is_over = false;
        mover->is_making_ready = true;
        mover->has_thread = pthread_create(&mover->thread, NULL, make_ready, mover) == 0;
}

void mover_keep(struct mover *mover, bytes most)
{
        mover->keep = most;
        mover->is_ready_wanted = true;
        ready_start(mover);
}

void mover_announce(struct mover *mover, const struct mover_way *way)
{
        mover->is_announced_out = way->is_out;
}

bool mover_is_leaving(const struct mover *mover)
{
        bool is_on_way = mover->has_thread && !mover->is_making_ready && !mover->is_told && mover->way.is_out;

        return is_on_way || mover->is_announced_out || (mover->has_next && mover->next.is_out);
}

int mover_start(struct mover *mover, const struct mover_way *way)
{
        int r;

        mover->is_announced_out = false;
        if (mover->has_thread) {
                mover->next = *way;
                mover->has_next = true;
                return 0;
        }
        mover->way = *way;
        mover->is_making_ready = false;
        mover->has_answered = mover->is_over = mover->is_told = false;
        r = pthread_create(&mover->thread, NULL, move, mover);
        mover->has_thread = r == 0;
        return -r;
}

void mover_stop(struct mover *mover)
{
        if (mover->has_thread)
                (void)pthread_join(mover->thread, NULL);
        mover->has_thread = false;
}

enum mover_news mover_take(struct mover *mover)
{
        eventfd_t ignored;

        (void)eventfd_read(mover->done, &ignored); /* first: what it says is looked at below */
        if (!mover->is_making_ready && mover->has_answered && !mover->is_told) {
                mover->is_told = true;
                if (mover->is_over)
                        (void)eventfd_write(mover->done, 1); /* and again */
                return MOVER_ANSWER;
        }
        if (!mover->has_thread || !mover->is_over)
                return MOVER_NOTHING;
        (void)pthread_join(mover->thread, NULL);
        mover->has_thread = false;
        mover->is_ready_wanted |= !mover->is_making_ready || mover->has_next; /* it was interrupted, or has moved */
        if (mover->has_next)
                (void)mover_start(mover, &mover->next);
        mover->has_next = false;
        ready_start(mover);
        return MOVER_OVER;
}
