/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This node's pods as the API server shows them, with the devices that the extender chose for their containers. Pods
 * that have ended or are on another node are not kept.
 *
 * Threads: one at a time; the owner locks. No input or output.
 */
#pragma once

#include <jansson.h>

struct pods_pod {
        struct pods_pod *next;
        char *uid, *namespace, *name;
        char *group;        /* the trust group of its containers; NULL: none */
        json_t *asked;      /* what its annotations ask of its tenants (resize.h); NULL: nothing */
        json_t *containers; /* from the extender's annotation, what each was given; NULL: none */
        int index;          /* gpushare's device index for all containers; -1: none */
        unsigned int round; /* of the last list that contained it */
};

struct pods {
        struct pods_pod *first;
        unsigned int round;
};

void pods_done(struct pods *pods);

/* A list: begin, put every pod, end; the others are gone then. put: 0; -EINVAL: not a pod; -ENOMEM. */
void pods_begin(struct pods *pods);
int pods_put(struct pods *pods, const char *node, const json_t *json);
void pods_drop(struct pods *pods, const char *uid);
void pods_end(struct pods *pods);

const struct pods_pod *pods_find(const struct pods *pods, const char *uid);
