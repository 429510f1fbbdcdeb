#include "kube/client/informer.h"

#include "base/cleanup.h"
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
        PAGE = 500,
        PAGE_BYTES = 8 << 20, /* values take ten times that and more: larger answers are requested in smaller pages */
        STREAM_SEC = 240,     /* the server ends it then; we do some seconds later, if it has not */
        PAUSE_FIRST_MSEC = 200,
        PAUSE_MOST_MSEC = 30000,
        PATH = 1024,
};

static const char *text_at(const json_t *json, const char *a, const char *b)
{
        return json_string_value(json_object_get(json_object_get(json, a), b));
}

static void keep_version(struct informer *informer, const char *version)
{
        if (version && *version && strlen(version) < sizeof(informer->version))
                memcpy(informer->version, version, strlen(version) + 1);
}

/* ---- lists ------------------------------------------------------------------------------------- */

static int take_page(struct informer *informer, const json_t *page)
{
        const json_t *items = json_object_get(page, "items"), *item;
        size_t i;

        json_array_foreach (items, i, item)
                if (informer->put(informer->context, item) == -ENOMEM)
                        return -ENOMEM;
        keep_version(informer, text_at(page, "metadata", "resourceVersion"));
        return 0;
}

/* Reads one page. next: where it begins; then where the next one begins, or "". */
static int get_page(struct informer *informer, struct api *api, unsigned int limit, char *next, struct err *err)
{
        char path[PATH];
        json_t *page = NULL;
        const char *more;
        long status = 0;
        int r;

        (void)snprintf(path, sizeof(path), "%s?limit=%u%s%s%s", informer->path, limit,
                       informer->select ? informer->select : "", *next ? "&continue=" : "", next);
        api_bound(api, limit > 1 ? PAGE_BYTES : API_ANSWER);
        r = api_call(api, "GET", path, NULL, NULL, &status, &page, err);
        if (r == 0 && (status != 200 || !json_is_array(json_object_get(page, "items"))))
                r = err_say(err, status == 410 ? -ESTALE : -EIO, "listing %s: HTTP status %ld", informer->path, status);
        if (r == 0)
                r = take_page(informer, page);
        more = text_at(page, "metadata", "continue");
        if (r == 0 && more && strlen(more) >= PATH / 2)
                r = err_say(err, -EPROTO, "listing %s: a continuation too long", informer->path);
        if (r == 0)
                (void)snprintf(next, PATH / 2, "%s", more ? more : "");
        json_decref(page);
        return r;
}

/* Anybody writes objects; a few hundred large ones must not hide all the others. */
static unsigned int limit_after(int r, unsigned int limit)
{
        if (r == -EMSGSIZE)
                return limit / 8 ? limit / 8 : 1;
        return limit * 2 < PAGE ? limit * 2 : PAGE;
}

static int list_pages(struct informer *informer, struct api *api, struct err *err)
{
        unsigned int limit = PAGE, tried;
        char next[PATH / 2] = "";
        int r;

        atomic_store(&informer->is_stale, false);
        informer->begin(informer->context);
        do {
                tried = limit;
                r = get_page(informer, api, limit, next, err);
                limit = limit_after(r, limit);
        } while ((r == 0 && *next) || (r == -EMSGSIZE && tried > 1));
        if (r < 0)
                return r;
        informer->end(informer->context);
        atomic_fetch_add(&informer->n_lists, 1);
        atomic_store(&informer->is_synced, true);
        if (atomic_load(
                    &informer->is_stale)) /* renewed meanwhile, or just now: informer_renew stores in the opposite order */
                atomic_store(&informer->is_synced, false);
        return 0;
}

/* ---- streams ----------------------------------------------------------------------------------- */

static int take_event(struct informer *informer, const char *type, const json_t *object)
{
        int r = 0;

        if (!strcmp(type, "ERROR"))
                return json_integer_value(json_object_get(object, "code")) == 410 ? -ESTALE : -EPROTO;
        if (!strcmp(type, "ADDED") || !strcmp(type, "MODIFIED"))
                r = informer->put(informer->context, object);
        else if (!strcmp(type, "DELETED"))
                informer->drop(informer->context, object);
        if (r == -ENOMEM)
                return -ESTALE;
        keep_version(informer, text_at(object, "metadata", "resourceVersion")); /* a BOOKMARK has nothing else */
        atomic_fetch_add(&informer->n_events, 1);
        return 0;
}

int informer_take_event(struct informer *informer, const char *line, size_t size)
{
        json_t *event = json_loadb(line, size, 0, NULL);
        const char *type = json_string_value(json_object_get(event, "type"));
        const json_t *object = json_object_get(event, "object");
        int r = type && json_is_object(object) ? take_event(informer, type, object) : -EPROTO;

        json_decref(event);
        return r;
}

static int on_line(void *context, char *line, size_t size)
{
        struct informer *informer = context;

        return atomic_load(&informer->is_stale) ? -ESTALE : informer_take_event(informer, line, size);
}

static int follow_stream(struct informer *informer, struct api *api, struct err *err)
{
        char path[PATH];
        long status = 0;
        int r;

        (void)snprintf(path, sizeof(path), "%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s%s",
                       informer->path, STREAM_SEC, informer->version, informer->select ? informer->select : "");
        atomic_fetch_add(&informer->n_streams, 1);
        r = api_stream(api, path, (STREAM_SEC + 10) * NSEC_PER_SEC, on_line, informer, &status, err);
        if (r == 0 && status != 200)
                r = err_say(err, status == 410 ? -ESTALE : -EIO, "watching %s: HTTP status %ld", informer->path,
                            status);
        return r;
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

        while (clock_now() < until && !is_ending(informer))
                (void)nanosleep(&step, NULL);
        *msec = *msec * 2 < PAUSE_MOST_MSEC ? *msec * 2 : PAUSE_MOST_MSEC;
}

static void *informer_run(void *context)
{
        struct informer *informer = context;
        _cleanup_(api_freep) struct api *api = NULL;
        unsigned int pause = PAUSE_FIRST_MSEC;
        bool has_list = false;

        informer->api.is_cut = &informer->is_stale;
        while (api_new(&informer->api, &api) < 0 && !is_ending(informer))
                pause_for(informer, &pause);
        while (!is_ending(informer)) {
                struct err err = { 0 };
                unsigned int before = atomic_load(&informer->n_events);
                nsec began = clock_now();
                int r = has_list ? follow_stream(informer, api, &err) : list_pages(informer, api, &err);

                if (is_ending(informer))
                        break;
                has_list = (has_list || r == 0) && r != -ESTALE && r != -EPROTO && !atomic_load(&informer->is_stale);
                if (r == 0 &&
                    (!pause || before != atomic_load(&informer->n_events) || clock_now() - began > NSEC_PER_SEC))
                        pause = PAUSE_FIRST_MSEC;
                if (r < 0 && r != -ESTALE && !atomic_load(&informer->is_stale))
                        informer->fail(informer->context, err.text);
                if (r < 0 ||
                    (has_list && before == atomic_load(&informer->n_events) && atomic_load(&informer->n_streams) > 0))
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
