/*
 * Nodes and pods as the API server sends them, read into what placing needs. Pods are written by anybody: everything is
 * checked, what is not of use is skipped, and a pod that asks for what cannot be is read with a `problem`.
 *
 * Threads: any; nothing is shared.
 */
#pragma once

#include "kube/extender/placement.h"

#include <jansson.h>

enum {
        OBJECT_NAME = 254, /* of a node or pod, with its NUL: DNS subdomain */
        OBJECT_LABEL = 64, /* of a namespace, container, UID */
        OBJECT_UUID = 48,  /* of a device */
        OBJECT_UNITS_MAX = 1 << 24,
};

struct object_pod {
        char uid[OBJECT_LABEL], namespace[OBJECT_LABEL], name[OBJECT_NAME], node[OBJECT_NAME]; /* node: "" not bound */
        int priority;
        bool is_over; /* succeeded or failed: holds nothing */
        size_t n_wants;
        struct placement_want wants[PLACEMENT_WANTS];
        char containers[PLACEMENT_WANTS][OBJECT_LABEL]; /* of each want */
        bool is_together;                               /* speaks gpushare's words */
        bool is_placed;                                 /* an annotation says on which devices it is */
        unsigned char devices[PLACEMENT_WANTS];
        const char *problem; /* static: why no node can take it; or NULL */
};

struct object_node {
        char name[OBJECT_NAME];
        size_t n_devices;
        struct placement_device devices[PLACEMENT_DEVICES];
        char uuids[PLACEMENT_DEVICES][OBJECT_UUID];
        const char *problem; /* static: it has memory to rent, but which devices it is on is not known */
};

/* unit: bytes in one of NAME_MEMORY. Returns 0, also with n_wants 0 or a problem; -EINVAL: not a pod, not a node. */
int object_pod_read(const json_t *json, bytes unit, struct object_pod *ret);
int object_node_read(const json_t *json, bytes unit, struct object_node *ret);

/* "8", "1k", "2Ki", 8 (also of a JSON integer): a whole quantity of 0 to OBJECT_UNITS_MAX. 0; -EINVAL; -ERANGE. */
int object_quantity(const json_t *json, uint64_t *ret);

/* The annotations that say where a pod is: what the extender writes. now: nanoseconds since the epoch. NULL: no memory.
 * The caller's (json_decref). */
json_t *object_annotations(const struct object_pod *pod, const char *node, const struct placement *placement,
                           const char (*uuids)[OBJECT_UUID], bytes unit, bytes device_total, int64_t now);
