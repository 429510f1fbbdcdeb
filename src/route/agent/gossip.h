/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What routers tell each other, as datagrams, and what of it counts. Pure but for random numbers; no socket, no clock.
 *
 * Each router sends the same datagrams to all others several times a second: rows of figures under a name's hash. None
 * is special, none is asked, nothing is repeated: the next one says it all again.
 *
 * G1. A datagram that is not whole, not signed with the secret (HMAC-SHA256), or whose blocks do not open, changes
 *     nothing.
 * G2. What counts of a router are datagrams that bring back the number that was made up for it here, in rising order.
 *     The number is forgotten with the router, so one that was recorded earlier counts never again, whenever it is
 *     sent, and no clock is compared. A router without that number is told it, no more.
 * G3. A router that is silent for GOSSIP_AGE is forgotten with all that it said; so is a row that it does not repeat.
 *
 *      router A                                  router B
 *      A, 1, rows                       ->       A is not known: the number 77 is made up for it
 *      B is one, too: 42                <-       B, 1, [A: 77, brings 0], rows
 *      A, 2, [B: 42, brings 77], rows   ->       brings 77: A is in, its rows count
 *      B is in                          <-       B, 2, [A: 77, brings 42], rows
 *
 * Format, big-endian: "SLGP", version, kind, number of greetings, number of rows; u64 sender, u64 order; greetings of
 * three u64 (to whom, its number, the number brought back); rows of u64 (name, then values); 32 bytes of HMAC. Kind 1
 * has blocks instead of rows: u64 name of a replica, u64 blocks that were sent there, all of it encrypted, since a
 * block's hash tells who can guess a prompt that he guessed right: ChaCha20-Poly1305 with the order as the nonce, under
 * HMAC-SHA256(secret, "blocks" and the sender) as the key. A sender's number is made up when it starts, so neither
 * comes twice.
 *
 * Threads: the caller's one.
 */
#pragma once

#include "base/clock.h"
#include "route/routers/heard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        GOSSIP_ROUTERS = 16,
        GOSSIP_SIZE = 1400, /* of a datagram, at most: no fragments */
        GOSSIP_TRIPS = HEARD_N,
        GOSSIP_VALUES, /* of a row: heard.def, and how often it was put out there */
        GOSSIP_MORE = HEARD_KEY_N,
        GOSSIP_ROWS = 320,
        GOSSIP_SECRET = 16, /* bytes, at least */
        GOSSIP_BLOCKS = 112,
};

#define GOSSIP_AGE (2 * NSEC_PER_SEC)

enum {
        GOSSIP_OK,
        GOSSIP_E_OWN,      /* sent by this router */
        GOSSIP_E_FOREIGN,  /* of another size, version or secret */
        GOSSIP_E_STRANGER, /* it does not bring back the number, yet */
        GOSSIP_E_OLD,      /* a later one was here before */
        GOSSIP_E_FULL,     /* too many routers */
};

struct gossip;

struct gossip_row {
        uint64_t name; /* gossip_name() */
        uint64_t value[GOSSIP_VALUES];
};

struct gossip_blocks {
        uint64_t name; /* of the replica that they were sent to */
        size_t n;      /* 0: the datagram has none */
        uint64_t block[GOSSIP_BLOCKS];
};

/* 0; -EINVAL: the secret is too short; -ENOMEM; -errno. */
int gossip_new(const void *secret, size_t size, struct gossip **ret);
struct gossip *gossip_free(struct gossip *gossip); /* NULL is fine */

uint64_t gossip_name(const char *name);

/* Writes one datagram of the first rows that fit; how many those are. At least one call, with no rows if there are
 * none. */
size_t gossip_write(struct gossip *gossip, const struct gossip_row *rows, size_t n, nsec now,
                    unsigned char ret[static GOSSIP_SIZE], size_t *ret_size);

/* Writes one datagram of the first of n blocks that fit, n > 0; how many those are. */
size_t gossip_write_blocks(struct gossip *gossip, uint64_t name, const uint64_t *blocks, size_t n, nsec now,
                           unsigned char ret[static GOSSIP_SIZE], size_t *ret_size);

/* A datagram that arrived: GOSSIP_OK, it counts; GOSSIP_E_... */
int gossip_read(struct gossip *gossip, const void *data, size_t size, nsec now, struct gossip_blocks *ret);

size_t gossip_routers(struct gossip *gossip, nsec now); /* those in; the silent are forgotten */

/* The sum of what they say of it; of GOSSIP_TRIPS: how many put it out since the last call. */
void gossip_sum(struct gossip *gossip, uint64_t name, nsec now, struct gossip_row *ret);

/* By how much the value `which` (below GOSSIP_MORE) of it grew at all of them since the last call. */
uint64_t gossip_more(struct gossip *gossip, uint64_t name, size_t which, nsec now);
