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
#define ANNOTATE_EVERY (300 * NSEC_PER_SEC)
#define ANNOTATE_RETRY (5 * NSEC_PER_SEC)

/* What was told, and when. */
struct told {
        struct ask *ask;
        struct api *api;
        json_t *table;
        nsec at; /* 0: it must be told */
        char why[ALLOCATIONS_WHY], wrong[sizeof(((struct err *)NULL)->text)];
        char *devices;
        nsec devices_at, devices_next;
};

/* ---- the daemon ---- */

/* 0; -EAGAIN: there is nothing that could be told; -errno (T2). */
static int make_table(struct teller *teller, struct allocations *ret)
{
        _cleanup_(checkpoint_done) struct checkpoint checkpoint = { 0 };
        int r = checkpoint_load(teller->kubelet, &checkpoint);

        if (r < 0 && r != -ENOENT)
                return r;
        LOCKED(&teller->lock);
        if (!teller->devices.n_devices || (teller->is_placed && !atomic_load(&teller->mirror.is_synced)))
                return -EAGAIN;
        return allocations_make(&(struct allocations_view){ &checkpoint, teller->resources, teller->n_resources,
                                                            &teller->devices, teller->has_api ? &teller->pods : NULL,
                                                            teller->is_placed },
                                ret);
}

/* Says it if it is another than before. */
static void say_new(struct teller *teller, char *said, size_t size, const char *text)
{
        if (*text && strcmp(said, text) != 0)
                teller->say("%s", text);
        (void)snprintf(said, size, "%s", text);
}

static void tell_daemon(struct teller *teller, struct told *told)
{
        struct allocations allocations = { 0 };
        struct err err = { 0 };
        json_t *answer = NULL;
        int r = make_table(teller, &allocations);

        if (atomic_exchange(&teller->is_again, false))
                told->at = 0;
        if (r < 0) {
                if (r != -EAGAIN)
                        (void)err_set(&err, r, "%s/" CHECKPOINT_FILE, teller->kubelet);
                say_new(teller, told->wrong, sizeof(told->wrong), err.text);
                return;
        }
        say_new(teller, told->why, sizeof(told->why), allocations.why);
        if (told->at && clock_now() - told->at < EVERY && json_equal(allocations.table, told->table)) {
                json_decref(allocations.table);
                return;
        }
        r = ask_put(told->ask, "/v1/allocations", allocations.table, &answer, &err);
        json_decref(answer);
        told->at = r < 0 ? 0 : clock_now();
        json_decref(told->table);
        told->table = allocations.table;
        say_new(teller, told->wrong, sizeof(told->wrong), r < 0 && r != -ECONNREFUSED ? err.text : "");
}

/* ---- the API server ---- */

/* NULL: nothing is known of them, or no memory. */
static char *devices_text(struct teller *teller)
{
        json_t *list = json_array();
        char *text = NULL;
        LOCKED(&teller->lock);

        for (size_t i = 0; i < teller->devices.n_devices; i++) {
                const struct plugin_device *device = &teller->devices.devices[i];

                (void)json_array_append_new(list, json_pack("{s:i, s:s, s:I, s:b}", "index", (int)device->index, "uuid",
                                                            device->uuid, "mem_bytes", (json_int_t)device->memory,
                                                            "healthy", device->is_healthy && teller->devices.is_heard));
        }
        if (json_array_size(list))
                text = json_dumps(list, JSON_COMPACT);
        json_decref(list);
        return text;
}

static int annotate_node(struct teller *teller, struct told *told, const char *text, struct err *err)
{
        json_t *patch = json_pack("{s:{s:{s:s}}}", "metadata", "annotations", ANNOTATION_DEVICES, text);
        json_t *answer = NULL;
        char path[320];
        long status = 0;
        int r = patch ? 0 : err_set(err, -ENOMEM, "the node's annotation");

        (void)snprintf(path, sizeof(path), "/api/v1/nodes/%s", teller->node);
        if (r == 0 && !told->api)
                r = api_new(&teller->api, &told->api);
        if (r == 0)
                r = api_call(told->api, "PATCH", path, "application/merge-patch+json", patch, &status, &answer, err);
        if (r == 0 && status != 200)
                r = err_say(err, -EIO, "annotating node %s: HTTP status %ld", teller->node, status);
        json_decref(answer);
        json_decref(patch);
        return r;
}

static void tell_cluster(struct teller *teller, struct told *told)
{
        _cleanup_(freep) char *text = devices_text(teller);
        struct err err = { 0 };
        nsec now = clock_now();

        if (!text || now < told->devices_next ||
            (told->devices && !strcmp(text, told->devices) && now - told->devices_at < ANNOTATE_EVERY))
                return;
        if (annotate_node(teller, told, text, &err) < 0) {
                teller->say("%s", err.text);
                told->devices_next = now + ANNOTATE_RETRY;
                return;
        }
        free(told->devices);
        told->devices = TAKE(text);
        told->devices_at = now;
}

