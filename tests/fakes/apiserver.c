/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands for kube-apiserver: nodes, pods, leases and bindings over HTTP, LIST in pages, WATCH with bookmarks, versions,
 * bearer tokens, and the faults that a real one cannot be told to have. In memory, JSON as it comes.
 *
 *      apiserver [--token-file FILE] PORT-FILE
 *
 * It listens on a free port of 127.0.0.1 and writes that to the file. Besides the API:
 *      POST /fake/objects   a JSON array of nodes and pods: created or replaced
 *      POST /fake/fault?kind=429|500|hang|409|slow&path=TEXT&n=N[&seconds=2] N calls with TEXT in the path; slow: later
 *      POST /fake/cut       all watches end, in the middle of a line
 *      POST /fake/forget    no history: a watch that is taken up now gets 410
 *      GET  /fake/state     how many of what
 */
#include <arpa/inet.h>
#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
        KINDS = 4,
        EVENTS = 1 << 17,
        LINE_SPARE = 64,
};

static const char *const kinds[KINDS] = { "nodes", "pods", "leases", "events" };

struct event {
        char *line; /* with its end */
        int kind;
        unsigned long version;
};

struct object {
        struct object *next;
        int kind;
        json_t *json;
        char key[600];
};

enum {
        SLOTS = 1 << 16,
};

static struct {
        pthread_mutex_t mutex;
        pthread_cond_t changed;
        struct object *slots[SLOTS];
        struct event events[EVENTS];
        unsigned long version, first; /* of history */
        unsigned int cuts;
        unsigned long binds, conflicts;
        const char *token_file;
        char fault[16], fault_path[128];
        unsigned int n_faults, slow_seconds;
} world = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

struct call {
        char *body;
        size_t size;
};

struct watcher {
        int kind;
        unsigned long at;
        unsigned int cuts;
        size_t sent; /* of the line at `at` */
        time_t until, bookmark;
        char mark[160];
        size_t mark_sent;
        bool is_ended;
};

static struct object **slot_of(int kind, const char *key)
{
        unsigned long h = 14695981039346656037ul + (unsigned long)kind;

        for (const char *c = key; *c; c++)
                h = (h ^ (unsigned char)*c) * 1099511628211ul;
        return &world.slots[(h >> 20) % SLOTS];
}

static struct object *object_find(int kind, const char *key)
{
        struct object *o = *slot_of(kind, key);

        while (o && (o->kind != kind || strcmp(o->key, key) != 0))
                o = o->next;
        return o;
}

static const char *meta(const json_t *json, const char *name)
{
        const char *text = json_string_value(json_object_get(json_object_get(json, "metadata"), name));

        return text ? text : "";
}

static void key_of(int kind, const json_t *json, char *key, size_t size)
{
        const char *space = meta(json, "namespace");

        if (kind == 0)
                (void)snprintf(key, size, "%s", meta(json, "name"));
        else
                (void)snprintf(key, size, "%s/%s", *space ? space : "default", meta(json, "name"));
}

/* History: a ring of versions. */
static void happened(int kind, const char *type, json_t *json)
{
        struct event *event;
        char version[32];
        char *text;
        size_t size;
        FILE *to;

        (void)snprintf(version, sizeof(version), "%lu", ++world.version);
        (void)json_object_set_new(json_object_get(json, "metadata"), "resourceVersion", json_string(version));
        to = open_memstream(&text, &size);
        (void)fprintf(to, "{\"type\":\"%s\",\"object\":", type);
        (void)json_dumpf(json, to, JSON_COMPACT);
        (void)fprintf(to, "}\n");
        (void)fclose(to);
        event = &world.events[world.version % EVENTS];
        free(event->line);
        *event = (struct event){ text, kind, world.version };
        if (world.version - world.first >= EVENTS)
                world.first = world.version - EVENTS + 1;
        (void)pthread_cond_broadcast(&world.changed);
}

/* Takes the reference. */
static void object_put(int kind, json_t *json)
{
        char key[600];
        struct object *o;

        key_of(kind, json, key, sizeof(key));
        o = object_find(kind, key);
        if (!o) {
                o = calloc(1, sizeof(*o));
                o->kind = kind;
                (void)snprintf(o->key, sizeof(o->key), "%s", key);
                o->next = *slot_of(kind, key);
                *slot_of(kind, key) = o;
                o->json = json;
                happened(kind, "ADDED", json);
                return;
        }
        json_decref(o->json);
        o->json = json;
        happened(kind, "MODIFIED", json);
}

static void drop(struct object *gone)
{
        struct object **at = slot_of(gone->kind, gone->key);

        while (*at != gone)
                at = &(*at)->next;
        *at = gone->next;
        happened(gone->kind, "DELETED", gone->json);
        json_decref(gone->json);
        free(gone);
}

