/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/plugin/resize/resizer.h"

#include "ask/ask.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/thread.h"
#include "kube/plugin/allocations.h"
#include "kube/plugin/resize/resize.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
        DONE_MOST = 1024, /* as many allocations as the daemon takes */
        POD_NAME = 254,
        EVENT_NAME = 200, /* of the pod's name in that of its event */
};

/* A pass: its clients, and the row at hand. */
struct pass {
        struct resizer *resizer;
        struct ask *ask;
        struct api *api;
        json_int_t id;
        enum resizer_event event;
        const char *tenant, *uid, *container;
        char namespace[64], pod[POD_NAME];
};

/* ---- what was asked already ---------------------------------------------------------------------- */

static struct resizer_done *done_of(const struct resizer *resizer, json_int_t tenant)
{
        for (size_t i = 0; i < resizer->n_done; i++)
                if (resizer->done[i].tenant == tenant)
                        return &resizer->done[i];
        return NULL;
}

bool resizer_is_due(const struct resizer *resizer, json_int_t tenant, const char *asked, nsec now)
{
        const struct resizer_done *done = done_of(resizer, tenant);

        return !done || strcmp(done->asked, asked) != 0 || (done->again_at && now >= done->again_at);
}

enum resizer_event resizer_note(struct resizer *resizer, json_int_t tenant, const char *asked, int outcome, nsec now)
{
        struct resizer_done *done = done_of(resizer, tenant);
        enum resizer_event event = done ? RESIZER_SAY_NEW : RESIZER_SAY_FIRST;
        char *copy = strdup(asked);

        if (done && outcome == -EBUSY && !strcmp(done->asked, asked))
                event = RESIZER_SAY_NOTHING;
        if (!copy || (!done && resizer->n_done == DONE_MOST)) {
                free(copy);
                return event;
        }
        if (!done) {
                done = &resizer->done[resizer->n_done++];
                *done = (struct resizer_done){ .tenant = tenant, .is_there = true };
        }
        free(done->asked);
        done->asked = copy;
        done->again_at = outcome == -EBUSY ? now + RESIZER_AGAIN : 0;
        return event;
}

/* Forgets tenants that are gone. */
static void sweep(struct resizer *resizer)
{
        size_t n = 0;

        for (size_t i = 0; i < resizer->n_done; i++) {
                if (!resizer->done[i].is_there) {
                        free(resizer->done[i].asked);
                        continue;
                }
                resizer->done[n] = resizer->done[i];
                resizer->done[n++].is_there = false;
        }
        resizer->n_done = n;
}

/* ---- the pod's event ----------------------------------------------------------------------------- */

static uint64_t number_of(const struct pass *pass, const char *text)
{
        uint64_t h = 14695981039346656037u ^ (uint64_t)pass->id; /* FNV-1a */

        if (pass->event == RESIZER_SAY_NEW)
                h = (h ^ (uint64_t)clock_realtime()) * 1099511628211u;
        for (; *text; text++)
                h = (h ^ (unsigned char)*text) * 1099511628211u;
        return h;
}

