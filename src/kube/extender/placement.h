/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device of a node each GPU container of a pod gets. Pure. The extender calls it for every node (filter,
 * prioritize) and once more for the chosen one (bind).
 *
 * A container is on one device, and takes memory and, if it asks for it, a share of the time there. One that is on
 * several takes as much of each: it is as many wants, of one set. A pod with swap is on its device in turns with others
 * (docs/suspend.md, More than the device).
 *  P1  No more memory than a device has is promised, and no more than 1000 permille of its time; but for P5.
 *  P2  An unhealthy device gets nothing new.
 *  P3  If the containers of a pod can be placed, a placement is found, up to PLACEMENT_STEPS steps of the search.
 *  P4  The wants of a set are on devices of their own: those that NVLink joins first, then those of one NUMA node
 *      (near/near.h), then as the policy says.
 *  P5  Wants with swap may together exceed a device: each fits beside all without, and the host's memory holds what an
 *      exchange of them needs (lease/exchange.h), as the daemon admits them. One without swap fits beside all with it,
 *      for nobody leaves for it. Those with swap are where they fit beside all others if there is such a device, else
 *      where least is promised.
 */
#pragma once

#include "base/text.h"
#include "lease/exchange.h"

#include <stdbool.h>
#include <stddef.h>

enum {
        PLACEMENT_WANTS = 16,    /* of a pod: the devices of its GPU containers, counted for each */
        PLACEMENT_DEVICES = 32,  /* of a node */
        PLACEMENT_SIZES = 32,    /* of a mix */
        PLACEMENT_STEPS = 20000, /* of one search */
        PLACEMENT_WHOLE = 1000,  /* permille of a device's time */
        PLACEMENT_SCORE_MAX = 10,
};

struct placement_device {
        bytes total, used;       /* used: of pods without swap */
        struct exchange swapped; /* of pods with it */
        unsigned int share_used; /* permille */
        unsigned int numa;
        uint32_t nvlink; /* bit i: joined with device i */
        bool is_unhealthy;
};

struct placement_node {
        const struct placement_device *devices; /* borrowed */
        size_t n_devices;
        bytes swap;     /* host memory for pods with swap; 0: it takes none */
        bool is_spread; /* one with swap has several devices there */
};

struct placement_want {
        bytes memory;       /* more than 0 */
        unsigned int share; /* permille; 0: none promised */
        unsigned int set;   /* not 0: wants of the same number are one container's, adjacent and equal */
};

struct placement_request {
        const struct placement_want *wants; /* borrowed */
        size_t n_wants;                     /* 1 to PLACEMENT_WANTS */
        bool is_together;                   /* all on one device; no sets then */
        bool has_swap;
};

enum placement_policy {
        PLACEMENT_BINPACK,  /* the fullest device that fits, so that large gaps stay large */
        PLACEMENT_SPREAD,   /* the emptiest */
        PLACEMENT_FRAGMENT, /* the one where the least free memory becomes too small for the usual requests */
};

/* The usual requests: sizes, and how often each. Counted by the caller. */
struct placement_mix {
        struct {
                bytes size;
                unsigned int weight;
        } sizes[PLACEMENT_SIZES];
        size_t n_sizes;
        unsigned int weight; /* the sum */
};

/* Of each want, the index of its device. */
struct placement {
        unsigned char device[PLACEMENT_WANTS];
};

enum {
        PLACEMENT_OK,
        PLACEMENT_E_NONE,     /* the node has no device to rent */
        PLACEMENT_E_NO_SWAP,  /* nor host memory for a pod with swap */
        PLACEMENT_E_LARGE,    /* a want is larger than every healthy device: preemption cannot help */
        PLACEMENT_E_FEW,      /* a set is of more devices than are large enough: the same */
        PLACEMENT_E_FULL,     /* no device has the memory free */
        PLACEMENT_E_HOST,     /* one has, but device and host would not hold all with swap together */
        PLACEMENT_E_SHARE,    /* devices with the memory free have too little time left */
        PLACEMENT_E_TAKEN,    /* fewer devices than a set needs have memory and time free */
        PLACEMENT_E_TOGETHER, /* each container fits alone, but not all of them */
        PLACEMENT_OUTCOMES,
};

/* PLACEMENT_OK and *ret; PLACEMENT_E_x. mix: used by PLACEMENT_FRAGMENT only; NULL is an empty one. */
int placement_pick(const struct placement_node *node, const struct placement_request *request,
                   enum placement_policy policy, const struct placement_mix *mix, struct placement *ret);

/* How good it is, 0 to PLACEMENT_SCORE_MAX. The placement comes from placement_pick with the same arguments. */
unsigned int placement_score(const struct placement_node *node, const struct placement_request *request,
                             enum placement_policy policy, const struct placement_mix *mix,
                             const struct placement *placement);

/* Counts a size. Old counts fade: when the sum of weights reaches 4096, all are halved. */
void placement_mix_count(struct placement_mix *mix, bytes size);

/* Of `free` bytes, how many are too little for a request, on average over the mix. At most `free`. */
bytes placement_fragment(const struct placement_mix *mix, bytes free);

/* What a want can have there at most. 0 for an unhealthy one. */
bytes placement_free(const struct placement_device *device, bool has_swap);

bytes placement_rented(const struct placement_device *device); /* with P5 it may be more than the device has */

/* Counts a want that is placed there. */
void placement_charge(struct placement_device *device, const struct placement_want *want, bool has_swap);

/* "binpack", "spread", "fragment". 0; -EINVAL. */
int placement_policy_parse(const char *text, enum placement_policy *ret);
