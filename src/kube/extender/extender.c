/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sublet extender`: the scheduler asks over HTTP which nodes can take a pod, which is best, and to bind it.
 *
 * Two threads keep a copy of nodes and pods (informer.h), one holds the election (elect.h), one asks for jobs' pods
 * again (nudge.h), and every connection has its own. One lock guards the copy; it is held to decide, never to wait.
 */
#include "kube/extender/verbs.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/client/informer.h"
#include "kube/client/server.h"
#include "base/flags.h"
#include "kube/extender/bind.h"
#include "kube/extender/feed.h"
#include "kube/extender/jobs/nudge.h"
#include "kube/extender/stats.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define GPUSHARE "/gpushare-scheduler"

#define BODIES ((size_t)640 << 20) /* a filter call with 5,000 whole nodes takes 400 MiB; below the manifest's limit */
#define PAUSE_MOST_MSEC 1500       /* of few: ready within 3 s of the API server's return */
#define REFRESH_EVERY (5 * NSEC_PER_SEC) /* of the certificate */

static const char usage[] =
        "usage: sublet extender [OPTION...]\n"
        "Answers kube-scheduler: which nodes have the GPU memory and time that a pod asks for on one device, which is\n"
        "best; and binds the pod, with its device written on it. POST /filter /prioritize /bind /preempt, also "
        "below\n" GPUSHARE "; GET /inspect[/NODE] /metrics /healthz /readyz /version.\n\n";

struct extender {
        struct lock lock;
        struct extend extend;
        struct binder binder;
        struct elect elect;
        struct informer nodes, pods;
        struct feed node_feed, pod_feed;
        struct nudge nudge;
        struct stats stats;
        struct server *server;
        struct api_settings api;
        atomic_bool is_ending;
        const char *listen, *cert, *key, *host, *callers, *caller, *policy;
        nsec life; /* of a certificate for `host` */
};

static void log_line(void *context, const char *text)
{
        (void)context;
        (void)fprintf(stderr, "sublet extender: %s\n", text);
}

/* The lease is ours. The copy may be old, so nothing is decided before it has been listed again. */
static void on_won(void *context)
{
        struct extender *e = context;

        log_line(NULL, "this extender decides now");
        informer_renew(&e->nodes);
        informer_renew(&e->pods);
}

static bool is_ready(struct extender *e)
{
        return elect_is_holder(&e->elect) && atomic_load(&e->nodes.is_synced) && atomic_load(&e->pods.is_synced);
}

static bool is_ready_to_nudge(void *context)
{
        return is_ready(context);
}

/* ---- calls ------------------------------------------------------------------------------------- */

static void answer_json(struct server_answer *answer, unsigned int status, json_t *json)
{
        answer->status = status;
        answer->body = json ? json_dumps(json, JSON_COMPACT) : NULL;
        answer->size = answer->body ? strlen(answer->body) : 0;
        if (!answer->body)
                answer->status = 500;
        json_decref(json);
}

static const struct {
        const char *path;
        enum stats_verb verb;
        char *(*answer)(struct extend *extend, const struct extender_args *args, size_t *ret_size);
} routes[] = {
        { "/filter", STATS_FILTER, extend_filter },
        { "/prioritize", STATS_PRIORITIZE, extend_prioritize },
        { "/preempt", STATS_PREEMPT, extend_preempt },
};

static void answer_scheduler(struct extender *e, const struct server_call *call, size_t which,
                             struct server_answer *answer)
{
        _cleanup_(extender_args_done) struct extender_args args = { 0 };
        nsec began = clock_now();
        int r = extender_args_read(call->body, call->size, e->extend.cluster.unit, &args);

        if (r == 0 && is_ready(e)) {
                LOCKED(&e->lock);
                e->extend.now = clock_now();
                answer->body = routes[which].answer(&e->extend, &args, &answer->size);
        }
        if (!answer->body)
                server_say(answer, r == -EINVAL ? 400 : 503, NULL,
                           r == -EINVAL ? "{\"Error\":\"the request is not a JSON object\"}" :
                                          "{\"Error\":\"not ready, or another extender decides\"}");
        stats_count(&e->stats, routes[which].verb, clock_now() - began, answer->status > 200);
}

static int bind_args(struct extender *e, const json_t *args, struct err *err)
{
        const struct bind_request request = { json_string_value(json_object_get(args, "PodName")),
                                              json_string_value(json_object_get(args, "PodNamespace")),
                                              json_string_value(json_object_get(args, "PodUID")),
                                              json_string_value(json_object_get(args, "Node")) };

        if (!is_ready(e))
                return err_say(err, -EPERM, "not ready, or another extender decides");
        return bind_pod(&e->binder, &request, err);
}

/* A failure is an HTTP status for gpushare's callers, and the text of a success for the scheduler. */
static void answer_bind(struct extender *e, const struct server_call *call, bool is_gpushare,
                        struct server_answer *answer)
{
        nsec began = clock_now();
        json_t *args = json_loadb(call->body, call->size, 0, NULL);
        struct err err = { 0 };
        int r = bind_args(e, args, &err);

        if (r < 0)
                (void)fprintf(stderr, "sublet extender: binding %.63s/%.253s: %s\n",
                              extender_args_name_for_log(args, "PodNamespace"),
                              extender_args_name_for_log(args, "PodName"), err.text);
        answer_json(answer, r < 0 && is_gpushare ? 500 : 200, json_pack("{s:s}", "Error", r < 0 ? err.text : ""));
        json_decref(args);
        stats_count(&e->stats, STATS_BIND, clock_now() - began, r < 0);
}

static void answer_inspect(struct extender *e, const char *node, struct server_answer *answer)
{
        nsec began = clock_now();
        json_t *said;

        lock_take(&e->lock);
        said = extend_inspect(&e->extend, node);
        lock_drop(&e->lock);
        answer_json(answer, json_object_get(said, "error") ? 404 : 200, said);
        stats_count(&e->stats, STATS_INSPECT, clock_now() - began, 0);
}

static void answer_metrics(struct extender *e, struct server_answer *answer)
{
        FILE *to = open_memstream(&answer->body, &answer->size);

        if (!to) {
                answer->status = 500;
                return;
        }
        answer->type = "text/plain; version=0.0.4";
        stats_write(&e->stats, to);
        lock_take(&e->lock);
        stats_write_cluster(&e->extend, elect_is_holder(&e->elect), is_ready(e), to);
        lock_drop(&e->lock);
        stats_write_informers(&e->nodes, &e->pods, to);
        (void)fclose(to);
}

static bool handle_get(struct extender *e, const char *path, struct server_answer *answer)
{
        if (!strcmp(path, "/inspect"))
                answer_inspect(e, NULL, answer);
        else if (!strncmp(path, "/inspect/", 9))
                answer_inspect(e, path + 9, answer);
        else if (!strcmp(path, "/metrics"))
                answer_metrics(e, answer);
        else if (!strcmp(path, "/healthz"))
                server_say(answer, 200, "text/plain", "ok\n");
        else if (!strcmp(path, "/readyz"))
                server_say(answer, is_ready(e) ? 200 : 503, "text/plain",
                           is_ready(e) ? "ok\n" : "not ready, or another extender decides\n");
        else if (!strcmp(path, "/version"))
                server_say(answer, 200, NULL, "{\"sublet\":\"" SUBLET_VERSION "\"}\n");
        else
                return false;
        return true;
}

static bool handle_post(struct extender *e, const struct server_call *call, const char *path, bool is_gpushare,
                        struct server_answer *answer)
{
        for (size_t i = 0; i < ARRAY_SIZE(routes); i++)
                if (!strcmp(path, routes[i].path)) {
                        answer_scheduler(e, call, i, answer);
                        return true;
                }
        if (strcmp(path, "/bind") != 0)
                return false;
        answer_bind(e, call, is_gpushare, answer);
        return true;
}

/* What callers without a certificate may ask: it names no pod. */
static bool is_open(const struct server_call *call, const char *path)
{
        return !strcmp(call->method, "GET") && (!strcmp(path, "/healthz") || !strcmp(path, "/readyz") ||
                                                !strcmp(path, "/metrics") || !strcmp(path, "/version"));
}

static void extender_handle(void *context, const struct server_call *call, struct server_answer *answer)
{
        struct extender *e = context;
        bool is_gpushare = !strncmp(call->path, GPUSHARE "/", sizeof(GPUSHARE)), is_answered = false;
        const char *path = call->path + (is_gpushare ? sizeof(GPUSHARE) - 1 : 0);

        if (!call->is_known && !is_open(call, path)) {
                server_say(answer, 403, NULL, SERVER_UNKNOWN_CALLER);
                return;
        }
        if (!strcmp(call->method, "GET"))
                is_answered = handle_get(e, path, answer);
        else if (!strcmp(call->method, "POST"))
                is_answered = handle_post(e, call, path, is_gpushare, answer);
        if (!is_answered)
                server_say(answer, 404, NULL, "{\"error\":\"no such path\"}\n");
}

/* ---- start and end ----------------------------------------------------------------------------- */

static int extender_start(struct extender *e, struct err *err)
{
        const struct server_settings settings = { .listen = e->listen,
                                                  .cert_file = e->cert,
                                                  .key_file = e->key,
                                                  .host = e->host,
                                                  .life = e->life,
                                                  .callers_file = e->callers,
                                                  .caller = e->caller,
                                                  .bodies = BODIES,
                                                  .handle = extender_handle,
                                                  .context = e };
        unsigned int port;
        int r;

        e->api.is_ending = &e->is_ending;
        e->elect.api = e->binder.api = e->nudge.api = e->nodes.api = e->pods.api = e->api;
        e->binder.api.is_ending =
                NULL; /* a binding under way is finished before the lease is given up (extender_stop) */
        r = server_new(&settings, &e->server, &port, err);
        if (r < 0)
                return r;
        (void)fprintf(stderr, "sublet extender: listening on %s (port %u), asking %s\n", e->listen, port,
                      e->api.server);
        r = informer_start(&e->nodes);
        r = r < 0 ? r : informer_start(&e->pods);
        r = r < 0 ? r : elect_start(&e->elect);
        r = r < 0 ? r : nudge_start(&e->nudge);
        return r < 0 ? err_set(err, r, "starting") : 0;
}

static void extender_refresh(void *context)
{
        struct extender *e = context;
        struct err err = { 0 };
        int r = server_refresh(e->server, &err);

        if (r)
                log_line(NULL, r < 0 ? err.text : "loaded the new certificate");
}

static void extender_stop(struct extender *e)
{
        atomic_store(&e->is_ending, true);
        (void)server_free(e->server);
        nudge_end(&e->nudge);
        informer_end(&e->nodes);
        informer_end(&e->pods);
        elect_end(&e->elect);
        binder_done(&e->binder);
        cluster_done(&e->extend.cluster);
        lock_done(&e->lock);
}

static int extender_check(struct extender *e, struct err *err)
{
        if (placement_policy_parse(e->policy, &e->extend.policy) < 0)
                return err_say(err, -EINVAL, "--policy %s: one of binpack, spread, fragment", e->policy);
        if (!e->cert != !e->key)
                return err_say(err, -EINVAL, "--cert and --key go together");
        if ((e->host || e->callers) && !e->cert)
                return err_say(err, -EINVAL, "--host and --callers are for HTTPS: give --cert and --key");
        if (e->caller && !e->callers)
                return err_say(err, -EINVAL, "--caller needs --callers, the authority that signs its certificate");
        if (e->elect.lease && !strchr(e->elect.lease, '/'))
                return err_say(err, -EINVAL, "--lease %s: a namespace and a name, such as sublet/extender",
                               e->elect.lease);
        return 0;
}

static struct extender *extender_new(void)
{
        struct extender *e = calloc(1, sizeof(*e));

        if (!e)
                return NULL;
        e->listen = "0.0.0.0:12345";
        e->policy = "binpack";
        e->life = SERVER_LIFE;
        e->extend.cluster.unit = GIB;
        lock_init(&e->lock, LOCK_CLUSTER);
        e->elect.context = e;
        e->elect.won = on_won;
        e->binder = (struct binder){ .lock = &e->lock, .extend = &e->extend, .elect = &e->elect };
        e->nudge = (struct nudge){ .lock = &e->lock,
                                   .extend = &e->extend,
                                   .elect = &e->elect,
                                   .is_ready = is_ready_to_nudge,
                                   .say = log_line,
                                   .context = e };
        e->node_feed = (struct feed){ &e->lock, &e->extend.cluster, false };
        e->pod_feed = (struct feed){ &e->lock, &e->extend.cluster, true };
        feed_watch(&e->node_feed, &e->nodes.watch);
        feed_watch(&e->pod_feed, &e->pods.watch);
        e->nodes.fail = e->pods.fail = log_line;
        e->nodes.pause_most_msec = e->pods.pause_most_msec = PAUSE_MOST_MSEC;
        return e;
}

static int extender_run(struct extender *e)
{
        char url[API_URL];
        struct err err = { 0 };
        int r;

        server_block_signals();
        r = extender_check(e, &err);
        r = r < 0 ? r : api_find(&e->api, url, &err);
        r = r < 0 ? r : extender_start(e, &err);
        if (r < 0)
                (void)fprintf(stderr, "sublet: %s\n", err.text);
        else
                server_wait(extender_refresh, e, REFRESH_EVERY);
        extender_stop(e);
        return r == -EINVAL ? 2 : r < 0;
}

int extender_main(int argc, char **argv)
{
        _cleanup_(freep) struct extender *e = extender_new();
        char self[300] = "";
        int code;

        if (!e)
                return 1;
        (void)gethostname(self, 255);
        (void)snprintf(self + strlen(self), 24, "-%d", (int)getpid());
        e->elect.self = self;
        const struct flag flags[] = {
                { "listen", 0, flag_text, &e->listen, "ADDR:PORT", "where the scheduler asks; default 0.0.0.0:12345",
                  "SUBLET_LISTEN" },
                { "server", 0, flag_text, &e->api.server, "URL", "the API server; default: the pod's own",
                  "SUBLET_API_SERVER" },
                { "token-file", 0, flag_text, &e->api.token_file, "FILE", "a bearer token, read again every minute",
                  NULL },
                { "ca-file", 0, flag_text, &e->api.ca_file, "FILE", "CA that signs the API server's certificate",
                  NULL },
                { "lease", 0, flag_text, &e->elect.lease, "NAMESPACE/NAME",
                  "of several extenders, the holder of this lease decides", "SUBLET_LEASE" },
                { "identity", 0, flag_text, &e->elect.self, "NAME",
                  "holder's name in that lease; default: host and process", "SUBLET_IDENTITY" },
                { "policy", 0, flag_text, &e->policy, "NAME", "binpack (default), spread, fragment", "SUBLET_POLICY" },
                { "unit", 0, flag_bytes, &e->extend.cluster.unit, "SIZE", "size of one sublet.dev/gpu-mem; default 1G",
                  "SUBLET_UNIT" },
                { "cert", 0, flag_text, &e->cert, "FILE", "certificate, PEM: serve HTTPS", NULL },
                { "key", 0, flag_text, &e->key, "FILE", "its key", NULL },
                { "host", 0, flag_text, &e->host, "NAME",
                  "--cert and --key are an authority: make certificates for NAME from it, and renew them", NULL },
                { "life", 0, flag_span, &e->life, "TIME", "of such a certificate; default 30d", NULL },
                { "callers", 0, flag_text, &e->callers, "FILE",
                  "authorities, PEM: answer only who has a certificate of theirs, but for health and metrics", NULL },
                { "caller", 0, flag_text, &e->caller, "NAME", "the common name that it must have; default: any", NULL },
        };
        if (flags_parse_most(argc, argv, flags, ARRAY_SIZE(flags), usage, 0, &code) < 0)
                return code;
        return extender_run(e);
}
