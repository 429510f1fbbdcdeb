/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replicas of a service are the endpoints that the Kubernetes API names (net/http/watch.h). The token is read anew
 * for each call: it is rotated. While the API server is away, all stays as it was, and replicas are checked by their
 * health. Endpoints are used where EndpointSlices do not exist.
 */
#include "route/agent/agent.h"

#include "base/err.h"
#include "net/http/watch.h"
#include "route/agent/kube.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
        LIST_SECONDS = 30,
        PAUSE_SECONDS_MAX = 30,
        TOKEN_MAX = 8000,
        SLICES = 16,
};

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/"

struct kube {
        struct agent *agent;
        int origin;
        struct settings_service service; /* api and namespace found */
        struct http_pool_call *call;
        nsec at;
        unsigned int n_failures;
        bool is_old;    /* Endpoints */
        bool is_listed; /* once */
        bool is_short;  /* not all of its endpoints are used, and that was said */
        struct watch watch;
        char path[HTTP_URL], select[HTTP_URL];
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

/* False: there is no room for one more. */
static bool sync_endpoint(struct kube *kube, const struct kube_endpoint *endpoint)
{
        struct agent *agent = kube->agent;
        struct fleet_replica *replica;

        if (agent->fleet.n == FLEET_MAX && !fleet_find(&agent->fleet, endpoint->name))
                return false;
        replica = agent_replica(agent, endpoint->name, endpoint->address, kube->origin, &kube->service.config);
        if (!replica)
                return true;
        if (endpoint->is_ready && !replica->is_ready)
                replica->probe_at = agent->now;
        replica->is_ready = endpoint->is_ready;
        replica->is_terminating = endpoint->is_terminating;
        return true;
}

static void sync_fleet(struct kube *kube)
{
        size_t n_left_out = 0;

        agent_unlist(kube->agent, kube->origin);
        for (size_t i = 0; i < kube->n_slices; i++) {
                n_left_out += kube->slices[i].n_left_out;
                for (size_t j = 0; j < kube->slices[i].n; j++)
                        n_left_out += !sync_endpoint(kube, &kube->slices[i].at[j]);
        }
        if (n_left_out && !kube->is_short)
                agent_log(kube->agent,
                          "service %s: %zu of its endpoints are not used: a router has at most %d replicas",
                          kube->service.service, n_left_out, FLEET_MAX);
        kube->is_short = n_left_out > 0;
}

/* A list is stored whole before the fleet is updated; an event updates it at once. */
static void on_begin(void *context)
{
        struct kube *kube = context;

        kube->n_slices = 0;
}

static void change_slice(struct kube *kube, const json_t *object, bool is_gone)
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
        if (kube->watch.is_listed)
                sync_fleet(kube);
}

static int on_put(void *context, const json_t *object)
{
        change_slice(context, object, false);
        return 0;
}

static void on_drop(void *context, const json_t *object)
{
        change_slice(context, object, true);
}

static void on_end(void *context)
{
        struct kube *kube = context;

        if (kube->n_failures)
                agent_log(kube->agent, "service %s: the API server answers again", kube->service.service);
        kube->n_failures = 0;
        kube->is_listed = true;
        sync_fleet(kube);
}

/* EndpointSlices; or Endpoints, where those do not exist. */
static void watch_set(struct kube *kube, bool is_old)
{
        const struct settings_service *service = &kube->service;

        (void)snprintf(kube->path, sizeof(kube->path),
                       is_old ? "/api/v1/namespaces/%s/endpoints" :
                                "/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices",
                       service->name_space);
        (void)snprintf(kube->select, sizeof(kube->select),
                       is_old ? "&fieldSelector=metadata.name%%3D%s" :
                                "&labelSelector=kubernetes.io%%2Fservice-name%%3D%s",
                       service->service);
        kube->is_old = is_old;
        kube->watch = (struct watch){ .path = kube->path,
                                      .select = kube->select,
                                      .context = kube,
                                      .begin = on_begin,
                                      .put = on_put,
                                      .drop = on_drop,
                                      .end = on_end };
}

