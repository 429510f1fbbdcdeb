/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler's and the API server's JSON: the first line is a watch event's object (node or pod), the rest the
 * arguments of filter, prioritize and preempt. Whatever is sent, the answers are whole and what is counted stays what
 * pods hold.
 */
#include "kube/extender/extend.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int holds)
{
        if (!holds)
                abort();
}

static void feed(struct cluster *cluster, const json_t *object)
{
        struct object_node node;
        struct object_pod pod;

        if (object_node_read(object, GIB, &node) == 0)
                require(cluster_put_node(cluster, &node) == 0);
        if (object_pod_read(object, GIB, &pod) == 0)
                require(cluster_put_pod(cluster, &pod) == 0);
}

static json_t *read_answer(char *text, size_t size)
{
        json_t *json = json_loadb(text, size, 0, NULL);

        free(text);
        require(json != NULL);
        return json;
}

/* What nodes remember is what would be found out anew. */
static void require_remembered(struct extend *extend, const struct extender_args *args)
{
        size_t size, again;
        char *text = extend_prioritize(extend, args, &size), *anew;

        extend->shape++;
        anew = extend_prioritize(extend, args, &again);
        require(size == again && !memcmp(text, anew, size));
        free(text);
        free(anew);
}

static void ask(struct extend *extend, const struct extender_args *args)
{
        json_t *said[4], *one;
        size_t i, size;
        char *text = extend_filter(extend, args, &size);

        said[0] = read_answer(text, size);
        text = extend_prioritize(extend, args, &size);
        said[1] = read_answer(text, size);
        text = extend_preempt(extend, args, &size);
        said[2] = read_answer(text, size);
        said[3] = extend_inspect(extend, NULL);
        require(json_is_array(json_object_get(said[0], "NodeNames")) && json_is_array(said[1]));
        require(json_is_object(json_object_get(said[2], "NodeNameToMetaVictims")));
        require(json_is_array(json_object_get(said[3], "nodes")));
        json_array_foreach (said[1], i, one)
                require(json_integer_value(json_object_get(one, "Score")) <= PLACEMENT_SCORE_MAX);
        for (i = 0; i < 4; i++)
                json_decref(said[i]);
        require_remembered(extend, args);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const uint8_t *end = memchr(data, '\n', size);
        size_t first = end ? (size_t)(end - data) : size, i;
        json_t *events = json_loadb((const char *)data, first, 0, NULL), *one;
        size_t n_body = end ? size - first - 1 : 0;
        char *body = strndup(end ? (const char *)end + 1 : "", n_body); /* ends with a NUL, as the server's */
        struct extend extend = { .cluster.unit = GIB, .policy = (enum placement_policy)(size % 3) };
        struct extender_args args = { 0 };

        json_array_foreach (events, i, one)
                feed(&extend.cluster, one);
        if (strlen(body) == n_body && extender_args_read(body, n_body, GIB, &args) == 0)
                ask(&extend, &args);
        extender_args_done(&args);
        free(body);
        json_decref(events);
        cluster_done(&extend.cluster);
        return 0;
}
