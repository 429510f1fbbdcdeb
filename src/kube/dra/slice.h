/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This node's devices as ResourceSlices of resource.k8s.io/v1: each may be allocated many times, until its memory or
 * its time is used up (consumable capacity, the feature DRAConsumableCapacity of 1.34). Pure.
 *
 * A slice has one device. The scheduler of 1.34 compares a claim with the first device of a slice, whichever it is
 * about to take (kubernetes issue 133705): in a slice of two the second would be reached only while the first has room.
 *
 * A claim that names no memory gets a whole device; one that names no share gets an equal part of what is promised to
 * nobody. The slice of a lost device is empty: nothing new is allocated there.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

struct slice_view {
        const char *node, *node_uid; /* node_uid: "": no owner */
        const json_t *devices;       /* the daemon's answer to /v1/devices; NULL: it does not answer */
        const char *driver;          /* release of NVIDIA's driver; "": not known */
};

/* The slice of the i-th of n devices; without it, or while it is lost, an empty one. generation: of the pool, the same
 * in all of its slices, and higher with each change. The caller's; NULL: no memory. */
json_t *slice_make(const struct slice_view *view, size_t i, size_t n, json_int_t generation);

/* The slice's name, which is its node's, the driver's and the device's number; `to` has SLICE_NAME bytes. */
enum {
        SLICE_NAME = 300,
};
void slice_name(const char *node, size_t i, char *to);
