/*
 * Who has how many connections to the API's socket, so that no user's keep another's out.
 *
 * Thread: the loop.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

enum {
        PEERS_MAX = 1024,  /* connections of all users */
        PEERS_SPARE = 64,  /* of those, for masters only: root and the daemon's own user */
        PEERS_A_USER = 64, /* but a master */
};

struct peer; /* a user with connections */

struct peers {
        struct peer *first;
        unsigned int n; /* connections */
};

/* A connection has come, and counts until peers_go, which takes *ret, whatever is said. False: it is one too many. */
bool peers_come(struct peers *peers, uid_t uid, bool is_master, struct peer **ret);
void peers_go(struct peers *peers, struct peer *peer); /* NULL is fine */
