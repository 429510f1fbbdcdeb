/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks of prompts were sent to which replica lately, for the other routers: a ring of pieces in shared memory.
 *
 * Many processes write, one at a time reads. What is lost costs a worse choice, as in index.h, so nothing waits:
 *      N1  a piece that is not whole when it is read is passed over; a slot has one writer at a time, and one that was
 *          killed there leaves it unused, one of many;
 *      N2  a reader that is late by a whole ring goes on with the oldest piece that is left.
 * All zero is an empty ring.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        NEWS_BLOCKS = 30, /* of one piece */
        NEWS_PIECES = 1024,
};

struct news {
        _Atomic uint64_t head; /* pieces ever written */
        _Atomic uint64_t read; /* of these, seen by news_next */
        struct news_slot {
                _Atomic uint64_t order; /* of its piece, from 1; the largest number: it is being written */
                _Atomic uint64_t what;  /* replica, and how many blocks */
                _Atomic uint64_t block[NEWS_BLOCKS];
        } slots[NEWS_PIECES];
};

struct news_piece {
        unsigned int replica;
        size_t n;
        uint64_t block[NEWS_BLOCKS];
};

/* A chain of n blocks, from its beginning. Any process. */
void news_put(struct news *news, unsigned int replica, const uint64_t *chain, size_t n);

/* The next piece. False: there is none for now. One process at a time. */
bool news_next(struct news *news, struct news_piece *ret);
