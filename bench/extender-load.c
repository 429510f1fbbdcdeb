/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's side of the extender's benchmark: fills a fake API server with nodes, asks filter and prioritize with
 * all of them for one pod after another of a realistic mix, binds, and says how long it took and what was stranded.
 *
 *      extender-load API-URL EXTENDER-SOCKET EXTENDER-PID NODES GPUS UNITS ROUNDS BINDS PODS
 *
 * 1. ROUNDS of filter + prioritize with NODES names each (nodeCacheCapable): percentiles of the sum of both, and what
 *    the extender's process computed for one (ask_cpu_ms), which other work of the machine does not lengthen.
 * 2. BINDS pods by eight threads, each to a node that prioritize would like: bindings per second.
 * 3. PODS in all: pods by prioritize until the first that fits nowhere: memory that is free then is stranded.
 * Prints one JSON object.
 */
#include "base/clock.h"

#include <curl/curl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        THREADS = 8,
        CHUNK = 500,
};

/* What services ask for on a device of 80: the sizes of the deployment's ticket, and how many of 20 ask so. */
static const struct {
        int units, of_20;
} mix[] = { { 8, 5 }, { 12, 3 }, { 16, 5 }, { 20, 2 }, { 24, 2 }, { 40, 2 }, { 80, 1 } };

struct text {
        char *data;
        size_t size;
};

static const char *api, *extender;
static int n_nodes, n_gpus, n_units;
static atomic_int next_bind, n_failed;
static int last_bind;

static int units_of(unsigned int i)
{
        unsigned int at = i * 7919u % 20u; /* every twenty pods the whole mix, in mixed order */

        for (size_t k = 0; k < sizeof(mix) / sizeof(*mix); k++) {
                if (at < (unsigned int)mix[k].of_20)
                        return mix[k].units;
                at -= (unsigned int)mix[k].of_20;
        }
        return 8;
}

static size_t take(char *data, size_t one, size_t n, void *context)
{
        struct text *text = context;

        (void)one;
        text->data = realloc(text->data, text->size + n + 1);
        memcpy(text->data + text->size, data, n);
        text->size += n;
        text->data[text->size] = '\0';
        return n;
}

/* The answer, whose text is the caller's. */
static struct text post(CURL *curl, const char *socket, const char *url, const char *body)
{
        struct text text = { 0 };
        CURLcode code;