/* ---- the thread ---- */

/* Until something is new; or it is time to say it again. */
static void pause_until(const struct teller *teller, const struct told *told)
{
        struct pollfd wake = { .fd = teller->wake, .events = POLLIN };
        nsec left = told->at + EVERY - clock_now();
        uint64_t n;

        if (!told->at || (teller->has_api && !told->devices))
                left = RETRY;
        if (poll(&wake, 1, left > 0 ? (int)(left / NSEC_PER_MSEC) + 1 : 0) > 0)
                (void)!read(teller->wake, &n, sizeof(n));
}

static void *tell(void *context)
{
        struct teller *teller = context;
        struct told told = { 0 };

        if (ask_new(teller->dir, &told.ask, NULL) < 0)
                return NULL; /* was tried before the thread was begun */
        while (!atomic_load(&teller->is_ending)) {
                tell_daemon(teller, &told);
                if (teller->has_api)
                        tell_cluster(teller, &told);
                pause_until(teller, &told);
        }
        told.ask = ask_free(told.ask);
        told.api = api_free(told.api);
        json_decref(told.table);
        free(told.devices);
        return NULL;
}

static void wake(struct teller *teller)
{
        const uint64_t one = 1;

        (void)!write(teller->wake, &one, sizeof(one));
}

void teller_devices(struct teller *teller, const struct plugin_node *node)
{
        lock_take(&teller->lock);
        teller->devices = *node;
        lock_drop(&teller->lock);
        wake(teller);
}

void teller_look(struct teller *teller)
{
        wake(teller);
}

void teller_again(struct teller *teller)
{
        atomic_store(&teller->is_again, true);
        wake(teller);
}

/* ---- the node's pods ---- */

static void on_begin(void *context)
{
        struct teller *teller = context;
        LOCKED(&teller->lock);

        pods_begin(&teller->pods);
}

static int on_put(void *context, const json_t *object)
{
        struct teller *teller = context;
        int r;

        lock_take(&teller->lock);
        r = pods_put(&teller->pods, teller->node, object);
        lock_drop(&teller->lock);
        wake(teller);
        return r;
}

static void on_drop(void *context, const json_t *object)
{
        const char *uid = json_string_value(json_object_get(json_object_get(object, "metadata"), "uid"));
        struct teller *teller = context;

        lock_take(&teller->lock);
        pods_drop(&teller->pods, uid ? uid : "");
        lock_drop(&teller->lock);
        wake(teller);
}

static void on_end(void *context)
{
        struct teller *teller = context;

        lock_take(&teller->lock);
        pods_end(&teller->pods);
        lock_drop(&teller->lock);
        wake(teller);
}

static void on_fail(void *context, const char *why)
{
        const struct teller *teller = context;

        teller->say("%s", why);
}

static int begin_mirror(struct teller *teller)
{
        (void)snprintf(teller->select, sizeof(teller->select), "&fieldSelector=spec.nodeName%%3D%s", teller->node);
        teller->api.is_ending = &teller->is_ending;
        teller->mirror = (struct mirror){ .path = "/api/v1/pods",
                                          .select = teller->select,
                                          .api = teller->api,
                                          .context = teller,
                                          .begin = on_begin,
                                          .put = on_put,
                                          .drop = on_drop,
                                          .end = on_end,
                                          .fail = on_fail };
        return mirror_start(&teller->mirror);
}

int teller_begin(struct teller *teller, struct err *err)
{
        _cleanup_(ask_freep) struct ask *ask = NULL;
        int r = ask_new(teller->dir, &ask, err);

        if (r < 0)
                return r;
        lock_init(&teller->lock, LOCK_PODS);
        teller->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r = teller->wake < 0 ? -errno : 0;
        if (r == 0 && teller->has_api)
                r = begin_mirror(teller);
        if (r == 0)
                r = -pthread_create(&teller->thread, NULL, tell, teller);
        if (r == 0)
                return 0;
        atomic_store(&teller->is_ending, true);
        mirror_end(&teller->mirror);
        closep(&teller->wake);
        return err_set(err, r, "a thread");
}

void teller_end(struct teller *teller)
{
        if (!teller->thread)
                return;
        atomic_store(&teller->is_ending, true);
        wake(teller);
        (void)pthread_join(teller->thread, NULL);
        mirror_end(&teller->mirror);
        closep(&teller->wake);
        pods_done(&teller->pods);
        lock_done(&teller->lock);
}