/* ---- answers ----------------------------------------------------------------------------------- */

static enum MHD_Result reply(struct MHD_Connection *c, unsigned int status, json_t *json, const char *header)
{
        char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
        struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
        enum MHD_Result r;

        json_decref(json);
        (void)MHD_add_response_header(response, "Content-Type", "application/json");
        if (header)
                (void)MHD_add_response_header(response, "Retry-After", header);
        r = MHD_queue_response(c, status, response);
        MHD_destroy_response(response);
        return r;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned int status, const char *message)
{
        return reply(c, status,
                     json_pack("{s:s,s:s,s:s,s:i}", "kind", "Status", "status", "Failure", "message", message, "code",
                               (int)status),
                     status == 429 ? "1" : NULL);
}

static const char *argument(struct MHD_Connection *c, const char *name)
{
        return MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, name);
}

/* Pages go by slots: "continue" is the next one. What changes between pages may be missed, as with a real one that
 * reads without a snapshot; nobody here changes things then. */
static json_t *list(int kind, unsigned long from, unsigned long limit)
{
        json_t *items = json_array(), *metadata = json_object(), *item;
        unsigned long slot = from, n = 0;
        char text[32];

        for (; slot < SLOTS && n < limit; slot++)
                for (struct object *o = world.slots[slot]; o; o = o->next)
                        if (o->kind == kind) {
                                item = json_deep_copy(o->json);
                                (void)json_array_append_new(items, item);
                                n++;
                        }
        (void)snprintf(text, sizeof(text), "%lu", world.version);
        (void)json_object_set_new(metadata, "resourceVersion", json_string(text));
        (void)snprintf(text, sizeof(text), "%lu", slot);
        if (slot < SLOTS)
                (void)json_object_set_new(metadata, "continue", json_string(text));
        return json_pack("{s:s,s:s,s:o,s:o}", "kind", "List", "apiVersion", "v1", "metadata", metadata, "items", items);
}

static ssize_t send_part(const char *text, size_t size, size_t *sent, char *buffer, size_t room)
{
        size_t n = size - *sent < room ? size - *sent : room;

        memcpy(buffer, text + *sent, n);
        *sent += n;
        return (ssize_t)n;
}

/* The next piece for a watcher; waits for it. */
static ssize_t stream(void *context, uint64_t position, char *buffer, size_t room)
{
        struct watcher *w = context;
        ssize_t n = 0;

        (void)position;
        (void)pthread_mutex_lock(&world.mutex);
        while (!n) {
                const struct event *event = &world.events[w->at % EVENTS];
                struct timespec until;

                if (w->cuts != world.cuts && w->is_ended)
                        n = MHD_CONTENT_READER_END_OF_STREAM;
                else if (w->cuts != world.cuts) { /* half a line, then the end */
                        w->is_ended = true;
                        n = (ssize_t)(size_t)snprintf(buffer, room, "{\"type\":\"MODIFIED\",\"obj");
                } else if (time(NULL) >= w->until)
                        n = MHD_CONTENT_READER_END_OF_STREAM;
                else if (w->mark_sent < strlen(w->mark))
                        n = send_part(w->mark, strlen(w->mark), &w->mark_sent, buffer, room);
                else if (w->at <= world.version && event->kind != w->kind)
                        w->at++;
                else if (w->at <= world.version) {
                        n = send_part(event->line, strlen(event->line), &w->sent, buffer, room);
                        if (w->sent == strlen(event->line)) {
                                w->sent = 0;
                                w->at++;
                        }
                } else if (time(NULL) >= w->bookmark) {
                        (void)snprintf(
                                w->mark, sizeof(w->mark),
                                "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"%lu\"}}}\n",
                                world.version);
                        w->mark_sent = 0;
                        w->bookmark = time(NULL) + 2;
                } else {
                        (void)clock_gettime(CLOCK_REALTIME, &until);
                        until.tv_sec += 1;
                        (void)pthread_cond_timedwait(&world.changed, &world.mutex, &until);
                }
        }
        (void)pthread_mutex_unlock(&world.mutex);
        return n;
}

static enum MHD_Result watch(struct MHD_Connection *c, int kind)
{
        const char *version = argument(c, "resourceVersion"), *seconds = argument(c, "timeoutSeconds");
        struct watcher *w = calloc(1, sizeof(*w));
        struct MHD_Response *response;
        enum MHD_Result r;

        *w = (struct watcher){ .kind = kind,
                               .at = strtoul(version ? version : "0", NULL, 10) + 1,
                               .cuts = world.cuts,
                               .until = time(NULL) + atoi(seconds ? seconds : "60"),
                               .bookmark = time(NULL) + 1 };
        if (w->at < world.first) {
                free(w);
                return refuse(c, 410, "too old resource version");
        }
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 64 << 10, stream, w, free);
        r = MHD_queue_response(c, 200, response);
        MHD_destroy_response(response);
        return r;
}

