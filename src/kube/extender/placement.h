/*
 * Which device of a node each GPU container of a pod gets. Pure: a view in, a decision out; the extender asks for every
 * node (filter, prioritize) and once more for the chosen one (bind).
 *
 * A container is on one device, and takes memory and, if it says so, a part of the time there. Both are promised whole:
 *  P1  of a device no more than its total is given, of its time no more than 1000 permille;
 *  P2  a sick device gets nothing new;
 *  P3  if there is a way to place all containers of a pod it is found, up to PLACEMENT_STEPS tries.
 */
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

enum {
        PLACEMENT_WANTS = 16,    /* GPU containers of a pod */
        PLACEMENT_DEVICES = 32,  /* of a node */
        PLACEMENT_SIZES = 32,    /* of a mix */
        PLACEMENT_STEPS = 20000, /* of one search */
        PLACEMENT_WHOLE = 1000,  /* permille of a device's time */
        PLACEMENT_SCORE_MAX = 10,
};

struct placement_device {
        bytes total, used;
        unsigned int share_used; /* permille */
        unsigned int numa;
        bool is_unhealthy;
};

struct placement_node {
        const struct placement_device *devices; /* borrowed */
        size_t n_devices;
};

struct placement_want {
        bytes memory;       /* more than 0 */
        unsigned int share; /* permille; 0: none promised */
};

struct placement_request {
        const struct placement_want *wants; /* borrowed */
        size_t n_wants;                     /* 1 to PLACEMENT_WANTS */
        bool is_together;                   /* all on one device */
};

enum placement_policy {
        PLACEMENT_BINPACK,  /* the fullest device that fits: large gaps stay large */
        PLACEMENT_SPREAD,   /* the emptiest */
        PLACEMENT_FRAGMENT, /* the one where least of what stays free is too small for what is usually asked for */
};

/* What is usually asked for: sizes, and how often each. Counted by the caller. */
struct placement_mix {
        struct {
                bytes size;
                unsigned int weight;
        } sizes[PLACEMENT_SIZES];
        size_t n_sizes;
        unsigned int weight; /* the sum */
};

/* Where each want goes: an index into devices. */
struct placement {
        unsigned char device[PLACEMENT_WANTS];
};

enum {
        PLACEMENT_OK,
        PLACEMENT_E_NONE,     /* the node has no device to rent */
        PLACEMENT_E_LARGE,    /* a want is larger than every healthy device: nobody's leaving helps */
        PLACEMENT_E_FULL,     /* no device has the memory free */
        PLACEMENT_E_SHARE,    /* devices with the memory free have promised too much of their time */
        PLACEMENT_E_TOGETHER, /* each container alone would fit, all of them do not */
        PLACEMENT_OUTCOMES,
};

/* PLACEMENT_OK and *ret; PLACEMENT_E_x. mix: used by PLACEMENT_FRAGMENT only; NULL is an empty one. */
int placement_pick(const struct placement_node *node, const struct placement_request *request,
                   enum placement_policy policy, const struct placement_mix *mix, struct placement *ret);

/* How good this place is, 0 to PLACEMENT_SCORE_MAX. The place is one of placement_pick's for the same arguments. */
unsigned int placement_score(const struct placement_node *node, const struct placement_request *request,
                             enum placement_policy policy, const struct placement_mix *mix,
                             const struct placement *placement);

/* Counts a size, and forgets slowly: when the sum of weights is 4096, all are halved. */
void placement_mix_count(struct placement_mix *mix, bytes size);

/* Free memory that is too small for what is asked for, on average over the mix. In bytes, at most `free`. */
bytes placement_fragment(const struct placement_mix *mix, bytes free);

bytes placement_free(const struct placement_device *device); /* 0 for a sick one */
unsigned int placement_free_share(const struct placement_device *device);

/* "binpack", "spread", "fragment". 0; -EINVAL. */
int placement_policy_parse(const char *text, enum placement_policy *ret);
