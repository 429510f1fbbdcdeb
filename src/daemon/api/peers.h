/* SPDX-License-Identifier: Apache-2.0 */
/* Counts each user's connections to the API's socket, so that no user keeps others out. Thread: the loop. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum {
        PEERS_MAX = 1024,  /* connections of all users */
        PEERS_SPARE = 64,  /* of these, for root and the daemon's own user only */
        PEERS_A_USER = 64, /* except those two */
};

struct peer; /* a user with connections */

struct peers {
        struct peer *first;
        unsigned int n; /* connections */
};

/* Counts a connection until peers_go(*ret), whatever this returns. False: it is one too many. */
bool peers_come(struct peers *peers, uid_t uid, bool is_master, struct peer **ret);
void peers_go(struct peers *peers, struct peer *peer); /* NULL is fine */
