/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's loop: the daemon is asked every two seconds, and kubelet is answered in between. */
#include "kube/dra/dra.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/dra/claim.h"
#include "kube/dra/slice.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EVERY (2 * NSEC_PER_SEC)
#define TABLE_EVERY (10 * NSEC_PER_SEC)
#define SLICE_EVERY (30 * NSEC_PER_SEC)
#define SILENCE (15 * NSEC_PER_SEC) /* of a daemon; then no container could start, and nothing is offered */

enum {
        PATH = 640,
        HTTP_OK = 200,
        HTTP_CREATED = 201,
        HTTP_NOT_FOUND = 404,
};

static const struct grpc_method methods[] = {
        { "/pluginregistration.Registration/GetInfo", false, dra_info },
        { "/pluginregistration.Registration/NotifyRegistrationStatus", false, dra_registered },
        { "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources", false, dra_prepare },
        { "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodeUnprepareResources", false, dra_unprepare },
        { "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodePrepareResources", false, dra_prepare },
        { "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/NodeUnprepareResources", false, dra_unprepare },
};

static void say_if_new(struct dra *dra, const char *text)
{
        if (*text && strcmp(dra->wrong, text) != 0)
                dra->say("%s", text);
        (void)snprintf(dra->wrong, sizeof(dra->wrong), "%s", text);
}

/* ---- the daemon ---- */

int dra_send_table(struct dra *dra, struct err *err)
{
        json_t *table = book_table(&dra->book), *answer = NULL;
        int r = table ? ask_put(dra->ask, "/v1/allocations", table, &answer, err) : err_say(err, -ENOMEM, "no memory");

        dra->sent_at = r < 0 ? 0 : clock_now();
        json_decref(answer);
        json_decref(table);
        return r;
}

/* Perhaps a new daemon, without the table. */
static void meet(struct dra *dra)
{
        json_t *version = NULL;
        const char *driver;

        dra->sent_at = 0;
        if (ask_get(dra->ask, "/v1/version", &version, NULL) < 0)
                return;
        driver = json_string_value(json_object_get(version, "driver"));
        (void)snprintf(dra->driver, sizeof(dra->driver), "%s", driver ? driver : "");
        json_decref(version);
}

/* A daemon that restarts is silent for a while: what it said last stays. */
static int ask_devices(struct dra *dra, struct err *err)
{
        json_t *devices = NULL;
        int r = ask_get(dra->ask, "/v1/devices", &devices, err);

        if (r < 0 && clock_now() - dra->answered_at < SILENCE)
                return r;
        json_decref(dra->devices);
        dra->devices = devices;
        if (r < 0)
                return r;
        dra->answered_at = clock_now();
        if (ask_is_anew(dra->ask))
                meet(dra);
        return 0;
}

/* ---- the slice ---- */

static int call(struct dra *dra, const char *method, const char *path, const json_t *body, long *ret_status,
                json_t **ret, struct err *err)
{
        return api_call(dra->api, method, path, NULL, body, ret_status, ret, err);
}

static void find_owner(struct dra *dra)
{
        json_t *node = NULL;
        char path[PATH];
        const char *uid;
        long status;

        (void)snprintf(path, sizeof(path), "/api/v1/nodes/%s", dra->node);
        if (*dra->node_uid || call(dra, "GET", path, NULL, &status, &node, NULL) < 0)
                return;
        uid = json_string_value(json_object_get(json_object_get(node, "metadata"), "uid"));
        (void)snprintf(dra->node_uid, sizeof(dra->node_uid), "%s", uid ? uid : "");
        json_decref(node);
}

static struct slice_view view_of(const struct dra *dra, const json_t *devices)
{
        return (struct slice_view){
                .node = dra->node, .node_uid = dra->node_uid, .devices = devices, .driver = dra->driver
        };
}

/* Whether the i-th slice would say something else than the one that was published. */
static bool is_news(const struct dra *dra, size_t i)
{
        const struct slice_view now = view_of(dra, dra->devices), old = view_of(dra, dra->published);
        json_t *a = slice_make(&now, i, dra->n_slices, 1), *b = slice_make(&old, i, dra->n_slices, 1);
        bool is_equal = a && b && json_equal(a, b);

        json_decref(a);
        json_decref(b);
        return !is_equal;
}

/* A new generation of the pool is due: all of its slices are written again. */
static bool is_due(const struct dra *dra)
{
        if (!dra->generation || json_array_size(dra->devices) > dra->n_slices)
                return true;
        for (size_t i = 0; i < dra->n_slices; i++)
                if (is_news(dra, i))
                        return true;
        return false;
}

