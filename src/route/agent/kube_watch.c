/*
 * LIST, then WATCH from the list's version; when that is too old (410), or the API server sends an error, LIST again.
 * The token is read for each call, because it is rotated. While the API server does not answer, the replicas stay
 * listed and health checks decide. Endpoints are used where EndpointSlices do not exist.
 */
#include "route/agent/agent.h"

#include "base/err.h"
#include "route/agent/kube.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
        WATCH_SECONDS = 300,
        PAUSE_SECONDS_MAX = 30,
        TOKEN_MAX = 8000,
        SLICES = 16,
};

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/"

struct kube {
        struct agent *agent;
        int origin;
        struct settings_service service; /* api and namespace found */
        struct fetch_call *call;
        nsec at;
        unsigned int n_failures;
        bool is_old, is_watching, must_list; /* is_old: Endpoints */
        char version[64];
        size_t n_slices;
        struct kube_slice slices[SLICES];
};

static bool read_small(const char *path, char *ret, size_t size)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

        if (fd >= 0)
                (void)close(fd);
        ret[n > 0 ? n : 0] = '\0';
        ret[strcspn(ret, "\r\n")] = '\0';
        return *ret != '\0';
}

/* ---- the fleet ----------------------------------------------------------------------------- */

static void sync_fleet(struct kube *kube)
{
        struct agent *agent = kube->agent;

        agent_unlist(agent, kube->origin);
        for (size_t i = 0; i < kube->n_slices; i++)
                for (size_t j = 0; j < kube->slices[i].n; j++) {
                        const struct kube_endpoint *endpoint = &kube->slices[i].at[j];
                        struct fleet_replica *replica = agent_replica(agent, endpoint->name, endpoint->address,
                                                                      kube->origin, &kube->service.config);

                        if (!replica)
                                continue;
                        if (endpoint->is_ready && !replica->is_ready)
                                replica->probe_at = agent->now;
                        replica->is_ready = endpoint->is_ready;
                        replica->is_terminating = endpoint->is_terminating;
                }
}

static void store_slice(struct kube *kube, const json_t *object, bool is_gone)
{
        struct kube_slice *slice = malloc(sizeof(*slice));
        size_t i = 0;

        if (slice && kube_read(object, kube->service.port, slice)) {
                while (i < kube->n_slices && strcmp(kube->slices[i].name, slice->name))
                        i++;
                if (is_gone && i < kube->n_slices)
                        kube->slices[i] = kube->slices[--kube->n_slices];
                else if (!is_gone && i < SLICES)
                        kube->slices[i] = *slice;
                if (!is_gone && i == kube->n_slices && i < SLICES)
                        kube->n_slices++;
        }
        free(slice);
}

static void take_version(struct kube *kube, const json_t *object)
{
        const char *version = kube_version(object);

        if (version && strlen(version) < sizeof(kube->version))
                (void)snprintf(kube->version, sizeof(kube->version), "%s", version);
}

/* ---- calls --------------------------------------------------------------------------------------------------- */

static void kube_get(struct kube *kube, const char *more, nsec limit, void (*line)(void *, char *, size_t),
                     void (*done)(void *, const struct fetch_answer *))
{
        const struct settings_service *service = &kube->service;
        char path[FETCH_URL], token[TOKEN_MAX];
        struct fetch_ask ask = { .method = "GET",
                                 .base = service->api,
                                 .path = path,
                                 .limit = limit,
                                 .line = line,
                                 .done = done,
                                 .context = kube };

        if (kube->is_old)
                (void)snprintf(path, sizeof(path),
                               "/api/v1/namespaces/%s/endpoints?fieldSelector=metadata.name%%3D%s%s",
                               service->name_space, service->service, more);
        else
                (void)snprintf(path, sizeof(path),
                               "/apis/discovery.k8s.io/v1/namespaces/%s/"
                               "endpointslices?labelSelector=kubernetes.io%%2Fservice-name%%3D%s%s",
                               service->name_space, service->service, more);
        if (read_small(service->token, token, sizeof(token)))
                ask.token = token;
        if (*service->ca && access(service->ca, R_OK) == 0)
                ask.ca = service->ca;
        (void)fetch_start(kube->agent->fetch, &ask, &kube->call);
}

static void kube_failed(struct kube *kube, const struct fetch_answer *answer)
{
        struct agent *agent = kube->agent;
        nsec pause = NSEC_PER_SEC << (kube->n_failures < 5 ? kube->n_failures : 5);

        if (kube->n_failures++ == 0)
                agent_log(agent, "service %s: the API server at %s answers %s %ld: replicas stay as they were",
                          kube->service.service, kube->service.api, answer->code < 0 ? "nothing" : "HTTP status",
                          answer->status);
        kube->at = agent->now + (pause > PAUSE_SECONDS_MAX * NSEC_PER_SEC ? PAUSE_SECONDS_MAX * NSEC_PER_SEC : pause);
}