/* ---- calls --------------------------------------------------------------------------------------------------- */

static void kube_failed(struct kube *kube, const struct http_answer *answer)
{
        struct agent *agent = kube->agent;
        nsec pause = NSEC_PER_SEC << (kube->n_failures < 5 ? kube->n_failures : 5);

        if (kube->n_failures++ == 0)
                agent_log(agent, "service %s: the API server at %s answers %s %ld: replicas stay as they were",
                          kube->service.service, kube->service.api, answer->code < 0 ? "nothing" : "HTTP status",
                          answer->status);
        kube->at = agent->now + (pause > PAUSE_SECONDS_MAX * NSEC_PER_SEC ? PAUSE_SECONDS_MAX * NSEC_PER_SEC : pause);
}

static void on_page(void *context, const struct http_answer *answer)
{
        struct kube *kube = context;
        json_t *page = agent_json(answer);

        kube->call = NULL;
        if (answer->status == 404 && !kube->is_old)
                watch_set(kube, true);
        else if (watch_page(&kube->watch, answer->code, answer->status, page) < 0)
                kube_failed(kube, answer);
        json_decref(page);
}

static int on_line(void *context, char *line, size_t size)
{
        struct kube *kube = context;

        return watch_line(&kube->watch, line, size);
}

static void on_stream_end(void *context, const struct http_answer *answer)
{
        struct kube *kube = context;

        kube->call = NULL;
        (void)watch_ended(&kube->watch, answer->code, answer->status);
        if (answer->status != 200) {
                watch_renew(&kube->watch);
                if (answer->status != 410)
                        kube_failed(kube, answer);
        }
        if (kube->at < kube->agent->now) /* a watch that ends at once is not repeated without a pause */
                kube->at = kube->agent->now + NSEC_PER_SEC / 10;
}

static void kube_step(struct kube *kube)
{
        const struct settings_service *service = &kube->service;
        char path[WATCH_PATH], token[TOKEN_MAX];
        bool is_stream;
        struct http_request request = { .base = service->api, .path = path, .context = kube };

        if (kube->call)
                return;
        if (kube->agent->now < kube->at) {
                agent_due(kube->agent, kube->at);
                return;
        }
        is_stream = watch_next(&kube->watch, path);
        request.limit = is_stream ? WATCH_LIMIT : LIST_SECONDS * NSEC_PER_SEC;
        request.most = kube->watch.most;
        request.take = is_stream ? on_line : NULL;
        request.is_lines = is_stream;
        request.done = is_stream ? on_stream_end : on_page;
        if (read_small(service->token, token, sizeof(token)))
                request.token = token;
        if (*service->ca && access(service->ca, R_OK) == 0)
                request.ca = service->ca;
        (void)http_pool_start(kube->agent->http, &request, &kube->call);
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
        if (!*service->config.server_name)
                (void)snprintf(service->config.server_name, sizeof(service->config.server_name), "%.60s.%.60s.svc",
                               service->service, service->name_space);
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
                kube->service = settings->services[i];
                if ((r = find_api(&kube->service, err)) < 0)
                        return r;
                watch_set(kube, false);
        }
        for (size_t i = settings->n_services; i < SETTINGS_SERVICES; i++)
                agent_unlist(agent, (int)i); /* services that the file no longer lists */
        return 0;
}

bool kube_is_listed(const struct agent *agent)
{
        for (size_t i = 0; i < SETTINGS_SERVICES; i++)
                if (agent->kubes[i] && !agent->kubes[i]->is_listed)
                        return false;
        return true;
}

void kube_done(struct agent *agent)
{
        for (size_t i = 0; i < SETTINGS_SERVICES; i++) {
                if (agent->kubes[i])
                        http_pool_cancel(agent->http, agent->kubes[i]->call);
                free(agent->kubes[i]);
                agent->kubes[i] = NULL;
        }
}