/* `version`: of the slice that is there; NULL: none. */
static int write_slice(struct dra *dra, size_t i, const char *name, const json_t *version, struct err *err)
{
        const struct slice_view view = view_of(dra, dra->devices);
        json_t *slice = slice_make(&view, i, dra->n_slices, dra->generation), *answer = NULL;
        char path[PATH];
        long status = 0;
        int r = slice ? 0 : err_say(err, -ENOMEM, "no memory");

        (void)snprintf(path, sizeof(path), DRA_API "/resourceslices%s%s", version ? "/" : "", version ? name : "");
        if (r == 0 && version)
                r = json_object_set(json_object_get(slice, "metadata"), "resourceVersion",
                                    (json_t *)(uintptr_t)version);
        if (r == 0)
                r = call(dra, version ? "PUT" : "POST", path, slice, &status, &answer, err);
        if (r == 0 && status != HTTP_OK && status != HTTP_CREATED)
                r = err_say(err, -EIO, "publishing the slice %s: HTTP status %ld: %.200s", name, status,
                            claim_text(answer, "message"));
        json_decref(answer);
        json_decref(slice);
        return r;
}

/* The i-th slice is there, and of this generation. */
static int put_slice(struct dra *dra, size_t i, struct err *err)
{
        const json_t *metadata, *pool;
        char path[PATH], name[SLICE_NAME];
        json_t *there = NULL;
        long status = 0;
        int r;

        slice_name(dra->node, i, name);
        (void)snprintf(path, sizeof(path), DRA_API "/resourceslices/%s", name);
        r = call(dra, "GET", path, NULL, &status, &there, err);
        if (r == 0 && status != HTTP_OK && status != HTTP_NOT_FOUND)
                r = err_say(err, -EIO, "reading the slice %s: HTTP status %ld", name, status);
        metadata = status == HTTP_OK ? json_object_get(there, "metadata") : NULL;
        pool = json_object_get(json_object_get(there, "spec"), "pool");
        if (r == 0 && !(metadata && json_integer_value(json_object_get(pool, "generation")) == dra->generation))
                r = write_slice(dra, i, name, json_object_get(metadata, "resourceVersion"), err);
        json_decref(there);
        return r;
}

/* The time makes a generation higher than that of any driver before this one. */
static int publish(struct dra *dra, struct err *err)
{
        json_int_t now = (json_int_t)time(NULL);
        int r = 0;

        find_owner(dra);
        if (is_due(dra)) {
                if (json_array_size(dra->devices) > dra->n_slices)
                        dra->n_slices = json_array_size(dra->devices);
                dra->generation = now > dra->generation ? now : dra->generation + 1;
                json_decref(dra->published);
                dra->published = json_incref(dra->devices);
        }
        for (size_t i = 0; r == 0 && i < dra->n_slices; i++)
                r = put_slice(dra, i, err);
        return r;
}

void dra_refresh(struct dra *dra)
{
        struct err err = { 0 };
        nsec now = clock_now();
        int r = ask_devices(dra, &err);

        if (r == 0 && (!dra->sent_at || now - dra->sent_at >= TABLE_EVERY))
                r = dra_send_table(dra, &err);
        if ((dra->devices || dra->n_slices) &&
            (now - dra->published_at >= SLICE_EVERY || !dra->published_at || is_due(dra)))
                dra->published_at = publish(dra, r == 0 ? &err : NULL) == 0 ? now : 0;
        say_if_new(dra, err.text);
}

/* ---- the loop ---- */

static void on_due(struct loop_timer *timer)
{
        dra_refresh(timer->context);
}

static void on_signal(struct loop_source *source, uint32_t events)
{
        const struct dra *dra = source->context;

        (void)events;
        loop_stop(dra->loop);
}

static int begin(struct dra *dra, struct err *err)
{
        int r;

        dra->signals = (struct loop_source){ .fd = -1, .ready = on_signal, .context = dra };
        r = loop_add_end(dra->loop, &dra->signals);
        if (r < 0)
                return err_set(err, r, "signals");
        r = book_open(&dra->book, dra->state, err);
        if (r == 0)
                r = ask_new(dra->dir, &dra->ask, err);
        if (r == 0 && api_new(&dra->api_settings, &dra->api) < 0)
                r = err_say(err, -ENOMEM, "no memory");
        if (r < 0)
                return r;
        if ((size_t)snprintf(dra->path, sizeof(dra->path), "%s/" DRA_DRIVER "-reg.sock", dra->registry) >=
            sizeof(dra->path))
                return err_say(err, -ENAMETOOLONG, "%s: too long for a socket's directory", dra->registry);
        dra_refresh(dra);
        r = grpc_server_new(dra->loop, dra->path, methods, ARRAY_SIZE(methods), dra, &dra->server, err);
        dra->timer = (struct loop_timer){ .due = on_due, .context = dra };
        if (r == 0)
                loop_timer_set(dra->loop, &dra->timer, EVERY, EVERY);
        return r;
}

int dra_run(struct dra *dra, struct err *err)
{
        int r = loop_new(&dra->loop);

        if (r < 0)
                return err_set(err, r, "a loop");
        r = begin(dra, err);
        if (r == 0) {
                dra->say("serving claims at %s", dra->path);
                r = loop_run(dra->loop);
        }
        loop_timer_drop(dra->loop, &dra->timer);
        dra->server = grpc_server_free(dra->server);
        dra->ask = ask_free(dra->ask);
        dra->api = api_free(dra->api);
        book_done(&dra->book);
        json_decref(dra->devices);
        json_decref(dra->published);
        closep(&dra->signals.fd);
        dra->loop = loop_free(dra->loop);
        return r;
}
