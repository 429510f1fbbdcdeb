/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/plugin/allocation_reporter.h"

#include "ask/ask.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "kube/plugin/allocations.h"
#include "kube/client/names.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#define EVERY (10 * NSEC_PER_SEC)
#define RETRY NSEC_PER_SEC
#define PAUSE_MOST_MSEC 5000 /* a container waits 20 s for its allocation: docs/kubernetes.md */
#define ANNOTATE_EVERY (300 * NSEC_PER_SEC)
#define ANNOTATE_RETRY (5 * NSEC_PER_SEC)

/* What was sent last, and when. */
struct last_sent {
        struct ask *ask;
        struct api *api;
        json_t *table;
        nsec at; /* 0: the table must be sent */
        char why[ALLOCATIONS_WHY], wrong[sizeof(((struct err *)NULL)->text)];
        char *devices;
        nsec devices_at, devices_next;
};

/* ---- the daemon ---- */

/* 0; -EAGAIN: not enough is known yet; -errno (T2). */
static int make_table(struct allocation_reporter *reporter, struct allocations *ret)
{
        _cleanup_(checkpoint_done) struct checkpoint checkpoint = { 0 };
        int r = checkpoint_load(reporter->kubelet, &checkpoint);

        if (r < 0 && r != -ENOENT)
                return r;
        LOCKED(&reporter->lock);
        if (!reporter->devices.n_devices || (reporter->is_placed && !atomic_load(&reporter->informer.is_synced)))
                return -EAGAIN;
        return allocations_make(
                &(struct allocations_view){ &checkpoint, reporter->resources, reporter->n_resources, &reporter->devices,
                                            reporter->has_api ? &reporter->pods : NULL, reporter->is_placed },
                ret);
}

/* Logs `text` if it differs from the previous one. */
static void say_if_new(struct allocation_reporter *reporter, char *previous, size_t size, const char *text)
{
        if (*text && strcmp(previous, text) != 0)
                reporter->say("%s", text);
        (void)snprintf(previous, size, "%s", text);
}

static void report_to_daemon(struct allocation_reporter *reporter, struct last_sent *sent)
{
        struct allocations allocations = { 0 };
        struct err err = { 0 };
        json_t *answer = NULL;
        int r = make_table(reporter, &allocations);

        if (atomic_exchange(&reporter->is_resend_due, false))
                sent->at = 0;
        if (r < 0) {
                if (r != -EAGAIN)
                        (void)err_set(&err, r, "%s/" CHECKPOINT_FILE, reporter->kubelet);
                say_if_new(reporter, sent->wrong, sizeof(sent->wrong), err.text);
                return;
        }
        say_if_new(reporter, sent->why, sizeof(sent->why), allocations.why);
        if (sent->at && clock_now() - sent->at < EVERY && json_equal(allocations.table, sent->table)) {
                json_decref(allocations.table);
                return;
        }
        r = ask_put(sent->ask, "/v1/allocations", allocations.table, &answer, &err);
        json_decref(answer);
        sent->at = r < 0 ? 0 : clock_now();
        json_decref(sent->table);
        sent->table = allocations.table;
        say_if_new(reporter, sent->wrong, sizeof(sent->wrong), r < 0 && r != -ECONNREFUSED ? err.text : "");
}

/* ---- the API server ---- */

static json_t *device_json(const struct plugin_node *node, size_t i)
{
        const struct plugin_device *device = &node->devices[i];
        json_t *links = json_array(),
               *json = json_pack("{s:i, s:s, s:I, s:b}", "index", (int)device->index, "uuid", device->uuid, "mem_bytes",
                                 (json_int_t)device->memory, "healthy", device->is_healthy && node->is_daemon_up);

        for (size_t k = 0; k < node->n_devices; k++)
                if (device->nvlink >> k & 1)
                        (void)json_array_append_new(links, json_integer(node->devices[k].index));
        if (node->swap)
                (void)json_object_set_new(json, "swap_bytes", json_integer((json_int_t)node->swap));
        if (device->numa >= 0)
                (void)json_object_set_new(json, "numa", json_integer(device->numa));
        if (json_array_size(links))
                (void)json_object_set(json, "nvlink", links);
        json_decref(links);
        return json;
}

/* NULL: no devices known, or no memory. */
static char *devices_text(struct allocation_reporter *reporter)
{
        json_t *list = json_array();
        char *text = NULL;
        LOCKED(&reporter->lock);

        for (size_t i = 0; i < reporter->devices.n_devices; i++)
                (void)json_array_append_new(list, device_json(&reporter->devices, i));
        if (json_array_size(list))
                text = json_dumps(list, JSON_COMPACT);
        json_decref(list);
        return text;
}

static int annotate_node(struct allocation_reporter *reporter, struct last_sent *sent, const char *text,
                         struct err *err)
{
        json_t *patch = json_pack("{s:{s:{s:s}}}", "metadata", "annotations", ANNOTATION_DEVICES, text);
        json_t *answer = NULL;
        char path[320];
        long status = 0;
        int r = patch ? 0 : err_set(err, -ENOMEM, "the node's annotation");

        (void)snprintf(path, sizeof(path), "/api/v1/nodes/%s", reporter->node);
        if (r == 0 && !sent->api)
                r = api_new(&reporter->api, &sent->api);
        if (r == 0)
                r = api_call(sent->api, "PATCH", path, "application/merge-patch+json", patch, &status, &answer, err);
        if (r == 0 && status != 200)
                r = err_say(err, -EIO, "annotating node %s: HTTP status %ld", reporter->node, status);
        json_decref(answer);
        json_decref(patch);
        return r;
}

