/*
 * What the API server says of this node's pods, as far as it says which device a container was given: for the device plugin, where the
 * extender places. A pod that is over, or on another node, is not there.
 *
 * Threads: one at a time; the owner locks. No input or output.
 */
#pragma once

#include <jansson.h>

struct pods_pod {
        struct pods_pod *next;
        char *uid, *namespace, *name;
        json_t *containers; /* of the extender's annotation: what each was given; NULL: none */
        int index;          /* gpushare's: one device for all; -1: none */
        unsigned int round; /* of the last list that had it */
};

struct pods {
        struct pods_pod *first;
        unsigned int round;
};

void pods_done(struct pods *pods);

/* A list: begin, put all of it, end; what it did not have is gone. put: 0; -EINVAL: not a pod; -ENOMEM. */
void pods_begin(struct pods *pods);
int pods_put(struct pods *pods, const char *node, const json_t *json);
void pods_drop(struct pods *pods, const char *uid);
void pods_end(struct pods *pods);

const struct pods_pod *pods_find(const struct pods *pods, const char *uid);
