/*
 * The scheduler's and the API server's JSON: the first line is a watch event's object (node or pod), the rest the arguments
 * of filter, prioritize and preempt. Whatever is sent, the answers are whole and what is counted stays what pods hold.
 */
#include "kube/extend.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const uint8_t *end = memchr(data, '\n', size);
        size_t first = end ? (size_t)(end - data) : size;
        json_t *events = json_loadb((const char *)data, first, 0, NULL), *one, *said[4],
               *args = end ? json_loadb((const char *)end + 1, size - first - 1, 0, NULL) : NULL;
        struct extend extend = { .cluster.unit = GIB };
        char *text;
        size_t i;

        json_array_foreach(events, i, one) feed(&extend.cluster, one);
        said[0] = extend_filter(&extend, args);
        text = extend_prioritize(&extend, args);
        said[1] = json_loads(text, 0, NULL);
        free(text);
        said[2] = extend_preempt(&extend, args);
        said[3] = extend_inspect(&extend, NULL);
        require(json_is_array(json_object_get(said[0], "NodeNames")) && json_is_array(said[1]));
        require(json_is_object(json_object_get(said[2], "NodeNameToMetaVictims")));
        require(json_is_array(json_object_get(said[3], "nodes")));
        json_array_foreach(said[1], i, one)
                require(json_integer_value(json_object_get(one, "Score")) <= PLACE_SCORE_MAX);
        for (i = 0; i < 4; i++)
                json_decref(said[i]);
        json_decref(args);
        json_decref(events);
        cluster_done(&extend.cluster);
        return 0;
}
