/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/informer.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
        PAUSE_FIRST_MSEC = 200,
        PAUSE_MOST_MSEC = 30000,
};

static int list_pages(struct informer *informer, struct api *api, struct err *err)
{
        struct watch *watch = &informer->watch;
        char path[WATCH_PATH];
        int r;

        atomic_store(&informer->is_stale, false);
        do {
                json_t *page = NULL;
                long status = 0;

                (void)watch_next(watch, path);
                api_lists(api, watch->most);
                r = api_call(api, "GET", path, NULL, NULL, &status, &page, err);
                if (r == 0)
                        (void)err_say(err, -EIO, "listing %s: HTTP status %ld", watch->path, status);
                r = watch_page(watch, r, status, page);
                json_decref(page);
        } while (r == 0 && !watch->is_listed);
        if (r < 0)
                return r;
        atomic_fetch_add(&informer->n_lists, 1);
        atomic_store(&informer->is_synced, true);
        if (atomic_load(&informer->is_stale)) /* renewed meanwhile; informer_renew stores in the opposite order */
                atomic_store(&informer->is_synced, false);
        return 0;
}

static int on_line(void *context, char *line, size_t size)
{
        struct informer *informer = context;
        int r = atomic_load(&informer->is_stale) ? -ESTALE : watch_line(&informer->watch, line, size);

        if (r == 0)
                atomic_fetch_add(&informer->n_events, 1);
        return r;
}

static int follow_stream(struct informer *informer, struct api *api, struct err *err)
{
        char path[WATCH_PATH];
        long status = 0;
        int r;

        (void)watch_next(&informer->watch, path);
        atomic_fetch_add(&informer->n_streams, 1);
        r = api_stream(api, path, WATCH_LIMIT, on_line, informer, &status, err);
        if (r == 0)
                (void)err_say(err, -EIO, "watching %s: HTTP status %ld", informer->watch.path, status);
        return watch_ended(&informer->watch, r, status);
}

/* ---- the thread -------------------------------------------------------------------------------- */

static bool is_ending(const struct informer *informer)
{
        return informer->api.is_ending && atomic_load(informer->api.is_ending);
}

/* Between half of *msec and all of it; *msec is doubled. */
static void pause_for(const struct informer *informer, unsigned int *msec)
{
        nsec until = clock_now() +
                     (*msec / 2 + (unsigned int)(clock_now() / NSEC_PER_USEC) % (*msec / 2 + 1)) * NSEC_PER_MSEC;
        const struct timespec step = { 0, 50 * NSEC_PER_MSEC };
        unsigned int most = informer->pause_most_msec ? informer->pause_most_msec : PAUSE_MOST_MSEC;

        /* A list that was asked for meanwhile does not wait for the end of the pause. */
        while (clock_now() < until && !is_ending(informer) && !atomic_load(&informer->is_stale))
                (void)nanosleep(&step, NULL);
        *msec = *msec * 2 < most ? *msec * 2 : most;
}

static void *informer_run(void *context)
{
        struct informer *informer = context;
        _cleanup_(api_freep) struct api *api = NULL;
        struct watch *watch = &informer->watch;
        unsigned int pause = PAUSE_FIRST_MSEC;

        informer->api.is_cut = &informer->is_stale;
        while (api_new(&informer->api, &api) < 0 && !is_ending(informer))
                pause_for(informer, &pause);
        while (!is_ending(informer)) {
                struct err err = { 0 };
                unsigned int before = atomic_load(&informer->n_events);
                nsec began = clock_now();
                int r = watch->is_listed ? follow_stream(informer, api, &err) : list_pages(informer, api, &err);

                if (is_ending(informer))
                        break;
                if (atomic_load(&informer->is_stale))
                        watch_renew(watch);
                if (r == 0 &&
                    (!pause || before != atomic_load(&informer->n_events) || clock_now() - began > NSEC_PER_SEC))
                        pause = PAUSE_FIRST_MSEC;
                if (r < 0 && r != -ESTALE && !atomic_load(&informer->is_stale))
                        informer->fail(watch->context, err.text);
                if (r < 0 || (watch->is_listed && before == atomic_load(&informer->n_events) &&
                              atomic_load(&informer->n_streams) > 0))
                        pause_for(informer, &pause); /* also after a stream that the server ended at once */
        }
        return NULL;
}

void informer_renew(struct informer *informer)
{
        atomic_store(&informer->is_stale, true);
        atomic_store(&informer->is_synced, false);
}

int informer_start(struct informer *informer)
{
        int r = pthread_create(&informer->thread, NULL, informer_run, informer);

        informer->is_started = r == 0;
        return -r;
}

void informer_end(struct informer *informer)
{
        if (informer->is_started)
                (void)pthread_join(informer->thread, NULL);
        informer->is_started = false;
}