/* ---- what is asked ----------------------------------------------------------------------------- */

static enum MHD_Result bind_pod(struct MHD_Connection *c, struct object *pod, const json_t *body)
{
        const char *node = json_string_value(json_object_get(json_object_get(body, "target"), "name"));
        json_t *spec = json_object_get(pod->json, "spec");

        if (*meta(body, "uid") && strcmp(meta(body, "uid"), meta(pod->json, "uid")) != 0)
                return refuse(c, 409, "the UID in the precondition does not match");
        if (json_object_get(spec, "nodeName")) {
                world.conflicts++;
                return refuse(c, 409, "pod is already assigned to a node");
        }
        (void)json_object_set_new(spec, "nodeName", json_string(node ? node : ""));
        world.binds++;
        happened(1, "MODIFIED", pod->json);
        return reply(c, 201, json_pack("{s:s,s:s}", "kind", "Status", "status", "Success"), NULL);
}

static enum MHD_Result patch(struct MHD_Connection *c, struct object *o, const json_t *body)
{
        json_t *metadata = json_object_get(o->json, "metadata");

        if (*meta(body, "uid") && strcmp(meta(body, "uid"), meta(o->json, "uid")) != 0)
                return refuse(c, 409, "the UID in the precondition does not match");
        if (!json_object_get(metadata, "annotations"))
                (void)json_object_set_new(metadata, "annotations", json_object());
        (void)json_object_update(json_object_get(metadata, "annotations"),
                                 json_object_get(json_object_get(body, "metadata"), "annotations"));
        happened(o->kind, "MODIFIED", o->json);
        return reply(c, 200, json_incref(o->json), NULL);
}

static enum MHD_Result change(struct MHD_Connection *c, const char *method, int kind, struct object *o, json_t *body,
                              const char *space)
{
        json_t *copy;

        if (o && !strcmp(method, "POST"))
                return refuse(c, 409, "already exists");
        if (o && *meta(body, "resourceVersion") &&
            strcmp(meta(body, "resourceVersion"), meta(o->json, "resourceVersion")) != 0) {
                world.conflicts++;
                return refuse(c, 409, "the object has been modified");
        }
        copy = json_deep_copy(body);
        if (kind)
                (void)json_object_set_new(json_object_get(copy, "metadata"), "namespace", json_string(space));
        object_put(kind, copy);
        return reply(c, 201, json_incref(copy), NULL);
}

/* /api/v1/KIND[/NAME], /PREFIX/namespaces/SPACE/KIND[/NAME[/binding]] */
static enum MHD_Result resource(struct MHD_Connection *c, const char *method, char *path, json_t *body)
{
        char *at = strstr(path, "/namespaces/"), *space = NULL, *name, *sub = NULL, key[600];
        const char *from = argument(c, "continue"), *limit = argument(c, "limit");
        struct object *o;
        int kind = 0;

        if (at) {
                space = at + 12;
                at = strchr(space, '/');
                if (at)
                        *at++ = '\0';
        } else if (!strncmp(path, "/api/v1/", 8))
                at = path + 8;
        if (!at)
                return refuse(c, 404, "no such path");
        name = strchr(at, '/');
        if (name)
                *name++ = '\0';
        if (name && (sub = strchr(name, '/')))
                *sub++ = '\0';
        while (kind < KINDS && strcmp(at, kinds[kind]) != 0)
                kind++;
        if (kind == KINDS)
                return refuse(c, 404, "no such kind");
        if (!name && !strcmp(method, "GET"))
                return argument(c, "watch") ? watch(c, kind) :
                                              reply(c, 200,
                                                    list(kind, strtoul(from ? from : "0", NULL, 10),
                                                         strtoul(limit ? limit : "1000000000", NULL, 10)),
                                                    NULL);
        (void)snprintf(key, sizeof(key), "%s%s%s", kind ? (space ? space : "default") : "", kind ? "/" : "",
                       name ? name : meta(body, "name"));
        o = object_find(kind, key);
        if (!o && strcmp(method, "POST") != 0)
                return refuse(c, 404, "not found");
        if (!strcmp(method, "GET"))
                return reply(c, 200, json_incref(o->json), NULL);
        if (!strcmp(method, "DELETE")) {
                drop(o);
                return reply(c, 200, json_object(), NULL);
        }
        if (sub && !strcmp(sub, "binding") && o)
                return bind_pod(c, o, body);
        if (!strcmp(method, "PATCH"))
                return patch(c, o, body);
        return change(c, method, kind, o, body, space ? space : "default");
}

static enum MHD_Result fake(struct MHD_Connection *c, const char *path, json_t *body)
{
        json_t *one;
        size_t i;