static void annotate_devices(struct allocation_reporter *reporter, struct last_sent *sent)
{
        _cleanup_(freep) char *text = devices_text(reporter);
        struct err err = { 0 };
        nsec now = clock_now();

        if (!text || now < sent->devices_next ||
            (sent->devices && !strcmp(text, sent->devices) && now - sent->devices_at < ANNOTATE_EVERY))
                return;
        if (annotate_node(reporter, sent, text, &err) < 0) {
                reporter->say("%s", err.text);
                sent->devices_next = now + ANNOTATE_RETRY;
                return;
        }
        if (strstr(text, "\"swap_bytes\""))
                atomic_store(&reporter->is_swap_told, true);
        free(sent->devices);
        sent->devices = TAKE(text);
        sent->devices_at = now;
}

/* ---- the thread ---- */

/* Until there is news, or it is time to send again. */
static void pause_until(const struct allocation_reporter *reporter, const struct last_sent *sent)
{
        struct pollfd reporter_wake = { .fd = reporter->wake, .events = POLLIN };
        nsec left = sent->at + EVERY - clock_now();
        uint64_t n;

        if (!sent->at || (reporter->has_api && !sent->devices))
                left = RETRY;
        if (poll(&reporter_wake, 1, left > 0 ? (int)(left / NSEC_PER_MSEC) + 1 : 0) > 0)
                (void)!read(reporter->wake, &n, sizeof(n));
}

static void *reporter_run(void *context)
{
        struct allocation_reporter *reporter = context;
        struct last_sent sent = { 0 };

        if (ask_new(reporter->dir, &sent.ask, NULL) < 0)
                return NULL; /* reporter_start has tried it */
        while (!atomic_load(&reporter->is_ending)) {
                report_to_daemon(reporter, &sent);
                if (reporter->has_api)
                        annotate_devices(reporter, &sent);
                pause_until(reporter, &sent);
        }
        sent.ask = ask_free(sent.ask);
        sent.api = api_free(sent.api);
        json_decref(sent.table);
        free(sent.devices);
        return NULL;
}

void reporter_wake(struct allocation_reporter *reporter)
{
        const uint64_t one = 1;

        (void)!write(reporter->wake, &one, sizeof(one));
}

void reporter_set_devices(struct allocation_reporter *reporter, const struct plugin_node *node)
{
        lock_take(&reporter->lock);
        reporter->devices = *node;
        lock_drop(&reporter->lock);
        reporter_wake(reporter);
}

void reporter_resend(struct allocation_reporter *reporter)
{
        atomic_store(&reporter->is_resend_due, true);
        reporter_wake(reporter);
}

/* ---- the node's pods ---- */

static void on_begin(void *context)
{
        struct allocation_reporter *reporter = context;
        LOCKED(&reporter->lock);

        pods_begin(&reporter->pods);
}

static int on_put(void *context, const json_t *object)
{
        struct allocation_reporter *reporter = context;
        int r;

        lock_take(&reporter->lock);
        r = pods_put(&reporter->pods, reporter->node, object);
        lock_drop(&reporter->lock);
        reporter_wake(reporter);
        return r;
}

static void on_drop(void *context, const json_t *object)
{
        const char *uid = json_string_value(json_object_get(json_object_get(object, "metadata"), "uid"));
        struct allocation_reporter *reporter = context;

        lock_take(&reporter->lock);
        pods_drop(&reporter->pods, uid ? uid : "");
        lock_drop(&reporter->lock);
        reporter_wake(reporter);
}

static void on_end(void *context)
{
        struct allocation_reporter *reporter = context;

        lock_take(&reporter->lock);
        pods_end(&reporter->pods);
        lock_drop(&reporter->lock);
        reporter_wake(reporter);
}

static void on_fail(void *context, const char *why)
{
        const struct allocation_reporter *reporter = context;

        reporter->say("%s", why);
}

static int start_informer(struct allocation_reporter *reporter)
{
        (void)snprintf(reporter->select, sizeof(reporter->select), "&fieldSelector=spec.nodeName%%3D%s",
                       reporter->node);
        reporter->api.is_ending = &reporter->is_ending;
        reporter->informer = (struct informer){ .watch = { .path = "/api/v1/pods",
                                                           .select = reporter->select,
                                                           .context = reporter,
                                                           .begin = on_begin,
                                                           .put = on_put,
                                                           .drop = on_drop,
                                                           .end = on_end },
                                                .api = reporter->api,
                                                .fail = on_fail,
                                                .pause_most_msec = PAUSE_MOST_MSEC };
        return informer_start(&reporter->informer);
}

int reporter_start(struct allocation_reporter *reporter, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        int r = ask_new(reporter->dir, &ask, err);

        if (r < 0)
                return r;
        lock_init(&reporter->lock, LOCK_PODS);
        reporter->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r = reporter->wake < 0 ? -errno : 0;
        if (r == 0 && reporter->has_api)
                r = start_informer(reporter);
        if (r == 0)
                r = -pthread_create(&reporter->thread, NULL, reporter_run, reporter);
        if (r == 0)
                return 0;
        atomic_store(&reporter->is_ending, true);
        informer_end(&reporter->informer);
        closep(&reporter->wake);
        return err_set(err, r, "starting a thread");
}

void reporter_stop(struct allocation_reporter *reporter)
{
        if (!reporter->thread)
                return;
        atomic_store(&reporter->is_ending, true);
        reporter_wake(reporter);
        (void)pthread_join(reporter->thread, NULL);
        informer_end(&reporter->informer);
        closep(&reporter->wake);
        pods_done(&reporter->pods);
        lock_done(&reporter->lock);
}