static void on_list(void *context, const struct fetch_answer *answer)
{
        struct kube *kube = context;
        json_t *root = answer->code == 0 && answer->status == 200 ? json_loads(answer->text, 0, NULL) : NULL;
        const json_t *items = json_object_get(root, "items");

        kube->call = NULL;
        if (answer->status == 404 && !kube->is_old) {
                kube->is_old = true;
                return;
        }
        if (!json_is_array(items)) {
                kube_failed(kube, answer);
                json_decref(root);
                return;
        }
        if (kube->n_failures)
                agent_log(kube->agent, "service %s: the API server answers again", kube->service.service);
        kube->n_failures = 0;
        kube->n_slices = 0;
        for (size_t i = 0; i < json_array_size(items); i++)
                store_slice(kube, json_array_get(items, i), false);
        take_version(kube, root);
        kube->must_list = false;
        sync_fleet(kube);
        json_decref(root);
}

static void on_event(void *context, char *text, size_t size)
{
        struct kube *kube = context;
        json_t *event = json_loadb(text, size, 0, NULL);
        const char *type = json_string_value(json_object_get(event, "type"));
        const json_t *object = json_object_get(event, "object");

        if (!type || !strcmp(type, "ERROR")) {
                kube->must_list = true;
        } else {
                take_version(kube, object);
                if (strcmp(type, "BOOKMARK")) {
                        store_slice(kube, object, !strcmp(type, "DELETED"));
                        sync_fleet(kube);
                }
        }
        json_decref(event);
}

static void on_watch_end(void *context, const struct fetch_answer *answer)
{
        struct kube *kube = context;

        kube->call = NULL;
        if (answer->status != 200) {
                kube->must_list = true;
                if (answer->status != 410)
                        kube_failed(kube, answer);
        }
        if (kube->at < kube->agent->now) /* a watch that ends at once is not repeated without a pause */
                kube->at = kube->agent->now + NSEC_PER_SEC / 10;
}

static void kube_step(struct kube *kube)
{
        char more[256];

        if (kube->call)
                return;
        if (kube->agent->now < kube->at) {
                agent_due(kube->agent, kube->at);
                return;
        }
        if (kube->must_list) {
                kube_get(kube, "", 30 * NSEC_PER_SEC, NULL, on_list);
                return;
        }
        (void)snprintf(more, sizeof(more), "&watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s",
                       WATCH_SECONDS, kube->version);
        kube_get(kube, more, (WATCH_SECONDS + 30) * NSEC_PER_SEC, on_event, on_watch_end);
}

void kube_tick(struct agent *agent)
{
        for (size_t i = 0; i < SETTINGS_SERVICES; i++)
                if (agent->kubes[i])
                        kube_step(agent->kubes[i]);
}

/* ---- set-up -------------------------------------------------------------------------------------------------- */

/* In a pod: the address of the API server, and our namespace. */
static int find_api(struct settings_service *service, struct err *err)
{
        const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");

        if (!*service->api && (!host || !port))
                return err_say(err, -EINVAL,
                               "kubernetes: service %s: outside a pod, 'api' must be set: http(s)://HOST:PORT",
                               service->service);
        if (!*service->api)
                (void)snprintf(service->api, sizeof(service->api),
                               strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port);
        if (!*service->name_space && !read_small(ACCOUNT "namespace", service->name_space, sizeof(service->name_space)))
                (void)snprintf(service->name_space, sizeof(service->name_space), "default");
        return 0;
}

int kube_set(struct agent *agent, struct err *err)
{
        const struct settings *settings = agent->settings;

        kube_done(agent);
        for (size_t i = 0; i < settings->n_services; i++) {
                struct kube *kube = calloc(1, sizeof(*kube));
                int r;

                if (!kube)
                        return err_set(err, -ENOMEM, "watching a service");
                agent->kubes[i] = kube;
                kube->agent = agent;
                kube->origin = (int)i;
                kube->must_list = true;
                kube->service = settings->services[i];
                if ((r = find_api(&kube->service, err)) < 0)
                        return r;
        }
        for (size_t i = settings->n_services; i < SETTINGS_SERVICES; i++)
                agent_unlist(agent, (int)i); /* services that the file no longer lists */
        return 0;
}

void kube_done(struct agent *agent)
{
        for (size_t i = 0; i < SETTINGS_SERVICES; i++) {
                if (agent->kubes[i])
                        fetch_cancel(agent->fetch, agent->kubes[i]->call);
                free(agent->kubes[i]);
                agent->kubes[i] = NULL;
        }
}
