/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load: requests with their time, lengths, and a key per full block of the prompt (equal keys mean equal prefixes).
 */
#pragma once

#include "base/clock.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
        LOAD_BLOCK = 512, /* tokens per key */
};

struct load_request {
        nsec at;
        uint32_t input, output; /* tokens */
        size_t keys;            /* index of its first key in load.keys */
};

struct load {
        struct load_request *requests; /* by time */
        size_t n_requests;
        uint64_t *keys;
        size_t n_keys;
};

void load_done(struct load *load);

/*
 * A Mooncake trace: JSON lines {"timestamp": ms, "input_length", "output_length", "hash_ids": [...]}.
 * Requests with the same timestamp, of a trace whose clock ticks in seconds, are spread evenly up to
 * the next one. scale: how much faster than recorded.
 */
int load_read(const char *path, double scale, struct load *ret, struct err *err);

/* `n` requests at `qps` (Poisson), each one of `prefixes` common beginnings and a part of its own. */
struct load_shared {
        size_t n;
        double qps;
        uint32_t prefixes, prefix, own, output; /* tokens; prefix a multiple of LOAD_BLOCK */
        uint64_t seed;
};
int load_shared(const struct load_shared *kind, struct load *ret); /* -ENOMEM */

/* Appends. A request's keys are added one after the other, the first at index request->keys. -ENOMEM */
int load_add(struct load *load, const struct load_request *request);
int load_add_key(struct load *load, uint64_t key);

uint64_t load_random(uint64_t *state);    /* splitmix64 */
double load_uniform(uint64_t *state);     /* 0 .. 1 */
double load_exponential(uint64_t *state); /* mean 1 */