static json_t *event_json(const struct pass *pass, bool is_refused, const char *message)
{
        char name[EVENT_NAME + 24], when[32];
        time_t now = time(NULL);
        struct tm utc;

        (void)snprintf(name, sizeof(name), "%.*s.%016llx", EVENT_NAME, pass->pod,
                       (unsigned long long)number_of(pass, message));
        (void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
        return json_pack("{s:s,s:s,s:{s:s,s:s},s:{s:s,s:s,s:s,s:s,s:s},s:s,s:s,s:s,s:{s:s},s:s,s:s,s:i}", "apiVersion",
                         "v1", "kind", "Event", "metadata", "name", name, "namespace", pass->namespace,
                         "involvedObject", "apiVersion", "v1", "kind", "Pod", "name", pass->pod, "namespace",
                         pass->namespace, "uid", pass->uid, "reason", is_refused ? "NotResized" : "Resized", "message",
                         message, "type", is_refused ? "Warning" : "Normal", "source", "component",
                         "sublet-device-plugin", "firstTimestamp", when, "lastTimestamp", when, "count", 1);
}

static void event_send(const struct pass *pass, bool is_refused, const char *message)
{
        json_t *body = event_json(pass, is_refused, message), *answer = NULL;
        struct err err = { 0 };
        char path[160];
        long status = 0;
        int r;

        (void)snprintf(path, sizeof(path), "/api/v1/namespaces/%s/events", pass->namespace);
        r = body ? api_call(pass->api, "POST", path, NULL, body, &status, &answer, &err) : -ENOMEM;
        if (r < 0 || (status >= 300 && status != 409))
                pass->resizer->reporter->say("the event of pod %s/%s (%s): %s", pass->namespace, pass->pod, message,
                                             r < 0 ? err.text : "the API server refuses it");
        json_decref(answer);
        json_decref(body);
}

/* ---- the change ---------------------------------------------------------------------------------- */

/* Of the pod of the row, with its name; NULL: nothing is asked for. */
static char *asked_of(struct pass *pass, json_t **ret)
{
        struct allocation_reporter *reporter = pass->resizer->reporter;
        const struct pods_pod *pod;
        LOCKED(&reporter->lock);

        pod = pods_find(&reporter->pods, pass->uid);
        if (!pod || !pod->asked)
                return NULL;
        (void)snprintf(pass->namespace, sizeof(pass->namespace), "%s", pod->namespace);
        (void)snprintf(pass->pod, sizeof(pass->pod), "%s", pod->name);
        *ret = json_deep_copy(pod->asked);
        return json_dumps(pod->asked, JSON_COMPACT | JSON_SORT_KEYS);
}

/* 0: changed; -EBUSY: refused as things are; -EINVAL, ...: refused for good; -EAGAIN: not asked, or not answered. */
static int change(const struct pass *pass, const json_t *asked, const struct resize_row *row, struct err *err)
{
        json_t *body = NULL, *answer = NULL;
        char path[ASK_PATH];
        int r = resize_make(asked, row, &body, err);

        if (r == 0)
                r = ask_path(path, "/v1/tenants/", pass->tenant);
        if (r == 0)
                r = ask_patch(pass->ask, path, body, &answer, err);
        json_decref(answer);
        json_decref(body);
        return r == -ECONNREFUSED || r == -ETIMEDOUT || r == -EIO || r == -ENOENT || r == -ENOMEM ? -EAGAIN : r;
}

static void look_at(struct pass *pass, const json_t *json)
{
        const struct resize_row row = { (bytes)json_integer_value(json_object_get(json, "mem_bytes")),
                                        (unsigned int)json_integer_value(json_object_get(json, "share_permille")) };
        _cleanup_(freep) char *text = NULL;
        struct resizer_done *done;
        json_t *asked = NULL;
        struct err err = { 0 };
        char message[ALLOCATIONS_WHY * 3];
        int r;

        pass->id = json_integer_value(json_object_get(json, "tenant_id"));
        pass->tenant = json_string_value(json_object_get(json, "tenant"));
        pass->uid = json_string_value(json_object_get(json, "pod"));
        pass->container = json_string_value(json_object_get(json, "container"));
        if (!pass->tenant || !pass->uid || !pass->container)
                return;
        done = done_of(pass->resizer, pass->id);
        if (done)
                done->is_there = true;
        text = asked_of(pass, &asked);
        if (text && resizer_is_due(pass->resizer, pass->id, text, clock_now()) &&
            (r = change(pass, asked, &row, &err)) != -EAGAIN) {
                (void)snprintf(message, sizeof(message), "container %.63s: %.500s", pass->container,
                               r < 0 ? err.text : text);
                pass->event = resizer_note(pass->resizer, pass->id, text, r, clock_now());
                if (pass->event != RESIZER_SAY_NOTHING)
                        event_send(pass, r < 0, message);
        }
        json_decref(asked);
}

static bool is_anything_asked(struct allocation_reporter *reporter)
{
        LOCKED(&reporter->lock);

        for (const struct pods_pod *pod = reporter->pods.first; pod; pod = pod->next)
                if (pod->asked)
                        return true;
        return false;
}

static void resize_all(struct pass *pass)
{
        json_t *rows = NULL;
        const json_t *row;
        size_t i;

        if (!is_anything_asked(pass->resizer->reporter) || ask_get(pass->ask, "/v1/allocations", &rows, NULL) < 0)
                return;
        json_array_foreach (rows, i, row)
                look_at(pass, row);
        json_decref(rows);
        sweep(pass->resizer);
}

static void *resizer_run(void *context)
{
        const struct timespec second = { .tv_sec = 1 };
        struct resizer *resizer = context;
        struct pass pass = { .resizer = resizer };

        if (ask_new(resizer->reporter->dir, &pass.ask, NULL) == 0 && api_new(&resizer->reporter->api, &pass.api) == 0)
                while (!atomic_load(&resizer->is_ending)) {
                        resize_all(&pass);
                        (void)nanosleep(&second, NULL);
                }
        pass.ask = ask_free(pass.ask);
        pass.api = api_free(pass.api);
        return NULL;
}

int resizer_start(struct resizer *resizer, struct err *err)
{
        int r;

        resizer->done = calloc(DONE_MOST, sizeof(*resizer->done));
        r = resizer->done ? thread_start(&resizer->thread, resizer_run, resizer) : -ENOMEM;
        resizer->is_started = r == 0;
        return r < 0 ? err_set(err, r, "starting a thread") : 0;
}

void resizer_stop(struct resizer *resizer)
{
        atomic_store(&resizer->is_ending, true);
        if (resizer->is_started)
                (void)pthread_join(resizer->thread, NULL);
        for (size_t i = 0; i < resizer->n_done; i++)
                free(resizer->done[i].asked);
        free(resizer->done);
        resizer->done = NULL;
        resizer->n_done = 0;
        resizer->is_started = false;
}
