/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/extender/feed.h"

static const char *metadata_text(const json_t *object, const char *name)
{
        const char *text = json_string_value(json_object_get(json_object_get(object, "metadata"), name));

        return text ? text : "";
}

static void on_list_begin(void *context)
{
        const struct feed *feed = context;
        LOCKED(feed->lock);

        cluster_list_begin(feed->cluster, feed->is_pods);
}

static void on_list_end(void *context)
{
        const struct feed *feed = context;
        LOCKED(feed->lock);

        cluster_list_end(feed->cluster, feed->is_pods);
}

static int on_node(void *context, const json_t *object)
{
        const struct feed *feed = context;
        struct object_node node;
        int r = object_node_read(object, feed->cluster->unit, &node);
        LOCKED(feed->lock);

        return r < 0 ? r : cluster_put_node(feed->cluster, &node);
}

static int on_pod(void *context, const json_t *object)
{
        const struct feed *feed = context;
        struct object_pod pod;
        int r = object_pod_read(object, feed->cluster->unit, &pod);
        LOCKED(feed->lock);

        return r < 0 ? r : cluster_put_pod(feed->cluster, &pod);
}

static void on_gone(void *context, const json_t *object)
{
        const struct feed *feed = context;
        LOCKED(feed->lock);

        if (feed->is_pods)
                cluster_drop_pod(feed->cluster, metadata_text(object, "uid"));
        else
                cluster_drop_node(feed->cluster, metadata_text(object, "name"));
}

void feed_watch(struct feed *feed, struct watch *watch)
{
        watch->path = feed->is_pods ? "/api/v1/pods" : "/api/v1/nodes";
        watch->context = feed;
        watch->begin = on_list_begin;
        watch->put = feed->is_pods ? on_pod : on_node;
        watch->drop = on_gone;
        watch->end = on_list_end;
}
