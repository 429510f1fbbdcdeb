/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/peers.h"

#include <stdlib.h>

struct peer {
        struct peer *next;
        uid_t uid;
        unsigned int n;
};

bool peers_come(struct peers *peers, uid_t uid, bool is_master, struct peer **ret)
{
        struct peer *peer = peers->first;

        while (peer && peer->uid != uid)
                peer = peer->next;
        if (!peer && (peer = calloc(1, sizeof(*peer)))) {
                *peer = (struct peer){ .next = peers->first, .uid = uid };
                peers->first = peer;
        }
        *ret = peer;
        if (!peer)
                return false;
        peer->n++;
        peers->n++;
        return is_master || (peer->n <= PEERS_A_USER && peers->n <= PEERS_MAX - PEERS_SPARE);
}

void peers_go(struct peers *peers, struct peer *peer)
{
        struct peer **at = &peers->first;

        if (!peer)
                return;
        peers->n--;
        if (--peer->n)
                return;
        while (*at != peer)
                at = &(*at)->next;
        *at = peer->next;
        free(peer);
}
