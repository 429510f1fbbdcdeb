/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of a claim, and of its device class, for our driver: on what terms a container has its device. Pure.
 *
 *      {"apiVersion":"gpu.sublet.dev/v1","kind":"Terms","cap":50,"class":"batch","capabilities":["compute","utility"]}
 *
 *  T1  Every entry for our driver is read, also those of requests that got nothing: what is not known is refused.
 *  T2  Class and claim may each say a thing, but not two: so a claim cannot lift what its class bounds.
 *
 * How much it is (memory, share) is no parameter: the scheduler counts it, as capacity.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct err;

#define DRA_DRIVER "gpu.sublet.dev"
#define TERMS_API "gpu.sublet.dev/v1"

/* Whether a result's request is the asked one: "gpu" is that of "gpu" and of "gpu/small", an alternative of it. */
bool terms_is_request(const char *request, const char *asked);

/* T1. 0; -EINVAL with err. */
int terms_judge(const json_t *allocation, struct err *err);

/* The terms of one request, as fields of a row of PUT /v1/allocations: cap, class, latency, swap, capabilities. The
 * caller's (json_decref). 0; -EINVAL with err (T2); -ENOMEM. */
int terms_read(const json_t *allocation, const char *request, json_t **ret, struct err *err);
