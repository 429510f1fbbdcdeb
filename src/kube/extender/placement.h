/*
 * Which device of a node each GPU container of a pod gets. Pure: a view in, a decision out; the extender asks for every
 * node (filter, prioritize) and once more for the chosen one (bind).
 *
 * A container is on one device, and takes memory and, if it says so, a part of the time there. Both are promised whole:
 *  P1  of a device no more than its total is given, of its time no more than 1000 permille;
 *  P2  a sick device gets nothing new;
 *  P3  if there is a way to place all containers of a pod it is found, up to PLACE_STEPS tries.
 */
#pragma once

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>

enum {
        PLACE_WANTS = 16,    /* GPU containers of a pod */
        PLACE_DEVICES = 32,  /* of a node */
        PLACE_SIZES = 32,    /* of a mix */
        PLACE_STEPS = 20000, /* of one search */
        PLACE_WHOLE = 1000,  /* permille of a device's time */
        PLACE_SCORE_MAX = 10,
};

struct place_device {
        bytes total, used;
        unsigned int share_used; /* permille */
        unsigned int numa;
        bool is_sick;
};

struct place_node {
        const struct place_device *devices; /* borrowed */
        size_t n_devices;
};

struct place_want {
        bytes memory;       /* more than 0 */
        unsigned int share; /* permille; 0: none promised */
};

struct place_request {
        const struct place_want *wants; /* borrowed */
        size_t n_wants;                 /* 1 to PLACE_WANTS */
        bool is_together;               /* all on one device */
};

enum place_policy {
        PLACE_BINPACK,  /* the fullest device that fits: large gaps stay large */
        PLACE_SPREAD,   /* the emptiest */
        PLACE_FRAGMENT, /* the one where least of what stays free is too small for what is usually asked for */
};

/* What is usually asked for: sizes, and how often each. Counted by the caller. */
struct place_mix {
        struct {
                bytes size;
                unsigned int weight;
        } sizes[PLACE_SIZES];
        size_t n_sizes;
        unsigned int weight; /* the sum */
};

/* Where each want goes: an index into devices. */
struct place {
        unsigned char device[PLACE_WANTS];
};

enum {
        PLACE_OK,
        PLACE_E_NONE,     /* the node has no device to rent */
        PLACE_E_LARGE,    /* a want is larger than every healthy device: nobody's leaving helps */
        PLACE_E_FULL,     /* no device has the memory free */
        PLACE_E_SHARE,    /* devices with the memory free have promised too much of their time */
        PLACE_E_TOGETHER, /* each container alone would fit, all of them do not */
        PLACE_OUTCOMES,
};

/* PLACE_OK and *ret; PLACE_E_x. mix: used by PLACE_FRAGMENT only; NULL is an empty one. */
int place_pick(const struct place_node *node, const struct place_request *request, enum place_policy policy,
               const struct place_mix *mix, struct place *ret);

/* How good this place is, 0 to PLACE_SCORE_MAX. The place is one of place_pick's for the same arguments. */
unsigned int place_score(const struct place_node *node, const struct place_request *request, enum place_policy policy,
                         const struct place_mix *mix, const struct place *place);

/* Counts a size, and forgets slowly: when the sum of weights is 4096, all are halved. */
void place_mix_count(struct place_mix *mix, bytes size);

/* Free memory that is too small for what is asked for, on average over the mix. In bytes, at most `free`. */
bytes place_fragment(const struct place_mix *mix, bytes free);

bytes place_free(const struct place_device *device); /* 0 for a sick one */
unsigned int place_free_share(const struct place_device *device);

/* "binpack", "spread", "fragment". 0; -EINVAL. */
int place_policy_parse(const char *text, enum place_policy *ret);
