/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes and pods as the API server sends them, read into what placement needs. Anybody may write a pod: everything is
 * checked, the rest is skipped, and a pod whose request cannot be met is read with a `problem`.
 *
 * Threads: any; nothing is shared.
 */
#pragma once

#include "kube/extender/placement.h"

#include <jansson.h>

enum {
        OBJECT_NAME = 254, /* of a node or pod, with its NUL: DNS subdomain */
        OBJECT_LABEL = 64, /* of a namespace, container or UID, with its NUL */
        OBJECT_UUID = 48,  /* of a device, with its NUL */
        OBJECT_TIME = 32,  /* of a time as the API server writes it, with its NUL */
        OBJECT_UNITS_MAX = 1 << 24,
        OBJECT_JOB_PODS = 256, /* of a job */
};

struct object_pod {
        char uid[OBJECT_LABEL], namespace[OBJECT_LABEL], name[OBJECT_NAME],
                node[OBJECT_NAME]; /* node: "" if not bound */
        int priority;
        bool is_over; /* succeeded or failed: it holds nothing */
        bool has_succeeded;
        bool is_leaving;                              /* it was deleted, and is not gone yet */
        char job[OBJECT_LABEL], created[OBJECT_TIME]; /* "": none */
        unsigned int job_pods;                        /* of its job; 0: it belongs to none */
        size_t n_wants;
        struct placement_want wants[PLACEMENT_WANTS];
        char containers[PLACEMENT_WANTS][OBJECT_LABEL]; /* the name for each want */
        bool is_together;                               /* asks by gpushare's names: all on one device */
        bool has_swap;                                  /* once it is placed, as the extender has written with that */
        bool is_placed;                                 /* an annotation names its devices */
        unsigned char devices[PLACEMENT_WANTS];
        bool tolerates_cordon; /* may be put on a node that takes no new pods */
        const char *problem;   /* static text: why no node can take it; or NULL */
};

struct object_node {
        char name[OBJECT_NAME];
        bool is_cordoned; /* kubectl cordon, drain */
        size_t n_devices;
        struct placement_device devices[PLACEMENT_DEVICES];
        char uuids[PLACEMENT_DEVICES][OBJECT_UUID];
        bytes swap;          /* host memory for pods with swap */
        const char *problem; /* static text: it has memory to rent, but its devices are not known; or NULL */
};

/* unit: bytes in one of NAME_MEMORY. Returns 0, also with n_wants 0 or a problem; -EINVAL: not a pod, not a node. */
int object_pod_read(const json_t *json, bytes unit, struct object_pod *ret);
int object_node_read(const json_t *json, bytes unit, struct object_node *ret);

/* "8", "1k", "2Ki", 8 (also of a JSON integer): a whole quantity of 0 to OBJECT_UNITS_MAX. 0; -EINVAL; -ERANGE. */
int object_quantity(const json_t *json, uint64_t *ret);

/* The annotations that the extender writes on a pod. now: nanoseconds since the epoch. The caller's (json_decref);
 * NULL: no memory. */
json_t *object_annotations(const struct object_pod *pod, const char *node, const struct placement *placement,
                           const char (*uuids)[OBJECT_UUID], bytes unit, bytes device_total, int64_t now);