        if (!strcmp(path, "/fake/objects"))
                json_array_foreach (body, i, one)
                        object_put(!strcmp(json_string_value(json_object_get(one, "kind")) ?: "", "Pod"),
                                   json_incref(one));
        else if (!strcmp(path, "/fake/fault")) {
                (void)snprintf(world.fault, sizeof(world.fault), "%s", argument(c, "kind") ?: "");
                (void)snprintf(world.fault_path, sizeof(world.fault_path), "%s", argument(c, "path") ?: "");
                world.n_faults = (unsigned int)atoi(argument(c, "n") ?: "1");
                world.slow_seconds = (unsigned int)atoi(argument(c, "seconds") ?: "2");
        } else if (!strcmp(path, "/fake/cut"))
                world.cuts++;
        else if (!strcmp(path, "/fake/forget"))
                world.first = world.version + 2;
        (void)pthread_cond_broadcast(&world.changed);
        return reply(c, 200,
                     json_pack("{s:I,s:I,s:I}", "version", (json_int_t)world.version, "binds", (json_int_t)world.binds,
                               "conflicts", (json_int_t)world.conflicts),
                     NULL);
}

/* The file's token is the right one now; it is read for each call, as tests change it. */
static bool may(struct MHD_Connection *c)
{
        const char *given = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization");
        char token[256] = "Bearer ";
        FILE *file;
        size_t n;

        if (!world.token_file)
                return true;
        file = fopen(world.token_file, "r");
        if (!file)
                return false;
        n = fread(token + 7, 1, sizeof(token) - 8, file);
        (void)fclose(file);
        token[7 + n] = '\0';
        token[strcspn(token, "\n")] = '\0';
        return given && !strcmp(given, token);
}

static enum MHD_Result answer(struct MHD_Connection *c, const char *method, const char *url, const struct call *call)
{
        json_t *body = call->size ? json_loadb(call->body, call->size, 0, NULL) : NULL;
        char path[2048];
        enum MHD_Result r;
        bool is_hanging = false;

        (void)snprintf(path, sizeof(path), "%s", url);
        (void)pthread_mutex_lock(&world.mutex);
        if (!strncmp(url, "/fake/", 6))
                r = fake(c, path, body);
        else if (!may(c))
                r = refuse(c, 401, "Unauthorized");
        else if (world.n_faults && strstr(url, world.fault_path) && !strcmp(world.fault, "slow")) {
                unsigned int seconds = world.slow_seconds;

                world.n_faults--;
                (void)pthread_mutex_unlock(&world.mutex);
                sleep(seconds);
                (void)pthread_mutex_lock(&world.mutex);
                r = resource(c, method, path, body);
        } else if (world.n_faults && strstr(url, world.fault_path)) {
                world.n_faults--;
                is_hanging = !strcmp(world.fault, "hang");
                r = refuse(c, is_hanging ? 500 : (unsigned int)atoi(world.fault), "a fault that was ordered");
        } else
                r = resource(c, method, path, body);
        (void)pthread_mutex_unlock(&world.mutex);
        json_decref(body);
        if (is_hanging)
                sleep(6);
        return r;
}

static enum MHD_Result on_call(void *context, struct MHD_Connection *c, const char *url, const char *method,
                               const char *version, const char *data, size_t *size, void **state)
{
        struct call *call = *state;

        (void)context, (void)version;
        if (!call) {
                *state = calloc(1, sizeof(*call));
                return MHD_YES;
        }
        if (*size) {
                call->body = realloc(call->body, call->size + *size);
                memcpy(call->body + call->size, data, *size);
                call->size += *size;
                *size = 0;
                return MHD_YES;
        }
        return answer(c, method, url, call);
}

static void on_done(void *context, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode how)
{
        struct call *call = *state;

        (void)context, (void)c, (void)how;
        if (call)
                free(call->body);
        free(call);
}

int main(int argc, char **argv)
{
        const struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct MHD_Daemon *daemon;
        const char *to = NULL;
        FILE *file;

        for (int i = 1; i < argc; i++)
                if (!strcmp(argv[i], "--token-file") && i + 1 < argc)
                        world.token_file = argv[++i];
                else
                        to = argv[i];
        daemon = MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL,
                                  on_call, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_done, NULL, MHD_OPTION_SOCK_ADDR,
                                  &here, MHD_OPTION_CONNECTION_LIMIT, 512u, MHD_OPTION_END);
        file = to && daemon ? fopen(to, "w") : NULL;
        if (!file) {
                (void)fprintf(stderr, "usage: apiserver [--token-file FILE] PORT-FILE\n");
                return 2;
        }
        (void)fprintf(file, "%u\n", MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
        (void)fclose(file);
        for (;;)
                pause();
}
