/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state/suspend/sleeper.h"

static nsec at_most(nsec value, nsec most)
{
        return value < most ? value : most;
}

static void sign_note(struct sleeper *sleeper, const struct sleeper_view *view)
{
        if (!sleeper->active_at || view->is_at_work || view->n_calls != sleeper->n_calls)
                sleeper->active_at = view->now;
        else if (view->launched_at > sleeper->active_at)
                sleeper->active_at = view->launched_at;
        sleeper->n_calls = view->n_calls;
}

bool sleeper_sleeps(struct sleeper *sleeper, const struct sleeper_view *view)
{
        nsec idle;

        sign_note(sleeper, view);
        idle = view->now - sleeper->active_at;
        if (!view->after || !view->has_waker || idle < view->after + sleeper->rest)
                return false;
        sleeper->slept_at = view->now;
        sleeper->idle = idle;
        return true;
}

void sleeper_stays(struct sleeper *sleeper)
{
        sleeper->slept_at = 0;
}

bool sleeper_wakes(const struct sleeper *sleeper, const struct sleeper_view *view)
{
        bool is_left = sleeper->slept_at && !view->has_waker;

        return (view->is_called || is_left) && view->now >= sleeper->retry_at;
}

void sleeper_is_down(struct sleeper *sleeper, nsec now)
{
        sleeper->slept_at = now;
        sleeper->idle = 0;
}

void sleeper_failed(struct sleeper *sleeper, nsec now)
{
        nsec rest = sleeper->rest < SLEEPER_REST_FAILED ? SLEEPER_REST_FAILED : 2 * sleeper->rest;

        sleeper->rest = at_most(rest, SLEEPER_REST_MOST);
        sleeper->active_at = now;
        sleeper->slept_at = 0;
}

void sleeper_refused(struct sleeper *sleeper, nsec now)
{
        sleeper->retry = at_most(sleeper->retry ? 2 * sleeper->retry : SLEEPER_RETRY_FIRST, SLEEPER_RETRY_LAST);
        sleeper->retry_at = now + sleeper->retry;
}

void sleeper_is_up(struct sleeper *sleeper, nsec now)
{
        if (sleeper->slept_at)
                sleeper->rest = now - sleeper->slept_at < sleeper->idle ?
                                        at_most(sleeper->rest + sleeper->idle, SLEEPER_REST_MOST) :
                                        0;
        sleeper->slept_at = 0;
        sleeper->active_at = now;
        sleeper->retry_at = sleeper->retry = 0;
}

void sleeper_is_kept(struct sleeper *sleeper)
{
        sleeper->slept_at = 0;
}
