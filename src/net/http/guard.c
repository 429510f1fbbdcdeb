/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http/guard.h"

#include "base/cleanup.h"
#include "base/lock.h"
#include "net/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

enum {
        KEY = 16,
        PREFIX = 8, /* bytes of an IPv6 address that are a subscriber's */
        BODIES_PART = 3,
        WATCH_MS = 250,
};

struct http_peer {
        struct http_peer *next;
        unsigned char key[KEY];
        int family;
        unsigned int n_connections;
        size_t bodies;
};

struct http_connection {
        struct http_connection *next, **link;
        struct http_guard *guard;
        struct http_peer *peer;
        nsec deadline; /* 0: none */
        enum http_phase phase;
        int fd;
        bool is_plain, is_trusted;
};

struct http_guard {
        struct lock lock; /* all that is below, and peers and connections */
        struct http_limits limits;
        struct http_connection *connections;
        struct http_peer *peers;
        unsigned int n_connections;
        size_t bodies;
        pthread_t watcher;
        int end; /* readable: the watcher ends; -1: there is none */
};

int http_guard_new(const struct http_limits *limits, struct http_guard **ret)
{
        struct http_guard *guard = calloc(1, sizeof(*guard));

        if (!guard)
                return -ENOMEM;
        guard->limits = *limits;
        guard->end = -1;
        lock_init(&guard->lock, LOCK_HTTP);
        *ret = guard;
        return 0;
}

struct http_guard *http_guard_free(struct http_guard *guard)
{
        if (!guard)
                return NULL;
        if (guard->end >= 0) {
                (void)eventfd_write(guard->end, 1);
                (void)pthread_join(guard->watcher, NULL);
                closep(&guard->end);
        }
        lock_done(&guard->lock);
        free(guard);
        return NULL;
}

/* ---- peers ------------------------------------------------------------------------------------- */

/* An unknown peer is one with all other unknown ones. */
static void peer_identify(int fd, struct http_peer *ret, uid_t *ret_uid)
{
        struct sockaddr_storage address = { 0 };
        socklen_t size = sizeof(address);
        struct ucred who;

        *ret_uid = (uid_t)-1;
        if (getpeername(fd, (struct sockaddr *)&address, &size) < 0)
                return;
        ret->family = address.ss_family;
        if (address.ss_family == AF_INET) {
                memcpy(ret->key, &((struct sockaddr_in *)&address)->sin_addr, sizeof(struct in_addr));
        } else if (address.ss_family == AF_INET6) {
                const struct in6_addr *six = &((struct sockaddr_in6 *)&address)->sin6_addr;

                memcpy(ret->key, six, IN6_IS_ADDR_V4MAPPED(six) ? KEY : PREFIX);
        } else if (address.ss_family == AF_UNIX && socket_peer(fd, &who) == 0) {
                memcpy(ret->key, &who.uid, sizeof(who.uid));
                *ret_uid = who.uid;
        }
}

static struct http_peer *peer_find(struct http_guard *guard, const struct http_peer *like)
{
        struct http_peer *peer = guard->peers;

        while (peer && (peer->family != like->family || memcmp(peer->key, like->key, KEY) != 0))
                peer = peer->next;
        if (!peer && (peer = malloc(sizeof(*peer)))) {
                *peer = *like;
                peer->next = guard->peers;
                guard->peers = peer;
        }
        return peer;
}

static void peer_drop(struct http_guard *guard, struct http_peer *peer)
{
        struct http_peer **at = &guard->peers;

        if (--peer->n_connections)
                return;
        while (*at != peer)
                at = &(*at)->next;
        *at = peer->next;
        free(peer);
}

/* ---- connections ------------------------------------------------------------------------------- */

