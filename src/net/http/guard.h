/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is connected to an HTTP server, since when, and with how many bytes: nobody keeps others out.
 *
 *  H1  A request has a deadline for its head, and one for its body after that. Bytes that arrive move neither.
 *  H2  A peer is an address (of IPv6 its /64), or at a Unix socket a user. It has at most as many connections as are
 *      left to others, and at most `connections_each`.
 *  H3  The bodies of a peer hold at most three times the bytes that are left to others. So one peer alone comes to
 *      three quarters, two together to six sevenths, and a new one always finds some.
 *
 * A connection that is late hears 408, one too many 429, where it can be said in plain text, and is shut down; its
 * thread or loop then finds the end of it. The guard never closes a descriptor.
 *
 * Threads: any; LOCK_HTTP, a leaf.
 */
#pragma once

#include "base/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct http_guard;      /* of one listening socket */
struct http_connection; /* from http_guard_come to http_guard_go */

struct http_limits {
        unsigned int connections;      /* at once */
        unsigned int connections_each; /* of a peer */
        unsigned int spare;            /* of `connections`: for trusted peers only */
        size_t bodies;                 /* bytes of all bodies together; 0: as many as they like */
        nsec head;                     /* from the connection, or TLS with it, to the end of the first request's head */
        nsec rest;                     /* from an answer to the end of the next request's head */
        nsec body;                     /* from the head to the end of the body */
        nsec answer;                   /* for the client to take the answer */
};

/* What a connection does. Only an answer that is being made, and one without end, have no deadline. */
enum http_phase {
        HTTP_READS_HEAD,
        HTTP_READS_BODY,
        HTTP_IS_ANSWERED,
        HTTP_TAKES_ANSWER,
        HTTP_RESTS,
        HTTP_IS_OVER, /* shut down */
};

/* 0; -ENOMEM. */
int http_guard_new(const struct http_limits *limits, struct http_guard **ret);
struct http_guard *http_guard_free(struct http_guard *guard); /* after its last connection; NULL is fine */

/* Takes the connection in; one too many is shut down at once. uid_is_trusted: of a Unix socket's peer, whether it may
 * have as many as it likes; NULL: nobody. is_plain: text may be written to it. NULL: no memory, and it is shut down. */
struct http_connection *http_guard_come(struct http_guard *guard, int fd, bool is_plain,
                                        bool (*uid_is_trusted)(void *context, uid_t uid), void *context);
void http_guard_go(struct http_connection *connection); /* before its descriptor is closed; NULL is fine */

/* False: it is over, and is not to be served. */
bool http_guard_phase(struct http_connection *connection, enum http_phase phase);

/* Counts `more` bytes of a body until http_guard_return. 0; 413: there never will be room for *held + more; 429: the
 * peer's bodies hold too much; 503: all together do. *held: what this call has; grows on success. */
unsigned int http_guard_reserve(struct http_connection *connection, size_t *held, size_t more);
void http_guard_return(struct http_connection *connection, size_t *held);

/* Shuts down what is late. To be called at least once a second, unless http_guard_watch has started a thread that does;
 * it ends in http_guard_free. 0; -errno. */
void http_guard_tick(struct http_guard *guard, nsec now);
int http_guard_watch(struct http_guard *guard);