        curl_easy_reset(curl);
        if (socket)
                (void)curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket);
        (void)curl_easy_setopt(curl, CURLOPT_URL, url);
        (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        (void)curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
        (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
        (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, &text);
        code = curl_easy_perform(curl);
        if (code != CURLE_OK) {
                (void)fprintf(stderr, "%s: %s\n", url, curl_easy_strerror(code));
                exit(1);
        }
        return text;
}

static void objects_put(CURL *curl, const char *objects)
{
        char url[256];

        (void)snprintf(url, sizeof(url), "%s/fake/objects", api);
        free(post(curl, NULL, url, objects).data);
}

static void write_pod(FILE *to, unsigned int i)
{
        (void)fprintf(to,
                      "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"pod-%u\",\"namespace\":\"default\",\"uid\":\"%08x-"
                      "0000-4000-8000-0123456789ab\","
                      "\"labels\":{\"app\":\"service-%u\",\"pod-template-hash\":\"6d4cf56db6\"}},\"spec\":{"
                      "\"containers\":[{\"name\":\"main\","
                      "\"image\":\"registry.example/models/"
                      "service:%u\",\"resources\":{\"limits\":{\"cpu\":\"4\",\"memory\":\"16Gi\","
                      "\"sublet.dev/gpu-mem\":\"%d\"},\"requests\":{\"cpu\":\"2\",\"memory\":\"8Gi\",\"sublet.dev/"
                      "gpu-mem\":\"%d\"}}}]},"
                      "\"status\":{\"phase\":\"Pending\"}}",
                      i, i, i % 97, i % 97, units_of(i), units_of(i));
}

static void put_nodes(CURL *curl)
{
        for (int from = 0; from < n_nodes; from += CHUNK) {
                struct text text;
                FILE *to = open_memstream(&text.data, &text.size);

                for (int i = from; i < n_nodes && i < from + CHUNK; i++)
                        (void)fprintf(to,
                                      "%c{\"kind\":\"Node\",\"metadata\":{\"name\":\"node-%d.example.internal\"},"
                                      "\"status\":{\"allocatable\":"
                                      "{\"sublet.dev/gpu-mem\":\"%d\",\"sublet.dev/gpu-count\":\"%d\"}}}",
                                      i == from ? '[' : ',', i, n_gpus * n_units, n_gpus);
                (void)fputc(']', to);
                (void)fclose(to);
                objects_put(curl, text.data);
                free(text.data);
        }
}

static void put_pods(CURL *curl, unsigned int from, unsigned int end)
{
        for (; from < end; from += CHUNK) {
                struct text text;
                FILE *to = open_memstream(&text.data, &text.size);

                for (unsigned int i = from; i < end && i < from + CHUNK; i++) {
                        (void)fputc(i == from ? '[' : ',', to);
                        write_pod(to, i);
                }
                (void)fputc(']', to);
                (void)fclose(to);
                objects_put(curl, text.data);
                free(text.data);
        }
}

/* ExtenderArgs with all nodes, or those in `names`. */
static char *args(unsigned int pod, const json_t *names)
{
        struct text text;
        FILE *to = open_memstream(&text.data, &text.size);

        (void)fputs("{\"Pod\":", to);
        write_pod(to, pod);
        (void)fputs(",\"Nodes\":null,\"NodeNames\":", to);
        if (names)
                (void)json_dumpf(names, to, JSON_COMPACT);
        for (int i = 0; !names && i < n_nodes; i++)
                (void)fprintf(to, "%c\"node-%d.example.internal\"", i ? ',' : '[', i);
        (void)fputs(names ? "}" : "]}", to);
        (void)fclose(to);
        return text.data;
}

/* The node of a pod: filter, prioritize what passed, take the best; "" if none. Adds the extender's time to *took. */
static void choose(CURL *curl, unsigned int pod, char *node, size_t size, nsec *took)
{
        char *body = args(pod, NULL);
        nsec began = clock_now();
        struct text text = post(curl, extender, "http://extender/filter", body);
        json_t *passed, *scores, *one;
        json_int_t best = -1;
        size_t i;

        *took += clock_now() - began;
        passed = json_loads(text.data, 0, NULL);
        free(text.data);
        free(body);
        body = args(pod, json_object_get(passed, "NodeNames"));
        json_decref(passed);
        began = clock_now();
        text = post(curl, extender, "http://extender/prioritize", body);
        *took += clock_now() - began;
        scores = json_loads(text.data, 0, NULL);
        node[0] = '\0';
        json_array_foreach (scores, i, one)
                if (json_integer_value(json_object_get(one, "Score")) > best) {
                        best = json_integer_value(json_object_get(one, "Score"));
                        (void)snprintf(node, size, "%s", json_string_value(json_object_get(one, "Host")));
                }
        json_decref(scores);
        free(text.data);
        free(body);
}

static int bind_pod(CURL *curl, unsigned int pod, const char *node)
{
        char body[512];
        struct text text;
        int is_good;

        (void)snprintf(body, sizeof(body),
                       "{\"PodName\":\"pod-%u\",\"PodNamespace\":\"default\",\"PodUID\":\"%08x-0000-4000-8000-"
                       "0123456789ab\",\"Node\":\"%s\"}",
                       pod, pod, node);
        text = post(curl, extender, "http://extender/bind", body);
        is_good = !strcmp(text.data, "{\"Error\":\"\"}");
        if (!is_good && atomic_fetch_add(&n_failed, 1) < 3)
                (void)fprintf(stderr, "binding pod-%u to %s: %s\n", pod, node, text.data);
        free(text.data);
        return is_good;
}

static void *bind_many(void *context)
{
        CURL *curl = curl_easy_init();
        char node[64];
        int i;

        (void)context;
        while ((i = atomic_fetch_add(&next_bind, 1)) < last_bind) {
                (void)snprintf(node, sizeof(node), "node-%d.example.internal", i % n_nodes);
                (void)bind_pod(curl, (unsigned int)i, node);
        }
        curl_easy_cleanup(curl);
        return NULL;
}

static int by_size(const void *a, const void *b)
{
        nsec x = *(const nsec *)a, y = *(const nsec *)b;

        return x < y ? -1 : x > y;
}

static void await_nodes(CURL *curl)
{
        for (int i = 0; i < 600; i++) {
                char *body = args(0, NULL);
                struct text text = post(curl, extender, "http://extender/filter", body);
                json_t *said = json_loads(text.data, 0, NULL);
                size_t n = json_array_size(json_object_get(said, "NodeNames"));

                json_decref(said);
                free(text.data);
                free(body);
                if (n == (size_t)n_nodes)
                        return;
                (void)nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
        }
        exit(1);
}

static nsec computed(pid_t pid)
{
        struct timespec time = { 0 };
        clockid_t clock;

        if (clock_getcpuclockid(pid, &clock) == 0)
                (void)clock_gettime(clock, &time);
        return time.tv_sec * NSEC_PER_SEC + time.tv_nsec;
}

int main(int argc, char **argv)
{
        CURL *curl;
        pthread_t threads[THREADS];
        int n_rounds, n_pods;
        nsec *took, began, span, work;
        char node[128];
        long long asked = 0, placed = 0;

        if (argc != 10) {
                (void)fprintf(stderr,
                              "usage: extender-load API-URL EXTENDER-SOCKET EXTENDER-PID NODES GPUS UNITS ROUNDS BINDS "
                              "PODS\n");
                return 2;
        }
        api = argv[1];
        extender = argv[2];
        n_nodes = atoi(argv[4]);
        n_gpus = atoi(argv[5]);
        n_units = atoi(argv[6]);
        n_rounds = atoi(argv[7]);
        last_bind = atoi(argv[8]);
        n_pods = atoi(argv[9]);
        (void)curl_global_init(CURL_GLOBAL_DEFAULT);
        curl = curl_easy_init();
        put_nodes(curl);
        put_pods(curl, 0, (unsigned int)n_pods);
        await_nodes(curl);

        began = clock_now();
        for (int i = 0; i < THREADS; i++)
                (void)pthread_create(&threads[i], NULL, bind_many, NULL);
        for (int i = 0; i < THREADS; i++)
                (void)pthread_join(threads[i], NULL);
        span = clock_now() - began;

        took = calloc((size_t)n_rounds + 1, sizeof(*took));
        work = computed(atoi(argv[3]));
        for (int i = 0; i < n_rounds; i++)
                choose(curl, (unsigned int)(last_bind + i), node, sizeof(node), &took[i]);
        work = computed(atoi(argv[3])) - work;
        if (n_rounds)
                qsort(took, (size_t)n_rounds, sizeof(*took), by_size);

        if (n_rounds == 0) /* the packing run: until the first that fits nowhere */
                for (unsigned int i = (unsigned int)last_bind; i < (unsigned int)n_pods; i++) {
                        nsec ignored = 0;

                        choose(curl, i, node, sizeof(node), &ignored);
                        if (!node[0])
                                break;
                        asked++;
                        placed += bind_pod(curl, i, node) ? units_of(i) : 0;
                }
        (void)printf(
                "{\"nodes\":%d,\"gpus\":%d,\"pods\":%d,\"rounds\":%d,\"ask_p50_ms\":%.2f,\"ask_p99_ms\":%.2f,\"ask_max_"
                "ms\":%.2f,\"ask_cpu_ms\":%.2f,"
                "\"binds\":%d,\"binds_failed\":%d,\"binds_per_s\":%.0f,\"packed\":%lld,\"stranded_permille\":%lld}\n",
                n_nodes, n_gpus, n_pods, n_rounds, (double)took[n_rounds / 2] / 1e6,
                (double)took[n_rounds * 99 / 100] / 1e6, (double)took[n_rounds ? n_rounds - 1 : 0] / 1e6,
                n_rounds ? (double)work / 1e6 / n_rounds : 0.0, last_bind, atomic_load(&n_failed),
                last_bind ? (double)last_bind * 1e9 / (double)span : 0.0, asked,
                1000 - placed * 1000 / ((long long)n_nodes * n_gpus * n_units));
        curl_easy_cleanup(curl);
        free(took);
        return 0;
}