/* Says why if that cannot be mistaken for something else, and shuts it down. */
static void connection_end(struct http_connection *connection, const char *status, const char *why)
{
        char text[256];
        int n = snprintf(text, sizeof(text),
                         "HTTP/1.1 %s\r\nConnection: close\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
                         "Content-Length: %zu\r\n\r\n{\"error\":\"%s\"}\n",
                         status, strlen(why) + sizeof("{\"error\":\"\"}"), why);

        if (connection->is_plain && (connection->phase == HTTP_READS_HEAD || connection->phase == HTTP_READS_BODY))
                (void)send(connection->fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
        connection->phase = HTTP_IS_OVER;
        connection->deadline = 0;
        (void)shutdown(connection->fd, SHUT_RDWR);
}

static bool is_one_too_many(const struct http_connection *connection)
{
        const struct http_guard *guard = connection->guard;
        const struct http_limits *limits = &guard->limits;
        unsigned int all = limits->connections - limits->spare, n = connection->peer->n_connections;

        if (connection->is_trusted)
                return false;
        return n > limits->connections_each || guard->n_connections > all || n - 1 > all - guard->n_connections;
}

struct http_connection *http_guard_come(struct http_guard *guard, int fd, bool is_plain,
                                        bool (*uid_is_trusted)(void *context, uid_t uid), void *context)
{
        _cleanup_(freep) struct http_connection *connection = calloc(1, sizeof(*connection));
        struct http_peer like = { 0 };
        uid_t uid;
        LOCKED(&guard->lock);

        peer_identify(fd, &like, &uid);
        if (!connection || !(connection->peer = peer_find(guard, &like))) {
                (void)shutdown(fd, SHUT_RDWR);
                return NULL;
        }
        connection->guard = guard;
        connection->fd = fd;
        connection->is_plain = is_plain;
        connection->is_trusted = like.family == AF_UNIX && uid_is_trusted && uid_is_trusted(context, uid);
        connection->deadline = clock_now() + guard->limits.head;
        connection->next = guard->connections;
        connection->link = &guard->connections;
        if (connection->next)
                connection->next->link = &connection->next;
        guard->connections = connection;
        guard->n_connections++;
        connection->peer->n_connections++;
        if (is_one_too_many(connection))
                connection_end(connection, "429 Too Many Requests", "too many connections of yours: close some");
        return TAKE(connection);
}

void http_guard_go(struct http_connection *connection)
{
        struct http_guard *guard = connection ? connection->guard : NULL;

        if (!connection)
                return;
        lock_take(&guard->lock);
        *connection->link = connection->next;
        if (connection->next)
                connection->next->link = connection->link;
        guard->n_connections--;
        peer_drop(guard, connection->peer);
        lock_drop(&guard->lock);
        free(connection);
}

static nsec phase_limit(const struct http_limits *limits, enum http_phase phase)
{
        switch (phase) {
        case HTTP_READS_HEAD:
                return limits->head;
        case HTTP_READS_BODY:
                return limits->body;
        case HTTP_TAKES_ANSWER:
                return limits->answer;
        case HTTP_RESTS:
                return limits->rest;
        case HTTP_IS_ANSWERED:
        case HTTP_IS_OVER:
                break;
        }
        return 0;
}

bool http_guard_phase(struct http_connection *connection, enum http_phase phase)
{
        nsec limit;

        if (!connection)
                return false;
        LOCKED(&connection->guard->lock);
        if (connection->phase == HTTP_IS_OVER)
                return false;
        limit = phase_limit(&connection->guard->limits, phase);
        connection->phase = phase;
        connection->deadline = limit ? clock_now() + limit : 0;
        return true;
}

/* ---- bodies ------------------------------------------------------------------------------------ */

unsigned int http_guard_reserve(struct http_connection *connection, size_t *held, size_t more)
{
        struct http_guard *guard = connection->guard;
        size_t most = guard->limits.bodies, own, left;
        LOCKED(&guard->lock);

        if (!most)
                return 0;
        if (more > most || *held + more > most / (BODIES_PART + 1) * BODIES_PART)
                return 413;
        own = connection->peer->bodies + more;
        left = more > most - guard->bodies ? 0 : most - guard->bodies - more;
        if (more > most - guard->bodies || (!connection->is_trusted && own / BODIES_PART > left))
                return connection->peer->bodies > *held ? 429 : 503;
        guard->bodies += more;
        connection->peer->bodies += more;
        *held += more;
        return 0;
}

void http_guard_return(struct http_connection *connection, size_t *held)
{
        if (!connection)
                return;
        LOCKED(&connection->guard->lock);
        connection->guard->bodies -= *held;
        connection->peer->bodies -= *held;
        *held = 0;
}

/* ---- time -------------------------------------------------------------------------------------- */

void http_guard_tick(struct http_guard *guard, nsec now)
{
        LOCKED(&guard->lock);

        for (struct http_connection *c = guard->connections; c; c = c->next)
                if (c->deadline && now > c->deadline)
                        connection_end(c, "408 Request Timeout",
                                       c->phase == HTTP_READS_HEAD ? "the request's head came too slowly" :
                                                                     "the request's body came too slowly");
}

static void *watch(void *context)
{
        struct http_guard *guard = context;
        struct pollfd end = { .fd = guard->end, .events = POLLIN };

        while (poll(&end, 1, WATCH_MS) <= 0)
                http_guard_tick(guard, clock_now());
        return NULL;
}

int http_guard_watch(struct http_guard *guard)
{
        int end = eventfd(0, EFD_CLOEXEC), r;

        if (end < 0)
                return -errno;
        guard->end = end;
        r = pthread_create(&guard->watcher, NULL, watch, guard);
        if (r != 0)
                closep(&guard->end);
        return -r;
}
