/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which devices of a machine to take for somebody who needs several: those that lie close together. Pure.
 *
 *  N1  Every answer has exactly `count` devices, all of them of `may`. If `may` has so many, there is an answer.
 *  N2  The best comes first: the fewest pairs that NVLink does not join, then the fewest NUMA nodes, then the lowest
 *      sum of costs, then the lowest numbers. So the same view always gives the same answer.
 *  N3  One answer begins at each device and takes its best neighbours one by one. Where what is joined is joined with
 *      all of its neighbours' neighbours (a switch, pairs, two halves of a server), devices that are all joined are
 *      found if there are so many. Elsewhere the best may be missed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        NEAR_DEVICES = 32,
};

struct near_device {
        uint32_t links; /* bit i: NVLink joins it with device i */
        int numa;       /* -1: not known, which counts as a node of its own kind */
        int64_t cost;   /* the caller's preference, lower is better */
};

struct near_view {
        const struct near_device *devices; /* borrowed; n of them, at most NEAR_DEVICES */
        size_t n;
        uint32_t may;       /* bit i: device i may be taken */
        unsigned int count; /* how many are needed, 1 at least */
};

/* Sets of devices, as bits, best first and each once. How many. */
size_t near_pick(const struct near_view *view, uint32_t ret[static NEAR_DEVICES]);

/* Pairs of the set that NVLink does not join. */
unsigned int near_apart(const struct near_device *devices, size_t n, uint32_t set);
